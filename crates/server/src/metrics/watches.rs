//! Metrics of started watches: those of shards, and those that begin with a list.

use std::time::Duration;

use holdfast_resource::Resource;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use super::{Families, registered};

/// Upper bounds of the buckets in seconds, as in the reference.
const BUCKETS: [f64; 17] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// Counters of watches by resource.
pub(crate) struct Watches {
    sharded: IntGaugeVec,
    passed_over: IntCounterVec,
    listed: HistogramVec,
}

impl Watches {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        const RESOURCE: [&str; 2] = ["group", "resource"];
        let sharded = Opts::new("apiserver_watch_shards_total", "Watches of shards in progress");
        let passed_over = Opts::new(
            "apiserver_watch_filtered_events_total",
            "Objects that watches did not get because they belong to other shards",
        );
        let options = HistogramOpts::new(
            "apiserver_watch_list_duration_seconds",
            "Durations of the initial events of watches, in seconds",
        );
        let listed = options.buckets(BUCKETS.to_vec());
        Ok(Self {
            sharded: registered(registry, IntGaugeVec::new(sharded, &RESOURCE)?)?,
            passed_over: registered(registry, IntCounterVec::new(passed_over, &RESOURCE)?)?,
            listed: registered(
                registry,
                HistogramVec::new(listed, &["group", "version", "resource", "scope"])?,
            )?,
        })
    }

    /// Counts a watch of a shard of `resource` until the result is dropped; also returns the counter of the objects of
    /// other shards.
    pub(crate) fn begin_shard(&self, resource: &Resource) -> (Option<ShardedWatch>, Option<IntCounter>) {
        let labels = [resource.group.as_str(), resource.plural.as_str()];
        let watch = self.sharded.get_metric_with_label_values(&labels).ok().map(|gauge| {
            gauge.inc();
            ShardedWatch(gauge)
        });
        (watch, self.passed_over.get_metric_with_label_values(&labels).ok())
    }

    /// Returns the durations of watches of `resource` that begin with a list.
    pub(crate) fn listed(&self, resource: &Resource, version: &str, scope: &str) -> Option<Histogram> {
        let labels = [resource.group.as_str(), version, resource.plural.as_str(), scope];
        self.listed.get_metric_with_label_values(&labels).ok()
    }
}

/// A watch of a shard in progress.
pub(crate) struct ShardedWatch(IntGauge);

impl Drop for ShardedWatch {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A watch that is sending its initial objects; its duration is counted afterwards.
pub(crate) struct ListedWatch {
    pub(crate) durations: Histogram,
    /// Returns the time since the request arrived.
    pub(crate) age: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl ListedWatch {
    /// Records that all initial objects were sent.
    pub(crate) fn end(self) {
        self.durations.observe((self.age)().as_secs_f64());
    }
}
