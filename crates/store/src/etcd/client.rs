//! Calls to etcd: of several members, one is used until it fails.
//!
//! A call that changes nothing is retried at the next member until its timeout. A call that changes something is
//! retried only if it was not sent; otherwise the outcome is unknown, and the caller gets an error.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use rustls::ClientConfig;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tonic::Code;

use super::address::Address;
use super::line::{self, Line};
use super::metrics::{Observer, Operation};
use super::proto::{
    CompactionRequest, CompactionResponse, LeaseGrantRequest, LeaseGrantResponse, RangeRequest, RangeResponse,
    StatusRequest, StatusResponse, TxnRequest, TxnResponse, Watch, WatchCreateRequest, WatchRequest,
};
#[cfg(feature = "testing")]
use super::simulated::{SimulatedEtcd, SimulatedMember};
pub(crate) use super::transport::CallError;
use super::transport::{Connection, Transport, WatchResponses};
use crate::error::OpenError;

/// Delay before a call is retried.
const AGAIN: Duration = Duration::from_millis(25);
/// Least time that a retried call gets. A shorter one could end a write with an unknown outcome.
const SHORTEST_RETRY: Duration = Duration::from_millis(200);
/// Timeout of a read call at one member.
const ONE_READ: Duration = Duration::from_secs(10);
struct Member {
    name: String,
    transport: Transport,
}

/// A stream of events, and the sender of further requests to it.
pub(crate) struct WatchStream {
    pub(crate) requests: mpsc::Sender<WatchRequest>,
    pub(crate) responses: WatchResponses,
}

/// The members of an etcd, and the one in use.
pub(crate) struct Client {
    members: Vec<Member>,
    calls: AtomicUsize,
    /// TLS settings for direct connections, if the member uses TLS.
    tls: Option<Arc<ClientConfig>>,
    observer: Box<dyn Observer>,
}

impl Client {
    /// Creates a client that connects at the first call.
    ///
    /// # Errors
    /// If an address or a certificate cannot be read.
    pub(crate) fn new(connection: &Connection, observer: Box<dyn Observer>) -> Result<Self, OpenError> {
        let mut secure = false;
        let members = connection
            .servers
            .iter()
            .map(|server| {
                let refused = |detail| OpenError::Etcd {
                    detail: format!("{server}: {detail}"),
                };
                let address = Address::parse(server).map_err(refused)?;
                secure |= address.secure;
                Ok(Member {
                    name: server.clone(),
                    transport: Transport::connect_lazy(address, connection).map_err(refused)?,
                })
            })
            .collect::<Result<Vec<_>, OpenError>>()?;
        if members.is_empty() {
            let detail = "no server is named".to_owned();
            return Err(OpenError::Etcd { detail });
        }
        let tls = match secure {
            true => Some(line::tls(connection).map_err(|detail| OpenError::Etcd { detail })?),
            false => None,
        };
        Ok(Self {
            members,
            tls: tls.map(Arc::new),
            calls: AtomicUsize::new(0),
            observer,
        })
    }

    /// Creates a client of the members of a simulated etcd.
    #[cfg(feature = "testing")]
    pub(crate) fn simulated(etcd: &Arc<SimulatedEtcd>, observer: Box<dyn Observer>) -> Self {
        let members = (0..etcd.members()).map(|number| Member {
            name: format!("member {number}"),
            transport: Transport::Simulated(SimulatedMember::new(etcd, number)),
        });
        Self {
            members: members.collect(),
            calls: AtomicUsize::new(0),
            tls: None,
            observer,
        }
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
        let call = self.member(member).transport.call(path, StatusRequest {});
        tokio::time::timeout(patience, call)
            .await
            .unwrap_or_else(|_| Err(CallError::overdue()))
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
        let calls = self.calls.load(Ordering::Relaxed);
        let call = self.member(calls).transport.watch(received);
        let answer = match tokio::time::timeout(ONE_READ, call).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::overdue()),
        };
        match answer {
            Ok(responses) => Ok(WatchStream { requests, responses }),
            Err(error) => {
                self.leave(calls);
                Err(error)
            }
        }
    }

    /// Opens a separate connection to the member in use.
    pub(crate) async fn line(&self) -> std::io::Result<Line> {
        let member = self.member(self.calls.load(Ordering::Relaxed));
        member.transport.line(self.tls.as_ref()).await
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
            let call = member.transport.call(path.clone(), request.clone());
            let error = match timeout_at(until, call).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => CallError::overdue(),
            };
            if !error.may_pass() {
                return Err(error);
            }
            self.leave(calls);
            if !(repeatable || error.unsent) {
                return Err(error);
            }
            if Instant::now() + AGAIN + SHORTEST_RETRY >= end {
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
}
