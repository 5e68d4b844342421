//! Rules: the operations and resources that a policy or webhook matches.

use std::collections::HashSet;

use holdfast_schema::metadata::formats::path_segment;
use holdfast_schema::{Check, Field, Part, Rules};

use crate::rules::OperationRule;
use crate::validation::{Errors, report};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// Validation rules of operation rules, in policies and webhooks, that validation tags do not cover.
pub(super) struct OperationRules;

impl<'v> Rules<'v> for OperationRules {
    type Rule = OperationRule;

    /// upstream: pkg/apis/admissionregistration/validation#validateRule
    fn rule(&self, rule: OperationRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            OperationRule::ResourceNames => validate_resource_names(&part.child("resourceNames"), errors),
            OperationRule::Operations => validate_operations(&part.child("operations"), errors),
            OperationRule::ApiGroups => validate_names(&part.child("apiGroups"), "API groups", true, errors),
            OperationRule::ApiVersions => validate_names(&part.child("apiVersions"), "API versions", false, errors),
            OperationRule::Resources => validate_resources(&part.child("resources"), errors),
        }
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateNamedRuleWithOperations
fn validate_resource_names(list: &Field<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for name in list.items() {
        report(&name, path_segment(name.text()), errors);
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateRuleWithOperations
fn validate_operations(operations: &Field<'_, '_>, errors: &mut Errors) {
    if operations.is_empty() {
        errors.push(operations.required(""));
    }
    if operations.len() > 1 && operations.items().any(|operation| operation.text() == "*") {
        errors.push(operations.invalid("if '*' is present, must not specify other operations"));
    }
    for operation in operations.items() {
        if !OPERATIONS.contains(&operation.text()) {
            errors.push(operation.not_supported(&OPERATIONS));
        }
    }
}

/// upstream: pkg/apis/admissionregistration/validation#validateRule
fn validate_names(names: &Field<'_, '_>, what: &str, may_be_empty: bool, errors: &mut Errors) {
    if names.is_empty() {
        errors.push(names.required(""));
    }
    if names.len() > 1 && names.items().any(|name| name.text() == "*") {
        errors.push(names.invalid(format!("if '*' is present, must not specify other {what}")));
    }
    for name in names.items().filter(|name| !may_be_empty && name.text().is_empty()) {
        errors.push(name.required(""));
    }
}

/// Validates the resources of a rule. A wildcard forbids entries that it includes: `*/*` any other entry, `*/x` the
/// subresource `x` of other resources, `x/*` other subresources of `x`, and `*` other resources.
///
/// upstream: pkg/apis/admissionregistration/validation#validateResources
fn validate_resources(resources: &Field<'_, '_>, errors: &mut Errors) {
    if resources.is_empty() {
        errors.push(resources.required(""));
    }
    let any = |text: &str| resources.items().any(|resource| resource.text() == text);
    let mut of_all = HashSet::new();
    let mut whole = HashSet::new();
    for resource in resources.items() {
        let Some((name, subresource)) = resource.text().split_once('/') else {
            if resource.text().is_empty() {
                errors.push(resource.required(""));
            }
            continue;
        };
        if whole.contains(name) {
            let detail = format!("if '{name}/*' is present, must not specify {}", resource.text());
            errors.push(resource.invalid(detail));
        }
        if of_all.contains(subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {}", resource.text());
            errors.push(resource.invalid(detail));
        }
        if name == "*" {
            of_all.insert(subresource);
        }
        if subresource == "*" {
            whole.insert(name);
        }
    }
    if resources.len() > 1 && any("*/*") {
        errors.push(resources.invalid("if '*/*' is present, must not specify other resources"));
    }
    // In the reference, the last entry without a subresource decides.
    let plain = |text: &&str| !text.is_empty() && !text.contains('/');
    let texts: Vec<&str> = resources.items().map(|resource| resource.text()).collect();
    let last = texts.into_iter().rfind(plain);
    if any("*") && last.is_some_and(|last| last != "*") {
        errors.push(resources.invalid("if '*' is present, must not specify other resources without subresources"));
    }
}
