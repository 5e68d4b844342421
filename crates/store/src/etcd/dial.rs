//! Connections to etcd that the caller makes, for example through a proxy.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service;

/// A bidirectional stream of bytes.
pub trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for S {}

/// A connection to a member, of any kind.
pub type EtcdStream = Box<dyn ReadWrite>;

/// Outcome of a connection.
pub type EtcdStreamFuture = Pin<Box<dyn Future<Output = io::Result<EtcdStream>> + Send>>;

/// Makes connections to the members of an etcd.
pub trait DialEtcd: Send + Sync + fmt::Debug {
    /// Connects to `HOST:PORT`.
    fn dial(&self, address: String) -> EtcdStreamFuture;
}

/// Returns the port of a member's URL.
pub(super) fn port(member: &Uri) -> u16 {
    let is_secure = member.scheme_str() == Some("https");
    member.port_u16().unwrap_or(if is_secure { 443 } else { 80 })
}

/// Returns the `HOST:PORT` of a member's URL.
pub(super) fn target(member: &Uri) -> String {
    format!("{}:{}", member.host().unwrap_or_default(), port(member))
}

/// Connector of gRPC.
#[derive(Clone)]
pub(super) struct DialConnector(pub(super) Arc<dyn DialEtcd>);

impl Service<Uri> for DialConnector {
    type Response = TokioIo<EtcdStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialed = self.0.dial(target(&uri));
        Box::pin(async move { dialed.await.map(TokioIo::new) })
    }
}
