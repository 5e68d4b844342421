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
        validate_conditions(&status.child("conditions"), &mut errors);
        for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            numbers::not_negative(&status.child(count), &mut errors);
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn conditions_of_the_status_are_those_of_all_kinds() {
        let budget = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {minAvailable: 1}}";
        let with = |status: &str| budget.replace(", spec", &format!(", status: {{{status}}}, spec"));
        let errors = |status: &str| Harness::new().subresource_errors(Some("status"), budget, &with(status));
        assert_eq!(
            errors(
                "conditions: [{type: x y, status: 'True', reason: A, lastTransitionTime: '2020-01-01T00:00:00Z'}], currentHealthy: -1"
            ),
            [
                "status.conditions[0].type: Invalid value: \"x y\": name part must consist of alphanumeric characters, '-', '_' or \
                 '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
                 for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "status.currentHealthy: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
    }
}
