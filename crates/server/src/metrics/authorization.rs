//! Metrics of authorizers: their decisions, the calls of webhooks, and reloads of their configuration.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts};

use super::authentication::hash;
use super::process::unix_seconds;
use super::{Families, registered};

/// Buckets of match conditions in seconds.
const CONDITION_BUCKETS: [f64; 7] = [0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

/// Buckets of calls in seconds.
const CALL_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Type of authorizers that ask webhooks.
const WEBHOOK: &str = "Webhook";

/// Counters of authorizers.
#[derive(Clone)]
pub struct AuthorizationMetrics {
    /// Hash of the name of this server.
    server: Arc<str>,
    decisions: IntCounterVec,
    evaluations: IntCounterVec,
    durations: HistogramVec,
    failed_open: IntCounterVec,
    condition_errors: IntCounterVec,
    condition_exclusions: IntCounterVec,
    condition_seconds: HistogramVec,
    reloads: IntCounterVec,
    times: GaugeVec,
    last: IntGaugeVec,
    /// Hash of the configuration in force.
    hash: Arc<Mutex<Option<String>>>,
}

impl AuthorizationMetrics {
    pub(super) fn new(registry: &Families, server: &str) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let name = format!("apiserver_authorization_{name}");
            registered(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let histogram = |name: &str, help: &str, labels: &[&str], buckets: &[f64]| {
            let opts = HistogramOpts::new(format!("apiserver_authorization_{name}"), help);
            registered(registry, HistogramVec::new(opts.buckets(buckets.to_vec()), labels)?)
        };
        let config =
            |name: &str, help: &str| Opts::new(format!("apiserver_authorization_config_controller_{name}"), help);
        let (call, authorizer) = (&["name", "result"][..], &["type", "name"][..]);
        let status = &["status", "apiserver_id_hash"];
        let times = config(
            "automatic_reload_last_timestamp_seconds",
            "Time of the last reload of the authorization configuration, by outcome",
        );
        let last = config("last_config_info", "Hash of the authorization configuration in force");
        Ok(Self {
            server: server.into(),
            decisions: counter(
                "decisions_total",
                "Decisions of authorizers that allow or deny, by type, name and decision",
                &["type", "name", "decision"],
            )?,
            evaluations: counter(
                "webhook_evaluations_total",
                "Calls of authorization webhooks, by result",
                call,
            )?,
            durations: histogram(
                "webhook_duration_seconds",
                "Durations of calls of authorization webhooks in seconds, by result",
                call,
                &CALL_BUCKETS,
            )?,
            failed_open: counter(
                "webhook_evaluations_fail_open_total",
                "Requests about which a webhook has no opinion because it did not answer, by result",
                call,
            )?,
            condition_errors: counter(
                "match_condition_evaluation_errors_total",
                "Requests for which a match condition failed, by authorizer",
                authorizer,
            )?,
            condition_exclusions: counter(
                "match_condition_exclusions_total",
                "Requests that match conditions exclude, by authorizer",
                authorizer,
            )?,
            condition_seconds: histogram(
                "match_condition_evaluation_seconds",
                "Durations of the evaluation of match conditions in seconds, by authorizer",
                authorizer,
                &CONDITION_BUCKETS,
            )?,
            reloads: counter(
                "config_controller_automatic_reloads_total",
                "Reloads of the authorization configuration, by outcome",
                status,
            )?,
            times: registered(registry, GaugeVec::new(times, status)?)?,
            last: registered(registry, IntGaugeVec::new(last, &["apiserver_id_hash", "hash"])?)?,
            hash: Arc::default(),
        })
    }

    /// Returns the counter of a decision, `allowed` or `denied`, of an authorizer.
    ///
    /// # Errors
    /// If the metric has other labels, which is a bug of this code.
    pub(crate) fn decisions(&self, kind: &str, name: &str, decision: &str) -> prometheus::Result<IntCounter> {
        self.decisions.get_metric_with_label_values(&[kind, name, decision])
    }

    /// Counts a call of the webhook `name`.
    pub(crate) fn evaluated(&self, name: &str, result: &str, elapsed: Duration) {
        count(&self.evaluations, &[name, result]);
        if let Ok(histogram) = self.durations.get_metric_with_label_values(&[name, result]) {
            histogram.observe(elapsed.as_secs_f64());
        }
    }

    /// Counts a request about which the webhook `name` has no opinion because it did not answer.
    pub(crate) fn failed_open(&self, name: &str, result: &str) {
        count(&self.failed_open, &[name, result]);
    }

    /// Counts an evaluation of the match conditions of the webhook `name`.
    pub(crate) fn matched(&self, name: &str, outcome: &Result<bool, String>, seconds: f64) {
        let labels = [WEBHOOK, name];
        if let Ok(histogram) = self.condition_seconds.get_metric_with_label_values(&labels) {
            histogram.observe(seconds);
        }
        match outcome {
            Ok(true) => {}
            Ok(false) => count(&self.condition_exclusions, &labels),
            Err(_) => count(&self.condition_errors, &labels),
        }
    }

    /// Counts a reload that failed.
    pub fn reload_failed(&self) {
        self.count_reload("failure");
    }

    /// Counts a successful reload of a configuration with this text.
    pub fn reloaded(&self, text: &[u8]) {
        self.count_reload("success");
        self.in_force(text);
    }

    /// Records the text of the configuration in force.
    pub fn in_force(&self, text: &[u8]) {
        let hash = hash(text);
        if let Some(before) = self.hash.lock().replace(hash.clone()) {
            // The series may not exist.
            let _ = self.last.remove_label_values(&[&*self.server, &before]);
        }
        if let Ok(gauge) = self.last.get_metric_with_label_values(&[&*self.server, &hash]) {
            gauge.set(1);
        }
    }

    fn count_reload(&self, status: &str) {
        let labels = [status, &*self.server];
        count(&self.reloads, &labels);
        if let Ok(gauge) = self.times.get_metric_with_label_values(&labels) {
            gauge.set(unix_seconds());
        }
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
    fn calls_conditions_and_reloads_are_counted() {
        let registry = Families::default();
        let metrics = AuthorizationMetrics::new(&registry, "sha256:me").unwrap();
        metrics.decisions("RBAC", "rbac", "allowed").unwrap().inc();
        metrics.evaluated("w", "timeout", Duration::from_millis(3));
        metrics.failed_open("w", "timeout");
        metrics.matched("w", &Ok(false), 0.001);
        metrics.matched("w", &Err(String::new()), 0.001);
        metrics.in_force(b"a");
        metrics.reloaded(b"b");
        metrics.reload_failed();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "decisions_total{decision=\"allowed\",name=\"rbac\",type=\"RBAC\"} 1",
            "webhook_evaluations_total{name=\"w\",result=\"timeout\"} 1",
            "webhook_evaluations_fail_open_total{name=\"w\",result=\"timeout\"} 1",
            "webhook_duration_seconds_count{name=\"w\",result=\"timeout\"} 1",
            "match_condition_exclusions_total{name=\"w\",type=\"Webhook\"} 1",
            "match_condition_evaluation_errors_total{name=\"w\",type=\"Webhook\"} 1",
            "match_condition_evaluation_seconds_count{name=\"w\",type=\"Webhook\"} 2",
            "config_controller_automatic_reloads_total{apiserver_id_hash=\"sha256:me\",status=\"failure\"} 1",
        ] {
            assert!(
                text.contains(&format!("apiserver_authorization_{line}\n")),
                "{line}: {text}"
            );
        }
        assert_eq!(text.matches("last_config_info{").count(), 1, "{text}");
    }
}
