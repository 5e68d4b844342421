//! What is counted of levels and flows, as plain numbers: metrics give them names.

use holdfast_value::SmolStr;

use crate::time::Moment;
use crate::work::SeatSeconds;

/// The upper bounds of the lengths of queues.
const QUEUE_LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
/// The upper bounds of durations, in seconds.
const DURATIONS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const WATCHERS: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0];
const SEATS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];
/// The upper bounds of the part of its seats that a level uses.
const UTILIZATION: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const REQUEST_UTILIZATION: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const BY_KIND: &[f64] = &[
    0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0,
];
const DEMAND: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];

/// How often a number was how large.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// The upper bounds, from the lowest up; beyond the last there is one bucket more.
    pub bounds: &'static [f64],
    /// How many fell into each bucket.
    pub counts: Vec<u64>,
    /// The sum of all.
    pub sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    pub(crate) fn observe(&mut self, value: f64) {
        self.observe_times(value, 1);
    }

    fn observe_times(&mut self, value: f64, times: u64) {
        let bucket = self
            .bounds
            .iter()
            .position(|bound| value <= *bound)
            .unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += times;
        }
        self.sum += value * times as f64;
    }

    /// How many there were in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// How long a part of a limit was how large: each nanosecond counts.
#[derive(Clone, Debug)]
pub(crate) struct RatioHistogram {
    histogram: Histogram,
    numerator: f64,
    denominator: f64,
    last: Moment,
}

impl RatioHistogram {
    fn new(bounds: &'static [f64], now: Moment) -> Self {
        Self {
            histogram: Histogram::new(bounds),
            numerator: 0.0,
            denominator: 1.0,
            last: now,
        }
    }

    pub(crate) fn by_kind(now: Moment) -> Self {
        Self::new(BY_KIND, now)
    }

    fn advance(&mut self, now: Moment) {
        let nanos = now.since(self.last);
        if nanos > 0 {
            self.histogram.observe_times(self.numerator / self.denominator, nanos);
            self.last = now;
        }
    }

    pub(crate) fn set(&mut self, numerator: f64, now: Moment) {
        self.advance(now);
        self.numerator = numerator;
    }

    pub(crate) fn set_limit(&mut self, denominator: f64, now: Moment) {
        self.advance(now);
        self.denominator = denominator;
    }

    pub(crate) fn read(&mut self, now: Moment) -> Histogram {
        self.advance(now);
        self.histogram.clone()
    }
}

/// The shares of a level's limits over time.
#[derive(Debug)]
pub(crate) struct Utilization {
    pub(crate) seats: RatioHistogram,
    pub(crate) executing: RatioHistogram,
    pub(crate) waiting: RatioHistogram,
    pub(crate) demand: RatioHistogram,
}

impl Utilization {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            seats: RatioHistogram::new(UTILIZATION, now),
            executing: RatioHistogram::new(REQUEST_UTILIZATION, now),
            waiting: RatioHistogram::new(REQUEST_UTILIZATION, now),
            demand: RatioHistogram::new(DEMAND, now),
        }
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is in a queue.
    Waiting,
    /// It is served.
    Executing,
}

/// What is counted of the requests of one flow schema in one level.
#[derive(Clone, Debug)]
pub struct FlowStatistics {
    /// Requests that were served.
    pub dispatched: u64,
    /// Requests that were rejected, by the reason.
    pub rejected: [u64; 3],
    /// Requests in queues now.
    pub queued_requests: u64,
    /// Seats that these wait for.
    pub queued_seats: u64,
    /// Requests that are served now.
    pub executing_requests: u64,
    /// Seats that are taken now.
    pub executing_seats: u64,
    /// The queue behind each request that came into it.
    pub queue_lengths: Histogram,
    /// How long those waited that were not served, and those that were.
    pub waits: [Histogram; 2],
    /// How long requests were served, and how long the beginning of watches took.
    pub executions: [Histogram; 2],
    /// The watchers of requests that change something.
    pub watchers: Histogram,
    /// The seats of requests.
    pub seats: Histogram,
    /// How often the next request did not find as many seats as it wants.
    pub unaccommodated: u64,
}

impl FlowStatistics {
    /// Whether any request came into a queue.
    pub fn was_queued(&self) -> bool {
        self.queue_lengths.count() > 0
    }

    pub(crate) fn new() -> Self {
        let histogram = Histogram::new;
        Self {
            dispatched: 0,
            rejected: [0; 3],
            queued_requests: 0,
            queued_seats: 0,
            executing_requests: 0,
            executing_seats: 0,
            queue_lengths: histogram(QUEUE_LENGTHS),
            waits: [histogram(DURATIONS), histogram(DURATIONS)],
            executions: [histogram(DURATIONS), histogram(DURATIONS)],
            watchers: histogram(WATCHERS),
            seats: histogram(SEATS),
            unaccommodated: 0,
        }
    }
}

/// What a level dispatched last, on the scale of its progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dispatched {
    /// The progress then.
    pub now: SeatSeconds,
    /// Where the request began.
    pub start: SeatSeconds,
    /// The first and the last beginning of what waited.
    pub bounds: [SeatSeconds; 2],
    /// The same, less the work in progress.
    pub discounted: [SeatSeconds; 2],
}

/// What is counted of a level.
#[derive(Clone, Debug)]
pub struct LevelStatistics {
    /// Its name.
    pub name: SmolStr,
    /// Its seats by its shares, at least, at most, and now.
    pub limits: [u64; 4],
    /// The progress of its queues.
    pub progress: SeatSeconds,
    /// What it dispatched last from a queue.
    pub last: Option<Dispatched>,
    /// The seats that were wanted in the period that ended last: the most, the average, the deviation, smoothed.
    pub demand: [f64; 4],
    /// The seats that it was to have.
    pub target: f64,
    /// The part of its seats that was taken.
    pub seat_utilization: Histogram,
    /// The requests that were served for each of its seats.
    pub executing_utilization: Histogram,
    /// The part of its queues that was filled.
    pub waiting_utilization: Histogram,
    /// The seats that were wanted for each that it has.
    pub seat_demand: Histogram,
    /// By flow schema.
    pub flows: Vec<(SmolStr, FlowStatistics)>,
}

/// What is counted of all.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// By level, in the order of their names.
    pub levels: Vec<LevelStatistics>,
    /// The fair proportion of what levels want.
    pub fair_fraction: f64,
    /// By phase and whether requests change something: how many there were for each that there may be.
    pub kinds: Vec<(Phase, bool, Histogram)>,
    /// By phase and whether requests change something: how many there are now.
    pub now: Vec<(Phase, bool, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nanosecond_counts_in_the_share_of_its_time() {
        let mut ratio = RatioHistogram::new(UTILIZATION, Moment(0));
        ratio.set_limit(4.0, Moment(0));
        ratio.set(2.0, Moment(100));
        ratio.set(8.0, Moment(400));
        let histogram = ratio.read(Moment(450));
        assert_eq!(histogram.counts.first(), Some(&100));
        assert_eq!(histogram.counts.get(5), Some(&300));
        assert_eq!(histogram.counts.last(), Some(&50));
        assert_eq!((histogram.count(), histogram.sum), (450, 250.0));
    }
}
