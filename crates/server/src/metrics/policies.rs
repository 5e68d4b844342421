//! The metrics of admission policies, by policy and binding.

use holdfast_admission::policies::Check;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

use super::{Families, registered};

/// Upper bounds of the buckets in seconds, as in the reference.
const BUCKETS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// Counters of policies.
pub(crate) struct Policies {
    validating: (IntCounterVec, HistogramVec),
    mutating: (IntCounterVec, HistogramVec),
}

impl Policies {
    pub(super) fn new(registry: &Families) -> prometheus::Result<Self> {
        let labels = ["policy", "policy_binding", "error_type", "enforcement_action"];
        let of = |webhook_type: &str, labels: &[&str]| {
            let counted = Opts::new(
                format!("apiserver_{webhook_type}_admission_policy_check_total"),
                "Evaluations of admission policies, by policy, binding and outcome",
            );
            let timed = HistogramOpts::new(
                format!("apiserver_{webhook_type}_admission_policy_check_duration_seconds"),
                "How long expressions of admission policies took, by policy, binding and outcome",
            );
            Ok::<_, prometheus::Error>((
                registered(registry, IntCounterVec::new(counted, labels)?)?,
                registered(registry, HistogramVec::new(timed.buckets(BUCKETS.to_vec()), labels)?)?,
            ))
        };
        Ok(Self {
            validating: of("validating", &labels)?,
            mutating: of("mutating", &labels[..3])?,
        })
    }

    /// Counts a validation with a finding.
    pub(crate) fn validated(&self, check: &Check) {
        let labels = [check.policy.as_str(), check.binding.as_str(), check.error, check.action];
        count(&self.validating, &labels, check);
    }

    /// Counts a mutation.
    pub(crate) fn mutated(&self, check: &Check) {
        let labels = [check.policy.as_str(), check.binding.as_str(), check.error];
        count(&self.mutating, &labels, check);
    }
}

fn count((counter, histogram): &(IntCounterVec, HistogramVec), labels: &[&str], check: &Check) {
    if let Ok(counter) = counter.get_metric_with_label_values(labels) {
        counter.inc();
    }
    if let Ok(histogram) = histogram.get_metric_with_label_values(labels) {
        histogram.observe(check.elapsed.as_secs_f64());
    }
}
