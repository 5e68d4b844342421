//! Metrics of lists. All lists are served from the state in memory, which the reference calls its watch cache.

use std::time::Duration;

use holdfast_resource::Resource;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts};

use super::{Families, registered};

/// Upper bounds of the buckets in seconds, as in the reference.
const BUCKETS: [f64; 13] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];

/// Label of the index that a list reads: empty, because it is none that the reference has a name for.
const INDEX: &str = "";

/// Counters of lists by resource.
pub(crate) struct Lists {
    lists: IntCounterVec,
    fetched: IntCounterVec,
    returned: IntCounterVec,
    consistent: IntCounterVec,
    initial: IntCounterVec,
    waits: HistogramVec,
}

impl Lists {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        const RESOURCE: [&str; 2] = ["group", "resource"];
        const INDEXED: [&str; 3] = ["group", "resource", "index"];
        let counter = |name, help, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registered(registry, counter)
        };
        let waits = HistogramOpts::new(
            "apiserver_watch_cache_read_wait_seconds",
            "Time that lists wait until the state in memory is recent enough, in seconds",
        );
        Ok(Self {
            lists: counter("apiserver_cache_list_total", "Lists answered from memory", &INDEXED)?,
            fetched: counter(
                "apiserver_cache_list_fetched_objects_total",
                "Objects that lists examined",
                &INDEXED,
            )?,
            returned: counter(
                "apiserver_cache_list_returned_objects_total",
                "Objects returned by lists",
                &RESOURCE,
            )?,
            consistent: counter(
                "apiserver_watch_cache_consistent_read_total",
                "Lists of the most recent state",
                &["group", "resource", "success", "fallback"],
            )?,
            initial: counter("apiserver_init_events_total", "Initial events of watches", &RESOURCE)?,
            waits: registered(registry, HistogramVec::new(waits.buckets(BUCKETS.to_vec()), &RESOURCE)?)?,
        })
    }

    /// Counts a list of `resource`, and returns the counters of its objects.
    pub(crate) fn begin(&self, resource: &Resource) -> Tally {
        let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
        let indexed = [group, plural, INDEX];
        if let Ok(lists) = self.lists.get_metric_with_label_values(&indexed) {
            lists.inc();
        }
        Tally {
            fetched: self.fetched.get_metric_with_label_values(&indexed).ok(),
            returned: self.returned.get_metric_with_label_values(&[group, plural]).ok(),
            objects_fetched: 0,
            objects_returned: 0,
        }
    }

    /// Returns the counters of the initial objects of a watch of `resource`.
    pub(crate) fn begin_watch(&self, resource: &Resource) -> Tally {
        let labels = [resource.group.as_str(), resource.plural.as_str()];
        Tally {
            fetched: None,
            returned: self.initial.get_metric_with_label_values(&labels).ok(),
            objects_fetched: 0,
            objects_returned: 0,
        }
    }

    /// Counts that a list of `resource` reached the state that it requested, or did not, after `waited`. `recent` is
    /// true if it requested the most recent state.
    pub(crate) fn reached(&self, resource: &Resource, recent: bool, found: bool, waited: Duration) {
        let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
        if let Ok(waits) = self.waits.get_metric_with_label_values(&[group, plural]) {
            waits.observe(waited.as_secs_f64());
        }
        let success = if found { "true" } else { "false" };
        if recent
            && let Ok(counter) = self
                .consistent
                .get_metric_with_label_values(&[group, plural, success, "false"])
        {
            counter.inc();
        }
    }
}

/// Numbers of objects that were examined and returned; they are added to the counters on drop.
#[derive(Default)]
pub(crate) struct Tally {
    fetched: Option<IntCounter>,
    returned: Option<IntCounter>,
    objects_fetched: u64,
    objects_returned: u64,
}

impl Tally {
    /// Adds to the number of examined objects.
    pub(crate) fn add_fetched(&mut self, objects: usize) {
        self.objects_fetched += objects as u64;
    }

    /// Adds one returned object.
    pub(crate) fn add_returned(&mut self) {
        self.objects_returned += 1;
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        for (counter, number) in [
            (&self.fetched, self.objects_fetched),
            (&self.returned, self.objects_returned),
        ] {
            if let Some(counter) = counter.as_ref().filter(|_| number > 0) {
                counter.inc_by(number);
            }
        }
    }
}
