//! PriorityClasses: <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::{InitialObjects, Strategy, WriteContext};
use holdfast_schema::{AnyRules, Changes, Check, FieldError, Part, Rules};
use holdfast_value::Value;

use super::{SYSTEM_CLASSES, system_classes};
use crate::kind::kind;
use crate::rules::{PriorityClassChange, PriorityClassRule};

/// Strategy of PriorityClasses.
pub(crate) struct PriorityClass;

/// Largest value of a class whose name is not reserved.
const MAX_USER_PRIORITY: i64 = 1_000_000_000;
/// Prefix of reserved names.
const SYSTEM: &str = "system-";

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(PriorityClass)
        .initial_objects()
        .metadata_checks(of_core(0, 1))
        .done()
}

impl Strategy for PriorityClass {
    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self
    }

    /// Validates only the immutable fields.
    ///
    /// upstream: pkg/registry/scheduling/priorityclass#priorityClassStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        context.check_changes(object, old, self)
    }
}

impl<'v> Rules<'v> for PriorityClass {
    type Rule = PriorityClassRule;

    fn rule(&self, rule: PriorityClassRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        match rule {
            PriorityClassRule::NameAndValue => validate_name_and_value(part, check),
        }
    }
}

impl<'v> Changes<'v> for PriorityClass {
    type Change = PriorityClassChange;

    /// upstream: pkg/apis/scheduling/validation#ValidatePriorityClassUpdate
    fn change(&self, change: PriorityClassChange, part: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        let PriorityClassChange::Value = change;
        let value = part.child("value");
        if value.number().unwrap_or_default() != old.child("value").number().unwrap_or_default() {
            check.errors.push(value.forbidden("may not be changed in an update."));
        }
    }
}

/// Checks that a system name has the value of that system class, and that other values are not too large.
///
/// upstream: pkg/apis/scheduling/validation#ValidatePriorityClass
fn validate_name_and_value(class: &Part<'_, '_>, check: &mut Check<'_>) {
    let metadata = class.child("metadata");
    let (name, value) = (metadata.child("name"), class.child("value"));
    if name.text().starts_with(SYSTEM) {
        let known = SYSTEM_CLASSES.iter().find(|(known, ..)| *known == name.text());
        let message = match known {
            None => Some(format!("{} is not a known system priority class", name.text())),
            Some((known, fixed, _)) if value.number() != Some(*fixed) => {
                Some(format!("value of {known} PriorityClass must be {fixed}"))
            }
            Some(_) => None,
        };
        if let Some(message) = message {
            check.errors.push(name.forbidden(format!(
                "priority class names with '{SYSTEM}' prefix are reserved for system use only. error: {message}"
            )));
        }
    } else if value.number().is_some_and(|number| number > MAX_USER_PRIORITY) {
        let message = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        check.errors.push(value.forbidden(message));
    }
}

impl InitialObjects for PriorityClass {
    fn initial_objects(&self) -> Vec<Value> {
        system_classes().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn class(name: &str, value: i64) -> String {
        format!("{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: {name}}}, value: {value}}}")
    }

    #[test]
    fn priority_above_the_maximum_needs_a_system_name() {
        let harness = Harness::new();
        assert_eq!(
            harness.errors(&class("a", 1_000_000_001)),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]
        );
        assert!(harness.errors(&class("system-node-critical", 2_000_001_000)).is_empty());
        assert!(harness.errors(&class("system-x", 1))[0].ends_with("system-x is not a known system priority class"));
    }

    #[test]
    fn change_of_the_value_is_forbidden() {
        assert_eq!(
            Harness::new().update_errors(&class("a", 1), &class("a", 2)),
            ["value: Forbidden: may not be changed in an update."]
        );
    }
}
