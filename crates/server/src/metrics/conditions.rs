//! The metrics of match conditions, by policy and webhook.

use holdfast_admission::policies::conditions::ConditionCheck;
use holdfast_admission::timings::BUCKETS;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

use super::{Families, registered};

/// Counters of match conditions.
pub(crate) struct Conditions {
    durations: HistogramVec,
    errors: IntCounterVec,
    exclusions: IntCounterVec,
}

/// Labels that describe the owner of match conditions and the request.
#[derive(Clone, Copy)]
pub(crate) struct ConditionLabels<'a> {
    /// `policy` or `webhook`.
    pub(crate) kind: &'static str,
    /// `admit`, `validate` or `validating`.
    pub(crate) admission_type: &'static str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'a str,
}

impl Conditions {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        const LABELS: [&str; 4] = ["kind", "name", "operation", "type"];
        let counter = |name: &str, help: &str| {
            let opts = Opts::new(format!("apiserver_admission_match_condition_{name}"), help.to_owned());
            registered(registry, IntCounterVec::new(opts, &LABELS)?)
        };
        let durations = HistogramOpts::new(
            "apiserver_admission_match_condition_evaluation_seconds",
            "Durations of the evaluation of match conditions in seconds, by name and kind of their owner, operation and type",
        );
        Ok(Self {
            durations: registered(
                registry,
                HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &LABELS)?,
            )?,
            errors: counter(
                "evaluation_errors_total",
                "Match conditions that could not be evaluated, by name and kind of their owner, operation and type",
            )?,
            exclusions: counter(
                "exclusions_total",
                "Writes excluded by match conditions, by name and kind of their owner, operation and type",
            )?,
        })
    }

    /// Counts an evaluation.
    pub(crate) fn evaluated(&self, labels: ConditionLabels<'_>, check: &ConditionCheck) {
        let labels = [labels.kind, &check.name, labels.operation, labels.admission_type];
        if let Ok(histogram) = self.durations.get_metric_with_label_values(&labels) {
            histogram.observe(check.elapsed.as_secs_f64());
        }
        if check.errors > 0
            && let Ok(counter) = self.errors.get_metric_with_label_values(&labels)
        {
            counter.inc_by(check.errors as u64);
        }
    }

    /// Counts a write that the conditions of the policy or webhook `name` exclude.
    pub(crate) fn excluded(&self, labels: ConditionLabels<'_>, name: &str) {
        let labels = [labels.kind, name, labels.operation, labels.admission_type];
        if let Ok(counter) = self.exclusions.get_metric_with_label_values(&labels) {
            counter.inc();
        }
    }
}
