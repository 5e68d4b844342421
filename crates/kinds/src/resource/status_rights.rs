//! The rights that the parts of the status of a claim take: who allocates it, and the driver of each device that it tells of
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>, KEP-4817).

use std::collections::{BTreeMap, BTreeSet};

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget, User, service_account_of};
use holdfast_resource::{Field, WriteContext};
use holdfast_value::Value;

use super::GROUP;
use crate::validation::{Errors, same};

const CLAIMS: &str = "resourceclaims";

/// What a user is told of who runs on a node.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// `AuthorizedForBinding`, and where `of_devices` says so and the claim is allocated `AuthorizedForDeviceStatus`.
pub(super) fn validate(
    context: &WriteContext<'_>,
    (status, old): (&Field<'_, '_>, &Field<'_, '_>),
    of_devices: bool,
    errors: &mut Errors,
) {
    let verb = if context.patches { "patch" } else { "update" };
    let changes = |part: &str| !same(status.child(part).value(), old.child(part).value());
    if (changes("allocation") || changes("reservedFor"))
        && let Some(why) = refusal(context, verb, "binding", ("", ""))
    {
        let allocation = status.child("allocation");
        errors.push(allocation.forbidden(format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"{verb}\" \
             permission: {why}"
        )));
    }
    if !of_devices || !status.child("allocation").is_set() {
        return;
    }
    let verbs = match is_on_node_of(context.user, status) {
        true => vec![format!("associated-node:{verb}"), format!("arbitrary-node:{verb}")],
        false => vec![format!("arbitrary-node:{verb}")],
    };
    for driver in changed_drivers(status, old) {
        let place = (context.namespace, driver);
        let refusals: Option<Vec<String>> = verbs
            .iter()
            .map(|verb| refusal(context, verb, "driver", place))
            .collect();
        if let Some(first) = refusals.and_then(|refusals| refusals.into_iter().next()) {
            errors.push(status.child("devices").forbidden(format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {first}",
                verbs.join(" ")
            )));
        }
    }
}

/// Why the user may not do this with a part of claims; `None` where they may.
fn refusal(
    context: &WriteContext<'_>,
    verb: &str,
    subresource: &str,
    (namespace, name): (&str, &str),
) -> Option<String> {
    let attributes = Attributes {
        verb,
        target: AccessTarget::Resource(ResourceTarget {
            group: GROUP,
            version: "*",
            resource: CLAIMS,
            subresource,
            namespace,
            name,
        }),
    };
    let decision = context.access.authorizer.authorize(context.user, &attributes);
    if decision.allows() {
        return None;
    }
    let named = if name.is_empty() {
        String::new()
    } else {
        format!(" {name:?}")
    };
    let place = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let because = match decision.reason() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    Some(format!(
        "{CLAIMS}.{GROUP}{named} is forbidden: User {:?} cannot {verb} resource \"{CLAIMS}/{subresource}\" in API group {GROUP:?} \
         {place}{because}",
        context.user.name
    ))
}

/// Whether a service account runs on the only node that the claim is allocated on.
fn is_on_node_of(user: &User, status: &Field<'_, '_>) -> bool {
    let allocation = status.child("allocation");
    let selector = allocation.child("nodeSelector");
    let terms = selector.child("nodeSelectorTerms");
    let [term] = terms.slice() else { return false };
    let list = |name: &str| {
        term.get(name)
            .and_then(Value::as_list)
            .map(|list| list.to_vec())
            .unwrap_or_default()
    };
    let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
    let [field] = fields.as_slice() else { return false };
    let values = field
        .get("values")
        .and_then(Value::as_list)
        .map(|list| list.to_vec())
        .unwrap_or_default();
    let [node] = values.as_slice() else { return false };
    let names_one = expressions.is_empty()
        && field.str_at(&["key"]) == Some("metadata.name")
        && field.str_at(&["operator"]) == Some("In");
    let mut extra = user.extra.iter().filter(|(key, _)| key == NODE_NAME);
    let runs_on = extra
        .next()
        .and_then(|(_, values)| <&[_; 1]>::try_from(values.as_slice()).ok());
    let runs_there = runs_on.is_some_and(|[name]| !name.is_empty() && node.as_str() == Some(name));
    names_one && runs_there && service_account_of(&user.name).is_some()
}

/// The drivers whose devices the status tells of otherwise than before.
fn changed_drivers<'f>(status: &'f Field<'_, '_>, old: &'f Field<'_, '_>) -> BTreeSet<&'f str> {
    fn devices<'v>(status: &'v Field<'_, '_>) -> &'v [Value] {
        let devices = status
            .value()
            .and_then(|status| status.get("devices"))
            .and_then(Value::as_list);
        devices.map(|list| &list[..]).unwrap_or_default()
    }
    fn text<'v>(device: &'v Value, name: &str) -> &'v str {
        device.str_at(&[name]).unwrap_or_default()
    }
    let key = |device: &'f Value| ["driver", "pool", "device", "shareID"].map(|name| text(device, name));
    let mut before: BTreeMap<[&str; 4], &Value> = devices(old).iter().map(|device| (key(device), device)).collect();
    let changed = devices(status).iter().filter(|device| {
        let was = before.remove(&key(device));
        !was.is_some_and(|was| same(Some(was), Some(device)))
    });
    let mut drivers: BTreeSet<&str> = changed.map(|device| text(device, "driver")).collect();
    drivers.extend(before.into_values().map(|device| text(device, "driver")));
    drivers
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn errors(gates: &str, rights: &[&str], old: &str, new: &str) -> Vec<String> {
        let claim = |status: &str| {
            format!(
                "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: a, namespace: default}}, spec: {{devices: \
                 {{requests: [{{name: r, exactly: {{deviceClassName: c}}}}]}}}}, status: {{{status}}}}}"
            )
        };
        let harness = Harness::with_gates(gates).allowing(rights);
        let [old, new] = [old, new].map(|status| harness.read(&claim(status)));
        harness.check_update(Some("status"), &old, &new)
    }

    const ON: &str = "DRAResourceClaimGranularStatusAuthorization=true";
    const ALLOCATED: &str = "allocation: {devices: {results: [{request: r, driver: d.io, pool: p, device: one}]}}";
    const TOLD: &str = "devices: [{driver: d.io, pool: p, device: one}]";

    #[test]
    fn who_allocates_needs_the_right_to_bind() {
        assert_eq!(
            errors(ON, &[], "", ALLOCATED),
            [
                "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires \
                 resource=\"resourceclaims/binding\", verb=\"update\" permission: resourceclaims.resource.k8s.io is forbidden: \
                 User \"tester\" cannot update resource \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the cluster \
                 scope"
            ]
        );
        assert_eq!(errors(ON, &["update resourceclaims/binding"], "", ALLOCATED), [""; 0]);
        let off = "DRAResourceClaimGranularStatusAuthorization=false";
        assert_eq!(errors(off, &[], "", ALLOCATED), [""; 0]);
    }

    #[test]
    fn drivers_tell_of_their_own_devices() {
        let told = format!("{ALLOCATED}, {TOLD}");
        let refused = errors(ON, &[], ALLOCATED, &told);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(
            refused[0].contains(
                "verb=\"[arbitrary-node:update]\" permission: resourceclaims.resource.k8s.io \"d.io\" is forbidden"
            ),
            "{refused:?}"
        );
        assert_eq!(
            errors(ON, &["arbitrary-node:update resourceclaims/driver"], ALLOCATED, &told),
            [""; 0]
        );
        assert_eq!(errors(ON, &[], &told, &told), [""; 0]);
    }
}
