//! The proxies of the networks, and connections through them.

use std::fmt;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::configuration::{EgressConfiguration, Selection, Tcp, Tls};
use crate::validation::{DIRECT, GRPC};
use crate::{connect, konnectivity};

/// Time limit of a connection through a proxy.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// A network that a server connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Webhooks at URLs, issuers of tokens, collectors of traces.
    ControlPlane,
    /// The store.
    Etcd,
    /// Nodes, Pods and Services.
    Cluster,
}

impl Network {
    /// Names of the networks.
    pub(crate) const NAMES: [&str; 3] = ["cluster", "controlplane", "etcd"];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "controlplane" => Some(Self::ControlPlane),
            "etcd" => Some(Self::Etcd),
            "cluster" => Some(Self::Cluster),
            _ => None,
        }
    }
}

/// A bidirectional stream of bytes.
pub trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for S {}

/// A connection of any kind, such as one through a proxy.
pub type ProxiedStream = Box<dyn ReadWrite>;

/// Reason why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialError(pub String);

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DialError {}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Protocol and transport of a proxy, as metrics name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Through {
    /// `http_connect` or `grpc`.
    pub protocol: &'static str,
    /// `tcp` or `uds`.
    pub transport: &'static str,
}

/// Step at which a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The connection to the proxy.
    Connect,
    /// The connection of the proxy.
    Proxy,
}

/// Event of a connection through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialEvent {
    /// It starts.
    Started,
    /// It was established in this time.
    Established(Duration),
    /// It failed.
    Failed(Stage),
}

/// Observer of connections through proxies, for metrics.
pub trait DialObserver: Send + Sync {
    /// Records an event.
    fn dialed(&self, through: Through, event: DialEvent);
}

/// The proxies of the networks. Without a proxy, connections are direct.
#[derive(Clone, Default)]
pub struct EgressSelector {
    control_plane: Option<Dialer>,
    etcd: Option<Dialer>,
    cluster: Option<Dialer>,
}

impl EgressSelector {
    /// Creates the dialers of a valid configuration, and reads its files.
    ///
    /// upstream: k8s.io/apiserver/pkg/server/egressselector#NewEgressSelector
    ///
    /// # Errors
    /// If a file or a URL cannot be used.
    pub fn new(configuration: &EgressConfiguration, observer: &Arc<dyn DialObserver>) -> Result<Self, String> {
        let mut selector = Self::default();
        for selection in &configuration.selections {
            let name = selection.name.to_lowercase();
            let network =
                Network::from_name(&name).ok_or_else(|| format!("unrecognized service name {}", selection.name))?;
            let created = Dialer::new(selection, observer);
            let dialer =
                created.map_err(|error| format!("failed to create dialer for egressSelection {name:?}: {error}"))?;
            match network {
                Network::ControlPlane => selector.control_plane = dialer,
                Network::Etcd => selector.etcd = dialer,
                Network::Cluster => selector.cluster = dialer,
            }
        }
        Ok(selector)
    }

    /// Returns the dialer of a network; `None` for direct connections.
    pub fn dialer(&self, network: Network) -> Option<&Dialer> {
        match network {
            Network::ControlPlane => self.control_plane.as_ref(),
            Network::Etcd => self.etcd.as_ref(),
            Network::Cluster => self.cluster.as_ref(),
        }
    }
}

/// Dialer of connections through one proxy. Clones share it.
#[derive(Clone)]
pub struct Dialer {
    proxy: Arc<Proxy>,
    observer: Arc<dyn DialObserver>,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

/// A proxy.
enum Proxy {
    /// HTTP CONNECT at `HOST:PORT`, with TLS if there is a configuration.
    Tcp { address: String, tls: Option<ProxyTls> },
    /// HTTP CONNECT on a Unix socket.
    Socket(String),
    /// Konnectivity on a Unix socket.
    Konnectivity(String),
}

struct ProxyTls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Dialer {
    /// Returns the dialer for a selection; `None` for direct connections.
    fn new(selection: &Selection, observer: &Arc<dyn DialObserver>) -> Result<Option<Self>, String> {
        let transport = selection.transport.clone().unwrap_or_default();
        let proxy = match (selection.protocol.as_str(), transport.uds, transport.tcp) {
            (DIRECT, _, _) => return Ok(None),
            (GRPC, Some(socket), _) => Proxy::Konnectivity(socket),
            (GRPC, None, _) => return Err("UDS transport must be specified for GRPC".to_owned()),
            (_, Some(socket), _) => Proxy::Socket(socket),
            (_, None, Some(tcp)) => Proxy::for_url(&tcp)?,
            (_, None, None) => return Err("Either a TCP or UDS transport must be specified".to_owned()),
        };
        Ok(Some(Self {
            proxy: Arc::new(proxy),
            observer: Arc::clone(observer),
        }))
    }

    /// Connects to `HOST:PORT` through the proxy.
    ///
    /// # Errors
    /// If the proxy cannot be reached, or cannot reach the address.
    pub async fn dial(&self, address: &str) -> Result<ProxiedStream, DialError> {
        let (through, started) = (self.proxy.through(), Instant::now());
        self.observer.dialed(through, DialEvent::Started);
        let mut stage = Stage::Connect;
        let dialed = timeout(DIAL_TIMEOUT, self.proxy.dial(address, &mut stage)).await;
        let outcome = dialed.unwrap_or_else(|_| Err(DialError("context deadline exceeded".to_owned())));
        let event = match &outcome {
            Ok(_) => DialEvent::Established(started.elapsed()),
            Err(_) => DialEvent::Failed(stage),
        };
        self.observer.dialed(through, event);
        outcome
    }
}

impl Proxy {
    fn for_url(tcp: &Tcp) -> Result<Self, String> {
        let invalid = |why: &dyn fmt::Display| format!("invalid proxy server url {:?}: {why}", tcp.url);
        let uri: Uri = tcp.url.parse().map_err(|error| invalid(&error))?;
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err(invalid(&"it has no host"));
        }
        let port = uri.port_u16().unwrap_or(if tcp.tls.is_some() { 443 } else { 80 });
        let tls = match &tcp.tls {
            Some(tls) => Some(ProxyTls {
                connector: tls_connector(tls)?,
                name: server_name(tls, host.trim_matches(['[', ']']))?,
            }),
            None => None,
        };
        Ok(Self::Tcp {
            address: format!("{host}:{port}"),
            tls,
        })
    }

    fn through(&self) -> Through {
        let (protocol, transport) = match self {
            Self::Tcp { .. } => ("http_connect", "tcp"),
            Self::Socket(_) => ("http_connect", "uds"),
            Self::Konnectivity(_) => ("grpc", "uds"),
        };
        Through { protocol, transport }
    }

    async fn dial(&self, address: &str, stage: &mut Stage) -> Result<ProxiedStream, DialError> {
        match self {
            Self::Tcp { address: proxy, tls } => {
                let refused = |error: io::Error| DialError(format!("dial tcp {proxy}: {error}"));
                let tcp = TcpStream::connect(proxy).await.map_err(refused)?;
                let _ = tcp.set_nodelay(true);
                let stream: ProxiedStream = match tls {
                    Some(tls) => Box::new(tls.connector.connect(tls.name.clone(), tcp).await?),
                    None => Box::new(tcp),
                };
                *stage = Stage::Proxy;
                connect::tunnel(stream, proxy, address).await
            }
            Self::Socket(socket) => {
                let refused = |error: io::Error| DialError(format!("dial unix {socket}: {error}"));
                let stream = UnixStream::connect(socket).await.map_err(refused)?;
                *stage = Stage::Proxy;
                connect::tunnel(Box::new(stream), socket, address).await
            }
            Self::Konnectivity(socket) => konnectivity::tunnel(socket, address, stage).await,
        }
    }
}

fn server_name(tls: &Tls, host: &str) -> Result<ServerName<'static>, String> {
    let name = if tls.server_name.is_empty() {
        host
    } else {
        &tls.server_name
    };
    ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())
}

/// upstream: k8s.io/apiserver/pkg/server/egressselector#getTLSConfig
fn tls_connector(tls: &Tls) -> Result<TlsConnector, String> {
    let (cert, key) = (&tls.client_cert, &tls.client_key);
    let unusable = |why: &dyn fmt::Display| format!("failed to read key pair {cert} & {key}, got {why}");
    let pem = fs::read(cert).map_err(|error| unusable(&error))?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect();
    let pem = fs::read(key).map_err(|error| unusable(&error))?;
    let private = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| unusable(&error))?;
    let mut roots = RootCertStore::empty();
    if tls.ca_bundle.is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    } else {
        let file = &tls.ca_bundle;
        let pem = fs::read(file).map_err(|error| format!("failed to read cert file {file}, got {error}"))?;
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
        if roots.is_empty() {
            return Err("failed to append CA cert to the cert pool".to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = builder
        .with_client_auth_cert(chain, private)
        .map_err(|error| unusable(&error))?;
    Ok(TlsConnector::from(Arc::new(config)))
}
