//! The metrics of conversion webhooks.

use std::time::Duration;

use holdfast_resource::conversion::WebhookFailureKind;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

use super::{Families, registered};

/// The counters of conversions by webhooks.
pub(super) struct Conversions {
    requests: IntCounterVec,
    durations: HistogramVec,
    by_definition: HistogramVec,
}

/// Bucket bounds of the reference, from 5 milliseconds to a minute.
const SECONDS: [f64; 15] = [
    0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0,
];

impl Conversions {
    /// Creates counters that start at zero, and registers them in `registry`.
    ///
    /// # Errors
    /// If two metrics have the same name.
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        let of_outcome = ["result", "failure_type"];
        let histogram = |name: &str, help: &str, bounds: Vec<f64>, labels: &[&str]| {
            let options = HistogramOpts::new(name, help).buckets(bounds);
            registered(registry, HistogramVec::new(options, labels)?)
        };
        Ok(Self {
            requests: registered(
                registry,
                IntCounterVec::new(
                    Opts::new(
                        "apiserver_conversion_webhook_request_total",
                        "Requests to conversion webhooks, by result",
                    ),
                    &of_outcome,
                )?,
            )?,
            durations: histogram(
                "apiserver_conversion_webhook_duration_seconds",
                "Durations of conversions by webhooks, in seconds",
                SECONDS.to_vec(),
                &of_outcome,
            )?,
            by_definition: histogram(
                "apiserver_crd_conversion_webhook_duration_seconds",
                "Durations of conversions by webhooks in seconds, by CRD and versions",
                prometheus::exponential_buckets(0.001, 2.0, 15)?,
                &["crd_name", "from_version", "to_version", "succeeded"],
            )?,
        })
    }

    /// Counts one call.
    pub(super) fn count(
        &self,
        crd: &str,
        [from, to]: [&str; 2],
        failure: Option<WebhookFailureKind>,
        elapsed: Duration,
    ) {
        let result = if failure.is_none() { "success" } else { "failure" };
        let outcome = [result, failure.map_or("", WebhookFailureKind::name)];
        let seconds = elapsed.as_secs_f64();
        if let Ok(counter) = self.requests.get_metric_with_label_values(&outcome) {
            counter.inc();
        }
        if let Ok(histogram) = self.durations.get_metric_with_label_values(&outcome) {
            histogram.observe(seconds);
        }
        let succeeded = if failure.is_none() { "true" } else { "false" };
        let labels = [crd, from, to, succeeded];
        if let Ok(histogram) = self.by_definition.get_metric_with_label_values(&labels) {
            histogram.observe(seconds);
        }
    }
}
