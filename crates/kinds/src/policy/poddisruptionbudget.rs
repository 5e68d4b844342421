//! PodDisruptionBudgets: <https://kubernetes.io/docs/concepts/workloads/pods/disruptions/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{at_creation, of_apimachinery, with_status};
use holdfast_resource::Strategy;
use holdfast_schema::{AnyRules, Check, CreationChecks, Part, Rules};

use crate::kind::kind;
use crate::rules::PodDisruptionBudgetRule;
use crate::validation::numbers;

/// Strategy of PodDisruptionBudgets.
pub(crate) struct PodDisruptionBudget;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(PodDisruptionBudget)
        .read_by(super::at_rest::poddisruptionbudget)
        .empty_status()
        .metadata_checks(at_creation(
            with_status(of_apimachinery(0, 0), 0, 0),
            CreationChecks::Last,
        ))
        .done()
}

impl Strategy for PodDisruptionBudget {
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }
}

impl<'v> Rules<'v> for PodDisruptionBudget {
    type Rule = PodDisruptionBudgetRule;

    fn rule(&self, rule: PodDisruptionBudgetRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            PodDisruptionBudgetRule::Bounds => validate_bounds(part, check),
        }
    }
}

/// Checks that a budget has one bound, a number or a percentage.
///
/// upstream: pkg/apis/policy/validation#ValidatePodDisruptionBudgetSpec
fn validate_bounds(spec: &Part<'_, '_>, check: &mut Check<'_>) {
    let (least, most) = (spec.child("minAvailable"), spec.child("maxUnavailable"));
    if least.is_set() && most.is_set() {
        check
            .errors
            .push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
    }
    for part in [&least, &most] {
        numbers::number_or_percent(part, &mut check.errors);
        numbers::at_most_all(part, &mut check.errors);
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
