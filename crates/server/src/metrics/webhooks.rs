//! The metrics of admission webhooks, by name.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

use super::{Families, registered};

/// Upper bounds of the buckets in seconds, as in the reference.
const BUCKETS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// Maximum code with a counter of its own, to bound the number of counters; higher codes are counted as this one.
const HIGHEST_CODE: u16 = 600;

/// Counters of webhooks.
pub(crate) struct Webhooks {
    durations: HistogramVec,
    requests: IntCounterVec,
    rejections: IntCounterVec,
    failed_open: IntCounterVec,
}

/// Labels of a call of a webhook.
#[derive(Clone, Copy)]
pub(crate) struct WebhookLabels<'a> {
    /// The name of the webhook.
    pub(crate) name: &'a str,
    /// `admit` or `validating`.
    pub(crate) webhook_type: &'static str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'a str,
}

impl Webhooks {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let durations = HistogramOpts::new(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Durations of webhook calls in seconds, by name, type, operation and rejection",
        );
        let labels = ["name", "operation", "rejected", "type"];
        Ok(Self {
            durations: registered(
                registry,
                HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &labels)?,
            )?,
            requests: counter(
                "apiserver_admission_webhook_request_total",
                "Webhook calls, by name, type, operation, code and rejection of the write",
                &["code", "name", "operation", "rejected", "type"],
            )?,
            rejections: counter(
                "apiserver_admission_webhook_rejection_count",
                "Writes rejected by webhooks or because a webhook did not answer, by name, type, operation, error and code",
                &["error_type", "name", "operation", "rejection_code", "type"],
            )?,
            failed_open: counter(
                "apiserver_admission_webhook_fail_open_count",
                "Writes that continued without the answer of a webhook, by its name and type",
                &["name", "type"],
            )?,
        })
    }

    /// Counts a call that ended with `code`, and records its duration.
    pub(crate) fn called(&self, labels: WebhookLabels<'_>, duration: Duration, code: u16, rejected: bool) {
        let rejected = if rejected { "true" } else { "false" };
        let WebhookLabels {
            name,
            webhook_type,
            operation,
        } = labels;
        if let Ok(histogram) = self
            .durations
            .get_metric_with_label_values(&[name, operation, rejected, webhook_type])
        {
            histogram.observe(duration.as_secs_f64());
        }
        let code = code.min(HIGHEST_CODE).to_string();
        count(&self.requests, &[&code, name, operation, rejected, webhook_type]);
    }

    /// Counts a rejection; `error` is `no_error` if the webhook itself rejects, `calling_webhook_error` if it could not
    /// be called, and `apiserver_internal_error` otherwise.
    pub(crate) fn rejected(&self, labels: WebhookLabels<'_>, error: &str, code: u16) {
        let code = code.min(HIGHEST_CODE).to_string();
        let WebhookLabels {
            name,
            webhook_type,
            operation,
        } = labels;
        count(&self.rejections, &[error, name, operation, &code, webhook_type]);
    }

    /// Counts a write that continues without the response of the webhook.
    pub(crate) fn failed_open(&self, labels: WebhookLabels<'_>) {
        count(&self.failed_open, &[labels.name, labels.webhook_type]);
    }
}

fn count(counter: &IntCounterVec, labels: &[&str]) {
    if let Ok(counter) = counter.get_metric_with_label_values(labels) {
        counter.inc();
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn calls_and_refusals_are_counted_by_webhook() {
        let registry = Families::default();
        let webhooks = Webhooks::new(&registry).unwrap();
        let labels = WebhookLabels {
            name: "a.b.c",
            webhook_type: "validating",
            operation: "CREATE",
        };
        webhooks.called(labels, Duration::from_millis(7), 418, true);
        webhooks.rejected(labels, "no_error", 999);
        webhooks.failed_open(labels);
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "apiserver_admission_webhook_admission_duration_seconds_bucket{name=\"a.b.c\",operation=\"CREATE\",rejected=\"true\",type=\"validating\",le=\"0.025\"} 1",
            "apiserver_admission_webhook_request_total{code=\"418\",name=\"a.b.c\",operation=\"CREATE\",rejected=\"true\",type=\"validating\"} 1",
            "apiserver_admission_webhook_rejection_count{error_type=\"no_error\",name=\"a.b.c\",operation=\"CREATE\",rejection_code=\"600\",type=\"validating\"} 1",
            "apiserver_admission_webhook_fail_open_count{name=\"a.b.c\",type=\"validating\"} 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
