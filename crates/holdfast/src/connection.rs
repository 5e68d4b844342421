//! Connections from clients in the same process, without a port and without TLS.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{Connected, Connection as Connects};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::mpsc;
use tower_service::Service;

/// Number of bytes that a connection holds in each direction before the sender waits.
const BUFFER_BYTES: usize = 64 * 1024;

/// Error of a request over a [`Connection`], such as a request to a server that was shut down.
pub type ConnectionError = hyper_util::client::legacy::Error;

/// Connection to a [`Server`](crate::Server) in the same process, over memory: no port, no TLS.
///
/// It is a [`tower_service::Service`] of HTTP requests, and its user is the administrator. A relative URI is sufficient.
/// Clones share their idle connections.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Namespace;
///
/// let server = holdfast::Server::builder().start().await?;
/// let client = kube::Client::new(server.connection(), "default");
/// let namespaces = kube::Api::<Namespace>::all(client).list(&Default::default()).await?;
/// assert!(namespaces.items.iter().any(|namespace| namespace.metadata.name.as_deref() == Some("default")));
/// server.shutdown().await?;
/// # Ok(())
/// # }
/// ```
pub struct Connection<B> {
    client: Client<Connector, B>,
}

impl<B> Connection<B>
where
    B: Body + Send,
    B::Data: Send,
{
    /// Connects to the server that receives `streams`.
    pub(crate) fn new(streams: mpsc::Sender<DuplexStream>) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build(Connector { streams }),
        }
    }
}

impl<B> Clone for Connection<B> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
        }
    }
}

impl<B> fmt::Debug for Connection<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for Connection<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<Incoming>;
    type Error = ConnectionError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> ResponseFuture {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(Authority::from_static("localhost"));
        parts
            .path_and_query
            .get_or_insert(http::uri::PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        self.client.request(request)
    }
}

/// Opens connections to the server.
#[derive(Clone)]
struct Connector {
    streams: mpsc::Sender<DuplexStream>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<ClientStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let streams = self.streams.clone();
        Box::pin(async move {
            let (own, other) = tokio::io::duplex(BUFFER_BYTES);
            let sent = streams.send(other).await;
            sent.map_err(|_| io::Error::new(io::ErrorKind::ConnectionRefused, "the server was shut down"))?;
            Ok(TokioIo::new(ClientStream(own)))
        })
    }
}

/// The client's end of a connection.
struct ClientStream(DuplexStream);

impl Connects for ClientStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientStream {
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
