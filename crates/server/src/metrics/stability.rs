//! Stability levels of metrics as in the reference, and the number of metrics of each level.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, Opts};

/// Metrics whose names and labels do not change.
const STABLE: [&str; 13] = [
    "apiserver_admission_controller_admission_duration_seconds",
    "apiserver_admission_step_admission_duration_seconds",
    "apiserver_admission_webhook_admission_duration_seconds",
    "apiserver_current_inflight_requests",
    "apiserver_longrunning_requests",
    "apiserver_request_duration_seconds",
    "apiserver_request_total",
    "apiserver_requested_deprecated_apis",
    "apiserver_response_sizes",
    "apiserver_storage_objects",
    "apiserver_storage_size_bytes",
    "kubernetes_healthcheck",
    "kubernetes_healthchecks_total",
];

/// Metrics that may get additional labels.
const BETA: [&str; 19] = [
    "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
    "apiserver_authentication_config_controller_automatic_reloads_total",
    "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
    "apiserver_authorization_config_controller_automatic_reloads_total",
    "apiserver_cel_compilation_duration_seconds",
    "apiserver_cel_evaluation_duration_seconds",
    "apiserver_flowcontrol_current_executing_requests",
    "apiserver_flowcontrol_current_executing_seats",
    "apiserver_flowcontrol_current_inqueue_requests",
    "apiserver_flowcontrol_dispatched_requests_total",
    "apiserver_flowcontrol_nominal_limit_seats",
    "apiserver_flowcontrol_rejected_requests_total",
    "apiserver_flowcontrol_request_wait_duration_seconds",
    "apiserver_validating_admission_policy_check_duration_seconds",
    "apiserver_validating_admission_policy_check_total",
    "disabled_metrics_total",
    "hidden_metrics_total",
    "kubernetes_feature_enabled",
    "registered_metrics_total",
];

/// Stability levels, with the names of the metrics of all levels but the first.
const STAGES: [(&str, &[&str]); 3] = [("ALPHA", &[]), ("BETA", &BETA), ("STABLE", &STABLE)];

/// Returns the stability level of a metric: `ALPHA`, `BETA` or `STABLE`.
pub(super) fn stability(name: &str) -> &'static str {
    STAGES.get(stage(name)).map_or("ALPHA", |(stage, _)| stage)
}

/// Returns the help text of a metric as it is exposed: `[ALPHA] Events sent to watches`.
pub(super) fn help_text(name: &str, help: &str) -> String {
    format!("[{}] {help}", stability(name))
}

/// Returns the index of a metric's stability level.
fn stage(name: &str) -> usize {
    let stage = STAGES.iter().position(|(_, names)| names.contains(&name));
    stage.unwrap_or(0)
}

/// Number of metrics of each stability level, and of disabled metrics.
#[derive(Default)]
pub(super) struct Numbers {
    of_stages: [AtomicU64; STAGES.len()],
    disabled: AtomicU64,
}

impl Numbers {
    /// Counts a metric of that name.
    pub(super) fn add(&self, name: &str) {
        if let Some(number) = self.of_stages.get(stage(name)) {
            number.fetch_add(1, Relaxed);
        }
    }

    /// Counts disabled metrics.
    pub(super) fn disable(&self, count: u64) {
        self.disabled.fetch_add(count, Relaxed);
    }
}

/// The metrics about metrics.
pub(super) struct Registered {
    numbers: Arc<Numbers>,
    registered: IntCounterVec,
    disabled: IntCounter,
    /// Counter of hidden metrics, of which there are none.
    hidden: IntCounter,
}

impl Registered {
    pub(super) fn new(numbers: Arc<Numbers>) -> prometheus::Result<Self> {
        let registered = Opts::new("registered_metrics_total", "Registered metrics, by stability");
        Ok(Self {
            numbers,
            registered: IntCounterVec::new(registered, &["deprecated_version", "stability_level"])?,
            disabled: IntCounter::new("disabled_metrics_total", "Number of disabled metrics")?,
            hidden: IntCounter::new("hidden_metrics_total", "Hidden metrics")?,
        })
    }
}

impl Collector for Registered {
    fn desc(&self) -> Vec<&Desc> {
        let others = [&self.disabled, &self.hidden].into_iter().flat_map(Collector::desc);
        self.registered.desc().into_iter().chain(others).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for ((stage, _), number) in STAGES.iter().zip(&self.numbers.of_stages) {
            if let Ok(counter) = self.registered.get_metric_with_label_values(&["", stage]) {
                counter.reset();
                counter.inc_by(number.load(Relaxed));
            }
        }
        self.disabled.reset();
        self.disabled.inc_by(self.numbers.disabled.load(Relaxed));
        let others = [&self.disabled, &self.hidden].into_iter().flat_map(Collector::collect);
        self.registered.collect().into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::super::Families;
    use super::*;

    #[test]
    fn metrics_are_counted_by_their_stage() {
        let families = Families::default();
        families.register(Registered::new(families.numbers()).unwrap()).unwrap();
        let counter = IntCounter::new("apiserver_request_total", "a").unwrap();
        families.register(counter).unwrap();
        families.register(IntCounter::new("a", "a").unwrap()).unwrap();
        let text = TextEncoder::new().encode_to_string(&families.gather()).unwrap();
        for line in [
            "registered_metrics_total{deprecated_version=\"\",stability_level=\"ALPHA\"} 1\n",
            "registered_metrics_total{deprecated_version=\"\",stability_level=\"BETA\"} 3\n",
            "registered_metrics_total{deprecated_version=\"\",stability_level=\"STABLE\"} 1\n",
            "disabled_metrics_total 0\n",
            "hidden_metrics_total 0\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn every_stage_is_one_of_a_metric_that_there_is() {
        let families = super::super::families(Vec::new()).unwrap();
        let known: Vec<_> = families.iter().map(|family| family.name.as_str()).collect();
        for name in BETA.iter().chain(&STABLE) {
            assert!(known.contains(name), "{name}");
        }
    }
}
