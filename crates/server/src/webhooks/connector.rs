//! Connections to webhooks, aggregated servers, kubelets and pods: TCP to the resolved address, TLS with the name of the host or of the
//! service that it represents.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdfast_aggregation::authority;
use holdfast_egress::Dialer;
use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::services::Services;
use super::trust::{self, Trust};
use super::wire::Wire;
use crate::wire::keep_alive;

/// Connector for HTTPS connections.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: TlsConnector,
    /// Resolver of hosts that are services of the cluster; `None` for DNS names.
    services: Option<Arc<Services>>,
    /// Name that certificates must be for, if it is not that of the host.
    name: Option<ServerName<'static>>,
    /// Dialer through the proxy of the network; `None` for direct connections.
    dialer: Option<Dialer>,
}

/// Reason why there is no connection, in Go's words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ConnectError(String);

/// Timeout of the lookup of a host, and of the connection to each of its addresses.
const DIAL: Duration = Duration::from_secs(30);

/// Supported protocols, by their names in TLS.
const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// Timeout of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

impl Connector {
    /// Trusts `authorities`, in PEM, or those of the system, and presents `certificate`.
    ///
    /// # Errors
    /// If there are no authorities.
    pub(crate) fn new(
        authorities: Option<&[u8]>,
        services: Option<Arc<Services>>,
        certificate: Option<Arc<dyn ResolvesClientCert>>,
    ) -> Result<Self, String> {
        let trust = authorities.map_or(Trust::System, Trust::Authorities);
        let mut config = trust::client_config(trust, certificate)?;
        // Over HTTP/2 all calls share a connection, and so would reach only one endpoint of a service.
        let protocols: &[&[u8]] = if services.is_some() { &[HTTP1] } else { &[HTTP2, HTTP1] };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
            services,
            name: None,
            dialer: None,
        })
    }

    /// Connects over HTTP/1.1 to hosts whose certificates are for `name`; `client_certificate` chooses that of
    /// the client.
    ///
    /// # Errors
    /// If there are no authorities to trust, or `name` is invalid.
    pub(super) fn in_the_name_of(
        name: String,
        trust: Trust<'_>,
        client_certificate: Option<Arc<dyn ResolvesClientCert>>,
    ) -> Result<Self, String> {
        let connector = Self::for_nodes(trust, client_certificate)?;
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        Ok(Self {
            name: Some(name),
            ..connector
        })
    }

    /// Connects over HTTP/1.1, by the name of the host, to kubelets and pods; URLs with `http` get no TLS.
    ///
    /// # Errors
    /// If there are no authorities to trust.
    pub(super) fn for_nodes(
        trust: Trust<'_>,
        client_certificate: Option<Arc<dyn ResolvesClientCert>>,
    ) -> Result<Self, String> {
        let mut config = trust::client_config(trust, client_certificate)?;
        config.alpn_protocols = vec![HTTP1.to_vec()];
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
            services: None,
            name: None,
            dialer: None,
        })
    }

    /// Connects through `dialer`.
    #[must_use]
    pub(crate) fn through(self, dialer: Option<&Dialer>) -> Self {
        Self {
            dialer: dialer.cloned(),
            ..self
        }
    }

    async fn connect(self, uri: Uri) -> Result<Stream, ConnectError> {
        let is_plain = uri.scheme() == Some(&Scheme::HTTP);
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        let place = match &self.services {
            Some(services) => services.place(&host, port).map_err(ConnectError)?,
            None => (host.clone(), port),
        };
        let wire = match &self.dialer {
            Some(dialer) => {
                let dialed = dialer.dial(&authority(&place)).await;
                Wire::Proxied(dialed.map_err(|error| ConnectError(error.to_string()))?)
            }
            None => {
                let tcp = dial(&place.0, place.1).await?;
                let _ = tcp.set_nodelay(true);
                let _ = keep_alive::enable(&tcp);
                Wire::Tcp(tcp)
            }
        };
        if is_plain {
            return Ok(Stream::Plain(TokioIo::new(wire)));
        }
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host).map_err(|error| ConnectError(error.to_string()))?,
        };
        let connected = timeout(HANDSHAKE, self.tls.connect(name, wire)).await;
        let handshake = connected.map_err(|_| ConnectError("net/http: TLS handshake timeout".to_owned()))?;
        let tls = handshake.map_err(|error| ConnectError(trust::tls_error_text(&error)))?;
        Ok(Stream::Tls(Box::new(TokioIo::new(tls))))
    }
}

/// Connects to the first address of `host` that accepts a connection.
async fn dial(host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let found = timeout(DIAL, tokio::net::lookup_host((host, port))).await;
    let addresses: Vec<SocketAddr> = match found {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(_)) => Vec::new(),
        Err(_) => return Err(ConnectError(format!("dial tcp: lookup {host}: i/o timeout"))),
    };
    let mut last_error = ConnectError(format!("dial tcp: lookup {host}: no such host"));
    for address in addresses {
        let why = match timeout(DIAL, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => format!("connect: {}", system_words(&error)),
            Err(_) => "i/o timeout".to_owned(),
        };
        last_error = ConnectError(format!("dial tcp {address}: {why}"));
    }
    Err(last_error)
}

/// Describes a system error in the words of Unix.
pub(super) fn system_words(error: &io::Error) -> String {
    let words = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::ConnectionReset => "connection reset by peer",
        io::ErrorKind::HostUnreachable => "no route to host",
        io::ErrorKind::NetworkUnreachable => "network is unreachable",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::BrokenPipe => "broken pipe",
        io::ErrorKind::UnexpectedEof => "EOF",
        _ => return error.to_string(),
    };
    words.to_owned()
}

impl tower_service::Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Stream, ConnectError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// Extension of the responses on a connection: a flag that is set once the server has answered a request on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered(Arc<AtomicBool>);

impl Answered {
    /// Sets the flag.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if the flag is set.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection to another server.
pub(crate) enum Stream {
    /// Without TLS.
    Plain(TokioIo<Wire>),
    /// TLS.
    Tls(Box<TokioIo<TlsStream<Wire>>>),
}

/// Both directions of a connection.
trait ReadWrite: Read + Write + Unpin {}

impl<T: Read + Write + Unpin> ReadWrite for T {}

impl Stream {
    fn io(&mut self) -> Pin<&mut dyn ReadWrite> {
        match self {
            Self::Plain(io) => Pin::new(io),
            Self::Tls(io) => Pin::new(&mut **io),
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let protocol = match self {
            Self::Plain(_) => None,
            Self::Tls(io) => io.inner().get_ref().1.alpn_protocol(),
        };
        let connected = Connected::new().extra(Answered::default());
        match protocol {
            Some(HTTP2) => connected.negotiated_h2(),
            _ => connected,
        }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.io().poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.io().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(context)
    }
}
