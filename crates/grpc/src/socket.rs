//! Connections to Unix sockets.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tower_service::Service;

/// Connects to a Unix socket: a path, or an abstract name after `@`.
pub(crate) async fn connect(socket: String) -> io::Result<UnixStream> {
    match socket.strip_prefix('@') {
        Some(name) => abstract_stream(name),
        None => UnixStream::connect(&socket)
            .await
            .map_err(|error| io::Error::new(error.kind(), format!("dial unix {socket}: {error}"))),
    }
}

/// Connector that calls a function.
#[derive(Clone)]
pub(crate) struct DialConnector<D>(D);

impl<D> DialConnector<D> {
    pub(crate) fn new(dial: D) -> Self {
        Self(dial)
    }
}

impl<D, F, S> Service<Uri> for DialConnector<D>
where
    D: Fn() -> F,
    F: Future<Output = io::Result<S>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Response = TokioIo<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let dialed = (self.0)();
        Box::pin(async move { dialed.await.map(TokioIo::new) })
    }
}

#[cfg(target_os = "linux")]
fn abstract_stream(name: &str) -> io::Result<UnixStream> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixStream as Blocking};
    let stream = Blocking::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

#[cfg(not(target_os = "linux"))]
fn abstract_stream(_: &str) -> io::Result<UnixStream> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system has no abstract sockets",
    ))
}
