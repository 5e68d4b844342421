//! Node affinity, Pod affinity and Pod anti-affinity.

use std::collections::HashSet;

use holdfast_schema::Field;
use holdfast_schema::metadata::formats::dns_label;
use holdfast_value::Value;

use super::scheduling::{validate_label_keys, validate_merged_keys, validate_node_selector};
use crate::validation::Errors;

/// Validates the required node affinity.
///
/// upstream: pkg/apis/core/validation#validateNodeAffinity
pub(super) fn validate_required(affinity: &Field<'_, '_>, errors: &mut Errors) {
    let required = affinity.child("requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_set() {
        validate_node_selector(&required, errors);
    }
}

/// Validates the namespaces and the label keys of a Pod affinity term.
///
/// upstream: pkg/apis/core/validation#validatePodAffinityTerm
pub(super) fn validate_namespaces(term: &Field<'_, '_>, errors: &mut Errors) {
    let namespace = term.child("namespace");
    for name in term.child("namespaces").items() {
        let messages = dns_label(name.text());
        errors.extend(
            messages
                .into_iter()
                .map(|message| namespace.invalid_as(name.text(), message)),
        );
    }
    validate_term_keys(term, errors);
}

/// Validates the label keys of a Pod affinity term.
///
/// upstream: pkg/apis/core/validation#ValidateMatchLabelKeysAndMismatchLabelKeys
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
