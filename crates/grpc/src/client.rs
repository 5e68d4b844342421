//! The client of one server.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::time::Duration;

use futures_util::Stream;
use http::uri::PathAndQuery;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::socket::{self, DialConnector};

/// Delay of the next attempt to connect to a server that does not listen yet.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Client of one server. It connects with its first call, and again after the connection breaks.
///
/// ```
/// use holdfast_grpc::Client;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let client = Client::on_socket("/run/plugin.sock");
/// # drop(client);
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
}

/// A call that failed. Its text has the form of errors of gRPC in Go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcError {
    /// Name of the status code, such as `Unavailable`.
    pub code: String,
    /// Description.
    pub message: String,
    /// True if the server could not be reached.
    is_unreachable: bool,
}

impl fmt::Display for GrpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rpc error: code = {} desc = {}", self.code, self.message)
    }
}

impl Error for GrpcError {}

impl GrpcError {
    fn unreachable(error: &(dyn Error + 'static)) -> Self {
        Self {
            code: format!("{:?}", Code::Unavailable),
            message: root_of(error),
            is_unreachable: true,
        }
    }

    fn deadline_exceeded() -> Self {
        Status::new(Code::DeadlineExceeded, "context deadline exceeded").into()
    }
}

impl From<Status> for GrpcError {
    fn from(status: Status) -> Self {
        let cause = status.source().map(root_of);
        Self {
            code: format!("{:?}", status.code()),
            is_unreachable: cause.is_some() && matches!(status.code(), Code::Unavailable | Code::Unknown),
            message: cause.unwrap_or_else(|| status.message().to_owned()),
        }
    }
}

/// Messages that a server sends on a stream.
pub struct Responses<A>(Streaming<A>);

impl<A> Responses<A> {
    /// Waits for the next message; `None` at the end of the stream.
    ///
    /// # Errors
    /// If the server ends the stream with an error, or the connection breaks.
    pub async fn next(&mut self) -> Result<Option<A>, GrpcError> {
        Ok(self.0.message().await?)
    }
}

impl Client {
    /// Creates a client of the server on a Unix socket: a path, or an abstract name after `@`.
    pub fn on_socket(socket: &str) -> Self {
        let endpoint = Endpoint::from_static("http://localhost");
        let socket = socket.to_owned();
        let connector = DialConnector::new(move || socket::connect(socket.clone()));
        Self {
            channel: endpoint.connect_with_connector_lazy(connector),
        }
    }

    /// Creates a client of the server at `HOST:PORT`, without TLS.
    ///
    /// # Errors
    /// If the address is malformed.
    pub fn for_address(address: &str) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
        Ok(Self {
            channel: endpoint.connect_lazy(),
        })
    }

    /// Creates a client of the server at `HOST:PORT`, which `dial` connects to.
    ///
    /// # Errors
    /// If the address is malformed.
    pub fn for_address_through<D, F, S>(address: &str, dial: D) -> Result<Self, String>
    where
        D: Fn() -> F + Clone + Send + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
        Ok(Self {
            channel: endpoint.connect_with_connector_lazy(DialConnector::new(dial)),
        })
    }

    /// Calls the method with the path `/SERVICE/METHOD`, and waits for its response for at most `timeout`.
    ///
    /// # Errors
    /// If the server cannot be reached, or rejects the call.
    pub async fn call<Q, A>(&self, path: &'static str, request: Q, timeout: Duration) -> Result<A, GrpcError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let call = async {
            let mut grpc = Grpc::new(self.channel.clone());
            grpc.ready().await.map_err(|error| GrpcError::unreachable(&error))?;
            let codec = ProstCodec::<Q, A>::default();
            let response = grpc
                .unary(Request::new(request), PathAndQuery::from_static(path), codec)
                .await?;
            Ok(response.into_inner())
        };
        match tokio::time::timeout(timeout, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(GrpcError::deadline_exceeded()),
        }
    }

    /// Opens a stream of messages in both directions with the method at `path`.
    ///
    /// # Errors
    /// If the server cannot be reached, or rejects the call.
    pub async fn stream<Q, A>(
        &self,
        path: &'static str,
        requests: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Responses<A>, GrpcError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        let ready = grpc.ready().await;
        ready.map_err(|error| Status::unavailable(root_of(&error)))?;
        let codec = ProstCodec::<Q, A>::default();
        let opened = grpc
            .streaming(Request::new(requests), PathAndQuery::from_static(path), codec)
            .await?;
        Ok(Responses(opened.into_inner()))
    }

    /// Calls a method as [`Client::call`] does, and tries again until the server listens.
    ///
    /// # Errors
    /// If the server cannot be reached in this time, or rejects the call.
    pub async fn call_when_ready<Q, A>(&self, path: &'static str, request: Q, timeout: Duration) -> Result<A, GrpcError>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.call(path, request.clone(), left).await {
                Err(error) if error.is_unreachable && left > RETRY_DELAY => tokio::time::sleep(RETRY_DELAY).await,
                Err(error) if error.is_unreachable => {
                    let message = format!("{}: {}", GrpcError::deadline_exceeded().message, error.message);
                    return Err(GrpcError {
                        message,
                        ..GrpcError::deadline_exceeded()
                    });
                }
                outcome => return outcome,
            }
        }
    }
}

/// Returns the text of the error that caused another one.
fn root_of(error: &(dyn Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, prost::Message)]
    struct Empty {}

    #[tokio::test]
    async fn missing_server_is_awaited_until_the_deadline() {
        let folder = std::env::temp_dir().join("holdfast-grpc-missing.sock");
        let client = Client::on_socket(&folder.display().to_string());
        let started = Instant::now();
        let timeout = Duration::from_millis(250);
        let outcome = client.call_when_ready::<_, Empty>("/a.B/C", Empty {}, timeout).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.code, "DeadlineExceeded");
        assert!(error.message.contains("No such file"), "{error}");
        assert!(started.elapsed() >= Duration::from_millis(150));
    }
}
