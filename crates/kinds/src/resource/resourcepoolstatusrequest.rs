//! ResourcePoolStatusRequests: one-time queries for the devices of pools.

use std::time::SystemTime;

use holdfast_kind_tables::Kind;
use holdfast_resource::table::{NamedCell, age, items};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::conditions::validate_conditions;
use holdfast_schema::{Field, FieldError, NoRules};
use holdfast_value::Value;

use crate::kind::kind;
use crate::validation::{Errors, immutable};

/// Strategy of ResourcePoolStatusRequests.
pub(crate) struct ResourcePoolStatusRequest;

/// Table cells.
pub(super) const CELLS: &[NamedCell] = &[
    ("pools-total", |object, _| sum(object, "totalDevices")),
    ("pools-available", |object, _| sum(object, "availableDevices")),
    ("pools-allocated", |object, _| sum(object, "allocatedDevices")),
    ("pools-unavailable", |object, _| sum(object, "unavailableDevices")),
    ("pools-errors", |object, _| {
        of_pools(object, |pool| i64::from(pool.get("validationError").is_some()))
    }),
    ("pools-status", |object, _| outcome(object)),
    ("pools-completed", completed),
];

/// Returns the condition that completed a request, and its type.
fn end(object: &Value) -> Option<(&str, &Value)> {
    let conditions = items(object, &["status", "conditions"]).iter();
    let mut ends = conditions.filter_map(|condition| Some((condition.str_at(&["type"])?, condition)));
    ends.find(|(type_name, condition)| {
        ["Complete", "Failed"].contains(type_name) && condition.str_at(&["status"]) == Some("True")
    })
}

fn of_pools(object: &Value, count: impl Fn(&Value) -> i64) -> Value {
    let is_failed = end(object).is_some_and(|(type_name, _)| type_name == "Failed");
    if object.get("status").is_none() || is_failed {
        return "-".into();
    }
    let sum: i64 = items(object, &["status", "pools"]).iter().map(count).sum();
    sum.to_string().into()
}

fn sum(object: &Value, name: &str) -> Value {
    of_pools(object, |pool| {
        pool.get(name).and_then(Value::as_i64).unwrap_or_default()
    })
}

fn outcome(object: &Value) -> Value {
    let pools = items(object, &["status", "pools"]).len() as i64;
    let count = object
        .at(&["status", "poolCount"])
        .and_then(Value::as_i64)
        .unwrap_or_default();
    match end(object) {
        Some(("Complete", _)) if count > pools => format!("Complete ({pools}/{count} pools)").into(),
        Some((type_name, _)) => type_name.into(),
        None => "Pending".into(),
    }
}

fn completed(object: &Value, now: SystemTime) -> Value {
    match end(object).filter(|(type_name, _)| *type_name == "Complete") {
        Some((_, condition)) => age(condition.str_at(&["lastTransitionTime"]), now).into(),
        None => "<none>".into(),
    }
}

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(ResourcePoolStatusRequest).cells(CELLS).done()
}

impl Strategy for ResourcePoolStatusRequest {
    /// upstream: pkg/registry/resource/resourcepoolstatusrequest#resourcePoolStatusRequestStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &NoRules)
    }

    /// upstream: pkg/registry/resource/resourcepoolstatusrequest#resourcePoolStatusRequestStatusStrategy.ValidateUpdate
    /// upstream: pkg/registry/resource/resourcepoolstatusrequest#resourcePoolStatusRequestStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        if context.subresource.is_some() {
            let (root, old_root) = (Field::root(object), Field::root(old));
            validate_answer(&root.child("status"), &old_root.child("status"), &mut errors);
        }
        errors.extend(self.validate(context, object));
        errors.extend(context.check_changes(object, old, &NoRules));
        errors
    }
}

/// Checks that an existing answer is immutable.
///
/// upstream: pkg/apis/resource/validation#validateResourcePoolStatusRequestStatusUpdate
fn validate_answer(status: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    match old.is_set() {
        true => immutable(status, old, errors),
        false => validate_conditions(&status.child("conditions"), errors),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    #[test]
    fn a_request_names_a_driver_and_asks_for_a_hundred_pools() {
        let harness = Harness::serving("resource.k8s.io/v1alpha3=true", "");
        let request = |spec: &str| {
            format!(
                "{{apiVersion: resource.k8s.io/v1alpha3, kind: ResourcePoolStatusRequest, metadata: {{name: a}}, spec: {{{spec}}}}}"
            )
        };
        assert_eq!(at(&harness.create(&request("driver: d.io")), "spec.limit"), "100");
        assert_eq!(
            harness.errors(&request("driver: '', limit: 1001")),
            [
                "spec.driver: Required value",
                "spec.limit: Invalid value: 1001: must be less than or equal to 1000",
            ]
        );
    }
}
