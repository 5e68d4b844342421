//! A small client: one connection over TLS, one request after the other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use holdfast_egress::{Dialer, ProxiedStream};
use holdfast_server::wire::tls::AnyServer;
use holdfast_value::{Limits, Value, json};
use http::request::Builder;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::access::Access;

/// Time limit for a response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of bytes of a response: discovery of a server with many custom resources is the largest.
const MAX_ANSWER: usize = 64 << 20;

/// Maximum number of bytes of a webhook's response.
const MAX_WEBHOOK_ANSWER: usize = 1 << 20;

/// A connection to a server.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    /// Path of the server's URL, the prefix of all other paths.
    root: String,
    token: Option<String>,
    /// Certificate of the server (DER), if the connection has one.
    certificate: Option<Vec<u8>>,
}

/// A response of any status.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    /// Connects to the server of `access`.
    pub(crate) async fn connect(access: &Access) -> Result<Self> {
        Self::connect_through(access, None).await
    }

    /// Connects to the server of `access` through `dialer`.
    pub(crate) async fn connect_through(access: &Access, dialer: Option<&Dialer>) -> Result<Self> {
        let Dialed {
            stream,
            uri,
            certificate,
        } = dial(access, dialer).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The waiting request reports why the connection ended.
        tokio::spawn(connection);
        Ok(Self {
            sender,
            host: uri.authority().map(ToString::to_string).unwrap_or_default(),
            root: uri.path().trim_end_matches('/').to_owned(),
            token: access.token.clone(),
            certificate,
        })
    }

    /// Returns the JSON document at `path`.
    pub(crate) async fn get(&mut self, path: &str, accept: &str) -> Result<Value> {
        let request = Request::get(format!("{}{path}", self.root)).header(header::ACCEPT, accept);
        let answer = self.ask(request, Bytes::new(), MAX_ANSWER).await;
        let Answer { status, body, .. } = answer.with_context(|| format!("GET {path}"))?;
        let value = json::parse(&body, &Limits::TRUSTED);
        if !status.is_success() {
            // An API error describes the problem itself.
            let message = value
                .ok()
                .and_then(|value| value.str_at(&["message"]).map(str::to_owned));
            bail!("{}", message.unwrap_or_else(|| format!("GET {path}: {status}")));
        }
        value.with_context(|| format!("the answer to GET {path} is no JSON"))
    }

    /// Returns the text at `path`.
    pub(crate) async fn text(&mut self, path: &str) -> Result<String> {
        let request = Request::get(format!("{}{path}", self.root)).header(header::ACCEPT, "*/*");
        let answer = self.ask(request, Bytes::new(), MAX_ANSWER).await?;
        beginning(answer.status, &answer.body)
    }

    /// Returns the response to a request for `path`, whatever its status.
    pub(crate) async fn answer(&mut self, path: &str) -> Result<Answer> {
        let request = Request::get(format!("{}{path}", self.root)).header(header::ACCEPT, "*/*");
        self.ask(request, Bytes::new(), MAX_ANSWER).await
    }

    /// Returns the server's certificate (DER), if the connection has one.
    pub(crate) fn certificate(&self) -> Option<&[u8]> {
        self.certificate.as_deref()
    }

    /// Posts JSON to the URL of the server with the query `query`.
    pub(crate) async fn post(&mut self, query: &str, body: Bytes) -> Result<(StatusCode, Bytes)> {
        let root = if self.root.is_empty() { "/" } else { &self.root };
        let request = Request::post(format!("{root}?{query}"))
            .header(header::ACCEPT, "application/json, */*")
            .header(header::CONTENT_TYPE, "application/json");
        let answer = self.ask(request, body, MAX_WEBHOOK_ANSWER).await?;
        Ok((answer.status, answer.body))
    }

    /// Applies the configuration `body` to the object at `path`. Returns the status and the object or the error.
    pub(crate) async fn apply(&mut self, path: &str, query: &str, body: Bytes) -> Result<(StatusCode, Value)> {
        let request = Request::patch(format!("{}{path}?{query}", self.root))
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/apply-patch+yaml");
        let Answer { status, body, .. } = self.ask(request, body, MAX_ANSWER).await?;
        let parsed = json::parse(&body, &Limits::TRUSTED);
        let value = parsed.with_context(|| format!("the server answered {status} without JSON"))?;
        Ok((status, value))
    }

    /// Posts a JSON document to `path`. Returns the status and the answer.
    pub(crate) async fn post_document(&mut self, path: &str, body: Bytes) -> Result<(StatusCode, Value)> {
        let Answer { status, body, .. } = self.ask(self.document(path), body, MAX_ANSWER).await?;
        let parsed = json::parse(&body, &Limits::TRUSTED);
        Ok((status, parsed.unwrap_or_else(|_| Value::empty_map())))
    }

    /// Replaces the object at `path`. Returns the status and the answer.
    pub(crate) async fn put_document(&mut self, path: &str, body: Bytes) -> Result<(StatusCode, Value)> {
        let request = Request::put(format!("{}{path}", self.root))
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json");
        let Answer { status, body, .. } = self.ask(request, body, MAX_ANSWER).await?;
        let parsed = json::parse(&body, &Limits::TRUSTED);
        Ok((status, parsed.unwrap_or_else(|_| Value::empty_map())))
    }

    /// Posts a JSON document to `path`. Returns the status and the lines of the answer.
    pub(crate) async fn post_stream(&mut self, path: &str, body: Bytes) -> Result<(StatusCode, Lines)> {
        let request = self.complete(self.document(path)).body(Full::new(body))?;
        let (head, body) = self.sender.send_request(request).await?.into_parts();
        let lines = Lines { body, rest: Vec::new() };
        Ok((head.status, lines))
    }

    fn document(&self, path: &str) -> Builder {
        Request::post(format!("{}{path}", self.root))
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/json")
    }

    /// Returns the request with the headers that all requests have.
    fn complete(&self, request: Builder) -> Builder {
        let request = request
            .header(header::HOST, &self.host)
            .header(header::USER_AGENT, concat!("holdfast/", env!("CARGO_PKG_VERSION")));
        match &self.token {
            Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        }
    }

    async fn ask(&mut self, request: Builder, body: Bytes, max_bytes: usize) -> Result<Answer> {
        let request = self.complete(request).body(Full::new(body))?;
        let answer = async {
            self.sender.ready().await?;
            let (head, body) = self.sender.send_request(request).await?.into_parts();
            let collected = Limited::new(body, max_bytes).collect().await;
            let body = collected.map_err(|error| anyhow::anyhow!("{error}"))?;
            anyhow::Ok(Answer {
                status: head.status,
                headers: head.headers,
                body: body.to_bytes(),
            })
        };
        let answer = tokio::time::timeout(TIMEOUT, answer)
            .await
            .context("the server does not answer");
        answer.flatten()
    }
}

/// A connection to a server, before the first request.
pub(crate) struct Dialed {
    pub(crate) stream: ProxiedStream,
    /// URL of the server.
    uri: Uri,
    /// Certificate of the server (DER), if the connection has one.
    certificate: Option<Vec<u8>>,
}

/// Opens a connection to the server of `access`, with its client certificate. The connection goes through `dialer` if
/// it is set.
pub(crate) async fn dial(access: &Access, dialer: Option<&Dialer>) -> Result<Dialed> {
    let uri: Uri = access
        .server
        .parse()
        .with_context(|| format!("{:?} is no URL", access.server))?;
    let secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => bail!("{} is reached neither over https nor over http", access.server),
    };
    access.check()?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let mut certificate = None;
    let connect = async {
        let socket: ProxiedStream = match dialer {
            Some(dialer) => {
                let name = uri.host().unwrap_or_default();
                dialer.dial(&format!("{name}:{port}")).await?
            }
            None => {
                let socket = TcpStream::connect((host.as_str(), port)).await?;
                socket.set_nodelay(true)?;
                Box::new(socket)
            }
        };
        if !secure {
            return anyhow::Ok(socket);
        }
        let host_name = access.server_name.clone().unwrap_or_else(|| host.clone());
        let name = ServerName::try_from(host_name).map_err(std::io::Error::other)?;
        let handshake = TlsConnector::from(Arc::new(tls(access)?)).connect(name, socket).await;
        let stream = handshake.context("TLS")?;
        let presented = stream.get_ref().1.peer_certificates();
        certificate = presented.and_then(|chain| Some(chain.first()?.to_vec()));
        anyhow::Ok(Box::new(stream) as ProxiedStream)
    };
    let connected = tokio::time::timeout(TIMEOUT, connect)
        .await
        .context("the server does not answer");
    let stream = connected
        .flatten()
        .with_context(|| format!("cannot connect to {}", access.server))?;
    Ok(Dialed {
        stream,
        uri,
        certificate,
    })
}

/// Lines of an answer that arrives over time.
pub(crate) struct Lines {
    body: Incoming,
    /// Bytes that arrived after the last line.
    rest: Vec<u8>,
}

impl Lines {
    /// Returns the next line without its end; `None` at the end of the answer.
    pub(crate) async fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let rest = self.rest.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.rest, rest);
                line.pop();
                return Ok(Some(line));
            }
            let Some(frame) = self.body.frame().await else {
                let last = std::mem::take(&mut self.rest);
                return Ok(Some(last).filter(|last| !last.is_empty()));
            };
            if let Ok(data) = frame?.into_data() {
                self.rest.extend_from_slice(&data);
            }
            if self.rest.len() > MAX_ANSWER {
                bail!("a line of the answer has more than {MAX_ANSWER} bytes");
            }
        }
    }
}

/// Maximum number of characters of a text in messages.
const SHOWN: usize = 1000;

/// Returns the beginning of a response, as an error if its status is not a success.
pub(crate) fn beginning(status: StatusCode, body: &[u8]) -> Result<String> {
    let said: String = String::from_utf8_lossy(body).chars().take(SHOWN).collect();
    if !status.is_success() {
        bail!("the server answered {status}: {}", said.trim());
    }
    Ok(said)
}

fn tls(access: &Access) -> Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = if access.insecure {
        let algorithms = provider.signature_verification_algorithms;
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer::new(algorithms)))
    } else {
        let authority = access.authority.as_deref();
        let authority =
            authority.context("no authority is known: give --certificate-authority or --insecure-skip-tls-verify")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority) {
            roots.add(certificate.context("the certificate authority is no PEM")?)?;
        }
        builder.with_root_certificates(roots)
    };
    let Some((certificate, key)) = &access.certificate else {
        return Ok(builder.with_no_client_auth());
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let key = PrivateKeyDer::from_pem_slice(key).context("the client key is no PEM")?;
    Ok(builder.with_client_auth_cert(chain.context("the client certificate is no PEM")?, key)?)
}
