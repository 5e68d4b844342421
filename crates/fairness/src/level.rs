//! A level and a schema as requests meet them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use holdfast_value::SmolStr;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, oneshot};

use crate::configuration::Distinguisher;
use crate::dropped::Dropped;
use crate::queues::{Admission, Finished, Flow, Key, QueueSet, Reason, Request};
use crate::statistics::{Histogram, Phase, RatioHistogram};
use crate::time::{Clock, Moment};
use crate::work::WorkEstimate;

/// What levels share.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    /// Wakes the task that releases seats that linger and drops levels that are no longer configured.
    pub(crate) work: Notify,
    pub(crate) kinds: Kinds,
}

/// How many requests wait and are served that read, and that change something.
pub(crate) struct Kinds([Mutex<Kind>; 4]);

struct Kind {
    now: u64,
    shares: RatioHistogram,
}

const KINDS: [(Phase, bool); 4] = [
    (Phase::Waiting, false),
    (Phase::Waiting, true),
    (Phase::Executing, false),
    (Phase::Executing, true),
];

impl Kinds {
    pub(crate) fn new(now: Moment) -> Self {
        Self(KINDS.map(|_| {
            Mutex::new(Kind {
                now: 0,
                shares: RatioHistogram::by_kind(now),
            })
        }))
    }

    fn add(&self, phase: Phase, mutates: bool, change: i64, now: Moment) {
        let found = KINDS.iter().zip(&self.0).find(|(kind, _)| **kind == (phase, mutates));
        if let Some((_, kind)) = found {
            let mut kind = kind.lock();
            kind.now = kind.now.saturating_add_signed(change);
            let count = kind.now as f64;
            kind.shares.set(count, now);
        }
    }

    pub(crate) fn set_limits(&self, waiting: u64, executing: u64, now: Moment) {
        for ((phase, _), kind) in KINDS.iter().zip(&self.0) {
            let limit = if *phase == Phase::Waiting { waiting } else { executing };
            kind.lock().shares.set_limit(limit.max(1) as f64, now);
        }
    }

    pub(crate) fn read(&self, now: Moment) -> impl Iterator<Item = (Phase, bool, u64, Histogram)> {
        KINDS.iter().zip(&self.0).map(move |((phase, mutates), kind)| {
            let mut kind = kind.lock();
            (*phase, *mutates, kind.now, kind.shares.read(now))
        })
    }
}

/// A level.
pub(crate) struct Level<D> {
    pub(crate) name: SmolStr,
    pub(crate) queues: Mutex<QueueSet<D>>,
    /// Whether it is to go when it is idle.
    pub(crate) quiescing: AtomicBool,
    /// The most seats of a request; 0 where nothing is said.
    pub(crate) max_seats: AtomicU64,
    pub(crate) dropped: Mutex<Dropped>,
    pub(crate) shared: Arc<Shared>,
}

impl<D> Level<D> {
    /// Ends a request, and says how it went.
    fn finish(&self, key: Key) -> Option<Finished<D>> {
        let now = self.shared.clock.now();
        let (finished, idle, releases) = {
            let mut queues = self.queues.lock();
            let finished = queues.finish(key, now);
            (finished, queues.is_idle(), queues.next_release().is_some())
        };
        if releases || idle && self.quiescing.load(Ordering::Acquire) {
            self.shared.work.notify_one();
        }
        finished
    }
}

/// A flow schema that is in force, and the level that it leads to.
pub struct Schema<D> {
    pub(crate) name: SmolStr,
    pub(crate) uid: Bytes,
    pub(crate) level_uid: Bytes,
    pub(crate) level: Arc<Level<D>>,
    pub(crate) distinguisher: Distinguisher,
    /// The beginning of the hashes of flows; `None` where flows are not distinguished.
    pub(crate) hash: Option<Sha256>,
    pub(crate) flow: Arc<Flow>,
}

/// A request that comes.
#[derive(Clone, Debug)]
pub struct Arrival<'a, D> {
    /// The name of the user.
    pub user: &'a SmolStr,
    /// The namespace that it is about.
    pub namespace: &'a SmolStr,
    /// What it is estimated to take.
    pub estimate: WorkEstimate,
    /// How many watch what it changes, if it changes something.
    pub watchers: Option<usize>,
    /// Whether it counts among those that change something.
    pub mutates: bool,
    /// Whether it is a watch, which is served while it begins.
    pub watch: bool,
    /// What dumps show of it.
    pub details: D,
}

/// How a request starts.
#[must_use]
pub enum Start<D> {
    /// It is served.
    Executes(Execution<D>),
    /// It waits for its turn.
    Waits(Waiting<D>),
    /// It is rejected.
    Rejected(Reason),
}

/// What is known of a request while it waits and while it is served.
struct Ticket<D> {
    schema: Arc<Schema<D>>,
    key: Key,
    mutates: bool,
    watch: bool,
}

impl<D> Schema<D> {
    /// Its name.
    pub fn name(&self) -> &SmolStr {
        &self.name
    }

    /// The uid of its object; empty where there is none.
    pub fn uid(&self) -> &Bytes {
        &self.uid
    }

    /// The uid of the object of its level; empty where there is none.
    pub fn level_uid(&self) -> &Bytes {
        &self.level_uid
    }

    /// The name of its level.
    pub fn level(&self) -> &SmolStr {
        &self.level.name
    }

    /// The most seats of a request; 0 where nothing is said.
    pub fn max_seats(&self) -> u64 {
        self.level.max_seats.load(Ordering::Relaxed)
    }

    /// How many seconds a client that is refused now is to wait.
    pub fn drop_request(&self, time: Duration) -> u64 {
        self.level.dropped.lock().count(time.as_secs())
    }

    /// Takes seats, enqueues or rejects a request.
    pub fn start(self: &Arc<Self>, arrival: Arrival<'_, D>) -> Start<D> {
        {
            let mut statistics = self.flow.statistics.lock();
            statistics.seats.observe(arrival.estimate.max_seats() as f64);
            if let Some(watchers) = arrival.watchers {
                statistics.watchers.observe(watchers as f64);
            }
        }
        let distinguisher = match (&self.hash, self.distinguisher) {
            (None, _) | (_, Distinguisher::None) => SmolStr::default(),
            (_, Distinguisher::ByUser) => arrival.user.clone(),
            (_, Distinguisher::ByNamespace) => arrival.namespace.clone(),
        };
        let (mutates, watch) = (arrival.mutates, arrival.watch);
        let request = Request {
            flow: Arc::clone(&self.flow),
            hash: self.hash_of(&distinguisher),
            distinguisher,
            estimate: arrival.estimate,
            details: arrival.details,
        };
        self.begin(request, mutates, watch)
    }

    fn begin(self: &Arc<Self>, request: Request<D>, mutates: bool, watch: bool) -> Start<D> {
        let ticket = |key| Ticket {
            schema: Arc::clone(self),
            key,
            mutates,
            watch,
        };
        let shared = &self.level.shared;
        let now = shared.clock.now();
        let (admission, releases) = {
            let mut queues = self.level.queues.lock();
            let admission = queues.start(request, now);
            (admission, queues.next_release().is_some())
        };
        match admission {
            Admission::Executes(key) => {
                shared.kinds.add(Phase::Executing, mutates, 1, now);
                Start::Executes(Execution(Some(ticket(key))))
            }
            Admission::Waits(key, turn) => {
                shared.kinds.add(Phase::Waiting, mutates, 1, now);
                if releases {
                    shared.work.notify_one();
                }
                let ticket = Some(ticket(key));
                Start::Waits(Waiting { ticket, turn })
            }
            Admission::Rejected(reason) => {
                if reason == Reason::QueueFull {
                    self.flow.statistics.lock().waits[0].observe(0.0);
                }
                Start::Rejected(reason)
            }
        }
    }

    /// The hash of a flow, which deals it its queues.
    fn hash_of(&self, distinguisher: &str) -> u64 {
        let Some(begun) = &self.hash else { return 0 };
        let mut hash = begun.clone();
        hash.update(distinguisher.as_bytes());
        let sum = hash.finalize();
        let first = sum.iter().take(8).rev();
        first.fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// The beginning of the hashes of the flows of a schema.
pub(crate) fn hash_of_schema(name: &str) -> Sha256 {
    Sha256::new().chain_update(name.as_bytes()).chain_update([0])
}

impl<D> Ticket<D> {
    fn level(&self) -> &Level<D> {
        &self.schema.level
    }

    fn count(&self, phase: Phase, change: i64) {
        let shared = &self.level().shared;
        shared.kinds.add(phase, self.mutates, change, shared.clock.now());
    }
}

/// A request in a queue. Where it is dropped, it leaves the queue and counts as timed out.
#[must_use]
pub struct Waiting<D> {
    ticket: Option<Ticket<D>>,
    turn: oneshot::Receiver<()>,
}

impl<D> Waiting<D> {
    /// Waits until the request is served.
    pub async fn turn(mut self) -> Execution<D> {
        // The level keeps the sender until the request is served or gone.
        let _ = (&mut self.turn).await;
        let ticket = self.ticket.take();
        if let Some(ticket) = &ticket {
            ticket.count(Phase::Waiting, -1);
            ticket.count(Phase::Executing, 1);
        }
        Execution(ticket)
    }
}

impl<D> Drop for Waiting<D> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        ticket.count(Phase::Waiting, -1);
        // It may be served by now, and then it is served no more.
        if let Some(Finished::Cancelled { waited }) = ticket.level().finish(ticket.key) {
            let mut statistics = ticket.schema.flow.statistics.lock();
            let [rejected, _] = &mut statistics.waits;
            rejected.observe(waited as f64 / 1e9);
        }
    }
}

/// A request that is served. Its seats come back when this is dropped.
#[must_use]
pub struct Execution<D>(Option<Ticket<D>>);

impl<D> Execution<D> {
    /// Releases the seats for a while.
    pub fn pause(mut self) -> Option<Paused<D>> {
        let ticket = self.0.take()?;
        let request = finish(&ticket)?;
        Some(Paused { request, ticket })
    }
}

impl<D> Drop for Execution<D> {
    fn drop(&mut self) {
        if let Some(ticket) = self.0.take() {
            drop(finish(&ticket));
        }
    }
}

fn finish<D>(ticket: &Ticket<D>) -> Option<Request<D>> {
    ticket.count(Phase::Executing, -1);
    let Some(Finished::Executed { served, request }) = ticket.level().finish(ticket.key) else {
        return None;
    };
    let mut statistics = request.flow.statistics.lock();
    let [regular, watches] = &mut statistics.executions;
    let executions = if ticket.watch { watches } else { regular };
    executions.observe(served as f64 / 1e9);
    drop(statistics);
    Some(request)
}

/// A request that has released its seats for a while.
pub struct Paused<D> {
    request: Request<D>,
    ticket: Ticket<D>,
}

impl<D> Paused<D> {
    /// Takes seats again, or a place in a queue.
    pub fn resume(self) -> Start<D> {
        let Self { request, ticket } = self;
        ticket.schema.begin(request, ticket.mutates, ticket.watch)
    }
}
