//! Admin access to devices, which only some namespaces may request:
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#admin-access>.

use holdfast_resource::WriteContext;
use holdfast_schema::{Field, GroupResource};
use holdfast_value::Value;

use crate::validation::Errors;

const LABEL: &str = "resource.kubernetes.io/admin-access";

/// Reports a request for admin access in a namespace that does not permit it. `devices` are those of a claim or a
/// template. The reference reports an earlier name of the field.
///
/// upstream: pkg/registry/resource#AuthorizedForAdmin
pub(super) fn validate_requests(context: &WriteContext<'_>, devices: &Field<'_, '_>, errors: &mut Errors) {
    let requests = devices.child("requests");
    let asking = |request: &Value| is_true(request.at(&["exactly", "adminAccess"]));
    if let Some(at) = requests.slice().iter().position(asking) {
        let place = format!("spec.devices.requests[{at}].adminAccess");
        require_leave(context, &Field::placed(None, &place), errors);
    }
}

/// Reports a result that newly grants admin access in a namespace that does not permit it.
///
/// upstream: pkg/registry/resource#AuthorizedForAdminStatus
pub(super) fn validate_results(
    context: &WriteContext<'_>,
    status: &Field<'_, '_>,
    old: &Field<'_, '_>,
    errors: &mut Errors,
) {
    let giving = |result: &Value| is_true(result.get("adminAccess"));
    let before = old
        .value()
        .and_then(|old| old.at(&["allocation", "devices", "results"]));
    if before
        .and_then(Value::as_list)
        .is_some_and(|results| results.iter().any(giving))
    {
        return;
    }
    let (allocation, devices);
    allocation = status.child("allocation");
    devices = allocation.child("devices");
    let results = devices.child("results");
    let giver = results.items().find(|result| result.value().is_some_and(giving));
    if let Some(result) = giver {
        require_leave(context, &result.child("adminAccess"), errors);
    }
}

fn is_true(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool).unwrap_or_default()
}

fn require_leave(context: &WriteContext<'_>, at: &Field<'_, '_>, errors: &mut Errors) {
    let namespaces = GroupResource {
        group: Default::default(),
        resource: "namespaces".into(),
    };
    let namespace = context.lookup.get(&namespaces, "", context.namespace);
    let has_leave = namespace.is_some_and(|namespace| namespace.str_at(&["metadata", "labels", LABEL]) == Some("true"));
    if !has_leave {
        errors.push(at.forbidden(format!(
            "admin access to devices requires the `{LABEL}: true` label on the containing namespace"
        )));
    }
}
