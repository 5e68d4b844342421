//! Where a Pod may run: node selectors, tolerations, gates and spreading over topologies.

use std::collections::HashSet;

use holdfast_resource::metadata::formats::{label_value, qualified_name};
use holdfast_resource::metadata::labels::{validate_label_name, validate_label_selector};
use holdfast_resource::{Field, FieldError};

use crate::validation::{Errors, report};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks a selector of nodes: at least one term.
pub(crate) fn validate_node_selector(selector: &Field<'_, '_>, errors: &mut Errors) {
    let terms = selector.child("nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(terms.required("must have at least one node selector term"));
    }
    for term in terms.items() {
        validate_node_selector_term(&term, errors);
    }
}

/// Checks one term of a selector of nodes.
pub(super) fn validate_node_selector_term(term: &Field<'_, '_>, errors: &mut Errors) {
    for requirement in term.child("matchExpressions").items() {
        let (operator, values) = (requirement.child("operator"), requirement.child("values"));
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                errors.push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => errors.push(operator.invalid_text("not a valid selector operator")),
        }
        validate_label_name(&requirement.child("key"), errors);
        for value in values.items() {
            report(&value, label_value(value.text()), errors);
        }
    }
    for requirement in term.child("matchFields").items() {
        let (operator, values) = (requirement.child("operator"), requirement.child("values"));
        match operator.text() {
            "In" | "NotIn" if values.len() != 1 => errors.push(
                values.required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector"),
            ),
            "In" | "NotIn" => {}
            _ => errors.push(operator.invalid_text("not a valid selector operator")),
        }
        let key = requirement.child("key");
        if key.text() != "metadata.name" {
            errors.push(key.invalid_text("not a valid field selector key"));
        }
    }
}

/// Checks tolerations of taints.
pub(crate) fn validate_tolerations(tolerations: &Field<'_, '_>, errors: &mut Errors) {
    for toleration in tolerations.items() {
        let (key, operator) = (toleration.child("key"), toleration.child("operator"));
        let (value, effect) = (toleration.child("value"), toleration.child("effect"));
        if !key.text().is_empty() {
            validate_label_name(&key, errors);
        } else if operator.text() != "Exists" {
            errors.push(operator.invalid_text(
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if toleration.child("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            errors.push(effect.invalid_text("effect must be 'NoExecute' when `tolerationSeconds` is set"));
        }
        match operator.text() {
            "" | "Equal" => {
                let faults = label_value(value.text());
                if !faults.is_empty() {
                    errors.push(operator.invalid_as(value.text(), faults.join(";")));
                }
            }
            "Exists" if !value.text().is_empty() => {
                errors.push(operator.invalid_as(value.text(), "value must be empty when `operator` is 'Exists'"));
            }
            "Exists" => {}
            _ => errors.push(operator.not_supported(&["Equal", "Exists"])),
        }
        if !effect.text().is_empty() {
            validate_taint_effect(&effect, errors);
        }
    }
}

/// Checks the effect of a taint.
pub(crate) fn validate_taint_effect(effect: &Field<'_, '_>, errors: &mut Errors) {
    crate::validation::one_of(effect, &EFFECTS, errors);
}

/// Checks readiness gates and scheduling gates.
pub(super) fn validate_gates(spec: &Field<'_, '_>, errors: &mut Errors) {
    for gate in spec.child("readinessGates").items() {
        let condition = gate.child("conditionType");
        report(&condition, qualified_name(condition.text()), errors);
    }
    let mut names = HashSet::new();
    for gate in spec.child("schedulingGates").items() {
        // The reference reports the gate rather than its name.
        let name = gate.child("name").text();
        errors.extend(
            qualified_name(name)
                .into_iter()
                .map(|fault| gate.invalid_as(name, fault)),
        );
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&gate.path(), name));
        }
    }
}

/// Checks how Pods are spread over topologies.
pub(super) fn validate_spread_constraints(constraints: &Field<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for constraint in constraints.items() {
        let skew = constraint.child("maxSkew");
        if skew.number().unwrap_or_default() <= 0 {
            errors.push(skew.invalid_as(skew.number().unwrap_or_default(), "must be greater than zero"));
        }
        let (key, action) = (constraint.child("topologyKey"), constraint.child("whenUnsatisfiable"));
        if key.text().is_empty() {
            errors.push(key.required("can not be empty"));
        }
        if !matches!(action.text(), "DoNotSchedule" | "ScheduleAnyway") {
            errors.push(action.not_supported(&["DoNotSchedule", "ScheduleAnyway"]));
        }
        if !seen.insert((key.text(), action.text())) {
            let place = constraint.path().child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(
                &place,
                format!("{{{}, {}}}", key.text(), action.text()),
            ));
        }
        let domains = constraint.child("minDomains");
        if let Some(count) = domains.number() {
            if count <= 0 {
                errors.push(domains.invalid("must be greater than zero"));
            }
            if action.text() != "DoNotSchedule" {
                let action = action.text();
                errors.push(domains.invalid(format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                )));
            }
        }
        for part in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            crate::validation::optional_one_of(&constraint.child(part), &["Honor", "Ignore"], errors);
        }
        for key in constraint.child("matchLabelKeys").items() {
            report(&key, qualified_name(key.text()), errors);
        }
        validate_label_selector(&constraint.child("labelSelector"), errors);
    }
}
