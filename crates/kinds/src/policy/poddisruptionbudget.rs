//! PodDisruptionBudgets: <https://kubernetes.io/docs/concepts/workloads/pods/disruptions/>.

use holdfast_resource::metadata::labels::validate_label_selector;
use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::conditions::validate_conditions;
use crate::validation::{Errors, numbers, optional_one_of};

/// What only PodDisruptionBudgets do.
pub(crate) struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        let (least, most) = (spec.child("minAvailable"), spec.child("maxUnavailable"));
        if least.is_set() && most.is_set() {
            errors.push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
        }
        for part in [&least, &most] {
            numbers::number_or_percent(part, &mut errors);
            numbers::at_most_all(part, &mut errors);
        }
        validate_label_selector(&spec.child("selector"), &mut errors);
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        optional_one_of(&spec.child("unhealthyPodEvictionPolicy"), &policies, &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, _old: &Value) -> Vec<FieldError> {
        if context.subresource != Some("status") {
            return self.validate(context, object);
        }
        let root = Field::root(object);
        let status = root.child("status");
        let mut errors = Errors::new();
        for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            numbers::not_negative(&status.child(count), &mut errors);
        }
        validate_conditions(&status.child("conditions"), &mut errors);
        errors
    }
}
