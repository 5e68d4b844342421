//! An etcd in memory, for simulations: revisions, transactions, leases, watches and compaction of one cluster, behind a
//! link that delays, cuts and loses messages.
//!
//! The engine runs unchanged above it: messages are encoded, calls are repeated at other members, watches are created
//! again. Its transport is the only part that is replaced. A [`Link`] chooses what happens to each message.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::{Notify, mpsc};
use tonic::Code;

use super::proto::{
    CompactionRequest, CompactionResponse, Compare, Compared, DeleteRangeResponse, Event, Header, KeyValue,
    LeaseGrantRequest, LeaseGrantResponse, PutResponse, RangeRequest, RangeResponse, Request, RequestOp, Response,
    ResponseOp, StatusResponse, TxnRequest, TxnResponse, Watch, WatchCreateRequest, WatchRequest, WatchResponse,
};
use super::transport::CallError;
use crate::key::Revision;

/// Interval at which an idle watch reports its progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum number of responses of a watch that wait for the client.
const MAX_RESPONSES: usize = 16;

/// Choices of what happens between the engine and the members.
pub trait Link: Send + Sync + 'static {
    /// Returns the time since the start of the simulation, by which leases expire.
    fn now(&self) -> Duration;

    /// Chooses what happens to a call.
    fn choose_fate(&self, member: usize, call: &str) -> Fate;

    /// Chooses what happens to the next message of an open watch.
    fn choose_watch_step(&self, member: usize) -> WatchStep;

    /// Chooses a number below `end`, such as the number of events of a message.
    fn below(&self, end: u64) -> u64;

    /// Returns true if the etcd has this bug.
    fn has_bug(&self, bug: EtcdBug) -> bool;
}

/// Fate of a call.
#[derive(Clone, Copy, Debug)]
pub struct Fate {
    /// Time until the request arrives at the member.
    pub request_delay: Duration,
    /// Time until the answer arrives at the client.
    pub answer_delay: Duration,
    /// End of the call.
    pub ending: Ending,
}

/// End of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client gets the answer.
    Answered,
    /// The client cannot connect.
    NotConnected,
    /// The connection breaks before the request arrives.
    RequestLost,
    /// The connection breaks after the member executed the request.
    AnswerLost,
    /// The member executes the request, and the client waits for an answer in vain.
    Silent,
    /// The member has no leader and rejects the request.
    NoLeader,
}

/// Fate of the next message of an open watch.
#[derive(Clone, Copy, Debug)]
pub enum WatchStep {
    /// The message arrives after a delay.
    Deliver(Duration),
    /// The connection breaks after a delay; the message is lost.
    Break(Duration),
}

/// A bug of the simulated etcd, which proves that the simulation would notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdBug {
    /// A transaction whose answer is lost is executed a second time, as by a client that repeats it.
    RepeatsTransactions,
    /// A watch that is created again misses the next revision.
    SkipsAfterBreak,
    /// Reads that must be confirmed by a quorum show an old revision.
    ReadsStale,
    /// A watch of compacted revisions continues after them instead of ending.
    HidesCompaction,
    /// A watch reports progress before it has delivered the events.
    ReportsEarly,
    /// Keys outlive their leases.
    KeepsExpired,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// Key.
    pub key: Bytes,
    /// Value.
    pub value: Bytes,
    /// Revision of its creation.
    pub create_revision: Revision,
    /// Revision of its last change.
    pub mod_revision: Revision,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChange {
    /// Revision.
    pub revision: Revision,
    /// Key.
    pub key: Bytes,
    /// Value; `None` for a delete.
    pub value: Option<Bytes>,
}

/// A simulated etcd, which outlives the simulated servers.
pub struct SimulatedEtcd {
    link: Arc<dyn Link>,
    members: usize,
    version: String,
    data: Mutex<Data>,
    /// Notified when there is a new revision or a compaction.
    changed: Notify,
    /// Number of watches that ended because their revisions had been compacted.
    compacted_watches: AtomicU64,
}

type Contents = BTreeMap<Bytes, KeyValue>;

/// The data of the cluster.
struct Data {
    /// Contents at each revision from 1 on.
    contents: Vec<Arc<Contents>>,
    /// Events in the order of revisions.
    events: Vec<Event>,
    compacted: i64,
    leases: BTreeMap<i64, Lease>,
    last_lease: i64,
}

struct Lease {
    /// Time at which it expires.
    end: Duration,
}

impl Data {
    fn revision(&self) -> i64 {
        i64::try_from(self.contents.len()).unwrap_or(i64::MAX)
    }

    fn header(&self) -> Option<Header> {
        Some(Header {
            member_id: 1,
            revision: self.revision(),
        })
    }

    /// Returns the contents at a revision; those of the last one for a later revision.
    fn contents_at(&self, revision: i64) -> Arc<Contents> {
        let last = self.contents.len() - 1;
        let place = usize::try_from(revision - 1).unwrap_or_default();
        self.contents.get(place.min(last)).cloned().unwrap_or_default()
    }

    /// Returns the events from one revision to another, both inclusive.
    fn events_between(&self, first: i64, last: i64) -> &[Event] {
        let from = self.events.partition_point(|event| revision_of(event) < first);
        let to = self.events.partition_point(|event| revision_of(event) <= last);
        self.events.get(from..to).unwrap_or_default()
    }

    fn range(&self, request: &RangeRequest) -> Result<RangeResponse, CallError> {
        let current = self.revision();
        let revision = match request.revision {
            0 => current,
            future if future > current => {
                return Err(rejected("etcdserver: mvcc: required revision is a future revision"));
            }
            old if old < self.compacted => return Err(compacted()),
            revision => revision,
        };
        let contents = self.contents_at(revision);
        let found = contents.values().filter(|kv| is_in(&kv.key, request));
        let count = found.clone().count();
        let limit = match usize::try_from(request.limit).unwrap_or_default() {
            0 => usize::MAX,
            limit => limit,
        };
        let kvs = match request.count_only {
            true => Vec::new(),
            false => found.take(limit).cloned().collect(),
        };
        Ok(RangeResponse {
            header: self.header(),
            kvs,
            more: count > limit,
            count: i64::try_from(count).unwrap_or(i64::MAX),
        })
    }

    fn holds(&self, compare: &Compare) -> bool {
        let contents = self.contents_at(i64::MAX);
        let found = contents.get(&compare.key);
        match compare.compared {
            Some(Compared::Version(version)) => found.map_or(0, |kv| kv.version) == version,
            Some(Compared::ModRevision(revision)) => found.map_or(0, |kv| kv.mod_revision) == revision,
            None => true,
        }
    }

    fn transact(&mut self, request: &TxnRequest) -> Result<TxnResponse, CallError> {
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        let operations = if succeeded { &request.success } else { &request.failure };
        let responses = self.execute(operations)?;
        Ok(TxnResponse {
            header: self.header(),
            succeeded,
            responses,
        })
    }

    /// Executes the operations of a transaction at one revision.
    fn execute(&mut self, operations: &[RequestOp]) -> Result<Vec<ResponseOp>, CallError> {
        let revision = self.revision() + 1;
        let mut contents = Contents::clone(&self.contents_at(i64::MAX));
        let (mut events, mut responses) = (Vec::new(), Vec::new());
        for operation in operations {
            let response = match &operation.request {
                Some(Request::Range(range)) => Some(Response::Range(self.range(range)?)),
                Some(Request::Put(put)) => {
                    if put.lease != 0 && !self.leases.contains_key(&put.lease) {
                        return Err(rejected("etcdserver: requested lease not found"));
                    }
                    let before = contents.get(&put.key);
                    let kv = KeyValue {
                        key: put.key.clone(),
                        create_revision: before.map_or(revision, |kv| kv.create_revision),
                        mod_revision: revision,
                        version: before.map_or(0, |kv| kv.version) + 1,
                        value: put.value.clone(),
                        lease: put.lease,
                    };
                    contents.insert(put.key.clone(), kv.clone());
                    events.push(Event { kind: 0, kv: Some(kv) });
                    Some(Response::Put(PutResponse {}))
                }
                Some(Request::Delete(delete)) => {
                    let removed = contents.remove(&delete.key);
                    events.extend(removed.iter().map(|_| delete_event(&delete.key, revision)));
                    let deleted = i64::from(removed.is_some());
                    Some(Response::Delete(DeleteRangeResponse { deleted }))
                }
                None => None,
            };
            responses.push(ResponseOp { response });
        }
        self.append(contents, events);
        Ok(responses)
    }

    /// Adds a revision if there are events.
    fn append(&mut self, contents: Contents, events: Vec<Event>) {
        if !events.is_empty() {
            self.contents.push(Arc::new(contents));
            self.events.extend(events);
        }
    }

    /// Deletes the keys of the leases that have ended. Returns true if there are any.
    fn expire(&mut self, now: Duration) -> bool {
        let before = self.revision();
        while let Some(id) = self
            .leases
            .iter()
            .find(|(_, lease)| lease.end <= now)
            .map(|(id, _)| *id)
        {
            self.leases.remove(&id);
            let revision = self.revision() + 1;
            let mut contents = Contents::clone(&self.contents_at(i64::MAX));
            let expired: Vec<Bytes> = contents
                .values()
                .filter(|kv| kv.lease == id)
                .map(|kv| kv.key.clone())
                .collect();
            expired.iter().for_each(|key| drop(contents.remove(key)));
            let events = expired.iter().map(|key| delete_event(key, revision)).collect();
            self.append(contents, events);
        }
        self.revision() > before
    }

    fn compact(&mut self, revision: i64) -> Result<CompactionResponse, CallError> {
        if revision <= self.compacted {
            return Err(compacted());
        }
        if revision > self.revision() {
            return Err(rejected("etcdserver: mvcc: required revision is a future revision"));
        }
        self.compacted = revision;
        Ok(CompactionResponse {})
    }
}

impl SimulatedEtcd {
    /// Creates an empty etcd of this number of members, which report `version`.
    pub fn new(link: Arc<dyn Link>, members: usize, version: &str) -> Arc<Self> {
        Arc::new(Self {
            link,
            members: members.max(1),
            version: version.to_owned(),
            data: Mutex::new(Data {
                contents: vec![Arc::default()],
                events: Vec::new(),
                compacted: 0,
                leases: BTreeMap::new(),
                last_lease: 0,
            }),
            changed: Notify::new(),
            compacted_watches: AtomicU64::new(0),
        })
    }

    /// Returns the number of members.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Returns the current revision.
    pub fn revision(&self) -> Revision {
        self.data.lock().revision().unsigned_abs()
    }

    /// Returns the number of watches that ended because their revisions had been compacted.
    pub fn compacted_watches(&self) -> u64 {
        self.compacted_watches.load(Ordering::Relaxed)
    }

    /// Returns the keys at a revision, in order.
    pub fn keys_at(&self, revision: Revision) -> Vec<StoredKey> {
        let contents = self
            .data
            .lock()
            .contents_at(i64::try_from(revision).unwrap_or(i64::MAX));
        let keys = contents.values().map(|kv| StoredKey {
            key: kv.key.clone(),
            value: kv.value.clone(),
            create_revision: kv.create_revision.unsigned_abs(),
            mod_revision: kv.mod_revision.unsigned_abs(),
        });
        keys.collect()
    }

    /// Returns the changes after one revision up to another, in their order.
    pub fn changes_between(&self, after: Revision, last: Revision) -> Vec<StoredChange> {
        let number = |revision| i64::try_from(revision).unwrap_or(i64::MAX);
        let data = self.data.lock();
        let events = data.events_between(number(after).saturating_add(1), number(last));
        let changes = events.iter().map(|event| StoredChange {
            revision: revision_of(event).unsigned_abs(),
            key: event.kv.as_ref().map(|kv| kv.key.clone()).unwrap_or_default(),
            value: event.kv.as_ref().filter(|_| event.kind == 0).map(|kv| kv.value.clone()),
        });
        changes.collect()
    }

    /// Compacts the history, as another client of etcd may do at any time.
    pub fn compact(&self, revision: Revision) {
        // A revision that is compacted already needs nothing.
        let _ = self.data.lock().compact(i64::try_from(revision).unwrap_or(i64::MAX));
        self.changed.notify_waiters();
    }

    /// Deletes the keys of leases that have ended.
    fn expire(&self) {
        if !self.link.has_bug(EtcdBug::KeepsExpired) && self.data.lock().expire(self.link.now()) {
            self.changed.notify_waiters();
        }
    }

    fn execute(self: &Arc<Self>, call: &str, request: &[u8]) -> Result<Vec<u8>, CallError> {
        self.expire();
        match call {
            "/etcdserverpb.KV/Range" => {
                let request: RangeRequest = decode(request)?;
                let mut answer = self.data.lock().range(&request)?;
                if request.count_only
                    && self.link.has_bug(EtcdBug::ReadsStale)
                    && let Some(header) = &mut answer.header
                {
                    header.revision = (header.revision - 1).max(1);
                }
                Ok(answer.encode_to_vec())
            }
            "/etcdserverpb.KV/Txn" => {
                let answer = self.data.lock().transact(&decode(request)?)?;
                self.changed.notify_waiters();
                Ok(answer.encode_to_vec())
            }
            "/etcdserverpb.KV/Compact" => {
                let request: CompactionRequest = decode(request)?;
                let answer = self.data.lock().compact(request.revision)?;
                self.changed.notify_waiters();
                Ok(answer.encode_to_vec())
            }
            "/etcdserverpb.Lease/LeaseGrant" => Ok(self.grant(&decode(request)?).encode_to_vec()),
            "/etcdserverpb.Maintenance/Status" => {
                let status = StatusResponse {
                    version: self.version.clone(),
                    db_size: i64::try_from(self.data.lock().events.len()).unwrap_or(i64::MAX),
                };
                Ok(status.encode_to_vec())
            }
            _ => Err(error(Code::Unimplemented, "unknown call")),
        }
    }

    fn grant(self: &Arc<Self>, request: &LeaseGrantRequest) -> LeaseGrantResponse {
        let life = Duration::from_secs(request.ttl.unsigned_abs());
        let mut data = self.data.lock();
        data.last_lease += 1;
        let id = data.last_lease;
        let end = self.link.now() + life;
        data.leases.insert(id, Lease { end });
        drop(data);
        let etcd = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(life).await;
            etcd.expire();
        });
        LeaseGrantResponse { id, ttl: request.ttl }
    }
}

/// A member of a simulated etcd.
#[derive(Clone)]
pub(super) struct SimulatedMember {
    etcd: Arc<SimulatedEtcd>,
    number: usize,
}

impl SimulatedMember {
    pub(super) fn new(etcd: &Arc<SimulatedEtcd>, number: usize) -> Self {
        Self {
            etcd: Arc::clone(etcd),
            number,
        }
    }

    /// Makes one call.
    pub(super) async fn call<A: Message + Default>(&self, call: &str, request: &impl Message) -> Result<A, CallError> {
        let answer = self.exchange(call, &request.encode_to_vec()).await?;
        decode(&answer)
    }

    /// Asks for the revision as on a separate connection; `question` is an encoded range request with its frame.
    pub(super) async fn ask(&self, question: &Bytes) -> std::io::Result<Revision> {
        let request = question.get(5..).unwrap_or_default();
        let answer = self.exchange("/etcdserverpb.KV/Range", request).await;
        let bytes = answer.map_err(|error| std::io::Error::other(error.message))?;
        let answer = RangeResponse::decode(&bytes[..]).map_err(std::io::Error::other)?;
        Ok(answer.header.map_or(0, |header| header.revision.unsigned_abs()))
    }

    async fn exchange(&self, call: &str, request: &[u8]) -> Result<Vec<u8>, CallError> {
        let (etcd, link) = (&self.etcd, &self.etcd.link);
        let fate = link.choose_fate(self.number, call);
        tokio::time::sleep(fate.request_delay).await;
        match fate.ending {
            Ending::NotConnected => return Err(not_connected()),
            Ending::RequestLost => return Err(broken()),
            Ending::NoLeader => return Err(error(Code::Unavailable, "etcdserver: no leader")),
            Ending::Answered | Ending::AnswerLost | Ending::Silent => {}
        }
        let answer = etcd.execute(call, request);
        tokio::time::sleep(fate.answer_delay).await;
        match fate.ending {
            Ending::Silent => std::future::pending().await,
            Ending::AnswerLost if link.has_bug(EtcdBug::RepeatsTransactions) => etcd.execute(call, request),
            Ending::AnswerLost => Err(broken()),
            _ => answer,
        }
    }

    /// Opens a stream for one watch.
    pub(super) async fn watch(
        &self,
        mut requests: mpsc::Receiver<WatchRequest>,
    ) -> Result<mpsc::Receiver<Result<WatchResponse, CallError>>, CallError> {
        let fate = self.etcd.link.choose_fate(self.number, "watch");
        tokio::time::sleep(fate.request_delay).await;
        match fate.ending {
            Ending::Answered => {}
            Ending::NotConnected => return Err(not_connected()),
            Ending::Silent => std::future::pending().await,
            _ => return Err(broken()),
        }
        let (responses, received) = mpsc::channel(MAX_RESPONSES);
        let member = self.clone();
        tokio::spawn(async move {
            let Some(Watch::Create(create)) = requests.recv().await.and_then(|request| request.request) else {
                return;
            };
            let watch = OpenWatch::new(member, create, responses);
            watch.run(requests).await;
        });
        Ok(received)
    }
}

/// A watch of a member.
struct OpenWatch {
    member: SimulatedMember,
    create: WatchCreateRequest,
    /// Next revision to deliver.
    next: i64,
    responses: mpsc::Sender<Result<WatchResponse, CallError>>,
}

/// The watch has ended.
struct Ended;

impl OpenWatch {
    fn new(
        member: SimulatedMember,
        create: WatchCreateRequest,
        responses: mpsc::Sender<Result<WatchResponse, CallError>>,
    ) -> Self {
        let skipped = i64::from(member.etcd.link.has_bug(EtcdBug::SkipsAfterBreak));
        Self {
            next: create.start_revision + skipped,
            member,
            create,
            responses,
        }
    }

    /// Delivers events until the stream ends.
    async fn run(mut self, mut requests: mpsc::Receiver<WatchRequest>) {
        let created = WatchResponse {
            created: true,
            ..self.empty()
        };
        if self.send(created).await.is_err() {
            return;
        }
        let etcd = Arc::clone(&self.member.etcd);
        loop {
            let changed = etcd.changed.notified();
            if self.deliver().await.is_err() {
                return;
            }
            let is_behind = self.next <= etcd.data.lock().revision();
            let is_progress_due = tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(_) => true,
                    None => return,
                },
                () = std::future::ready(()), if is_behind => false,
                () = changed => false,
                () = tokio::time::sleep(PROGRESS_INTERVAL) => true,
            };
            if is_progress_due && self.report_progress().await.is_err() {
                return;
            }
        }
    }

    /// Delivers some of the events that are due.
    async fn deliver(&mut self) -> Result<(), Ended> {
        let etcd = Arc::clone(&self.member.etcd);
        let compacted = etcd.data.lock().compacted;
        if self.next < compacted {
            if etcd.link.has_bug(EtcdBug::HidesCompaction) {
                self.next = compacted;
            } else {
                etcd.compacted_watches.fetch_add(1, Ordering::Relaxed);
                let end = WatchResponse {
                    canceled: true,
                    compact_revision: compacted,
                    ..self.empty()
                };
                self.send(end).await?;
                return Err(Ended);
            }
        }
        let current = etcd.data.lock().revision();
        let due = u64::try_from(current + 1 - self.next).unwrap_or_default();
        if due == 0 {
            return Ok(());
        }
        let last = self.next + i64::try_from(etcd.link.below(due)).unwrap_or_default();
        let events: Vec<Event> = {
            let data = etcd.data.lock();
            let all = data.events_between(self.next, last).iter();
            all.filter(|event| self.is_watched(event)).cloned().collect()
        };
        self.next = last + 1;
        if events.is_empty() {
            return Ok(());
        }
        let is_split = self.create.fragment && events.len() > 1 && etcd.link.below(3) == 0;
        let cut = if is_split {
            etcd.link.below(events.len() as u64) as usize
        } else {
            0
        };
        let (head, tail) = events.split_at(cut);
        if !head.is_empty() {
            let fragment = WatchResponse {
                fragment: true,
                events: head.to_vec(),
                ..self.empty()
            };
            self.send(fragment).await?;
        }
        let rest = WatchResponse {
            events: tail.to_vec(),
            ..self.empty()
        };
        self.send(rest).await
    }

    /// Reports the revision up to which all events were delivered. A watch that is behind reports nothing.
    async fn report_progress(&mut self) -> Result<(), Ended> {
        let etcd = &self.member.etcd;
        let is_behind = self.next <= etcd.data.lock().revision();
        if is_behind && !etcd.link.has_bug(EtcdBug::ReportsEarly) {
            return Ok(());
        }
        self.send(self.empty()).await
    }

    fn empty(&self) -> WatchResponse {
        WatchResponse {
            header: self.member.etcd.data.lock().header(),
            ..WatchResponse::default()
        }
    }

    fn is_watched(&self, event: &Event) -> bool {
        let (start, end) = (&self.create.key[..], &self.create.range_end[..]);
        event
            .kv
            .as_ref()
            .is_some_and(|kv| &kv.key[..] >= start && &kv.key[..] < end)
    }

    async fn send(&self, response: WatchResponse) -> Result<(), Ended> {
        match self.member.etcd.link.choose_watch_step(self.member.number) {
            WatchStep::Deliver(delay) => {
                tokio::time::sleep(delay).await;
                self.responses.send(Ok(response)).await.map_err(|_| Ended)
            }
            WatchStep::Break(delay) => {
                tokio::time::sleep(delay).await;
                // The client may be gone, too.
                let _ = self.responses.send(Err(broken())).await;
                Err(Ended)
            }
        }
    }
}

fn revision_of(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

fn delete_event(key: &Bytes, revision: i64) -> Event {
    Event {
        kind: 1,
        kv: Some(KeyValue {
            key: key.clone(),
            mod_revision: revision,
            ..KeyValue::default()
        }),
    }
}

/// Returns true if a request reads this key.
fn is_in(key: &Bytes, request: &RangeRequest) -> bool {
    match &request.range_end[..] {
        [] => *key == request.key,
        [0] => *key >= request.key,
        end => *key >= request.key && &key[..] < end,
    }
}

fn decode<A: Message + Default>(bytes: &[u8]) -> Result<A, CallError> {
    A::decode(bytes).map_err(|error| self::error(Code::Internal, &error.to_string()))
}

fn error(code: Code, message: &str) -> CallError {
    CallError {
        code,
        message: message.to_owned(),
        unsent: false,
    }
}

fn rejected(message: &str) -> CallError {
    error(Code::OutOfRange, message)
}

fn compacted() -> CallError {
    rejected("etcdserver: mvcc: required revision has been compacted")
}

fn broken() -> CallError {
    error(
        Code::Unavailable,
        "rpc error: code = Unavailable desc = the connection broke",
    )
}

fn not_connected() -> CallError {
    CallError {
        unsent: true,
        ..error(
            Code::Unavailable,
            "rpc error: code = Unavailable desc = connection refused",
        )
    }
}
