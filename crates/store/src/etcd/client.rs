//! Calls to etcd: of several members, one is used until it fails.
//!
//! A call that changes nothing is retried at the next member until its timeout. A call that changes something is
//! retried only if it was not sent; otherwise the outcome is unknown, and the caller gets an error.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream;
use http::Uri;
use http::uri::PathAndQuery;
use rustls::ClientConfig;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use super::address::{Address, SocketConnector};
use super::dial::{DialConnector, DialEtcd};
use super::line::{self, Line};
use super::metrics::{Observer, Operation};
use super::proto::{
    CompactionRequest, CompactionResponse, LeaseGrantRequest, LeaseGrantResponse, RangeRequest, RangeResponse,
    StatusRequest, StatusResponse, TxnRequest, TxnResponse, Watch, WatchCreateRequest, WatchRequest, WatchResponse,
};
use crate::error::OpenError;

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// Interval of the pings of a connection, and timeout of their responses.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(5);
/// Delay before a call is retried.
const AGAIN: Duration = Duration::from_millis(25);
/// Timeout of a read call at one member.
const ONE_READ: Duration = Duration::from_secs(10);
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
    fn from_status(status: &Status) -> Self {
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
    fn may_pass(&self) -> bool {
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

struct Member {
    name: String,
    address: Address,
    uri: Uri,
    channel: Channel,
}

/// A stream of events, and the sender of further requests to it.
pub(crate) struct WatchStream {
    pub(crate) requests: mpsc::Sender<WatchRequest>,
    pub(crate) responses: Streaming<WatchResponse>,
}

/// The members of an etcd, and the one in use.
pub(crate) struct Client {
    members: Vec<Member>,
    calls: AtomicUsize,
    /// TLS settings for direct connections, if the member uses TLS.
    tls: Option<Arc<ClientConfig>>,
    /// Makes the connections; `None` for direct ones.
    dialer: Option<Arc<dyn DialEtcd>>,
    observer: Box<dyn Observer>,
}

impl Client {
    /// Creates a client that connects at the first call.
    ///
    /// # Errors
    /// If an address or a certificate cannot be read.
    pub(crate) fn new(connection: &Connection, observer: Box<dyn Observer>) -> Result<Self, OpenError> {
        let members = connection
            .servers
            .iter()
            .map(|server| {
                let refused = |detail| OpenError::Etcd {
                    detail: format!("{server}: {detail}"),
                };
                let address = Address::parse(server).map_err(refused)?;
                let endpoint = endpoint(&address, connection).map_err(refused)?;
                Ok(Member {
                    name: server.clone(),
                    uri: endpoint.uri().clone(),
                    channel: match (&address.socket, &connection.dialer) {
                        (Some(path), _) => endpoint.connect_with_connector_lazy(SocketConnector(path.clone())),
                        (None, Some(dialer)) => endpoint.connect_with_connector_lazy(DialConnector(Arc::clone(dialer))),
                        (None, None) => endpoint.connect_lazy(),
                    },
                    address,
                })
            })
            .collect::<Result<Vec<_>, OpenError>>()?;
        if members.is_empty() {
            let detail = "no server is named".to_owned();
            return Err(OpenError::Etcd { detail });
        }
        let secure = members.iter().any(|member| member.address.secure);
        let tls = match secure {
            true => Some(line::tls(connection).map_err(|detail| OpenError::Etcd { detail })?),
            false => None,
        };
        Ok(Self {
            members,
            tls: tls.map(Arc::new),
            dialer: connection.dialer.clone(),
            calls: AtomicUsize::new(0),
            observer,
        })
    }

    #[allow(
        clippy::indexing_slicing,
        reason = "there is one at least, and the index is below their number"
    )]
    fn member(&self, calls: usize) -> &Member {
        &self.members[calls % self.members.len()]
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    /// Returns the members, for messages.
    pub(crate) fn servers(&self) -> String {
        let uris: Vec<&str> = self.members.iter().map(|member| member.name.as_str()).collect();
        uris.join(",")
    }

    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// Reads at any member that responds within `patience`.
    pub(crate) async fn range(&self, request: RangeRequest, patience: Duration) -> Result<RangeResponse, CallError> {
        let operation = match request.range_end.is_empty() {
            true => Operation::Get,
            false if request.count_only => Operation::Count,
            false => Operation::List,
        };
        let key = request.key.clone();
        let call = self.repeated(path("/etcdserverpb.KV/Range"), request, patience, true);
        self.observed(operation, &key, call).await
    }

    /// Writes; the write is certainly not executed more than once.
    pub(crate) async fn txn(
        &self,
        operation: Operation,
        key: &[u8],
        request: TxnRequest,
        patience: Duration,
    ) -> Result<TxnResponse, CallError> {
        let call = self.repeated(path("/etcdserverpb.KV/Txn"), request, patience, false);
        self.observed(operation, key, call).await
    }

    pub(crate) async fn compact(&self, revision: i64, patience: Duration) -> Result<CompactionResponse, CallError> {
        let request = CompactionRequest { revision };
        self.repeated(path("/etcdserverpb.KV/Compact"), request, patience, false)
            .await
    }

    pub(crate) async fn grant(&self, ttl: i64, patience: Duration) -> Result<LeaseGrantResponse, CallError> {
        let request = LeaseGrantRequest { ttl };
        self.repeated(path("/etcdserverpb.Lease/LeaseGrant"), request, patience, true)
            .await
    }

    /// Queries the status of one member.
    pub(crate) async fn status(&self, member: usize, patience: Duration) -> Result<StatusResponse, CallError> {
        let path = path("/etcdserverpb.Maintenance/Status");
        let call = once(&self.member(member).channel, path, StatusRequest {});
        match tokio::time::timeout(patience, call).await {
            Ok(answer) => answer.map_err(|status| CallError::from_status(&status)),
            Err(_) => Err(CallError::overdue()),
        }
    }

    /// Returns the name of a member.
    pub(crate) fn uri(&self, member: usize) -> &str {
        &self.member(member).name
    }

    /// Watches a range of keys, at a member that has a leader.
    pub(crate) async fn watch(&self, create: WatchCreateRequest) -> Result<WatchStream, CallError> {
        let (requests, received) = mpsc::channel(8);
        let first = WatchRequest {
            request: Some(Watch::Create(create)),
        };
        // The channel is new and has room.
        let _ = requests.try_send(first);
        let sent = stream::unfold(received, |mut received| async move {
            received.recv().await.map(|request| (request, received))
        });
        let mut request = tonic::Request::new(sent);
        let metadata = request.metadata_mut();
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        let calls = self.calls.load(Ordering::Relaxed);
        let call = async {
            let mut grpc = grpc(&self.member(calls).channel);
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            let codec = ProstCodec::default();
            grpc.streaming(request, path("/etcdserverpb.Watch/Watch"), codec).await
        };
        let answer = match tokio::time::timeout(ONE_READ, call).await {
            Ok(answer) => answer.map_err(|status| CallError::from_status(&status)),
            Err(_) => Err(CallError::overdue()),
        };
        match answer {
            Ok(response) => Ok(WatchStream {
                requests,
                responses: response.into_inner(),
            }),
            Err(error) => {
                self.leave(calls);
                Err(error)
            }
        }
    }

    /// Opens a separate connection to the member in use.
    pub(crate) async fn line(&self) -> std::io::Result<Line> {
        let member = self.member(self.calls.load(Ordering::Relaxed));
        let tls = self.tls.as_ref().filter(|_| member.address.secure);
        Line::open(
            &member.uri,
            member.address.socket.as_deref(),
            tls,
            self.dialer.as_deref(),
        )
        .await
    }

    /// Switches to another member, unless another caller did so already.
    pub(crate) fn leave_member(&self) {
        self.leave(self.calls.load(Ordering::Relaxed));
    }

    fn leave(&self, calls: usize) {
        let (order, next) = (Ordering::Relaxed, calls.wrapping_add(1));
        let _ = self.calls.compare_exchange(calls, next, order, order);
    }

    /// Makes a call until there is a response or `patience` is over. A call that is not `repeatable` is retried only if
    /// it was not sent.
    async fn repeated<Q, A>(
        &self,
        path: PathAndQuery,
        request: Q,
        patience: Duration,
        repeatable: bool,
    ) -> Result<A, CallError>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let end = Instant::now() + patience;
        let mut failed: Option<CallError> = None;
        loop {
            let calls = self.calls.load(Ordering::Relaxed);
            let member = self.member(calls);
            let until = match repeatable {
                true => end.min(Instant::now() + ONE_READ),
                false => end,
            };
            let call = once(&member.channel, path.clone(), request.clone());
            let error = match timeout_at(until, call).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => CallError::from_status(&status),
                Err(_) => CallError::overdue(),
            };
            if !error.may_pass() {
                return Err(error);
            }
            self.leave(calls);
            if !(repeatable || error.unsent) {
                return Err(error);
            }
            if Instant::now() + AGAIN >= end {
                // The cause of the failed connection is more specific than a timeout.
                return Err(match error.code {
                    Code::DeadlineExceeded => failed.unwrap_or(error),
                    _ => error,
                });
            }
            failed = Some(error);
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn observed<A>(
        &self,
        operation: Operation,
        key: &[u8],
        call: impl Future<Output = Result<A, CallError>>,
    ) -> Result<A, CallError> {
        let begun = Instant::now();
        let answer = call.await;
        self.observer.called(operation, key, begun.elapsed(), answer.is_ok());
        answer
    }
}

fn path(path: &'static str) -> PathAndQuery {
    PathAndQuery::from_static(path)
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
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::super::metrics::NoObserver;
    use super::*;

    fn client(servers: &[&str]) -> Result<Client, OpenError> {
        let connection = Connection {
            servers: servers.iter().map(ToString::to_string).collect(),
            ..Connection::default()
        };
        Client::new(&connection, Box::new(NoObserver))
    }

    #[tokio::test]
    async fn addresses_that_cannot_be_are_refused() {
        for servers in [&[][..], &["127.0.0.1:2379"], &["ftp://a:1"], &["http://"]] {
            assert!(client(servers).is_err(), "{servers:?}");
        }
        assert!(client(&["http://127.0.0.1:2379", "https://[::1]:2379"]).is_ok());
    }

    #[tokio::test]
    async fn a_write_that_was_not_sent_is_tried_at_the_next_member() {
        // Ports without a listener, reserved for this test.
        let sockets = [(), ()].map(|()| {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            socket
        });
        let servers = sockets
            .each_ref()
            .map(|socket| format!("http://{}", socket.local_addr().unwrap()));
        let client = client(&[&servers[0], &servers[1]]).unwrap();
        let patience = Duration::from_secs(2);
        let error = client
            .txn(Operation::Create, b"/a", TxnRequest::default(), patience)
            .await
            .unwrap_err();
        assert!(error.unsent, "{error:?}");
        assert!(
            error.message.starts_with("rpc error: code = Unavailable desc = "),
            "{error}"
        );
        assert!(client.calls.load(Ordering::Relaxed) > 1);
    }

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
