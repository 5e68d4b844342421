//! Validation of updates of a Pod and of writes to its subresources.

use std::collections::{HashMap, HashSet};

use holdfast_kind_tables::features::Features;
use holdfast_schema::{Field, FieldError, FieldPath};
use holdfast_value::{Map, Value, json};

use crate::defaults::{change_items, put_at};
use crate::pod_spec::{tolerations_compare, validate_container_updates, validate_tolerations};
use crate::validation::{Errors, same};

const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
     `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Reports changes of immutable parts of a Pod.
///
/// upstream: pkg/apis/core/validation#ValidatePodUpdate
pub(super) fn validate_update(object: &Value, old_object: &Value, features: Features, errors: &mut Errors) {
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
    let compares = tolerations_compare(features, old.value());
    validate_added_tolerations(&spec.child("tolerations"), &old.child("tolerations"), compares, errors);
    validate_gates(&spec.child("schedulingGates"), &old.child("schedulingGates"), errors);
    let mut left = spec.value().cloned().unwrap_or_default();
    take_over_mutable(&mut left, &old);
    if !old.child("schedulingGates").is_empty() {
        take_over_scheduling(&mut left, &spec, &old, errors);
    }
    if !same(Some(&left), old.value()) {
        errors.push(spec.forbidden(MUTABLE));
    }
}

/// Validates that the deadline is set once and then only decreases. Returns true if the other checks should run.
///
/// upstream: pkg/apis/core/validation#ValidatePodUpdate
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

/// Validates that tolerations are only added, or changed in their `tolerationSeconds`.
///
/// upstream: pkg/apis/core/validation#validateOnlyAddedTolerations
fn validate_added_tolerations(new: &Field<'_, '_>, old: &Field<'_, '_>, compares: bool, errors: &mut Errors) {
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
    validate_tolerations(new, compares, errors);
}

/// Validates that scheduling gates are only removed.
///
/// upstream: pkg/apis/core/validation#validateOnlyDeletedSchedulingGates
fn validate_gates(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let before: HashSet<&str> = old
        .slice()
        .iter()
        .map(|gate| gate.str_at(&["name"]).unwrap_or_default())
        .collect();
    let mut last: HashMap<&str, usize> = HashMap::new();
    for (at, gate) in new.items().enumerate() {
        last.insert(gate.child("name").text(), at);
    }
    for (at, gate) in new.items().enumerate() {
        let name = gate.child("name");
        if !before.contains(name.text()) && last.get(name.text()) == Some(&at) {
            let detail = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            errors.push(name.forbidden(detail));
        }
    }
}

/// Copies the mutable fields from the old specification, so that any remaining difference is an invalid change.
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
                put_at(container, &["image"], image);
            }
        }
    }
    for part in ["activeDeadlineSeconds", "tolerations"] {
        put_at(spec, &[part], old.child(part).value().cloned());
    }
    let grace = old.child("terminationGracePeriodSeconds");
    let now = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if grace.number().is_some_and(|seconds| seconds < 0) && now == Some(1) {
        put_at(spec, &["terminationGracePeriodSeconds"], grace.value().cloned());
    }
    // The removal of gates has its own check.
    put_at(
        spec,
        &["schedulingGates"],
        old.child("schedulingGates").value().cloned(),
    );
}

/// Validates changes of the node selector and of the node affinity of a gated Pod, which may only narrow, and copies
/// the old values to `left`.
///
/// upstream: pkg/apis/core/validation#validateNodeSelectorMutation
fn take_over_scheduling(left: &mut Value, new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (now, before) = (new.child("nodeSelector"), old.child("nodeSelector"));
    let kept = |(key, value): (&str, Field<'_, '_>)| now.entry(key).value() == value.value();
    if !before.entries().all(kept) {
        let shown = now.value().cloned().unwrap_or_else(Value::empty_map);
        errors.push(now.invalid_as(
            shown,
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        ));
    }
    put_at(left, &["nodeSelector"], before.value().cloned());
    let (affinity, old_affinity) = (new.child("affinity"), old.child("affinity"));
    let (now, before) = (affinity.child("nodeAffinity"), old_affinity.child("nodeAffinity"));
    if same(now.value(), before.value()) {
        return;
    }
    validate_node_affinity_mutation(&now, &before, errors);
    let others = ["podAffinity", "podAntiAffinity"]
        .iter()
        .any(|part| affinity.child(part).is_set());
    if !old_affinity.is_set() && !others {
        left.remove_at(&["affinity"]);
        return;
    }
    put_at(left, &["affinity", "nodeAffinity"], before.value().cloned());
}

/// Validates that the node affinity of a gated Pod only narrows.
///
/// upstream: pkg/apis/core/validation#validateNodeAffinityMutation
fn validate_node_affinity_mutation(now: &Field<'_, '_>, before: &Field<'_, '_>, errors: &mut Errors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let (required, old_required) = (now.child(REQUIRED), before.child(REQUIRED));
    let (terms, old_terms) = (
        required.child("nodeSelectorTerms"),
        old_required.child("nodeSelectorTerms"),
    );
    if !old_terms.is_empty() && terms.len() != old_terms.len() {
        errors.push(terms.invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed"));
        return;
    }
    for (term, old_term) in terms.items().zip(old_terms.items()) {
        if !only_adds(&term, &old_term) {
            errors.push(term.invalid("only additions are allowed (no mutations or deletions)"));
        }
    }
}

/// Returns true if a node selector term keeps all its requirements, and stays empty if it was empty.
fn only_adds(term: &Field<'_, '_>, old: &Field<'_, '_>) -> bool {
    let parts = ["matchExpressions", "matchFields"];
    let asks = |term: &Field<'_, '_>| parts.iter().any(|part| !term.child(part).is_empty());
    if !asks(old) {
        return !asks(term);
    }
    parts.iter().all(|part| {
        let (now, before) = (term.child(part), old.child(part));
        let kept = now.slice().get(..before.len());
        kept.is_some_and(|kept| kept.iter().zip(before.slice()).all(|(a, b)| same(Some(a), Some(b))))
    })
}

/// Returns true if a Pod is a mirror Pod.
pub(super) fn is_mirror(pod: &Field<'_, '_>) -> bool {
    let metadata = pod.child("metadata");
    let annotations = metadata.child("annotations");
    annotations.entry("kubernetes.io/config.mirror").is_set()
}

/// Returns the error for an object as a whole. The reference prints its path as an empty list.
pub(super) fn of_object(why: &str) -> FieldError {
    FieldError::forbidden(&FieldPath::new("[]"), why)
}

/// Keeps only the ephemeral containers from a write to `ephemeralcontainers`.
pub(super) fn only_ephemeral_containers(object: &mut Value, old: &Value) {
    let containers = object.at(&["spec", "ephemeralContainers"]).cloned();
    let version = object.at(&["metadata", "resourceVersion"]).cloned();
    let managed = object.at(&["metadata", "managedFields"]).cloned();
    *object = old.clone();
    for (key, value) in [("resourceVersion", version), ("managedFields", managed)] {
        if let (Some(value), Some(metadata)) = (value, object.at_mut(&["metadata"])) {
            metadata.set_at(&[key], value);
        }
    }
    if let Some(spec) = object.at_mut(&["spec"]) {
        put_at(spec, &["ephemeralContainers"], containers);
    }
}

/// Validates that a write to `ephemeralcontainers` only adds containers.
///
/// upstream: pkg/apis/core/validation#ValidatePodEphemeralContainersUpdate
pub(super) fn validate_ephemeral_update(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    if is_mirror(old) {
        *errors = vec![of_object("static pods do not support ephemeral containers")];
        return;
    }
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
        let message = match now {
            None => "removed",
            Some(now) if !same(Some(now), earlier.value()) => "changed",
            Some(_) => continue,
        };
        errors.push(containers.forbidden(format!(
            "existing ephemeral containers \"{name}\" may not be {message}\n"
        )));
    }
}

/// Merges `matchLabelKeys` and `mismatchLabelKeys` into their label selectors as expressions with the label values of
/// this Pod.
pub(super) fn match_label_keys(pod: &mut Value, of_constraints: bool) {
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
    if of_constraints {
        change_items(spec, "topologySpreadConstraints", asks, merge);
    }
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
