//! Connections to webhooks: TCP to where the host is reached, TLS in the name of the host.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::services::Services;

/// Opens connections.
#[derive(Clone)]
pub(super) struct Connector {
    tls: TlsConnector,
    services: Arc<Services>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ConnectError(String);

impl Connector {
    /// Trusts `authorities`, in PEM, or those of the system.
    ///
    /// # Errors
    /// Where there are none.
    pub(super) fn new(authorities: Option<&[u8]>, services: Arc<Services>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let certificate =
                        certificate.map_err(|error| format!("unable to load root certificates: {error}"))?;
                    let added = roots.add(certificate);
                    added.map_err(|error| format!("unable to load root certificates: {error}"))?;
                }
                if roots.is_empty() {
                    return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
                }
            }
            None => {
                // Those that cannot be read cannot be trusted, which the handshake tells.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
            services,
        })
    }

    async fn connect(self, uri: Uri) -> Result<Stream, ConnectError> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(443);
        let (place, port) = self.services.place(&host, port).map_err(ConnectError)?;
        let dialed = TcpStream::connect((place.as_str(), port)).await;
        let tcp = dialed.map_err(|error| ConnectError(format!("dial tcp {place}:{port}: connect: {error}")))?;
        let _ = tcp.set_nodelay(true);
        let name = ServerName::try_from(host).map_err(|error| ConnectError(error.to_string()))?;
        let tls = self.tls.connect(name, tcp).await;
        let tls = tls.map_err(|error| ConnectError(format!("tls: failed to verify certificate: {error}")))?;
        Ok(Stream(TokioIo::new(tls)))
    }
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

/// A connection to a webhook.
pub(super) struct Stream(TokioIo<TlsStream<TcpStream>>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let (_, tls) = self.0.inner().get_ref();
        if tls.alpn_protocol() == Some(b"h2") {
            Connected::new().negotiated_h2()
        } else {
            Connected::new()
        }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
