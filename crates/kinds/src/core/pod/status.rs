//! What may change in the status of a Pod.

use std::collections::HashSet;

use holdfast_resource::Field;
use holdfast_value::Value;

use crate::defaults::is_zero;

use crate::validation::addresses::address;
use crate::validation::{Errors, immutable, same};

/// Checks a write to the status.
pub(super) fn validate_status_update(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (status, old_status) = (new.child("status"), old.child("status"));
    let spec = new.child("spec");
    let (nominated, before) = (status.child("nominatedNodeName"), old_status.child("nominatedNodeName"));
    let bound = !spec.child("nodeName").text().is_empty();
    if nominated.text() != before.text() && bound && !nominated.text().is_empty() {
        errors.push(nominated.forbidden("may not be set on pods that are already bound to a node"));
    }
    let policy = spec.child("restartPolicy").text();
    for list in ["containerStatuses", "initContainerStatuses"] {
        validate_restarts(&status.child(list), &old_status.child(list), policy, errors);
    }
    immutable(&status.child("qosClass"), &old_status.child("qosClass"), errors);
    let addresses = status.child("podIPs");
    for one in addresses.items() {
        address(&one.child("ip"), errors);
    }
    let first = addresses.slice().first().and_then(|one| one.str_at(&["ip"]));
    if let Some(first) = first
        && status.child("podIP").text() != first
        && !same(addresses.value(), old_status.child("podIPs").value())
    {
        errors.push(addresses.invalid("podIPs[0] must be equal to podIP"));
    }
}

/// A container that has ended does not run again where the restart policy forbids it.
fn validate_restarts(new: &Field<'_, '_>, old: &Field<'_, '_>, policy: &str, errors: &mut Errors) {
    if policy == "Always" {
        return;
    }
    let may_run_again = |before: &Value| {
        let ended = before.at(&["state", "terminated"]).filter(|ended| !ended.is_null());
        let failed = ended.is_some_and(|ended| !is_zero(ended.get("exitCode")));
        ended.is_none() || failed && policy == "OnFailure"
    };
    let ended: HashSet<&str> = old
        .slice()
        .iter()
        .filter(|before| !may_run_again(before))
        .filter_map(|before| before.str_at(&["name"]))
        .collect();
    for now in new.items().filter(|now| ended.contains(now.child("name").text())) {
        let state = now.child("state");
        if !state.child("terminated").is_set() {
            errors.push(state.forbidden("may not be transitioned to non-terminated state"));
        }
    }
}
