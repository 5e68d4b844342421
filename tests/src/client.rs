//! Connections to a server over TLS: HTTP/1.1 with one request at a time, and HTTP/2 with many.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
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
    token: Option<&'static str>,
    sender: SendRequest<Full<Bytes>>,
}

/// One connection that carries many requests at a time.
#[derive(Clone)]
pub struct Http2 {
    token: Option<&'static str>,
    sender: http2::SendRequest<Full<Bytes>>,
}

/// What a connection needs to know of the server.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    connector: TlsConnector,
    http2_connector: TlsConnector,
    token: Option<&'static str>,
}

impl Target {
    /// The target that trusts the server's own authority.
    ///
    /// # Errors
    /// Where the connection fails.
    pub fn of(server: &Server) -> Result<Self> {
        let authority = server.data_dir().join("pki/ca.crt");
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(&authority).with_context(|| authority.display().to_string())? {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http2_config = config.clone();
        http2_config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            address: server.address,
            connector: TlsConnector::from(Arc::new(config)),
            http2_connector: TlsConnector::from(Arc::new(http2_config)),
            token: Some(ADMIN_TOKEN),
        })
    }

    /// The same without credentials.
    pub fn anonymous(self) -> Self {
        Self { token: None, ..self }
    }

    /// The same with the token of another user.
    pub fn with_token(self, token: &'static str) -> Self {
        Self {
            token: Some(token),
            ..self
        }
    }

    /// A new connection.
    ///
    /// # Errors
    /// Where the connection fails.
    pub async fn connect(&self) -> Result<Connection> {
        let (sender, connection) = handshake(TokioIo::new(self.stream(&self.connector).await?)).await?;
        tokio::spawn(connection);
        Ok(Connection {
            token: self.token,
            sender,
        })
    }

    /// A new connection that carries many requests at a time.
    ///
    /// # Errors
    /// Where the connection fails.
    pub async fn connect_http2(&self) -> Result<Http2> {
        let stream = TokioIo::new(self.stream(&self.http2_connector).await?);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        Ok(Http2 {
            token: self.token,
            sender,
        })
    }

    /// The same, which lets in no more than `window` bytes of each answer.
    ///
    /// # Errors
    /// Where the connection fails.
    pub async fn connect_http2_with_window(&self, window: u32) -> Result<Http2> {
        let stream = TokioIo::new(self.stream(&self.http2_connector).await?);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.initial_stream_window_size(window).handshake(stream).await?;
        tokio::spawn(connection);
        Ok(Http2 {
            token: self.token,
            sender,
        })
    }

    /// A connection on which the caller says what it likes.
    ///
    /// # Errors
    /// Where the connection fails.
    pub async fn raw(&self) -> Result<TlsStream<TcpStream>> {
        self.stream(&self.connector).await
    }

    async fn stream(&self, connector: &TlsConnector) -> Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        Ok(connector.connect(ServerName::from(self.address.ip()), socket).await?)
    }
}

impl Connection {
    /// Sends a request and reads the whole answer, which must be a success.
    ///
    /// # Errors
    /// Where the connection fails, and for any other answer, with its text.
    pub async fn send(&mut self, method: Method, path: &str, media_type: &str, body: Bytes) -> Result<Bytes> {
        let (status, body) = self.ask(method, path, media_type, body).await?;
        ensure!(
            status.is_success(),
            "{path}: {status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// Where the connection fails.
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

    /// Sends a GET that accepts `accept` and gives the answer with its body still to come.
    ///
    /// # Errors
    /// Where the connection fails.
    pub async fn get(&mut self, path: &str, accept: &str) -> Result<http::Response<Incoming>> {
        let request = head(Method::GET, path, accept, self.token).header("host", "localhost");
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::default())?).await?)
    }

    /// Sends a request and gives the answer with its body still to come.
    ///
    /// # Errors
    /// Where the connection fails.
    pub async fn open(
        &mut self,
        method: Method,
        path: &str,
        media_type: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>> {
        let mut request = head(method, path, "application/json", self.token).header("host", "localhost");
        if !body.is_empty() {
            request = request.header("content-type", media_type);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }
}

impl Http2 {
    /// Sends a GET that accepts `accept` and gives the answer with its body still to come.
    ///
    /// # Errors
    /// Where the connection fails.
    pub async fn get(&mut self, path: &str, accept: &str) -> Result<http::Response<Incoming>> {
        let request = head(Method::GET, &format!("https://localhost{path}"), accept, self.token);
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::default())?).await?)
    }
}

/// The head of a request.
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
