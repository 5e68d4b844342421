//! ReplicaSets: <https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/>.

use holdfast_resource::{Check, Field, Part, Rules, Strategy};

use crate::config::Config;
use crate::validation::Errors;
use crate::workload::{SelectorRules, at_most_count, validate_selector_and_template};

/// Strategy of ReplicaSets.
pub(crate) struct ReplicaSet {
    pub(crate) config: Config,
}

impl Strategy for ReplicaSet {
    fn rules<'v>(&self) -> &dyn Rules<'v> {
        self
    }
}

impl<'v> Rules<'v> for ReplicaSet {
    fn rule(&self, name: &str, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match name {
            "selector_and_template" => {
                let rules = SelectorRules::of_replica_sets(self.config.pods());
                validate_selector_and_template(part, &rules, check);
            }
            "bounds" => validate_replica_bounds(part, &mut check.errors),
            _ => check.unknown_rule(name, part),
        }
    }
}

/// Validates that the replica counts in the status of ReplicaSets and ReplicationControllers are consistent.
///
/// upstream: pkg/apis/apps/validation#ValidateReplicaSetStatus
/// upstream: pkg/apis/core/validation#ValidateReplicationControllerStatus
pub(crate) fn validate_replica_bounds(status: &Field<'_, '_>, errors: &mut Errors) {
    let of_all = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    at_most_count(status, &of_all, "replicas", "status.replicas", errors);
    at_most_count(status, &["availableReplicas"], "readyReplicas", "readyReplicas", errors);
}
