//! Connections to a server: HTTP/1.1 over TLS, kept alive, one request at a time on each.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::server::{ADMIN_TOKEN, Server};

/// One connection.
pub struct Connection {
    token: Option<&'static str>,
    sender: SendRequest<Full<Bytes>>,
}

/// What a connection needs to know of the server.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    connector: TlsConnector,
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
        Ok(Self {
            address: server.address,
            connector: TlsConnector::from(Arc::new(config)),
            token: Some(ADMIN_TOKEN),
        })
    }

    /// The same without credentials.
    pub fn anonymous(self) -> Self {
        Self { token: None, ..self }
    }

    /// A new connection.
    ///
    /// # Errors
    /// Where the connection fails.
    pub async fn connect(&self) -> Result<Connection> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let stream = self
            .connector
            .connect(ServerName::from(self.address.ip()), socket)
            .await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection {
            token: self.token,
            sender,
        })
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
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("accept", "application/json")
            .header("user-agent", "holdfast-tests");
        if let Some(token) = self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if !body.is_empty() {
            request = request.header("content-type", media_type);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }
}
