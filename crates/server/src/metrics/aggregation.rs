//! Availability of APIServices, by name.

use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use super::{Families, registered};

/// Counters of aggregated servers.
pub(crate) struct Aggregation {
    unavailable: IntGaugeVec,
    became_unavailable: IntCounterVec,
}

impl Aggregation {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        let unavailable = Opts::new(
            "aggregator_unavailable_apiservice",
            "APIServices, by name: 1 if unavailable",
        );
        let became_unavailable = Opts::new(
            "aggregator_unavailable_apiservice_total",
            "Number of times that APIServices became unavailable, by name and reason",
        );
        Ok(Self {
            unavailable: registered(registry, IntGaugeVec::new(unavailable, &["name"])?)?,
            became_unavailable: registered(registry, IntCounterVec::new(became_unavailable, &["name", "reason"])?)?,
        })
    }

    /// Records the availability of an APIService.
    pub(crate) fn available(&self, name: &str, available: bool) {
        if let Ok(gauge) = self.unavailable.get_metric_with_label_values(&[name]) {
            gauge.set(i64::from(!available));
        }
    }

    /// Counts an APIService that was available and became unavailable.
    pub(crate) fn became_unavailable(&self, name: &str, reason: &str) {
        if let Ok(counter) = self.became_unavailable.get_metric_with_label_values(&[name, reason]) {
            counter.inc();
        }
    }

    /// Removes the gauge of an APIService that is gone.
    pub(crate) fn forget(&self, name: &str) {
        // An APIService that was never counted has no gauge.
        let _ = self.unavailable.remove_label_values(&[name]);
    }
}
