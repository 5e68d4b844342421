//! Which nodes a Pod prefers, and which other Pods it wants near or far.

use std::collections::HashSet;

use holdfast_resource::Field;
use holdfast_resource::metadata::formats::dns_label;
use holdfast_resource::metadata::labels::{validate_label_name, validate_label_selector};
use holdfast_value::Value;

use super::scheduling::{
    validate_label_keys, validate_merged_keys, validate_node_selector, validate_node_selector_term,
};
use crate::validation::Errors;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks all affinities of a Pod.
pub(super) fn validate_affinity(affinity: &Field<'_, '_>, errors: &mut Errors) {
    let node = affinity.child("nodeAffinity");
    let required = node.child(REQUIRED);
    if required.is_set() {
        validate_node_selector(&required, errors);
    }
    for preferred in node.child(PREFERRED).items() {
        validate_weight(&preferred, errors);
        validate_node_selector_term(&preferred.child("preference"), false, errors);
    }
    for part in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.child(part);
        for term in pods.child(REQUIRED).items() {
            validate_pod_term(&term, errors);
        }
        for preferred in pods.child(PREFERRED).items() {
            validate_weight(&preferred, errors);
            validate_pod_term(&preferred.child("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(preferred: &Field<'_, '_>, errors: &mut Errors) {
    let weight = preferred.child("weight");
    let number = weight.number().unwrap_or_default();
    if !(1..=100).contains(&number) {
        errors.push(weight.invalid_as(number, "must be in the range 1-100"));
    }
}

fn validate_pod_term(term: &Field<'_, '_>, errors: &mut Errors) {
    validate_label_selector(&term.child("labelSelector"), errors);
    validate_label_selector(&term.child("namespaceSelector"), errors);
    let namespace = term.child("namespace");
    for name in term.child("namespaces").items() {
        let faults = dns_label(name.text());
        errors.extend(faults.into_iter().map(|fault| namespace.invalid_as(name.text(), fault)));
    }
    validate_term_keys(term, errors);
    let key = term.child("topologyKey");
    if key.text().is_empty() {
        errors.push(key.required("can not be empty"));
    }
    validate_label_name(&key, errors);
}

/// `validateMatchLabelKeysAndMismatchLabelKeys`
fn validate_term_keys(term: &Field<'_, '_>, errors: &mut Errors) {
    let (keys, others) = (term.child("matchLabelKeys"), term.child("mismatchLabelKeys"));
    let selector = term.child("labelSelector");
    validate_label_keys(&keys, &selector, errors);
    validate_label_keys(&others, &selector, errors);
    validate_merged_keys(term, &keys, &selector, errors);
    let others: HashSet<&str> = others.slice().iter().filter_map(Value::as_str).collect();
    for key in keys
        .items()
        .filter(|key| selector.is_set() && others.contains(key.text()))
    {
        errors.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
    }
}
