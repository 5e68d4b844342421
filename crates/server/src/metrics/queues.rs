//! Metrics of the queues of controllers, with the names that the reference uses for its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
};
use tokio::time::Instant;

use super::{Families, registered};

/// Upper bounds of the buckets in seconds, as in the reference.
const BUCKETS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0];

/// The metrics of all queues.
pub(super) struct Queues {
    depths: IntGaugeVec,
    adds: IntCounterVec,
    waits: HistogramVec,
    works: HistogramVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    retries: IntCounterVec,
    measured: Mutex<Vec<Measured>>,
}

/// Gauges of a queue that are computed when metrics are scraped.
struct Measured {
    running: Running,
    unfinished: Gauge,
    longest: Gauge,
}

/// Start times of the work in progress, by its number.
type Running = Arc<Mutex<HashMap<u64, Instant>>>;

/// The metrics of one queue.
pub struct QueueMetrics {
    depth: IntGauge,
    adds: IntCounter,
    waits: Histogram,
    works: Histogram,
    retries: IntCounter,
    running: Running,
}

impl Queues {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        const NAME: [&str; 1] = ["name"];
        let histogram = |name, help| {
            let opts = HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
            registered(registry, HistogramVec::new(opts, &NAME)?)
        };
        let counter = |name, help| registered(registry, IntCounterVec::new(Opts::new(name, help), &NAME)?);
        let gauge = |name, help| registered(registry, GaugeVec::new(Opts::new(name, help), &NAME)?);
        let depth = Opts::new("workqueue_depth", "Current number of items in a queue");
        Ok(Self {
            depths: registered(registry, IntGaugeVec::new(depth, &NAME)?)?,
            adds: counter("workqueue_adds_total", "Items added to a queue")?,
            waits: histogram(
                "workqueue_queue_duration_seconds",
                "Time that items wait in a queue, in seconds",
            )?,
            works: histogram(
                "workqueue_work_duration_seconds",
                "Durations of the work on items of a queue, in seconds",
            )?,
            unfinished: gauge(
                "workqueue_unfinished_work_seconds",
                "Total duration of the work in progress on items of a queue, in seconds",
            )?,
            longest: gauge(
                "workqueue_longest_running_processor_seconds",
                "Duration of the longest work in progress on an item of a queue, in seconds",
            )?,
            retries: counter("workqueue_retries_total", "Items of a queue that are retried")?,
            measured: Mutex::default(),
        })
    }

    /// Returns the metrics of the queue of that name, which start at zero.
    pub(super) fn queue(&self, name: &str) -> prometheus::Result<QueueMetrics> {
        let running = Running::default();
        self.measured.lock().push(Measured {
            running: Arc::clone(&running),
            unfinished: self.unfinished.get_metric_with_label_values(&[name])?,
            longest: self.longest.get_metric_with_label_values(&[name])?,
        });
        Ok(QueueMetrics {
            depth: self.depths.get_metric_with_label_values(&[name])?,
            adds: self.adds.get_metric_with_label_values(&[name])?,
            waits: self.waits.get_metric_with_label_values(&[name])?,
            works: self.works.get_metric_with_label_values(&[name])?,
            retries: self.retries.get_metric_with_label_values(&[name])?,
            running,
        })
    }

    /// Measures the age of the work in progress.
    pub(super) fn measure(&self) {
        for queue in &*self.measured.lock() {
            let (mut sum, mut longest) = (Duration::ZERO, Duration::ZERO);
            for begun in queue.running.lock().values() {
                let lasted = begun.elapsed();
                sum += lasted;
                longest = longest.max(lasted);
            }
            queue.unfinished.set(sum.as_secs_f64());
            queue.longest.set(longest.as_secs_f64());
        }
    }
}

impl QueueMetrics {
    /// Records that an item was added that is to be worked on as soon as possible.
    pub fn added(&self) {
        self.adds.inc();
        self.depth.inc();
    }

    /// Records that work on an item begins that was added at `added`. The number identifies the work until
    /// [`QueueMetrics::done`].
    pub fn begun(&self, number: u64, added: Instant) {
        let now = Instant::now();
        self.depth.dec();
        self.waits.observe(now.saturating_duration_since(added).as_secs_f64());
        self.running.lock().insert(number, now);
    }

    /// Records that work on an item has ended.
    pub fn done(&self, number: u64) {
        if let Some(begun) = self.running.lock().remove(&number) {
            self.works.observe(begun.elapsed().as_secs_f64());
        }
    }

    /// Records that a waiting item left the queue without being worked on.
    pub fn withdrawn(&self) {
        self.depth.dec();
    }

    /// Records that an item is retried later.
    pub fn retried(&self) {
        self.retries.inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted_from_their_coming_to_their_end() {
        let registry = Families::default();
        let queues = Queues::new(&registry).unwrap();
        let queue = queues.queue("autoregister").unwrap();
        let text = || {
            queues.measure();
            prometheus::TextEncoder::new()
                .encode_to_string(&registry.gather())
                .unwrap()
        };
        let line = |metric: &str, value: &str| format!("workqueue_{metric}{{name=\"autoregister\"}} {value}\n");
        let before = text();
        for metric in ["depth", "adds_total", "retries_total", "unfinished_work_seconds"] {
            assert!(before.contains(&line(metric, "0")), "{before}");
        }
        queue.added();
        queue.added();
        queue.retried();
        queue.begun(1, Instant::now());
        let during = text();
        for (metric, value) in [
            ("depth", "1"),
            ("adds_total", "2"),
            ("retries_total", "1"),
            ("queue_duration_seconds_count", "1"),
            ("work_duration_seconds_count", "0"),
        ] {
            assert!(during.contains(&line(metric, value)), "{metric}: {during}");
        }
        assert!(!during.contains(&line("longest_running_processor_seconds", "0")));
        queue.done(1);
        let after = text();
        assert!(after.contains(&line("work_duration_seconds_count", "1")), "{after}");
        assert!(after.contains(&line("unfinished_work_seconds", "0")), "{after}");
    }
}
