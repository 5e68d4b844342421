//! DeviceTaintRules: taints that an administrator gives to devices.

use holdfast_resource::metadata::formats::dns_label;
use holdfast_resource::{Field, FieldError, Refusal, Strategy, WriteContext};
use holdfast_value::Value;

use super::device::validate_taint;
use super::names::{exceeds, validate_driver, validate_pool};
use crate::time::time_text;
use crate::validation::conditions::validate_conditions;
use crate::validation::{Errors, report};

/// What only DeviceTaintRules do.
pub(crate) struct DeviceTaintRule;

const TAINT: [&str; 2] = ["spec", "taint"];
const CONDITIONS: usize = 8;

impl Strategy for DeviceTaintRule {
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        stamp(context, object, None);
        Ok(())
    }

    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        if context.subresource.is_none() {
            stamp(context, object, old.at(&TAINT));
        }
        Ok(())
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        validate_spec(&Field::root(object).child("spec"))
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, _old: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        if context.subresource.is_none() {
            return validate_spec(&root.child("spec"));
        }
        let mut errors = Errors::new();
        let status = root.child("status");
        let conditions = status.child("conditions");
        validate_conditions(&conditions, &mut errors);
        exceeds(&conditions, CONDITIONS, &mut errors);
        errors
    }
}

/// Says when the taint was added, where it does not, or where its effect is another than that of `old`.
fn stamp(context: &WriteContext<'_>, object: &mut Value, old: Option<&Value>) {
    let Some(taint) = object.at_mut(&TAINT) else { return };
    let stale = old
        .is_some_and(|old| old.get("effect") != taint.get("effect") && old.get("timeAdded") == taint.get("timeAdded"));
    if stale || taint.get("timeAdded").is_none() {
        taint.set_at(&["timeAdded"], time_text(context.now));
    }
}

/// `validateDeviceTaintRuleSpec`
fn validate_spec(spec: &Field<'_, '_>) -> Errors {
    let mut errors = Errors::new();
    let selector = spec.child("deviceSelector");
    let (driver, pool, device) = (
        selector.child("driver"),
        selector.child("pool"),
        selector.child("device"),
    );
    if driver.is_set() {
        validate_driver(&driver, &mut errors);
    }
    if pool.is_set() {
        validate_pool(&pool, &mut errors);
    }
    if device.is_set() {
        report(&device, dns_label(device.text()), &mut errors);
    }
    validate_taint(&spec.child("taint"), &mut errors);
    errors
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    fn rule(taint: &str) -> String {
        format!(
            "{{apiVersion: resource.k8s.io/v1beta2, kind: DeviceTaintRule, metadata: {{name: a}}, spec: {{deviceSelector: \
             {{driver: d.io}}, taint: {{{taint}}}}}}}"
        )
    }

    #[test]
    fn a_taint_says_since_when_it_is_there_and_has_an_effect() {
        let harness = Harness::serving("resource.k8s.io/v1beta2=true", "");
        let created = harness.create(&rule("key: a.io/b, effect: NoExecute"));
        assert_ne!(at(&created, "spec.taint.timeAdded"), "nothing");
        assert_eq!(
            harness.errors(&rule("key: '', effect: Odd")).len(),
            harness.errors(&rule("key: '', effect: NoSchedule")).len() + 1
        );
    }
}
