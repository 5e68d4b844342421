//! The way to a member of etcd: gRPC over HTTP/2, or a simulated member.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http::Uri;
use http::uri::PathAndQuery;
use rustls::ClientConfig;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use super::address::{Address, SocketConnector};
use super::dial::{DialConnector, DialEtcd};
use super::line::Line;
use super::proto::{WatchRequest, WatchResponse};
#[cfg(feature = "testing")]
use super::simulated::SimulatedMember;

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// Interval of the pings of a connection, and timeout of their responses.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(5);
/// Flow-control window of a stream and of a connection. It fits a page of a first read, so that the read need not wait
/// for window updates.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Addresses and credentials of an etcd.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Members: `http://`, `https://`, `unix://` or `unixs://` and the client address of each.
    pub servers: Vec<String>,
    /// Authorities that sign the certificates of the members (PEM); `None` for those of the system.
    pub authorities: Option<Vec<u8>>,
    /// Client certificate of this server and its key (PEM).
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Makes the connections; `None` for direct ones.
    pub dialer: Option<Arc<dyn DialEtcd>>,
}

/// Error of a call.
#[derive(Clone, Debug)]
pub(crate) struct CallError {
    pub(crate) code: Code,
    /// Message of etcd, as kube-apiserver passes it on.
    pub(crate) message: String,
    /// True if the call was certainly not executed.
    pub(crate) unsent: bool,
}

impl CallError {
    pub(super) fn from_status(status: &Status) -> Self {
        let own = status.message().starts_with("etcdserver: ");
        let (code, message) = match root_of(status) {
            _ if own => (status.code(), status.message().to_owned()),
            // The error of the connection, not a response.
            Some(root) => (
                Code::Unavailable,
                format!("rpc error: code = Unavailable desc = connection error: desc = \"transport: {root}\""),
            ),
            None => (
                status.code(),
                format!("rpc error: code = {:?} desc = {}", status.code(), status.message()),
            ),
        };
        Self {
            code,
            message,
            unsent: !own && is_connect_error(status),
        }
    }

    pub(crate) fn overdue() -> Self {
        Self {
            code: Code::DeadlineExceeded,
            message: "context deadline exceeded".to_owned(),
            unsent: false,
        }
    }

    /// Returns true if another member, or the same one later, may succeed.
    pub(super) fn may_pass(&self) -> bool {
        self.unsent
            || matches!(
                self.code,
                Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::DeadlineExceeded
            )
    }

    /// Returns true if etcd has compacted the requested revision.
    pub(crate) fn is_compacted(&self) -> bool {
        self.code == Code::OutOfRange && self.message.contains("has been compacted")
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Returns the root cause of a status that was created locally.
fn root_of(status: &Status) -> Option<String> {
    let mut root = std::error::Error::source(status)?;
    while let Some(source) = root.source() {
        root = source;
    }
    Some(root.to_string())
}

fn is_connect_error(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Way to a member.
pub(super) enum Transport {
    /// A connection that is established at the first call.
    Grpc(GrpcTransport),
    /// A member in memory.
    #[cfg(feature = "testing")]
    Simulated(SimulatedMember),
}

/// Connection to a member.
pub(super) struct GrpcTransport {
    address: Address,
    uri: Uri,
    channel: Channel,
    /// Makes the connections; `None` for direct ones.
    dialer: Option<Arc<dyn DialEtcd>>,
}

/// Responses of a watch.
pub(crate) enum WatchResponses {
    /// The stream of a connection.
    Grpc(Box<Streaming<WatchResponse>>),
    /// The responses of a simulated member.
    #[cfg(feature = "testing")]
    Simulated(mpsc::Receiver<Result<WatchResponse, CallError>>),
}

impl Transport {
    /// Creates the transport to a member, which connects at the first call.
    ///
    /// # Errors
    /// If the address or a certificate cannot be used; the error is a description.
    pub(super) fn connect_lazy(address: Address, connection: &Connection) -> Result<Self, String> {
        let endpoint = endpoint(&address, connection)?;
        Ok(Self::Grpc(GrpcTransport {
            uri: endpoint.uri().clone(),
            channel: match (&address.socket, &connection.dialer) {
                (Some(path), _) => endpoint.connect_with_connector_lazy(SocketConnector(path.clone())),
                (None, Some(dialer)) => endpoint.connect_with_connector_lazy(DialConnector(Arc::clone(dialer))),
                (None, None) => endpoint.connect_lazy(),
            },
            dialer: connection.dialer.clone(),
            address,
        }))
    }

    /// Makes one call.
    pub(super) async fn call<Q, A>(&self, path: PathAndQuery, request: Q) -> Result<A, CallError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        match self {
            Self::Grpc(member) => {
                let answer = once(&member.channel, path, request).await;
                answer.map_err(|status| CallError::from_status(&status))
            }
            #[cfg(feature = "testing")]
            Self::Simulated(member) => member.call(path.path(), &request).await,
        }
    }

    /// Opens a stream of watches, to which `requests` are sent.
    pub(super) async fn watch(&self, requests: mpsc::Receiver<WatchRequest>) -> Result<WatchResponses, CallError> {
        match self {
            Self::Grpc(member) => {
                let answer = stream_watch(&member.channel, requests).await;
                let responses = answer.map_err(|status| CallError::from_status(&status))?;
                Ok(WatchResponses::Grpc(Box::new(responses)))
            }
            #[cfg(feature = "testing")]
            Self::Simulated(member) => member.watch(requests).await.map(WatchResponses::Simulated),
        }
    }

    /// Opens a separate connection to the member for queries of the revision.
    pub(super) async fn line(&self, tls: Option<&Arc<ClientConfig>>) -> std::io::Result<Line> {
        match self {
            Self::Grpc(member) => {
                let tls = tls.filter(|_| member.address.secure);
                let (socket, dialer) = (member.address.socket.as_deref(), member.dialer.as_deref());
                Line::open(&member.uri, socket, tls, dialer).await
            }
            #[cfg(feature = "testing")]
            Self::Simulated(member) => Ok(Line::Simulated(member.clone())),
        }
    }
}

impl WatchResponses {
    /// Waits for the next response; `None` at the end of the stream.
    ///
    /// # Errors
    /// The description of the end of a broken stream.
    pub(super) async fn next(&mut self) -> Result<Option<WatchResponse>, String> {
        match self {
            Self::Grpc(responses) => {
                let answer = responses.message().await;
                answer.map_err(|status| status.message().to_owned())
            }
            #[cfg(feature = "testing")]
            Self::Simulated(responses) => {
                let answer = responses.recv().await.transpose();
                answer.map_err(|error| error.message)
            }
        }
    }
}

async fn stream_watch(
    channel: &Channel,
    requests: mpsc::Receiver<WatchRequest>,
) -> Result<Streaming<WatchResponse>, Status> {
    let sent = stream::unfold(requests, |mut requests| async move {
        requests.recv().await.map(|request| (request, requests))
    });
    let mut request = tonic::Request::new(sent);
    let metadata = request.metadata_mut();
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    let mut grpc = grpc(channel);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let codec = ProstCodec::default();
    let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
    let response = grpc.streaming(request, path, codec).await?;
    Ok(response.into_inner())
}

fn grpc(channel: &Channel) -> Grpc<Channel> {
    // The responses to one request may be larger than the request limit; etcd's own limits apply.
    Grpc::new(channel.clone()).max_decoding_message_size(usize::MAX)
}

async fn once<Q, A>(channel: &Channel, path: PathAndQuery, request: Q) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let mut grpc = grpc(channel);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let codec: ProstCodec<Q, A> = ProstCodec::default();
    let answer = grpc.unary(tonic::Request::new(request), path, codec).await?;
    Ok(answer.into_inner())
}

fn endpoint(address: &Address, connection: &Connection) -> Result<Endpoint, String> {
    let refused = |error: tonic::transport::Error| match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    let endpoint = Endpoint::from_shared(address.url.clone()).map_err(refused)?;
    if endpoint.uri().host().is_none_or(str::is_empty) {
        return Err("the server has no name".to_owned());
    }
    let endpoint = endpoint
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_ANSWER)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    if !address.secure {
        return Ok(endpoint);
    }
    let mut tls = ClientTlsConfig::new();
    tls = match &connection.authorities {
        Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
        None => tls.with_enabled_roots(),
    };
    if let Some((certificate, key)) = &connection.identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    endpoint.tls_config(tls).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_etcd_are_passed_on_as_they_are() {
        let error = CallError::from_status(&Status::unavailable("etcdserver: leader changed"));
        assert_eq!(
            (error.message.as_str(), error.unsent),
            ("etcdserver: leader changed", false)
        );
        let compacted = Status::out_of_range("etcdserver: mvcc: required revision has been compacted");
        assert!(CallError::from_status(&compacted).is_compacted());
    }
}
