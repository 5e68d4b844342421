//! Connections to a server over TLS: HTTP/1.1 with one request at a time, and HTTP/2 with many.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::server::{ADMIN_TOKEN, Server};

/// One connection.
pub struct Connection {
    token: Option<Arc<str>>,
    sender: SendRequest<Full<Bytes>>,
}

/// One connection that carries many requests at a time.
#[derive(Clone)]
pub struct Http2 {
    token: Option<Arc<str>>,
    sender: http2::SendRequest<Full<Bytes>>,
}

/// Properties of the server that a connection needs.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    /// The name that the server's certificate is for.
    name: ServerName<'static>,
    /// Without these the server speaks no TLS.
    connectors: Option<Connectors>,
    token: Option<Arc<str>>,
}

/// TLS for each version of HTTP.
#[derive(Clone)]
struct Connectors {
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Connectors {
    /// Creates roots that trust the authorities in a file.
    fn trusting(authority: &Path) -> Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authority).with_context(|| authority.display().to_string())? {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http2 = config.clone();
        http2.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            http1: TlsConnector::from(Arc::new(config)),
            http2: TlsConnector::from(Arc::new(http2)),
        })
    }
}

impl Target {
    /// Returns the target that trusts the server's own authority.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn new(server: &Server) -> Result<Self> {
        Ok(Self {
            address: server.address,
            name: ServerName::from(server.address.ip()),
            connectors: Some(Connectors::trusting(&server.data_dir().join("pki/ca.crt"))?),
            token: Some(ADMIN_TOKEN.into()),
        })
    }

    /// Returns a server anywhere: `http://HOST:PORT`, or `https://HOST:PORT` with the file of its authority.
    ///
    /// # Errors
    /// If the address cannot be read or found, or the authority is missing.
    pub fn at(url: &str, authority: Option<&Path>, token: Option<&str>) -> Result<Self> {
        let uri: Uri = url.parse().with_context(|| url.to_owned())?;
        let host = uri.host().context("an address without a host")?;
        let tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let mut addresses = (bare, port).to_socket_addrs().with_context(|| url.to_owned())?;
        let connectors = if tls {
            let authority = authority.context("https:// needs the file of the server's authority")?;
            Some(Connectors::trusting(authority)?)
        } else {
            None
        };
        Ok(Self {
            address: addresses.next().context("a host without an address")?,
            name: ServerName::try_from(bare.to_owned())?,
            connectors,
            token: token.map(Arc::from),
        })
    }

    /// Returns the same without credentials.
    pub fn anonymous(self) -> Self {
        Self { token: None, ..self }
    }

    /// Returns the same with the token of another user.
    pub fn with_token(self, token: impl Into<Arc<str>>) -> Self {
        Self {
            token: Some(token.into()),
            ..self
        }
    }

    /// Returns a new connection.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn connect(&self) -> Result<Connection> {
        let sender = if self.connectors.is_some() {
            let (sender, connection) = handshake(TokioIo::new(self.raw().await?)).await?;
            tokio::spawn(connection);
            sender
        } else {
            let (sender, connection) = handshake(TokioIo::new(self.socket().await?)).await?;
            tokio::spawn(connection);
            sender
        };
        Ok(Connection {
            token: self.token.clone(),
            sender,
        })
    }

    /// Returns true if the health check at `path` succeeds.
    pub async fn is_healthy(&self, path: &str) -> bool {
        let Ok(mut connection) = self.connect().await else {
            return false;
        };
        let answer = connection.ask(Method::GET, path, "", Bytes::new()).await;
        answer.is_ok_and(|(status, _)| status == StatusCode::OK)
    }

    /// Returns a new connection that carries many requests at a time.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn connect_http2(&self) -> Result<Http2> {
        let stream = TokioIo::new(self.http2_stream().await?);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        Ok(Http2 {
            token: self.token.clone(),
            sender,
        })
    }

    /// Opens a connection with a flow-control window of `window` bytes for each response.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn connect_http2_with_window(&self, window: u32) -> Result<Http2> {
        let stream = TokioIo::new(self.http2_stream().await?);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.initial_stream_window_size(window).handshake(stream).await?;
        tokio::spawn(connection);
        Ok(Http2 {
            token: self.token.clone(),
            sender,
        })
    }

    /// Opens a connection on which the caller sends arbitrary bytes.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn raw(&self) -> Result<TlsStream<TcpStream>> {
        let connectors = self.connectors.as_ref().context("a server without TLS")?;
        self.stream(&connectors.http1).await
    }

    async fn http2_stream(&self) -> Result<TlsStream<TcpStream>> {
        let connectors = self.connectors.as_ref().context("a server without TLS")?;
        self.stream(&connectors.http2).await
    }

    async fn stream(&self, connector: &TlsConnector) -> Result<TlsStream<TcpStream>> {
        Ok(connector.connect(self.name.clone(), self.socket().await?).await?)
    }

    async fn socket(&self) -> Result<TcpStream> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }
}

impl Connection {
    /// Sends a request and reads the whole response, which must be a success.
    ///
    /// # Errors
    /// If the connection fails, and for any other response, with its text.
    pub async fn send(&mut self, method: Method, path: &str, media_type: &str, body: Bytes) -> Result<Bytes> {
        let (status, body) = self.ask(method, path, media_type, body).await?;
        ensure!(
            status.is_success(),
            "{path}: {status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }

    /// Sends a request and reads the whole response.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        media_type: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes)> {
        let answer = self.open(method, path, media_type, body).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// Sends a GET that accepts `accept` and returns the response before its body is read.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn get(&mut self, path: &str, accept: &str) -> Result<http::Response<Incoming>> {
        let request = head(Method::GET, path, accept, self.token.as_deref()).header("host", "localhost");
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::default())?).await?)
    }

    /// Sends a request and returns the response before its body is read.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn open(
        &mut self,
        method: Method,
        path: &str,
        media_type: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>> {
        self.open_accepting("application/json", method, path, media_type, body)
            .await
    }

    /// Sends a request that accepts `accept` and returns the response before its body is read.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn open_accepting(
        &mut self,
        accept: &str,
        method: Method,
        path: &str,
        media_type: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>> {
        let mut request = head(method, path, accept, self.token.as_deref()).header("host", "localhost");
        if !body.is_empty() {
            request = request.header("content-type", media_type);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }
}

impl Http2 {
    /// Sends a GET that accepts `accept` and returns the response before its body is read.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn get(&mut self, path: &str, accept: &str) -> Result<http::Response<Incoming>> {
        let request = head(
            Method::GET,
            &format!("https://localhost{path}"),
            accept,
            self.token.as_deref(),
        );
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::default())?).await?)
    }
}

/// Returns the head of a request.
fn head(method: Method, uri: &str, accept: &str, token: Option<&str>) -> http::request::Builder {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("accept", accept)
        .header("user-agent", "holdfast-tests");
    match token {
        Some(token) => request.header("authorization", format!("Bearer {token}")),
        None => request,
    }
}
