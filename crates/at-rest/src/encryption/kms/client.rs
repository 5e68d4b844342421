//! Calls to a plugin: gRPC over a Unix socket.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::proto::{DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse};

/// Client of one plugin.
#[derive(Clone)]
pub(super) struct Client {
    channel: Channel,
    timeout: Duration,
}

impl Client {
    /// Creates a client that connects with its first call.
    pub(super) fn new(socket: &str, timeout: Duration) -> Self {
        let endpoint = Endpoint::from_static("http://localhost");
        Self {
            channel: endpoint.connect_with_connector_lazy(SocketConnector(socket.to_owned())),
            timeout,
        }
    }

    pub(super) async fn status(&self) -> Result<StatusResponse, String> {
        self.call("/v2.KeyManagementService/Status", StatusRequest {}).await
    }

    pub(super) async fn encrypt(&self, request: EncryptRequest) -> Result<EncryptResponse, String> {
        self.call("/v2.KeyManagementService/Encrypt", request).await
    }

    pub(super) async fn decrypt(&self, request: DecryptRequest) -> Result<DecryptResponse, String> {
        self.call("/v2.KeyManagementService/Decrypt", request).await
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, String>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let call = async {
            let mut grpc = Grpc::new(self.channel.clone());
            let ready = grpc.ready().await;
            ready.map_err(|error| Status::unavailable(root_of(&error)))?;
            let codec = ProstCodec::<Q, A>::default();
            let path = PathAndQuery::from_static(path);
            Ok::<_, Status>(grpc.unary(Request::new(request), path, codec).await?.into_inner())
        };
        let answered = tokio::time::timeout(self.timeout, call).await;
        let outcome =
            answered.unwrap_or_else(|_| Err(Status::new(Code::DeadlineExceeded, "context deadline exceeded")));
        outcome.map_err(|status| {
            let cause = std::error::Error::source(&status).map(root_of);
            let message = cause.unwrap_or_else(|| status.message().to_owned());
            format!("rpc error: code = {:?} desc = {message}", status.code())
        })
    }
}

/// Returns the text of the error that caused another one.
fn root_of(error: &(dyn std::error::Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}

/// Connector to a Unix socket: a path, or an abstract name after `@`.
#[derive(Clone)]
struct SocketConnector(String);

impl Service<Uri> for SocketConnector {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let socket = self.0.clone();
        Box::pin(async move {
            let stream = match socket.strip_prefix('@') {
                Some(name) => abstract_stream(name)?,
                None => UnixStream::connect(&socket)
                    .await
                    .map_err(|error| io::Error::new(error.kind(), format!("dial unix {socket}: {error}")))?,
            };
            Ok(TokioIo::new(stream))
        })
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
