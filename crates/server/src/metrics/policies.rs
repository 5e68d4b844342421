//! The metrics of admission policies, by policy and binding.

use holdfast_admission::policies::Check;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

use super::{Families, registered};

/// Upper bounds of the buckets in seconds, as in the reference.
const BUCKETS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// Counters of policies.
pub(crate) struct Policies {
    validating: PolicyMetrics,
    mutating: PolicyMetrics,
}

/// Number and duration of the checks of one type of policy.
struct PolicyMetrics {
    checks: IntCounterVec,
    durations: HistogramVec,
}

impl Policies {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        let labels = ["policy", "policy_binding", "error_type", "enforcement_action"];
        let metrics = |webhook_type: &str, labels: &[&str]| {
            let counted = Opts::new(
                format!("apiserver_{webhook_type}_admission_policy_check_total"),
                "Evaluations of admission policies, by policy, binding and outcome",
            );
            let timed = HistogramOpts::new(
                format!("apiserver_{webhook_type}_admission_policy_check_duration_seconds"),
                "Durations of expressions of admission policies, by policy, binding and outcome",
            );
            Ok::<_, prometheus::Error>(PolicyMetrics {
                checks: registered(registry, IntCounterVec::new(counted, labels)?)?,
                durations: registered(registry, HistogramVec::new(timed.buckets(BUCKETS.to_vec()), labels)?)?,
            })
        };
        Ok(Self {
            validating: metrics("validating", &labels)?,
            mutating: metrics("mutating", &labels[..3])?,
        })
    }

    /// Counts a validation with a finding.
    pub(crate) fn validated(&self, check: &Check) {
        let labels = [check.policy.as_str(), check.binding.as_str(), check.error, check.action];
        self.validating.count(&labels, check);
    }

    /// Counts a mutation.
    pub(crate) fn mutated(&self, check: &Check) {
        let labels = [check.policy.as_str(), check.binding.as_str(), check.error];
        self.mutating.count(&labels, check);
    }
}

impl PolicyMetrics {
    fn count(&self, labels: &[&str], check: &Check) {
        if let Ok(counter) = self.checks.get_metric_with_label_values(labels) {
            counter.inc();
        }
        if let Ok(histogram) = self.durations.get_metric_with_label_values(labels) {
            histogram.observe(check.elapsed.as_secs_f64());
        }
    }
}
