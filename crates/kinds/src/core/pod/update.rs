//! What may change in a Pod once it is there, and what its subresources may change.

use std::collections::{HashMap, HashSet};

use holdfast_resource::{Field, FieldError};
use holdfast_value::{Map, Value, json};

use super::qos;
use crate::core::pod_spec::{validate_container_updates, validate_tolerations};
use crate::defaults::change_items;
use crate::validation::{Errors, same};

const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
     `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Reports changes of a Pod that no update may make.
pub(super) fn validate_update(object: &Value, old_object: &Value, errors: &mut Errors) {
    let (root, old_root) = (Field::root(object), Field::root(old_object));
    let (spec, old) = (root.child("spec"), old_root.child("spec"));
    for list in ["containers", "initContainers"] {
        if !validate_container_updates(&spec.child(list), &old.child(list), errors) {
            return;
        }
    }
    if !validate_deadline(&spec, &old, errors) {
        return;
    }
    validate_added_tolerations(&spec.child("tolerations"), &old.child("tolerations"), errors);
    let mut left = spec.value().cloned().unwrap_or_default();
    take_over_mutable(&mut left, &old);
    let gated = !old.child("schedulingGates").is_empty();
    validate_gates(&spec.child("schedulingGates"), &old.child("schedulingGates"), errors);
    if gated {
        take_over_scheduling(&mut left, &old);
    }
    if !same(Some(&left), old.value()) {
        errors.push(spec.forbidden(MUTABLE));
    }
}

/// The deadline may be set once, and then only come closer. Says whether the rest is worth a look.
fn validate_deadline(spec: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) -> bool {
    let deadline = spec.child("activeDeadlineSeconds");
    let before = old.child("activeDeadlineSeconds").number();
    match (deadline.number(), before) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            errors.push(deadline.invalid(format!("must be between 0 and {}, inclusive", i32::MAX)));
            return false;
        }
        (Some(seconds), Some(before)) if before < seconds => {
            errors.push(deadline.invalid("must be less than or equal to previous value"));
            return false;
        }
        (None, Some(_)) => errors.push(deadline.invalid("must not update from a positive integer to nil value")),
        _ => {}
    }
    true
}

/// Tolerations may be added, and those that were there may change how long they last.
fn validate_added_tolerations(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration.remove_at(&["tolerationSeconds"]);
        json::to_string(&toleration)
    };
    let kept: HashSet<String> = new.slice().iter().map(without_seconds).collect();
    for before in old.slice() {
        if !kept.contains(&without_seconds(before)) {
            errors.push(new.forbidden("existing toleration can not be modified except its tolerationSeconds"));
            return;
        }
    }
    if !same(new.value(), old.value()) {
        validate_tolerations(new, errors);
    }
}

/// Gates may only be removed.
fn validate_gates(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let before: HashSet<&str> = old.items().filter_map(|gate| gate.value()?.str_at(&["name"])).collect();
    let added: Vec<&str> = new
        .items()
        .filter_map(|gate| gate.value()?.str_at(&["name"]))
        .filter(|name| !before.contains(name))
        .collect();
    if !added.is_empty() {
        let names = added
            .iter()
            .map(|name| format!("\"{name}\""))
            .collect::<Vec<_>>()
            .join(", ");
        errors.push(new.forbidden(format!(
            "only deletion is allowed, but found new scheduling gates {{{names}}}"
        )));
    }
}

/// Takes what an update may change from the old specification, so that what differs then is what it may not.
fn take_over_mutable(spec: &mut Value, old: &Field<'_, '_>) {
    for list in ["containers", "initContainers"] {
        let images: Vec<Option<Value>> = old
            .child(list)
            .slice()
            .iter()
            .map(|container| container.get("image").cloned())
            .collect();
        if let Some(Value::List(containers)) = spec.at_mut(&[list]) {
            for (container, image) in containers.make_mut().iter_mut().zip(images) {
                put(container, "image", image);
            }
        }
    }
    for part in ["activeDeadlineSeconds", "tolerations"] {
        put(spec, part, old.child(part).value().cloned());
    }
    let grace = old.child("terminationGracePeriodSeconds");
    let now = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if grace.number().is_some_and(|seconds| seconds < 0) && now == Some(1) {
        put(spec, "terminationGracePeriodSeconds", grace.value().cloned());
    }
    // Removing gates is checked on its own.
    put(spec, "schedulingGates", old.child("schedulingGates").value().cloned());
}

/// While a Pod is gated its node selector may grow.
fn take_over_scheduling(spec: &mut Value, old: &Field<'_, '_>) {
    let before = old.child("nodeSelector");
    let now = spec.get("nodeSelector").cloned();
    let now = Field::placed(now.as_ref(), "");
    let kept = before
        .entries()
        .all(|(key, value)| now.entry(key).text() == value.text() && now.entry(key).is_set());
    if kept {
        put(spec, "nodeSelector", before.value().cloned());
    }
}

fn put(object: &mut Value, key: &str, value: Option<Value>) {
    match value {
        Some(value) => object.set_at(&[key], value),
        None => {
            object.remove_at(&[key]);
        }
    }
}

/// Of a write to `ephemeralcontainers` only those containers are taken.
pub(super) fn only_ephemeral_containers(object: &mut Value, old: &Value) {
    let containers = object.at(&["spec", "ephemeralContainers"]).cloned();
    let version = object.at(&["metadata", "resourceVersion"]).cloned();
    let managed = object.at(&["metadata", "managedFields"]).cloned();
    *object = old.clone();
    for (key, value) in [("resourceVersion", version), ("managedFields", managed)] {
        if let (Some(value), Some(metadata)) = (value, object.at_mut(&["metadata"])) {
            put(metadata, key, Some(value));
        }
    }
    if let Some(spec) = object.at_mut(&["spec"]) {
        put(spec, "ephemeralContainers", containers);
    }
}

/// Checks a write to `ephemeralcontainers`: it only adds.
pub(super) fn validate_ephemeral_update(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    let (containers, before) = (spec.child("ephemeralContainers"), old_spec.child("ephemeralContainers"));
    let by_name: HashMap<&str, &Value> = containers
        .slice()
        .iter()
        .filter_map(|container| Some((container.str_at(&["name"])?, container)))
        .collect();
    for earlier in before.items() {
        let name = earlier.child("name").text();
        let now = by_name.get(name).copied();
        let fault = match now {
            None => "removed",
            Some(now) if !same(Some(now), earlier.value()) => "changed",
            Some(_) => continue,
        };
        errors.push(containers.forbidden(format!("existing ephemeral containers \"{name}\" may not be {fault}\n")));
    }
}

/// The parts of containers that a write to `resize` takes.
const RESIZED: [&str; 2] = ["resources", "resizePolicy"];

/// Of a write to `resize` only the resources of containers are taken.
pub(super) fn only_resources(object: &mut Value, old: &Value) {
    let wanted = object.clone();
    let version = object.at(&["metadata", "resourceVersion"]).cloned();
    let managed = object.at(&["metadata", "managedFields"]).cloned();
    *object = old.clone();
    for (key, value) in [("resourceVersion", version), ("managedFields", managed)] {
        if let (Some(value), Some(metadata)) = (value, object.at_mut(&["metadata"])) {
            put(metadata, key, Some(value));
        }
    }
    for list in ["containers", "initContainers"] {
        let asked = wanted
            .at(&["spec", list])
            .and_then(Value::as_list)
            .cloned()
            .unwrap_or_default();
        let there = object
            .at(&["spec", list])
            .and_then(Value::as_list)
            .map_or(0, |list| list.len());
        if asked.len() != there {
            // Left for validation to refuse.
            object.set_at(&["spec", list], asked.into());
            continue;
        }
        let Some(spec) = object.at_mut(&["spec"]) else { return };
        let by_name: HashMap<&str, &Value> = asked
            .iter()
            .filter_map(|other| Some((other.str_at(&["name"])?, other)))
            .collect();
        let parts = |container: &Value| by_name.get(container.str_at(&["name"])?).copied();
        change_items(
            spec,
            list,
            |container| parts(container).is_some(),
            |container| {
                if let Some(other) = parts(container) {
                    for part in RESIZED {
                        put(container, part, other.get(part).cloned());
                    }
                }
            },
        );
    }
}

/// Checks a write to `resize`.
pub(super) fn validate_resize(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    for list in ["containers", "initContainers"] {
        let containers = spec.child(list);
        if containers.len() != old_spec.child(list).len() {
            errors.push(containers.forbidden("containers may not be added or removed on resize"));
            return;
        }
    }
    let before = old.child("status").child("qosClass").text();
    if !before.is_empty() && qos::class(&spec) != before {
        let place = spec.path();
        errors.push(FieldError::invalid(
            &place,
            qos::class(&spec),
            "Pod QOS Class may not change as a result of resizing",
        ));
    }
}

/// Turns `matchLabelKeys` and `mismatchLabelKeys` into expressions of the selectors beside them, with the values that the
/// labels of this Pod have.
pub(super) fn match_label_keys(pod: &mut Value) {
    let Some(labels) = pod.at(&["metadata", "labels"]).and_then(Value::as_map).cloned() else {
        return;
    };
    let merge = |term: &mut Value| {
        for (part, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            merge_keys(term, part, operator, &labels);
        }
    };
    let asks = |term: &Value| term.get("matchLabelKeys").is_some() || term.get("mismatchLabelKeys").is_some();
    let Some(spec) = pod.as_map_mut().and_then(|pod| pod.get_mut("spec")) else {
        return;
    };
    change_items(spec, "topologySpreadConstraints", asks, merge);
    for part in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.at_mut(&["affinity", part]) else {
            continue;
        };
        change_items(affinity, "requiredDuringSchedulingIgnoredDuringExecution", asks, merge);
        let weighted = |term: &Value| term.get("podAffinityTerm").is_some_and(asks);
        change_items(
            affinity,
            "preferredDuringSchedulingIgnoredDuringExecution",
            weighted,
            |term| {
                if let Some(term) = term.at_mut(&["podAffinityTerm"]) {
                    merge(term);
                }
            },
        );
    }
}

fn merge_keys(term: &mut Value, part: &str, operator: &str, labels: &Map) {
    if term.get("labelSelector").is_none() {
        return;
    }
    let keys = term.get(part).and_then(Value::as_list).cloned().unwrap_or_default();
    let place = ["labelSelector", "matchExpressions"];
    let mut expressions: Vec<Value> = term
        .at(&place)
        .and_then(Value::as_list)
        .map(|list| list.to_vec())
        .unwrap_or_default();
    let known = expressions.len();
    for key in &keys {
        let Some((name, value)) = key.as_str().and_then(|key| Some((key, labels.get(key)?))) else {
            continue;
        };
        let mut expression = Map::new();
        expression.insert("key", name);
        expression.insert("operator", operator);
        expression.insert("values", Value::from(vec![value.clone()]));
        expressions.push(expression.into());
    }
    if expressions.len() > known {
        term.set_at(&place, expressions.into());
    }
}
