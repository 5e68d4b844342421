//! ReplicaSets: <https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/>.

use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::config::Config;
use crate::validation::{Errors, numbers};
use crate::workload::{
    SelectorRules, at_most_count, immutable_selector, validate_counts, validate_selector_and_template,
};

/// What only ReplicaSets do.
pub(crate) struct ReplicaSet {
    pub(crate) config: Config,
}

impl Strategy for ReplicaSet {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        self.validate_spec(&Field::root(object).child("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (object, old) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        if context.subresource == Some("status") {
            validate_replica_status(&object.child("status"), &mut errors);
            return errors;
        }
        let spec = object.child("spec");
        self.validate_spec(&spec, &mut errors);
        immutable_selector(&spec, &old.child("spec"), &mut errors);
        errors
    }
}

impl ReplicaSet {
    fn validate_spec(&self, spec: &Field<'_, '_>, errors: &mut Errors) {
        numbers::not_negative(&spec.child("replicas"), errors);
        numbers::not_negative(&spec.child("minReadySeconds"), errors);
        let rules = SelectorRules::of_replica_sets(self.config.allow_privileged);
        validate_selector_and_template(spec, &rules, errors);
    }
}

const COUNTS: [&str; 6] = [
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "terminatingReplicas",
    "observedGeneration",
];

/// Checks the counts that ReplicaSets and ReplicationControllers keep.
pub(crate) fn validate_replica_status(status: &Field<'_, '_>, errors: &mut Errors) {
    validate_counts(status, &COUNTS, errors);
    let of_all = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    at_most_count(status, &of_all, "replicas", "status.replicas", errors);
    at_most_count(status, &["availableReplicas"], "readyReplicas", "readyReplicas", errors);
}
