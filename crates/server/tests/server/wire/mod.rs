//! A server behind a real listener, and clients that connect to it.

#![allow(clippy::unwrap_used)] // What tests share fails as tests do.
#![allow(dead_code, unreachable_pub)] // Each test file uses its part of it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use holdfast_admission::AdmissionChain;
use holdfast_authorization::{Authorizer, Chain};
use holdfast_server::api::context::{Config, Context, Parts, Shared};
use holdfast_server::identity::{Authenticator, Impersonation, TokenFile};
use holdfast_server::metrics::Metrics;
use holdfast_server::objects::{Objects, Store};
use holdfast_server::operations::health::{Endpoint, Health};
use holdfast_server::operations::paths::Paths;
use holdfast_server::operations::service::Service;
use holdfast_server::operations::start;
use holdfast_server::runtime::shutdown::ShutdownTrigger;
use holdfast_server::runtime::{RandomIdentifiers, SystemClock};
use holdfast_server::webhooks::Webhooks;
use holdfast_server::wire::connection::{self, Limits};
use holdfast_server::wire::in_flight::InFlight;
use holdfast_server::wire::tls::{TlsFiles, TlsRules};
use holdfast_server::write::FieldManagers;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub const TOKENS: &str =
    "admintoken,admin,1,\"system:masters\"\nusertoken,alice,2,\"devs\"\nothertoken,bob,3,\"devs\"\n";

/// An authority that signs certificates of servers and clients.
pub struct Authority {
    key: KeyPair,
    certificate: CertificateDer<'static>,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = Self::parameters().self_signed(&key).unwrap();
        Self {
            certificate: certificate.der().clone(),
            key,
        }
    }

    pub fn parameters() -> CertificateParams {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters
    }

    /// Returns a certificate of `name` and its key.
    pub fn sign(&self, name: &str, group: &str, usage: ExtendedKeyUsagePurpose) -> (rcgen::Certificate, KeyPair) {
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.distinguished_name.push(DnType::OrganizationName, group);
        parameters.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(
            Self::parameters(),
            KeyPair::from_pem(&self.key.serialize_pem()).unwrap(),
        );
        (parameters.signed_by(&key, &issuer).unwrap(), key)
    }

    pub fn client(&self, name: &str, group: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let (certificate, key) = self.sign(name, group, ExtendedKeyUsagePurpose::ClientAuth);
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (certificate.der().clone(), key.into())
    }

    /// Returns a client certificate of `alice`, adjusted by `adjust`.
    pub fn client_with(
        &self,
        adjust: impl FnOnce(&mut CertificateParams),
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "alice");
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        adjust(&mut parameters);
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(
            Self::parameters(),
            KeyPair::from_pem(&self.key.serialize_pem()).unwrap(),
        );
        let certificate = parameters.signed_by(&key, &issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (certificate.der().clone(), key.into())
    }

    pub fn tls(&self, folder: &Path) -> TlsFiles {
        let (certificate, key) = self.sign("server", "servers", ExtendedKeyUsagePurpose::ServerAuth);
        let path = |name: &str| folder.join(name);
        let files = TlsFiles {
            certificate: path("server.crt").into(),
            key: path("server.key").into(),
            client_authorities: vec![path("ca.crt").into()],
            other_authorities: Vec::new(),
            named: Vec::new(),
            rules: TlsRules::default(),
        };
        let authority = Self::parameters().self_signed(&self.key).unwrap();
        std::fs::write(path("server.crt"), certificate.pem()).unwrap();
        std::fs::write(path("server.key"), key.serialize_pem()).unwrap();
        std::fs::write(path("ca.crt"), authority.pem()).unwrap();
        files
    }
}

/// The settings that differ between the servers of tests.
#[derive(Default)]
pub struct Setup {
    pub limits: Limits,
    pub config: Config,
    pub in_flight: InFlight,
}

pub struct Server {
    pub authority: Authority,
    pub address: SocketAddr,
    pub trigger: ShutdownTrigger,
    pub task: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Server {
    pub async fn start() -> Self {
        Self::start_with(Setup::default()).await
    }

    pub async fn start_with(setup: Setup) -> Self {
        let Setup {
            limits,
            config,
            in_flight,
        } = setup;
        let authority = Authority::new();
        let folder = tempfile::tempdir().unwrap();
        let tls = authority.tls(folder.path()).load().unwrap();
        let kinds = holdfast_kinds::Config::default();
        let built_in = holdfast_kinds::registry(&kinds).unwrap();
        let registry = Arc::new(ArcSwap::from_pointee(built_in));
        let objects = Objects::new(Arc::clone(&registry));
        let store = Store::open(holdfast_store::Config::new(folder.path()), objects).unwrap();
        let trigger = ShutdownTrigger::new();
        let types = Arc::clone(registry.load().types());
        let (shutdown, ending) = (trigger.shutdown(), trigger.shutdown());
        let health = Health::new().with("shutdown", &[Endpoint::Readyz], move || {
            if ending.is_ready() {
                Ok(())
            } else {
                Err("ending".to_owned())
            }
        });
        let store = Arc::new(store);
        let service = Service {
            context: Arc::new(Context::new(Parts {
                shared: Shared {
                    registry: Arc::clone(&registry),
                    store: Arc::clone(&store),
                    policies: Arc::clone(&kinds.policies),
                    authorizer: Arc::new(Chain::new([kinds.policy as Arc<dyn Authorizer>])),
                    tokens: Arc::new(TokenFile::parse(TOKENS).unwrap()),
                    identifiers: Arc::new(RandomIdentifiers::default()),
                    clock: Arc::new(SystemClock),
                    metrics: Arc::new(Metrics::new().unwrap()),
                },
                field_managers: FieldManagers::new(types),
                webhooks: Webhooks::new(Arc::clone(&kinds.webhooks), Arc::clone(&store), Arc::clone(&registry)),
                nodes: holdfast_server::nodes::NodeConnections::new(None, None, None).unwrap(),
                issuer: Arc::new(holdfast_resource::access::NoTokens),
                admission: AdmissionChain::default(),
                shutdown: shutdown.clone(),
                background: Default::default(),
                config,
            })),
            authenticator: Authenticator {
                anonymous: true,
                ..Authenticator::default()
            },
            impersonation: Impersonation::default(),
            paths: Paths::new(registry, health, "localhost:6443", &SystemClock),
            in_flight: Arc::new(in_flight),
            fairness: None,
            auditor: None,
            browsers: None,
            go_away: None,
            drain: None,
            ends_unauthenticated_connections: true,
            tracer: None,
            storage_versions: None,
            page: None,
            testing: None,
            timeline: None,
        };
        start(&service.context).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(connection::serve(listener, tls, Arc::new(service), limits, shutdown));
        Self {
            authority,
            address,
            trigger,
            task,
            _folder: folder,
        }
    }

    /// Opens a connection that offers `protocol`, with or without a client certificate.
    pub async fn connect(
        &self,
        protocol: &[u8],
        certificate: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        self.shake_hands(self.socket().await?, protocol, certificate).await
    }

    /// Opens a connection without sending anything.
    pub async fn socket(&self) -> std::io::Result<TcpStream> {
        // A small buffer, so that unread data soon blocks the server.
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(32 * 1024)?;
        socket.connect(self.address).await
    }

    /// Does the same as [`Server::connect`], over `socket`.
    pub async fn shake_hands(
        &self,
        socket: TcpStream,
        protocol: &[u8],
        certificate: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.certificate.clone()).unwrap();
        let with_provider =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let builder = with_provider
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }

    /// Waits until the server has answered a new client, and so has processed what other clients sent before.
    pub async fn answers(&self) {
        assert_eq!(self.client().await.get("/livez", "").await.0, 200);
    }

    pub async fn client(&self) -> Client {
        Client::http1(self.connect(b"http/1.1", None).await.unwrap()).await
    }
}

/// A connection with one of the versions of HTTP.
pub enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    pub async fn http1(stream: TlsStream<TcpStream>) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::Http1(sender)
    }

    pub async fn http2(stream: TlsStream<TcpStream>) -> Self {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self::Http2(sender)
    }

    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<(StatusCode, HeaderMap, String)> {
        let response = match self {
            Self::Http1(sender) => sender.send_request(request).await?,
            Self::Http2(sender) => sender.send_request(request).await?,
        };
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((head.status, head.headers, String::from_utf8(body.to_vec()).unwrap()))
    }

    /// Sends a GET for `path` with the token, if there is one.
    pub async fn get(&mut self, path: &str, token: &str) -> (u16, HeaderMap, String) {
        let (code, headers, body) = self.send(request(Method::GET, path, token)).await.unwrap();
        (code.as_u16(), headers, body)
    }
}

pub fn request(method: Method, path: &str, token: &str) -> Request<Full<Bytes>> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"));
    request = request.header("host", "localhost");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(Full::default()).unwrap()
}

pub const ADMIN: &str = "admintoken";
