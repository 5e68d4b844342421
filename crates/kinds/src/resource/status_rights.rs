//! Rights to write parts of a claim's status: the allocation, and the device status of each driver
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>, KEP-4817).

use std::collections::{BTreeMap, BTreeSet};

use holdfast_authorization::{AccessTarget, Attributes, ResourceTarget, User, service_account_of};
use holdfast_resource::WriteContext;
use holdfast_resource::table::items;
use holdfast_schema::Field;
use holdfast_value::Value;

use super::GROUP;
use crate::validation::{Errors, same};

const CLAIMS: &str = "resourceclaims";

/// Checks that the user may bind a claim and, if `of_devices` is set and the claim is allocated, may write the status of
/// its devices.
///
/// upstream: pkg/registry/resource#AuthorizedForBinding
/// upstream: pkg/registry/resource#AuthorizedForDeviceStatus
pub(super) fn validate(
    context: &WriteContext<'_>,
    status: &Field<'_, '_>,
    old: &Field<'_, '_>,
    of_devices: bool,
    errors: &mut Errors,
) {
    let verb = if context.patches { "patch" } else { "update" };
    let changes = |part: &str| !same(status.child(part).value(), old.child(part).value());
    if (changes("allocation") || changes("reservedFor"))
        && let Some(why) = rejection(context, verb, "binding", "", "")
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
        let rejections: Option<Vec<String>> = verbs
            .iter()
            .map(|verb| rejection(context, verb, "driver", context.namespace, driver))
            .collect();
        if let Some(first) = rejections.and_then(|rejections| rejections.into_iter().next()) {
            errors.push(status.child("devices").forbidden(format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {first}",
                verbs.join(" ")
            )));
        }
    }
}

/// Returns the reason why the user may not change a part of claims; `None` if the user may.
fn rejection(context: &WriteContext<'_>, verb: &str, subresource: &str, namespace: &str, name: &str) -> Option<String> {
    let attributes = Attributes {
        verb,
        target: AccessTarget::Resource(ResourceTarget {
            group: GROUP,
            version: "*",
            resource: CLAIMS,
            subresource,
            namespace,
            name,
            field_selector: &[],
            label_selector: "",
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
    let why = attributes.rejection(&context.user.name, decision.reason());
    Some(format!("{CLAIMS}.{GROUP}{named} is forbidden: {why}"))
}

/// Returns true if a service account belongs to the only node on which the claim is allocated.
fn is_on_node_of(user: &User, status: &Field<'_, '_>) -> bool {
    service_account_of(&user.name).is_some()
        && user
            .node()
            .is_some_and(|node| only_allocated_node(status) == Some(node))
}

/// Returns the node on which the claim is allocated, if the selector names exactly one.
fn only_allocated_node<'v>(status: &Field<'v, '_>) -> Option<&'v str> {
    let [term] = items(status.value()?, &["allocation", "nodeSelector", "nodeSelectorTerms"]) else {
        return None;
    };
    let ([], [field]) = (items(term, &["matchExpressions"]), items(term, &["matchFields"])) else {
        return None;
    };
    let [node] = items(field, &["values"]) else { return None };
    let is_by_name = field.str_at(&["key"]) == Some("metadata.name") && field.str_at(&["operator"]) == Some("In");
    node.as_str().filter(|_| is_by_name)
}

/// Returns the drivers whose device status changed.
fn changed_drivers<'v>(status: &Field<'v, '_>, old: &Field<'v, '_>) -> BTreeSet<&'v str> {
    let key = |device: &'v Value| {
        ["driver", "pool", "device", "shareID"].map(|name| device.str_at(&[name]).unwrap_or_default())
    };
    let devices = old.child("devices").slice().iter();
    let mut before: BTreeMap<[&str; 4], &Value> = devices.map(|device| (key(device), device)).collect();
    let mut drivers = BTreeSet::new();
    for device in status.child("devices").slice() {
        let key @ [driver, ..] = key(device);
        let was = before.remove(&key);
        if !was.is_some_and(|was| same(Some(was), Some(device))) {
            drivers.insert(driver);
        }
    }
    drivers.extend(before.into_keys().map(|[driver, ..]| driver));
    drivers
}

#[cfg(test)]
mod tests {
    use holdfast_authorization::NODE_NAME;
    use holdfast_value::{Limits, yaml};

    use super::*;
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
    const DEVICES: &str = "devices: [{driver: d.io, pool: p, device: one}]";

    #[test]
    fn allocation_without_binding_permission_is_denied() {
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
    fn drivers_report_their_own_devices() {
        let reported = format!("{ALLOCATED}, {DEVICES}");
        let refused = errors(ON, &[], ALLOCATED, &reported);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(
            refused[0].contains(
                "verb=\"[arbitrary-node:update]\" permission: resourceclaims.resource.k8s.io \"d.io\" is forbidden"
            ),
            "{refused:?}"
        );
        assert_eq!(
            errors(
                ON,
                &["arbitrary-node:update resourceclaims/driver"],
                ALLOCATED,
                &reported
            ),
            [""; 0]
        );
        assert_eq!(errors(ON, &[], &reported, &reported), [""; 0]);
    }

    #[test]
    fn a_claim_is_of_the_only_node_that_it_is_allocated_on() {
        let is_on_node_of = |name: &str, nodes: &[&str], term: &str| {
            let user = User {
                name: name.into(),
                extra: vec![(NODE_NAME.into(), nodes.iter().map(|&node| node.into()).collect())],
                ..User::default()
            };
            let text = format!("{{allocation: {{nodeSelector: {{nodeSelectorTerms: [{term}]}}}}}}");
            let status = yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
            is_on_node_of(&user, &Field::root(&status))
        };
        const DRIVER: &str = "system:serviceaccount:default:driver";
        const TERM: &str = "{matchFields: [{key: metadata.name, operator: In, values: [one]}]}";
        assert!(is_on_node_of(DRIVER, &["one"], TERM));
        for (name, nodes, term) in [
            ("tester", &["one"][..], TERM),
            (DRIVER, &["two"], TERM),
            (DRIVER, &["one", "two"], TERM),
            (DRIVER, &[], TERM),
            (DRIVER, &["one"], &TERM.replace("In", "NotIn")),
            (DRIVER, &["one"], &TERM.replace("metadata.name", "other")),
            (DRIVER, &["one"], &TERM.replace("[one]", "[one, two]")),
            (
                DRIVER,
                &["one"],
                &TERM.replace("{match", "{matchExpressions: [{}], match"),
            ),
            (DRIVER, &["one"], &format!("{TERM}, {TERM}")),
            (DRIVER, &["one"], ""),
        ] {
            assert!(!is_on_node_of(name, nodes, term), "{name} {nodes:?} {term}");
        }
    }
}
