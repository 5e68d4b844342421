//! The number, the size and the changes of the objects of each resource, counted at each scrape.

use std::sync::Arc;

use arc_swap::ArcSwap;
use holdfast_resource::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use crate::objects::{Snapshot, Store};

/// Number of objects of a resource whose size is measured to estimate the size of all.
const SAMPLE: usize = 100;
/// Limit of the part of a revision that a Prometheus number represents exactly.
const DIGITS: u64 = 1_000_000_000_000_000;

/// Name of the metric of the size on disk, and its help text.
pub(super) const SIZE: [&str; 2] = ["apiserver_storage_size_bytes", "Size of the files of the database"];
/// Label of the database of the embedded store.
const EMBEDDED: &str = "embedded";

/// The size of the embedded store on disk.
pub(super) struct SizeOnDisk {
    store: Arc<Store>,
    size: IntGaugeVec,
}

impl SizeOnDisk {
    /// Creates the metric for `store`; `None` if the store has no files of its own.
    pub(super) fn new(store: &Arc<Store>) -> prometheus::Result<Option<Self>> {
        let size = IntGaugeVec::new(Opts::new(SIZE[0], SIZE[1]), &["storage_cluster_id"])?;
        let own = store.size_on_disk().is_some();
        Ok(own.then(|| Self {
            store: Arc::clone(store),
            size,
        }))
    }
}

impl Collector for SizeOnDisk {
    fn desc(&self) -> Vec<&Desc> {
        self.size.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let gauge = self.size.get_metric_with_label_values(&[EMBEDDED]);
        if let (Ok(gauge), Some(bytes)) = (gauge, self.store.size_on_disk()) {
            gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
        self.size.collect()
    }
}

/// Stored objects of each resource.
pub(super) struct StoredObjects {
    store: Arc<Store>,
    resources: Arc<ArcSwap<Registry>>,
    counts: Counts,
}

/// Metrics of the stored objects.
pub(super) struct Counts {
    /// By resource and group in one text, as in releases before 1.34.
    by_name: IntGaugeVec,
    by_group: IntGaugeVec,
    bytes: IntGaugeVec,
    revisions: IntGaugeVec,
    initializations: IntCounterVec,
    received: IntCounterVec,
    dispatched: IntCounterVec,
}

impl Counts {
    pub(super) fn new() -> prometheus::Result<Self> {
        const RESOURCE: [&str; 2] = ["group", "resource"];
        let help = "Number of stored objects";
        let gauge = |name, help| IntGaugeVec::new(Opts::new(name, help), &RESOURCE);
        let counter = |name, help| IntCounterVec::new(Opts::new(name, help), &RESOURCE);
        Ok(Self {
            by_name: IntGaugeVec::new(Opts::new("apiserver_storage_objects", help), &["resource"])?,
            by_group: gauge("apiserver_resource_objects", help)?,
            bytes: gauge(
                "apiserver_resource_size_estimate_bytes",
                "Approximate size of stored objects",
            )?,
            revisions: gauge(
                "apiserver_watch_cache_resource_version",
                "Last 15 digits of the revision of the state in memory",
            )?,
            initializations: counter(
                "apiserver_watch_cache_initializations_total",
                "Initializations of the state in memory",
            )?,
            received: counter(
                "apiserver_watch_cache_events_received_total",
                "Events received by the state in memory",
            )?,
            dispatched: counter(
                "apiserver_watch_cache_events_dispatched_total",
                "Events dispatched to watchers",
            )?,
        })
    }

    fn gauges(&self) -> [&IntGaugeVec; 4] {
        [&self.by_name, &self.by_group, &self.bytes, &self.revisions]
    }

    fn counters(&self) -> [&IntCounterVec; 3] {
        [&self.initializations, &self.received, &self.dispatched]
    }
}

impl Collector for Counts {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = self.gauges().into_iter().flat_map(Collector::desc);
        gauges
            .chain(self.counters().into_iter().flat_map(Collector::desc))
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let gauges = self.gauges().into_iter().flat_map(Collector::collect);
        let counters = self.counters().into_iter().flat_map(Collector::collect);
        gauges.chain(counters).collect()
    }
}

impl StoredObjects {
    pub(super) fn new(store: Arc<Store>, resources: Arc<ArcSwap<Registry>>) -> prometheus::Result<Self> {
        Ok(Self {
            store,
            resources,
            counts: Counts::new()?,
        })
    }
}

impl Collector for StoredObjects {
    fn desc(&self) -> Vec<&Desc> {
        self.counts.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let counts = &self.counts;
        // Resources that are no longer served have no metric.
        counts.gauges().into_iter().for_each(IntGaugeVec::reset);
        counts.counters().into_iter().for_each(IntCounterVec::reset);
        let set = |gauge: &IntGaugeVec, labels: &[&str], value: u64| {
            if let Ok(gauge) = gauge.get_metric_with_label_values(labels) {
                gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            }
        };
        let count = |counter: &IntCounterVec, labels: &[&str], value: u64| {
            if let Ok(counter) = counter.get_metric_with_label_values(labels) {
                counter.inc_by(value);
            }
        };
        for resource in self.resources.load().resources() {
            let Some(storage) = &resource.storage else { continue };
            let prefix = storage.namespace_prefix("");
            let store = self.store.for_key(prefix.as_bytes());
            let snapshot = store.snapshot();
            let objects = snapshot.count(prefix.as_bytes());
            let labels = [resource.group.as_str(), resource.plural.as_str()];
            set(
                &counts.by_name,
                &[&resource.group_resource().to_string()],
                objects as u64,
            );
            set(&counts.by_group, &labels, objects as u64);
            set(&counts.bytes, &labels, size(&snapshot, prefix.as_bytes(), objects));
            set(&counts.revisions, &labels, snapshot.revision() % DIGITS);
            count(&counts.initializations, &labels, 1);
            let events = store.events_of(prefix.as_bytes());
            if events > 0 {
                count(&counts.received, &labels, events);
                count(&counts.dispatched, &labels, events);
            }
        }
        counts.collect()
    }
}

/// Estimates the size of this many objects from the size of the first of them.
fn size(snapshot: &Snapshot, prefix: &[u8], objects: usize) -> u64 {
    let sizes = snapshot.range(prefix).take(SAMPLE).map(|entry| entry.length() as u64);
    let (sampled, bytes) = sizes.fold((0, 0), |(sampled, bytes), size| (sampled + 1, bytes + size));
    bytes * objects as u64 / u64::max(sampled, 1)
}
