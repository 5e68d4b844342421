//! Fair queues of one level: virtual time, seats, dispatch (KEP 1040, "Fair Queuing for Server Requests").
//!
//! Virtual time is the progress `R`: the seat-seconds that each busy queue was entitled to so far. A queue's next
//! request begins at the queue's own mark on that scale, and the queue whose next request would end first is dispatched
//! next. A mark advances by the estimated work of a request when it is dispatched, and is corrected when the request
//! has ended.
//!
//! A queue exists only while it has requests or seats; an idle one would restart at `R` anyway. A level with a million
//! queues therefore costs only as much as its requests.

mod dispatch;
mod dump;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use holdfast_value::SmolStr;
use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use dump::{QueueDump, RequestDump};

use crate::configuration::{Limiting, Queuing};
use crate::integrator::Integrator;
use crate::statistics::{Dispatched, FlowStatistics, Utilization};
use crate::time::Moment;
use crate::work::{SeatSeconds, WorkEstimate};

/// Initial estimate of the execution time of a request.
const SERVICE_NANOS: u64 = 3_000_000;

/// Reason for the rejection of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are no free seats, and the level has no queues.
    ConcurrencyLimit,
    /// The best of its queues is full.
    QueueFull,
    /// It reached its maximum waiting time, or its client disconnected.
    TimeOut,
}

impl Reason {
    /// All reasons, in the order of [`FlowStatistics::rejected`].
    pub const ALL: [Self; 3] = [Self::ConcurrencyLimit, Self::QueueFull, Self::TimeOut];

    /// Returns the reason's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
        }
    }
}

/// Counters of the requests of one schema in one level.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) schema: SmolStr,
    pub(crate) statistics: Mutex<FlowStatistics>,
}

/// Arriving request.
#[derive(Debug)]
pub(crate) struct Request<D> {
    pub(crate) flow: Arc<Flow>,
    pub(crate) distinguisher: SmolStr,
    pub(crate) hash: u64,
    pub(crate) estimate: WorkEstimate,
    pub(crate) details: D,
}

/// Start of a request.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It executes.
    Executes(Key),
    /// It waits in a queue.
    Waits(Key, oneshot::Receiver<()>),
    Rejected(Reason),
}

/// Index of a request among those of its level.
pub(crate) type Key = usize;

/// Key that denotes no request.
const NONE: Key = usize::MAX;

#[derive(Debug)]
struct Entry<D> {
    request: Request<D>,
    total_work: SeatSeconds,
    arrival: Moment,
    arrival_progress: SeatSeconds,
    /// Start of its execution.
    started: Option<Moment>,
    queue: Option<u32>,
    /// Neighbours in the queue.
    before: Key,
    after: Key,
    /// Wakes the request when it is dispatched.
    turn: Option<oneshot::Sender<()>>,
}

impl<D> Entry<D> {
    fn max_seats(&self) -> u64 {
        self.request.estimate.max_seats()
    }
}

/// Requests of one or more flows, the oldest first.
#[derive(Debug)]
struct Queue {
    head: Key,
    tail: Key,
    length: usize,
    next_dispatch: SeatSeconds,
    executing: usize,
    seats_in_use: u64,
    /// Sums over the waiting requests.
    initial_seats: u64,
    max_seats: u64,
    work: SeatSeconds,
}

impl Queue {
    fn new() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            length: 0,
            next_dispatch: SeatSeconds::ZERO,
            executing: 0,
            seats_in_use: 0,
            initial_seats: 0,
            max_seats: 0,
            work: SeatSeconds::ZERO,
        }
    }

    fn is_active(&self) -> bool {
        self.length > 0 || self.executing > 0
    }
}

/// Seats that stay occupied for a while after their request.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lingering {
    until: Moment,
    number: u64,
    queue: Option<u32>,
    seats: u64,
}

/// Queues of one level with its executing requests.
#[derive(Debug)]
pub(crate) struct QueueSet<D> {
    limiting: Limiting,
    limit: u64,
    queues: HashMap<u32, Queue>,
    /// Queues with waiting requests, in order.
    filled: Vec<u32>,
    entries: Vec<Option<Entry<D>>>,
    free: Vec<Key>,
    lingering: BinaryHeap<Reverse<Lingering>>,
    /// Flows of lingering seats, by number.
    lingering_flows: HashMap<u64, Arc<Flow>>,
    lingered: u64,
    progress: SeatSeconds,
    last: Moment,
    /// Queue that was dispatched last.
    served: u32,
    waiting: usize,
    executing: usize,
    seats_in_use: u64,
    seats_waiting: u64,
    active_queues: usize,
    enqueued: u64,
    pub(crate) demand: Integrator,
    pub(crate) utilization: Utilization,
    totals: Totals,
    dispatched_last: Option<Dispatched>,
}

/// Counters of the level.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) dispatched: u64,
    pub(crate) rejected: u64,
    pub(crate) cancelled: u64,
}

impl<D> QueueSet<D> {
    pub(crate) fn new(limiting: Limiting, now: Moment) -> Self {
        Self {
            limiting,
            limit: 0,
            queues: HashMap::new(),
            filled: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            lingering: BinaryHeap::new(),
            lingering_flows: HashMap::new(),
            lingered: 0,
            progress: SeatSeconds::ZERO,
            last: now,
            served: u32::MAX,
            waiting: 0,
            executing: 0,
            seats_in_use: 0,
            seats_waiting: 0,
            active_queues: 0,
            enqueued: 0,
            demand: Integrator::new(now),
            utilization: Utilization::new(now),
            totals: Totals::default(),
            dispatched_last: None,
        }
    }

    /// Changes the configuration: queues beyond the new number drain, and requests that find seats now are dispatched.
    pub(crate) fn configure(&mut self, limiting: Limiting, limit: u64, denominator: u64, now: Moment) {
        self.advance(now);
        self.limiting = limiting;
        self.limit = limit;
        let queued = match limiting {
            Limiting::Queue(queuing) => queuing.length_limit.max(1).saturating_mul(queuing.queues),
            _ => 1,
        };
        let denominator = denominator as f64;
        self.utilization.waiting.set_limit(queued as f64, now);
        self.utilization.executing.set_limit(denominator, now);
        self.utilization.seats.set_limit(denominator, now);
        self.utilization.demand.set_limit(denominator, now);
        self.dispatch_all(now);
    }

    /// Executes, enqueues or rejects a request.
    pub(crate) fn start(&mut self, request: Request<D>, now: Moment) -> Admission {
        self.advance(now);
        let Limiting::Queue(queuing) = self.limiting else {
            if !self.accommodates(request.estimate.max_seats()) {
                return self.reject(&request, Reason::ConcurrencyLimit);
            }
            let key = self.add(request, None, now);
            self.execute(key, now);
            self.note(now);
            return Admission::Executes(key);
        };
        let index = self.choose(&queuing, request.hash);
        let length = self.queues.get(&index).map_or(0, |queue| queue.length);
        if self.seats_in_use >= self.limit && length as u64 >= queuing.length_limit {
            return self.reject(&request, Reason::QueueFull);
        }
        let key = self.add(request, Some(index), now);
        self.enqueue(key, index);
        self.dispatch_all(now);
        let Some(Some(entry)) = self.entries.get_mut(key) else {
            return Admission::Rejected(Reason::QueueFull);
        };
        let admission = match entry.started {
            Some(_) => Admission::Executes(key),
            None => {
                let (turn, comes) = oneshot::channel();
                entry.turn = Some(turn);
                Admission::Waits(key, comes)
            }
        };
        self.note(now);
        admission
    }

    fn reject(&mut self, request: &Request<D>, reason: Reason) -> Admission {
        self.totals.rejected += 1;
        count_rejection(&mut request.flow.statistics.lock(), reason);
        Admission::Rejected(reason)
    }

    /// Ends a request, executed or not: its seats are released, immediately or after a while.
    pub(crate) fn finish(&mut self, key: Key, now: Moment) -> Option<Finished<D>> {
        self.advance(now);
        let entry = self.entries.get_mut(key)?.take()?;
        self.free.push(key);
        let Some(started) = entry.started else {
            self.cancel(&entry);
            self.dispatch_all(now);
            self.note(now);
            return Some(Finished::Cancelled {
                waited: now.since(entry.arrival),
            });
        };
        let served = now.since(started);
        self.executing -= 1;
        let estimate = entry.request.estimate;
        if let Some(queue) = entry.queue.and_then(|index| self.queues.get_mut(&index)) {
            queue.executing -= 1;
            self.active_queues -= usize::from(!queue.is_active());
            let surplus = SERVICE_NANOS as f64 - served as f64;
            queue.next_dispatch = queue.next_dispatch - SeatSeconds::new(estimate.initial_seats as f64, surplus);
            let bound = queue.head;
            self.bound(entry.queue, bound);
        }
        let flow = &entry.request.flow;
        flow.statistics.lock().executing_requests -= 1;
        let seats = estimate.max_seats();
        if estimate.additional_latency.is_zero() {
            self.release(entry.queue, seats, flow);
        } else {
            self.lingered += 1;
            self.lingering_flows.insert(self.lingered, Arc::clone(flow));
            self.lingering.push(Reverse(Lingering {
                until: now.after(estimate.additional_latency),
                number: self.lingered,
                queue: entry.queue,
                seats,
            }));
        }
        self.dispatch_all(now);
        self.note(now);
        Some(Finished::Executed {
            served,
            request: entry.request,
        })
    }

    /// Dispatches requests to seats that no longer linger.
    pub(crate) fn refresh(&mut self, now: Moment) {
        self.advance(now);
    }

    /// Returns the time at which the next seats stop lingering, if a request waits for them.
    pub(crate) fn next_release(&self) -> Option<Moment> {
        let next = self.lingering.peek().filter(|_| self.waiting > 0);
        next.map(|Reverse(lingering)| lingering.until)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == 0 && self.executing == 0
    }

    pub(crate) fn progress(&mut self, now: Moment) -> SeatSeconds {
        self.advance(now);
        self.progress
    }

    pub(crate) fn dispatched_last(&self) -> Option<Dispatched> {
        self.dispatched_last
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    pub(crate) fn counts(&self) -> [usize; 2] {
        [self.waiting, self.executing]
    }

    /// Updates the progress and the lingering seats to the current time.
    fn advance(&mut self, now: Moment) {
        let mut released = false;
        while let Some(Reverse(next)) = self.lingering.peek()
            && next.until <= now
            && let Some(Reverse(over)) = self.lingering.pop()
        {
            self.progress_to(over.until);
            if let Some(flow) = self.lingering_flows.remove(&over.number) {
                self.release(over.queue, over.seats, &flow);
                released = true;
            }
        }
        self.progress_to(now);
        if released {
            self.dispatch_all(now);
            self.note(now);
        }
    }

    fn progress_to(&mut self, now: Moment) {
        let nanos = now.since(self.last);
        self.last = self.last.max(now);
        if self.active_queues > 0 && nanos > 0 {
            let wanted = (self.seats_in_use + self.seats_waiting).min(self.limit);
            let rate = wanted as f64 / self.active_queues as f64;
            self.progress = self.progress + SeatSeconds::new(rate, nanos as f64);
        }
    }

    /// Returns the queue of the hand with the least work; queues with equal work alternate.
    fn choose(&mut self, queuing: &Queuing, hash: u64) -> u32 {
        let hand = queuing.dealer.deal(hash);
        let offset = self.enqueued;
        self.enqueued = self.enqueued.wrapping_add(1);
        if self.filled.is_empty() {
            return hand.from(offset).next().unwrap_or_default();
        }
        let work = |index: &u32| self.queues.get(index).map_or(SeatSeconds::ZERO, |queue| queue.work);
        // `min_by_key` returns the first of several minima.
        hand.from(offset).min_by_key(work).unwrap_or_default()
    }

    fn add(&mut self, request: Request<D>, queue: Option<u32>, now: Moment) -> Key {
        let entry = Entry {
            total_work: request.estimate.total_work(SERVICE_NANOS),
            request,
            arrival: now,
            arrival_progress: self.progress,
            started: None,
            queue,
            before: NONE,
            after: NONE,
            turn: None,
        };
        match self.free.pop() {
            Some(key) => {
                if let Some(place) = self.entries.get_mut(key) {
                    *place = Some(entry);
                }
                key
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        }
    }

    fn entry(&mut self, key: Key) -> Option<&mut Entry<D>> {
        self.entries.get_mut(key)?.as_mut()
    }

    fn enqueue(&mut self, key: Key, index: u32) {
        let Some(Some(entry)) = self.entries.get_mut(key) else {
            return;
        };
        let queue = self.queues.entry(index).or_insert_with(Queue::new);
        if !queue.is_active() {
            queue.next_dispatch = self.progress;
            self.active_queues += 1;
        }
        let (seats, estimate) = (entry.max_seats(), entry.request.estimate);
        queue.length += 1;
        queue.initial_seats += estimate.initial_seats;
        queue.max_seats += seats;
        queue.work = queue.work + entry.total_work;
        entry.before = queue.tail;
        {
            let mut statistics = entry.request.flow.statistics.lock();
            statistics.queued_requests += 1;
            statistics.queued_seats += seats;
            statistics.queue_lengths.observe(queue.length as f64);
        }
        let (last, head) = (queue.tail, queue.head);
        queue.tail = key;
        if head == NONE {
            queue.head = key;
            if let Err(at) = self.filled.binary_search(&index) {
                self.filled.insert(at, index);
            }
        } else if let Some(last) = self.entry(last) {
            last.after = key;
        }
        self.waiting += 1;
        self.seats_waiting += seats;
        self.bound(Some(index), if head == NONE { key } else { head });
    }

    /// Removes a request from its queue: updates its neighbours, the queue, and the queue's sums.
    fn unlink(&mut self, links: (Key, Key), index: u32, taken: (&WorkEstimate, SeatSeconds)) {
        let ((before, after), (estimate, work)) = (links, taken);
        if let Some(before) = self.entry(before) {
            before.after = after;
        }
        if let Some(next) = self.entry(after) {
            next.before = before;
        }
        let seats = estimate.max_seats();
        if let Some(queue) = self.queues.get_mut(&index) {
            if before == NONE {
                queue.head = after;
            }
            if after == NONE {
                queue.tail = before;
            }
            queue.length -= 1;
            queue.initial_seats -= estimate.initial_seats;
            queue.max_seats -= seats;
            queue.work = queue.work - work;
            if queue.length == 0
                && let Ok(at) = self.filled.binary_search(&index)
            {
                self.filled.remove(at);
            }
        }
        self.waiting -= 1;
        self.seats_waiting -= seats;
    }

    /// Removes a request that has not executed from its queue.
    fn cancel(&mut self, entry: &Entry<D>) {
        let Some(index) = entry.queue else { return };
        self.unlink(
            (entry.before, entry.after),
            index,
            (&entry.request.estimate, entry.total_work),
        );
        self.totals.rejected += 1;
        self.totals.cancelled += 1;
        {
            let mut statistics = entry.request.flow.statistics.lock();
            statistics.queued_requests -= 1;
            statistics.queued_seats -= entry.max_seats();
            count_rejection(&mut statistics, Reason::TimeOut);
        }
        if let Some(queue) = self.queues.get(&index) {
            self.active_queues -= usize::from(!queue.is_active());
            let head = queue.head;
            self.bound(Some(index), head);
        }
        self.forget(index);
    }

    fn release(&mut self, queue: Option<u32>, seats: u64, flow: &Flow) {
        self.seats_in_use -= seats;
        flow.statistics.lock().executing_seats -= seats;
        let Some(index) = queue else { return };
        if let Some(queue) = self.queues.get_mut(&index) {
            queue.seats_in_use -= seats;
        }
        self.forget(index);
    }

    /// Removes a queue without requests and seats.
    fn forget(&mut self, index: u32) {
        if self
            .queues
            .get(&index)
            .is_some_and(|queue| !queue.is_active() && queue.seats_in_use == 0)
        {
            self.queues.remove(&index);
        }
    }

    /// Records the current demand and utilization.
    fn note(&mut self, now: Moment) {
        let demand = (self.seats_in_use + self.seats_waiting) as f64;
        self.demand.set(demand, now);
        let utilization = &mut self.utilization;
        utilization.demand.set(demand, now);
        utilization.seats.set(self.seats_in_use as f64, now);
        utilization.executing.set(self.executing as f64, now);
        utilization.waiting.set(self.waiting as f64, now);
    }
}

/// Outcome of a request.
#[derive(Debug)]
pub(crate) enum Finished<D> {
    /// It executed.
    Executed {
        /// Execution time in nanoseconds.
        served: u64,
        /// The request.
        request: Request<D>,
    },
    /// It waited without being executed.
    Cancelled {
        /// Waiting time in nanoseconds.
        waited: u64,
    },
}

fn count_rejection(statistics: &mut FlowStatistics, reason: Reason) {
    let [concurrency_limit, queue_full, time_out] = &mut statistics.rejected;
    *match reason {
        Reason::ConcurrencyLimit => concurrency_limit,
        Reason::QueueFull => queue_full,
        Reason::TimeOut => time_out,
    } += 1;
}

#[cfg(test)]
mod tests;
