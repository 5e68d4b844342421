//! Metrics of calls of etcd and of its events, by resource.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_resource::Registry;
use holdfast_store::{Observer, Operation, table_by_segments};
use parking_lot::RwLock;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts};
use smol_str::SmolStr;

use super::{Families, registered, stored};

/// Upper bounds of the buckets in seconds, as in the reference.
const BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
const LEASE_BUCKETS: [f64; 7] = [10.0, 50.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0];

/// Group and resource.
type Names = (SmolStr, SmolStr);

/// Counters of calls of etcd. Clones share them.
#[derive(Clone)]
pub struct EtcdCalls {
    /// Index of the etcd cluster that is called.
    cluster: usize,
    resources: Arc<ArcSwap<Registry>>,
    /// Cache of group and resource, by the table of a key.
    tables: Arc<RwLock<HashMap<Vec<u8>, Names>>>,
    seconds: HistogramVec,
    requests: IntCounterVec,
    /// Durations of reads of no resource, which every read without a version makes.
    question_seconds: Histogram,
    questions: IntCounter,
    errors: IntCounterVec,
    received: IntCounterVec,
    unreadable: IntCounterVec,
    /// Lists, and the objects that they read, examined and returned, which are the same number here.
    lists: IntCounterVec,
    listed: [IntCounterVec; 3],
    progressed: IntCounterVec,
    size: IntGaugeVec,
    leased: Histogram,
}

impl EtcdCalls {
    /// Creates counters that start at zero.
    ///
    /// # Errors
    /// If a metric is invalid, which is a bug of this code.
    pub fn new(resources: Arc<ArcSwap<Registry>>) -> prometheus::Result<Self> {
        const CALL: [&str; 3] = ["operation", "group", "resource"];
        const RESOURCE: [&str; 2] = ["group", "resource"];
        let listed = |what, help| {
            let name = format!("apiserver_storage_list_{what}_objects_total");
            IntCounterVec::new(Opts::new(name, help), &RESOURCE)
        };
        let seconds = HistogramOpts::new("etcd_request_duration_seconds", "Durations of etcd calls, in seconds");
        let leased = HistogramOpts::new(
            "etcd_lease_object_counts",
            "Number of objects attached to an etcd lease",
        );
        let seconds = HistogramVec::new(seconds.buckets(BUCKETS.to_vec()), &CALL)?;
        let requests = IntCounterVec::new(Opts::new("etcd_requests_total", "Calls to etcd"), &CALL)?;
        let question = [Operation::Get.name(), "", ""];
        Ok(Self {
            cluster: 0,
            resources,
            tables: Arc::default(),
            question_seconds: seconds.get_metric_with_label_values(&question)?,
            questions: requests.get_metric_with_label_values(&question)?,
            seconds,
            requests,
            errors: IntCounterVec::new(Opts::new("etcd_request_errors_total", "Failed calls to etcd"), &CALL)?,
            received: IntCounterVec::new(
                Opts::new("apiserver_storage_events_received_total", "Events received from etcd"),
                &RESOURCE,
            )?,
            unreadable: IntCounterVec::new(
                Opts::new(
                    "apiserver_storage_decode_errors_total",
                    "Stored objects that could not be read",
                ),
                &RESOURCE,
            )?,
            lists: IntCounterVec::new(
                Opts::new("apiserver_storage_list_total", "Lists served from etcd"),
                &RESOURCE,
            )?,
            listed: [
                listed("fetched", "Objects that lists read from etcd")?,
                listed("evaluated", "Objects of etcd that lists evaluated")?,
                listed("returned", "Objects that lists from etcd returned")?,
            ],
            progressed: IntCounterVec::new(
                Opts::new(
                    "etcd_bookmark_total",
                    "Progress notifications of the etcd watch, which covers all resources",
                ),
                &RESOURCE,
            )?,
            size: IntGaugeVec::new(Opts::new(stored::SIZE[0], stored::SIZE[1]), &["storage_cluster_id"])?,
            leased: Histogram::with_opts(leased.buckets(LEASE_BUCKETS.to_vec()))?,
        })
    }

    /// Returns the same counters for the calls of another etcd cluster.
    pub fn of_cluster(&self, cluster: usize) -> Self {
        Self {
            cluster,
            ..self.clone()
        }
    }

    pub(super) fn register(self, registry: &Families) -> prometheus::Result<()> {
        registered(registry, self.seconds)?;
        let counters = [self.requests, self.errors, self.received, self.unreadable];
        for counter in counters
            .into_iter()
            .chain([self.lists, self.progressed])
            .chain(self.listed)
        {
            registered(registry, counter)?;
        }
        registered(registry, self.size)?;
        registered(registry, self.leased)?;
        Ok(())
    }

    /// Returns the group and the resource of a key; empty if no resource has it.
    fn names(&self, key: &[u8]) -> Names {
        let Some(table) = key.get(..table_by_segments(key)).filter(|table| !table.is_empty()) else {
            return Names::default();
        };
        if let Some(names) = self.tables.read().get(table) {
            return names.clone();
        }
        let registry = self.resources.load();
        let found = registry.resources().find(|resource| {
            let storage = resource.storage.as_ref();
            storage.is_some_and(|storage| storage.namespace_prefix("").as_bytes() == table)
        });
        let Some(resource) = found else { return Names::default() };
        let names = (resource.group.clone(), resource.plural.clone());
        self.tables.write().insert(table.to_vec(), names.clone());
        names
    }

    fn count(&self, counter: &IntCounterVec, key: &[u8], number: usize) {
        let (group, resource) = self.names(key);
        if let Ok(counter) = counter.get_metric_with_label_values(&[group.as_str(), resource.as_str()]) {
            counter.inc_by(number as u64);
        }
    }
}

impl Observer for EtcdCalls {
    fn called(&self, operation: Operation, key: &[u8], took: Duration, succeeded: bool) {
        if key.is_empty() && operation == Operation::Get && succeeded {
            self.question_seconds.observe(took.as_secs_f64());
            self.questions.inc();
            return;
        }
        let (group, resource) = self.names(key);
        let labels = [operation.name(), group.as_str(), resource.as_str()];
        if let Ok(histogram) = self.seconds.get_metric_with_label_values(&labels) {
            histogram.observe(took.as_secs_f64());
        }
        if let Ok(counter) = self.requests.get_metric_with_label_values(&labels) {
            counter.inc();
        }
        if !succeeded && let Ok(counter) = self.errors.get_metric_with_label_values(&labels) {
            counter.inc();
        }
    }

    fn unreadable(&self, key: &[u8]) {
        self.count(&self.unreadable, key, 1);
    }

    fn received(&self, key: &[u8]) {
        self.count(&self.received, key, 1);
    }

    fn listed(&self, key: &[u8], objects: usize) {
        self.count(&self.lists, key, 1);
        for counter in &self.listed {
            self.count(counter, key, objects);
        }
    }

    fn progressed(&self) {
        self.count(&self.progressed, b"", 1);
    }

    fn size(&self, bytes: i64) {
        let name = format!("etcd-{}", self.cluster);
        self.size.with_label_values(&[name.as_str()]).set(bytes);
    }

    fn leased(&self, keys: usize) {
        self.leased.observe(f64::from(u32::try_from(keys).unwrap_or(u32::MAX)));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn calls_are_counted_by_the_resource_of_their_key() {
        let kinds = holdfast_kinds::registry(&holdfast_kinds::Config::default()).unwrap();
        let calls = EtcdCalls::new(Arc::new(ArcSwap::from_pointee(kinds))).unwrap();
        let registry = Families::default();
        calls.clone().register(&registry).unwrap();
        let took = Duration::from_millis(30);
        calls.called(Operation::Create, b"/registry/deployments/default/web", took, true);
        calls.called(Operation::Get, b"/registry/health", took, false);
        calls.received(b"/registry/services/specs/default/web");
        calls.unreadable(b"/registry/minions/a");
        calls.listed(b"/registry/pods/", 3);
        calls.progressed();
        calls.size(4096);
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            r#"etcd_requests_total{group="apps",operation="create",resource="deployments"} 1"#,
            r#"etcd_request_duration_seconds_bucket{group="apps",operation="create",resource="deployments",le="0.05"} 1"#,
            r#"etcd_request_errors_total{group="",operation="get",resource=""} 1"#,
            r#"apiserver_storage_events_received_total{group="",resource="services"} 1"#,
            r#"apiserver_storage_decode_errors_total{group="",resource="nodes"} 1"#,
            r#"apiserver_storage_list_total{group="",resource="pods"} 1"#,
            r#"apiserver_storage_list_fetched_objects_total{group="",resource="pods"} 3"#,
            r#"etcd_bookmark_total{group="",resource=""} 1"#,
            r#"apiserver_storage_size_bytes{storage_cluster_id="etcd-0"} 4096"#,
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains(r#"etcd_request_errors_total{group="apps""#));
    }
}
