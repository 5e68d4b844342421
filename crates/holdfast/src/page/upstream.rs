//! The server of the kubeconfig, as the local process reaches it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use holdfast_egress::ProxiedStream;
use http::header::{self, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

use crate::remote::{Access, dial};

/// Headers of a request that are passed on.
const PASSED_ON: [header::HeaderName; 3] = [header::ACCEPT, header::ACCEPT_ENCODING, header::CONTENT_TYPE];

/// Server with the credentials of the kubeconfig.
pub(super) struct Upstream {
    pool: Client<Connector, Full<Bytes>>,
    host: HeaderValue,
    /// Path of the server's URL, the prefix of all other paths.
    root: String,
    token: Option<HeaderValue>,
}

impl Upstream {
    /// Checks that the server can be reached.
    ///
    /// # Errors
    /// If it cannot.
    pub(super) async fn connect(access: Access) -> Result<Self> {
        let dialed = dial(&access, None).await?;
        drop(dialed);
        let uri: Uri = access.server.parse()?;
        let mut token = access
            .token
            .as_ref()
            .map(|token| HeaderValue::try_from(format!("Bearer {token}")))
            .transpose()
            .context("the token has characters that no header can contain")?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        Ok(Self {
            host: HeaderValue::try_from(uri.authority().map_or("", |authority| authority.as_str()))?,
            root: uri.path().trim_end_matches('/').to_owned(),
            token,
            pool: Client::builder(TokioExecutor::new()).build(Connector {
                access: Arc::new(access),
            }),
        })
    }

    /// Sends a request with the credentials of the kubeconfig, and with the headers that describe its body and its answer.
    pub(super) async fn send(
        &self,
        method: Method,
        target: &PathAndQuery,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        // The pool needs an absolute URI. The connector knows the address.
        let uri: Uri = format!("http://upstream{}{target}", self.root).parse()?;
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::HOST, &self.host)
            .header(header::USER_AGENT, concat!("holdfast-ui/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))?;
        for name in PASSED_ON {
            if let Some(value) = headers.get(&name) {
                request.headers_mut().insert(name, value.clone());
            }
        }
        if let Some(token) = &self.token {
            request.headers_mut().insert(header::AUTHORIZATION, token.clone());
        }
        Ok(self.pool.request(request).await?)
    }
}

/// Opens connections to the server.
#[derive(Clone)]
struct Connector {
    access: Arc<Access>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Dialed>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let access = Arc::clone(&self.access);
        Box::pin(async move {
            let dialed = dial(&access, None).await.map_err(io::Error::other)?;
            Ok(TokioIo::new(Dialed(dialed.stream)))
        })
    }
}

/// Connection to the server.
struct Dialed(ProxiedStream);

impl Connection for Dialed {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Dialed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Dialed {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
