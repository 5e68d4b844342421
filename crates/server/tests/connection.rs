//! Speaks to a real listener: TLS, both versions of HTTP, who asks, what is refused, and the end of the server.

#![allow(clippy::unwrap_used)] // Helpers of tests fail as tests do.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use holdfast_server::admission::AdmissionChain;
use holdfast_server::authentication::{Authenticator, Impersonation, TokenFile};
use holdfast_server::authorization::{Authorizer, Chain};
use holdfast_server::connection::{self, Limits};
use holdfast_server::health::{Endpoint, Health};
use holdfast_server::metrics::Metrics;
use holdfast_server::objects::{Objects, Store};
use holdfast_server::paths::Paths;
use holdfast_server::service::Service;
use holdfast_server::shutdown::ShutdownTrigger;
use holdfast_server::state::{Config, Context, RandomIdentifiers, SystemClock};
use holdfast_server::tls::TlsFiles;
use holdfast_server::watch::FrameCache;
use holdfast_server::write::{self, FieldManagers, Trees, Types};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const TOKENS: &str = "admintoken,admin,1,\"system:masters\"\nusertoken,alice,2,\"devs\"\n";

/// An authority that signs certificates of servers and clients.
struct Authority {
    key: KeyPair,
    certificate: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = Self::parameters().self_signed(&key).unwrap();
        Self {
            certificate: certificate.der().clone(),
            key,
        }
    }

    fn parameters() -> CertificateParams {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters
    }

    /// A certificate of `name` and its key.
    fn sign(&self, name: &str, group: &str, usage: ExtendedKeyUsagePurpose) -> (rcgen::Certificate, KeyPair) {
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

    fn client(&self, name: &str, group: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let (certificate, key) = self.sign(name, group, ExtendedKeyUsagePurpose::ClientAuth);
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (certificate.der().clone(), key.into())
    }

    fn tls(&self, folder: &Path) -> TlsFiles {
        let (certificate, key) = self.sign("server", "servers", ExtendedKeyUsagePurpose::ServerAuth);
        let files = TlsFiles {
            certificate: folder.join("server.crt"),
            key: folder.join("server.key"),
            client_authorities: vec![folder.join("ca.crt")],
        };
        let authority = Self::parameters().self_signed(&self.key).unwrap();
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        std::fs::write(&files.client_authorities[0], authority.pem()).unwrap();
        files
    }
}

struct Server {
    authority: Authority,
    address: SocketAddr,
    trigger: ShutdownTrigger,
    task: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start() -> Self {
        Self::start_with(Limits::default()).await
    }

    async fn start_with(limits: Limits) -> Self {
        let authority = Authority::new();
        let folder = tempfile::tempdir().unwrap();
        let tls = authority.tls(folder.path()).load().unwrap();
        let kinds = holdfast_kinds::Config::default();
        let registry = holdfast_kinds::registry(&kinds).unwrap();
        let registry = Arc::new(ArcSwap::from_pointee(registry));
        let objects = Objects::new(Arc::clone(&registry));
        let store = Store::open(holdfast_store::Config::new(folder.path()), objects).unwrap();
        let trigger = ShutdownTrigger::new();
        let types = Types::new(Arc::new(holdfast_kinds::tables::types().unwrap()), &registry.load());
        let (shutdown, ending) = (trigger.shutdown(), trigger.shutdown());
        let health = Health::new().with("shutdown", &[Endpoint::Readyz], move || {
            if ending.is_ready() {
                Ok(())
            } else {
                Err("ending".to_owned())
            }
        });
        let service = Service {
            context: Arc::new(Context {
                registry: Arc::clone(&registry),
                store: Arc::new(store),
                field_managers: FieldManagers::new(Arc::new(types)),
                trees: Trees::default(),
                authorizer: Arc::new(Chain::new([kinds.policy as Arc<dyn Authorizer>])),
                tokens: Arc::new(TokenFile::parse(TOKENS).unwrap()),
                frames: FrameCache::default(),
                admission: AdmissionChain::default(),
                identifiers: Arc::new(RandomIdentifiers),
                clock: Arc::new(SystemClock),
                metrics: Arc::new(Metrics::new().unwrap()),
                shutdown: shutdown.clone(),
                config: Config::default(),
            }),
            authenticator: Authenticator { anonymous: true },
            impersonation: Impersonation::default(),
            paths: Paths::new(registry, health, "localhost:6443", Arc::new(SystemClock)),
            in_flight: Arc::default(),
        };
        write::start(&service.context).await.unwrap();
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

    /// A connection that offers `protocol`, with a client certificate or without.
    async fn connect(
        &self,
        protocol: &[u8],
        certificate: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.certificate.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let builder = builder
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let socket = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }

    async fn client(&self) -> Client {
        Client::http1(self.connect(b"http/1.1", None).await.unwrap()).await
    }
}

/// A connection that speaks one of the versions of HTTP.
enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    async fn http1(stream: TlsStream<TcpStream>) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::Http1(sender)
    }

    async fn http2(stream: TlsStream<TcpStream>) -> Self {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self::Http2(sender)
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<(StatusCode, HeaderMap, String)> {
        let response = match self {
            Self::Http1(sender) => sender.send_request(request).await?,
            Self::Http2(sender) => sender.send_request(request).await?,
        };
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((head.status, head.headers, String::from_utf8(body.to_vec()).unwrap()))
    }

    /// Asks for `path` with the token, if there is one.
    async fn get(&mut self, path: &str, token: &str) -> (u16, HeaderMap, String) {
        let (code, headers, body) = self.send(request(Method::GET, path, token)).await.unwrap();
        (code.as_u16(), headers, body)
    }
}

fn request(method: Method, path: &str, token: &str) -> Request<Full<Bytes>> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"));
    request = request.header("host", "localhost");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(Full::default()).unwrap()
}

const ADMIN: &str = "admintoken";

#[tokio::test]
async fn both_versions_of_http_answer_on_one_port() {
    let server = Server::start().await;
    let http1 = Client::http1(server.connect(b"http/1.1", None).await.unwrap()).await;
    let http2 = Client::http2(server.connect(b"h2", None).await.unwrap()).await;
    for mut client in [http1, http2] {
        let (code, headers, body) = client.get("/version", ADMIN).await;
        assert_eq!(
            (code, headers["content-type"].to_str().unwrap()),
            (200, "application/json")
        );
        assert!(body.contains("\"gitVersion\": \"v1.36.2+holdfast."), "{body}");
        // The connection is kept for the next request.
        assert_eq!(client.get("/livez", "").await.2, "ok");
    }
}

#[tokio::test]
async fn who_asks_comes_from_the_token() {
    let mut client = Server::start().await.client().await;
    assert_eq!(client.get("/api", ADMIN).await.0, 200);
    let (code, _, body) = client.get("/api", "wrongtoken").await;
    assert_eq!(code, 401);
    assert_eq!(
        body,
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n"
    );
    let (code, _, body) = client.get("/api", "").await;
    assert_eq!(code, 403);
    assert!(
        body.contains(r#"User \"system:anonymous\" cannot get path \"/api\""#),
        "{body}"
    );
    let (code, _, body) = client.get("/api/v1/namespaces/default/pods", "usertoken").await;
    assert_eq!(code, 403);
    let message = r#"pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""#;
    assert!(body.contains(message), "{body}");
}

#[tokio::test]
async fn who_asks_comes_from_the_client_certificate() {
    let server = Server::start().await;
    for (group, code) in [("system:masters", 200), ("devs", 403)] {
        let certificate = server.authority.client("alice", group);
        let stream = server.connect(b"h2", Some(certificate)).await.unwrap();
        let mut client = Client::http2(stream).await;
        assert_eq!(client.get("/", "").await.0, code, "{group}");
        // A token comes before the certificate.
        assert_eq!(client.get("/", "wrongtoken").await.0, 401);
    }
}

#[tokio::test]
async fn a_certificate_of_a_stranger_is_refused() {
    let server = Server::start().await;
    let stranger = Authority::new().client("admin", "system:masters");
    let answered = match server.connect(b"http/1.1", Some(stranger)).await {
        // In TLS 1.3 the client hears of the refusal with its first read.
        Ok(stream) => Client::http1(stream)
            .await
            .send(request(Method::GET, "/livez", ""))
            .await
            .is_ok(),
        Err(_) => false,
    };
    assert!(!answered);
}

#[tokio::test]
async fn what_is_not_there_is_told_in_the_ways_of_the_reference() {
    let mut client = Server::start().await.client().await;
    let status = "the server could not find the requested resource";
    let page = "404 page not found\n";
    let cases = [
        ("/api/v9", status),
        ("/api/v1/gadgets", status),
        ("/api/v1/namespaces/a/nodes", status),
        ("/api/v1/namespaces/a/namespaces", status),
        ("/apis/apps/v1/namespaces/a/deployments/web/scale/status", status),
        ("/apis/apps/v9/deployments", status),
        ("/version/x", status),
        ("/apis/none", page),
        ("/apis/none/v1/gadgets", page),
        ("/apis//v1/pods", page),
        ("//api/v1/configmaps", page),
        ("/healthz/", page),
        ("/gadgets", page),
    ];
    for (path, text) in cases {
        let (code, _, body) = client.get(path, ADMIN).await;
        assert_eq!(code, 404, "{path}");
        assert!(body.contains(text), "{path}: {body}");
    }
}

#[tokio::test]
async fn names_that_mean_something_in_paths_are_refused() {
    let mut client = Server::start().await.client().await;
    for (name, why) in [
        ("%2e%2e", "\\\"..\\\": may not be '..'"),
        ("a%252Eb", "\\\"a%2Eb\\\": may not contain '%'"),
    ] {
        let path = format!("/api/v1/namespaces/n/configmaps/{name}");
        let (code, _, body) = client.get(&path, ADMIN).await;
        assert_eq!(code, 400);
        assert!(body.contains(&format!("Name parameter invalid: {why}")), "{body}");
    }
}

#[tokio::test]
async fn methods_that_a_path_does_not_have_are_refused() {
    let server = Server::start().await;
    let mut client = Client::http2(server.connect(b"h2", None).await.unwrap()).await;
    let cases = [
        (Method::HEAD, "/api/v1/namespaces/a/pods", 405),
        (Method::OPTIONS, "/api/v1/namespaces/a/pods/b", 405),
        (Method::POST, "/apis/apps/v1/deployments", 405),
        (Method::PUT, "/api/v1/namespaces/a/pods", 405),
        (Method::GET, "/api/v1/componentstatuses?watch=1", 405),
        (
            Method::GET,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            405,
        ),
        (
            Method::GET,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/a",
            404,
        ),
        (Method::POST, "/version", 405),
        (Method::POST, "/apis/apps", 200),
        (Method::HEAD, "/healthz", 200),
    ];
    for (method, path, expected) in cases {
        let (code, _, body) = client.send(request(method.clone(), path, ADMIN)).await.unwrap();
        assert_eq!(code, expected, "{method} {path}");
        assert!(method != Method::HEAD || body.is_empty());
    }
}

#[tokio::test]
async fn documents_come_in_the_form_that_is_asked_for() {
    let mut client = Server::start().await.client().await;
    let mut ask = async |path: &str, accept: &str, known: &str| {
        let mut request = request(Method::GET, path, ADMIN);
        request.headers_mut().insert("accept", accept.parse().unwrap());
        if !known.is_empty() {
            request.headers_mut().insert("if-none-match", known.parse().unwrap());
        }
        client.send(request).await.unwrap()
    };
    let (_, headers, body) = ask("/apis/apps", "application/yaml", "").await;
    assert_eq!(headers["content-type"], "application/yaml");
    assert!(body.contains("\nkind: APIGroup\nname: apps\n"), "{body}");

    const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (_, headers, body) = ask("/apis", &format!("application/json,{AGGREGATED}"), "").await;
    assert_eq!(headers["content-type"], AGGREGATED);
    assert!(body.contains("\"resource\":\"deployments\""));
    let etag = headers["etag"].to_str().unwrap();
    assert_eq!(ask("/apis", AGGREGATED, etag).await.0, StatusCode::NOT_MODIFIED);
    for (path, accept) in [
        ("/apis/apps", AGGREGATED),
        (
            "/apis",
            "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList",
        ),
        ("/api", "text/html"),
        ("/version", "application/yaml"),
    ] {
        assert_eq!(
            ask(path, accept, "").await.0,
            StatusCode::NOT_ACCEPTABLE,
            "{path} {accept}"
        );
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let limits = Limits {
        head_bytes: 16 * 1024,
        ..Limits::default()
    };
    let server = Server::start_with(limits).await;
    let long = format!("/api?padding={}", "x".repeat(32 * 1024));
    let mut client = server.client().await;
    assert_eq!(client.get(&long, ADMIN).await.0, 431);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_given_up() {
    let server = Server::start().await;
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let read = tokio::io::AsyncReadExt::read(&mut socket, &mut [0; 1]).await;
    assert_eq!(read.unwrap(), 0);
}

#[tokio::test]
async fn the_end_comes_in_order() {
    let server = Server::start().await;
    let mut client = server.client().await;
    server.trigger.not_ready();
    assert_eq!(client.get("/readyz", "").await.0, 500);
    assert_eq!(client.get("/livez", "").await.0, 200);
    server.trigger.close();
    let ended = tokio::time::timeout(Duration::from_secs(30), server.task).await;
    ended.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
    assert!(client.send(request(Method::GET, "/livez", "")).await.is_err());
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_and_not_cut_off() {
    let mut client = Server::start().await.client().await;
    let large = Bytes::from(vec![b' '; 4 << 20]);
    let request = Request::post("/api/v1/namespaces/default/configmaps")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {ADMIN}"));
    let request = request.body(Full::new(large)).unwrap();
    let (code, _, body) = client.send(request).await.unwrap();
    assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE, "{body}");
    assert_eq!(client.get("/livez", "").await.0, 200);
}

#[tokio::test]
async fn answers_bear_the_headers_that_proxies_and_logs_need() {
    let mut client = Server::start().await.client().await;
    let (_, headers, _) = client.get("/livez", "").await;
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["cache-control"], "no-cache, private");
    assert_eq!(headers["audit-id"].len(), 36);
    let mut named = request(Method::GET, "/livez", "");
    named.headers_mut().insert("audit-id", "my-own-id".parse().unwrap());
    let (_, headers, _) = client.send(named).await.unwrap();
    assert_eq!(headers["audit-id"], "my-own-id");
}

#[tokio::test]
async fn a_body_that_nobody_reads_does_not_end_the_connection() {
    let mut client = Server::start().await.client().await;
    for _ in 0..50 {
        let request = Request::post("/api/v1/gadgets").header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {ADMIN}"));
        let request = request.body(Full::new(Bytes::from(vec![b' '; 100_000]))).unwrap();
        let (code, _, _) = client.send(request).await.unwrap();
        assert_eq!(code, StatusCode::NOT_FOUND);
    }
}
