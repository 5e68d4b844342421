//! Statistics of levels and flows as plain numbers; metrics assign the names.

use holdfast_value::SmolStr;

use crate::time::Moment;
use crate::work::SeatSeconds;

/// Upper bounds of queue lengths.
const QUEUE_LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
/// Upper bounds of durations in seconds.
const DURATIONS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const WATCHERS: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0];
const SEATS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];
/// Upper bounds of the utilization of a level's seats.
const UTILIZATION: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const REQUEST_UTILIZATION: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const BY_KIND: &[f64] = &[
    0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0,
];
const DEMAND: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];

/// Histogram of observed values.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Ascending upper bounds; there is one more bucket after the last.
    pub bounds: &'static [f64],
    /// Number of values in each bucket.
    pub counts: Vec<u64>,
    /// Sum of all values.
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

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Histogram of a ratio over time: each nanosecond counts.
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

/// Utilization of a level's limits over time.
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

/// Phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is in a queue.
    Waiting,
    /// It executes.
    Executing,
}

/// Statistics of the requests of one flow schema in one level.
#[derive(Clone, Debug)]
pub struct FlowStatistics {
    /// Number of executed requests.
    pub dispatched: u64,
    /// Number of rejected requests by reason.
    pub rejected: [u64; 3],
    /// Number of requests in queues now.
    pub queued_requests: u64,
    /// Number of seats that these wait for.
    pub queued_seats: u64,
    /// Number of requests that execute now.
    pub executing_requests: u64,
    /// Number of seats that are occupied now.
    pub executing_seats: u64,
    /// Lengths of the queues after each request was added.
    pub queue_lengths: Histogram,
    /// Waiting times of requests that did not execute, and of those that did.
    pub waits: [Histogram; 2],
    /// Execution times of requests, and of the initialization of watches.
    pub executions: [Histogram; 2],
    /// Numbers of watchers of mutating requests.
    pub watchers: Histogram,
    /// Numbers of seats of requests.
    pub seats: Histogram,
    /// Number of times that the next request did not find enough seats.
    pub unaccommodated: u64,
}

impl FlowStatistics {
    /// True if any request was added to a queue.
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

/// Last dispatch of a level, on the scale of its progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dispatched {
    /// Progress at the dispatch.
    pub now: SeatSeconds,
    /// Start of the request.
    pub start: SeatSeconds,
    /// First and last start of the waiting requests.
    pub bounds: [SeatSeconds; 2],
    /// The same bounds, less the work in progress.
    pub discounted: [SeatSeconds; 2],
}

/// Statistics of a level.
#[derive(Clone, Debug)]
pub struct LevelStatistics {
    /// Name of the level.
    pub name: SmolStr,
    /// Seats of the level: nominal, minimum, maximum, and current.
    pub limits: [u64; 4],
    /// Progress of its queues.
    pub progress: SeatSeconds,
    /// Its last dispatch from a queue.
    pub last: Option<Dispatched>,
    /// Demanded seats in the last period: maximum, average, deviation, smoothed.
    pub demand: [f64; 4],
    /// Target number of seats.
    pub target: f64,
    /// Utilization of its seats.
    pub seat_utilization: Histogram,
    /// Executing requests per seat.
    pub executing_utilization: Histogram,
    /// Fill ratio of its queues.
    pub waiting_utilization: Histogram,
    /// Demanded seats per seat of the level.
    pub seat_demand: Histogram,
    /// By flow schema.
    pub flows: Vec<(SmolStr, FlowStatistics)>,
}

/// Statistics of all levels.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Levels in the order of their names.
    pub levels: Vec<LevelStatistics>,
    /// Fair proportion of the levels' targets.
    pub fair_fraction: f64,
    /// By phase and for read-only and mutating requests: the ratio of their number to its limit.
    pub kinds: Vec<(Phase, bool, Histogram)>,
    /// By phase and for read-only and mutating requests: their current number.
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
