//! Levels and schemas in the view of requests.

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

/// State shared by all levels.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    /// Wakes the task that releases lingering seats and removes levels that are no longer configured.
    pub(crate) work: Notify,
    pub(crate) kinds: Kinds,
}

/// Numbers of waiting and executing requests, for read-only and mutating ones.
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

/// Priority level.
pub(crate) struct Level<D> {
    pub(crate) name: SmolStr,
    pub(crate) queues: Mutex<QueueSet<D>>,
    /// True if it is to be removed when it is idle.
    pub(crate) quiescing: AtomicBool,
    /// Maximum number of seats for a request; 0 if there is none.
    pub(crate) max_seats: AtomicU64,
    pub(crate) dropped: Mutex<Dropped>,
    pub(crate) shared: Arc<Shared>,
}

impl<D> Level<D> {
    /// Ends a request and returns its outcome.
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

/// Flow schema in force, with its level.
pub struct Schema<D> {
    pub(crate) name: SmolStr,
    pub(crate) uid: Bytes,
    pub(crate) level_uid: Bytes,
    pub(crate) level: Arc<Level<D>>,
    pub(crate) distinguisher: Distinguisher,
    /// Hash state of the flows' common prefix; `None` if flows are not distinguished.
    pub(crate) hash: Option<Sha256>,
    pub(crate) flow: Arc<Flow>,
}

/// Arriving request.
#[derive(Clone, Debug)]
pub struct Arrival<'a, D> {
    /// Name of the user.
    pub user: &'a SmolStr,
    /// Namespace of the request.
    pub namespace: &'a SmolStr,
    /// Estimated work.
    pub estimate: WorkEstimate,
    /// Number of watchers of the changed objects, for a mutating request.
    pub watchers: Option<usize>,
    /// True if it counts as a mutating request.
    pub mutates: bool,
    /// True if it is a watch, which only executes while it is initialized.
    pub watch: bool,
    /// Details for dumps.
    pub details: D,
}

/// Start of a request.
#[must_use]
pub enum Start<D> {
    /// It executes.
    Executes(Execution<D>),
    /// It waits in a queue.
    Waits(Waiting<D>),
    /// It is rejected.
    Rejected(Reason),
}

/// State of a request while it waits and executes.
struct Ticket<D> {
    schema: Arc<Schema<D>>,
    key: Key,
    mutates: bool,
    watch: bool,
}

impl<D> Schema<D> {
    /// Returns its name.
    pub fn name(&self) -> &SmolStr {
        &self.name
    }

    /// Returns the uid of its object; empty if there is none.
    pub fn uid(&self) -> &Bytes {
        &self.uid
    }

    /// Returns the uid of its level's object; empty if there is none.
    pub fn level_uid(&self) -> &Bytes {
        &self.level_uid
    }

    /// Returns the name of its level.
    pub fn level(&self) -> &SmolStr {
        &self.level.name
    }

    /// Returns the maximum number of seats for a request; 0 if there is none.
    pub fn max_seats(&self) -> u64 {
        self.level.max_seats.load(Ordering::Relaxed)
    }

    /// Returns the number of seconds after which a client that is rejected now should retry.
    pub fn drop_request(&self, time: Duration) -> u64 {
        self.level.dropped.lock().count(time.as_secs())
    }

    /// Executes, enqueues or rejects a request.
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

    /// Returns the hash of a flow, which selects its queues.
    fn hash_of(&self, distinguisher: &str) -> u64 {
        let Some(begun) = &self.hash else { return 0 };
        let mut hash = begun.clone();
        hash.update(distinguisher.as_bytes());
        let sum = hash.finalize();
        let first = sum.iter().take(8).rev();
        first.fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// Returns the hash state of the common prefix of a schema's flows.
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

/// Request in a queue. If it is dropped, it leaves the queue and counts as timed out.
#[must_use]
pub struct Waiting<D> {
    ticket: Option<Ticket<D>>,
    turn: oneshot::Receiver<()>,
}

impl<D> Waiting<D> {
    /// Waits until the request executes.
    pub async fn turn(mut self) -> Execution<D> {
        // The level keeps the sender until the request executes or is gone.
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
        // It may execute by now; then the execution ends.
        if let Some(Finished::Cancelled { waited }) = ticket.level().finish(ticket.key) {
            let mut statistics = ticket.schema.flow.statistics.lock();
            let [rejected, _] = &mut statistics.waits;
            rejected.observe(waited as f64 / 1e9);
        }
    }
}

/// Executing request. Its seats are released when this is dropped.
#[must_use]
pub struct Execution<D>(Option<Ticket<D>>);

impl<D> Execution<D> {
    /// Releases the seats temporarily.
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

/// Request that has released its seats temporarily.
pub struct Paused<D> {
    request: Request<D>,
    ticket: Ticket<D>,
}

impl<D> Paused<D> {
    /// Occupies seats again, or enqueues.
    pub fn resume(self) -> Start<D> {
        let Self { request, ticket } = self;
        ticket.schema.begin(request, ticket.mutates, ticket.watch)
    }
}
