//! Scheduling: node selectors, tolerations, gates and topology spread constraints.

use std::collections::{HashMap, HashSet};

use holdfast_gotext::number::parse_int;
use holdfast_schema::metadata::formats::{dns_label, dns_subdomain, label_value, qualified_name};
use holdfast_schema::metadata::labels::{validate_label_name, validate_operator};
use holdfast_schema::{Check, Field, FieldError, Part, Rules};

use crate::rules::SpreadConstraintRule;
use crate::validation::{Errors, report};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Validates the scheduling group of a Pod.
///
/// upstream: pkg/apis/core/validation#validateSchedulingGroup
pub(super) fn validate_group(group: &Field<'_, '_>, errors: &mut Errors) {
    if !group.is_set() {
        return;
    }
    let name = group.child("podGroupName");
    if !name.is_set() {
        errors.push(name.invalid("must specify one of: `podGroupName`"));
        return;
    }
    report(&name, dns_subdomain(name.text()), errors);
}

/// Validates a node selector, which has at least one term.
///
/// upstream: pkg/apis/core/validation#ValidateNodeSelector
pub(crate) fn validate_node_selector(selector: &Field<'_, '_>, errors: &mut Errors) {
    let terms = selector.child("nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(terms.required("must have at least one node selector term"));
    }
    for term in terms.items() {
        validate_node_selector_term(&term, true, errors);
    }
}

/// Validates one node selector term. Label values of a mere preference may be malformed.
///
/// upstream: pkg/apis/core/validation#ValidateNodeFieldSelectorRequirement
pub(super) fn validate_node_selector_term(term: &Field<'_, '_>, required: bool, errors: &mut Errors) {
    for requirement in term.child("matchExpressions").items() {
        validate_operator(&requirement, true, errors);
        validate_label_name(&requirement.child("key"), errors);
        for value in requirement.child("values").items().filter(|_| required) {
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
            continue;
        }
        for value in values.items() {
            report(&value, dns_subdomain(value.text()), errors);
        }
    }
}

/// Validates tolerations, which may compare numbers if `compares` is true.
///
/// upstream: pkg/apis/core/validation#ValidateTolerations
pub fn validate_tolerations(tolerations: &Field<'_, '_>, compares: bool, errors: &mut Errors) {
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
                let messages = label_value(value.text());
                if !messages.is_empty() {
                    errors.push(operator.invalid_as(value.text(), messages.join(";")));
                }
            }
            "Exists" if !value.text().is_empty() => {
                errors.push(operator.invalid_as(value.text(), "value must be empty when `operator` is 'Exists'"));
            }
            "Exists" => {}
            "Lt" | "Gt" if compares => validate_compared(&value, errors),
            "Lt" | "Gt" => errors.push(operator.not_supported(&["Equal", "Exists", "Lt", "Gt"])),
            _ => errors.push(operator.not_supported(&["Equal", "Exists"])),
        }
        if !effect.text().is_empty() {
            validate_taint_effect(&effect, errors);
        }
    }
}

/// Validates the value that a toleration compares the value of a taint with: an integer in Go's format.
///
/// upstream: pkg/apis/core/validation#ValidateTolerations
fn validate_compared(value: &Field<'_, '_>, errors: &mut Errors) {
    let text = value.text();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_decimal = match digits.as_bytes() {
        [b'0'] => text == "0",
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if text.is_empty() {
        errors.push(value.invalid_text("must be non-empty"));
    } else if !is_decimal {
        errors.push(value.invalid_text("must be a valid decimal integer in canonical form"));
    }
    if let Err(why) = parse_int::<i64>(text) {
        errors.push(value.invalid_text(why));
    }
}

/// Validates the effect of a taint.
///
/// upstream: pkg/apis/core/validation#validateTaintEffect
pub(crate) fn validate_taint_effect(effect: &Field<'_, '_>, errors: &mut Errors) {
    crate::validation::one_of(effect, &EFFECTS, errors);
}

/// Validates the scheduling gates of a Pod.
///
/// upstream: pkg/apis/core/validation#validateSchedulingGates
pub(super) fn validate_gates(spec: &Field<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for gate in spec.child("schedulingGates").items() {
        // The reference reports the gate rather than its name.
        let name = gate.child("name").text();
        errors.extend(
            qualified_name(name)
                .into_iter()
                .map(|message| gate.invalid_as(name, message)),
        );
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&gate.path(), name));
        }
    }
}

/// Validates the resource claims of a Pod.
///
/// upstream: pkg/apis/core/validation#validatePodResourceClaims
pub(super) fn validate_resource_claims(claims: &Field<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for claim in claims.items() {
        let name = claim.child("name");
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else if names.insert(name.text()) {
            report(&name, dns_label(name.text()), errors);
        } else {
            errors.push(name.duplicate());
        }
        let (claimed, template) = (
            claim.child("resourceClaimName"),
            claim.child("resourceClaimTemplateName"),
        );
        if claimed.is_set() && template.is_set() {
            errors.push(
                claim.invalid("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
            );
        }
        if !claimed.is_set() && !template.is_set() {
            errors.push(claim.invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"));
        }
        for reference in [claimed, template] {
            if reference.is_set() {
                report(&reference, dns_subdomain(reference.text()), errors);
            }
        }
    }
}

/// Validates the topology spread constraints of a Pod.
///
/// upstream: pkg/apis/core/validation#validateTopologySpreadConstraints
pub(super) fn validate_spread_constraints(spec: &Part<'_, '_>, check: &mut Check<'_>) {
    let constraints = spec.child("topologySpreadConstraints");
    let kind = |constraint: &Field<'_, '_>| {
        let text = |part: &str| constraint.child(part).text().to_owned();
        (text("topologyKey"), text("whenUnsatisfiable"))
    };
    let kinds: Vec<_> = constraints.items().map(|constraint| kind(&constraint)).collect();
    let mut last = HashMap::new();
    for (at, kind) in kinds.iter().enumerate() {
        last.insert(kind, at);
    }
    let parts = check.items(spec, "topologySpreadConstraints", &constraints);
    for (at, (constraint, kind)) in parts.zip(&kinds).enumerate() {
        let repeated = last.get(kind).is_some_and(|last| *last > at);
        check.values(&constraint, &SpreadRules { repeated });
    }
}

/// Checks of a spread constraint in code. A later constraint may duplicate it.
struct SpreadRules {
    repeated: bool,
}

impl<'v> Rules<'v> for SpreadRules {
    type Rule = SpreadConstraintRule;

    fn rule(&self, rule: SpreadConstraintRule, constraint: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            SpreadConstraintRule::Repeated if self.repeated => errors.push(repeated_constraint(constraint)),
            SpreadConstraintRule::Repeated => {}
            SpreadConstraintRule::MinDomains => validate_min_domains(constraint, errors),
            SpreadConstraintRule::LabelKeys => {
                let (keys, selector) = (constraint.child("matchLabelKeys"), constraint.child("labelSelector"));
                validate_label_keys(&keys, &selector, errors);
                validate_merged_keys(constraint, &keys, &selector, errors);
            }
        }
    }
}

fn repeated_constraint(constraint: &Field<'_, '_>) -> FieldError {
    let (key, action) = (constraint.child("topologyKey"), constraint.child("whenUnsatisfiable"));
    let place = constraint.path().child("{topologyKey, whenUnsatisfiable}");
    FieldError::duplicate(&place, format!("{{{}, {}}}", key.text(), action.text()))
}

/// Validates that `minDomains` is only set together with `DoNotSchedule`.
///
/// upstream: pkg/apis/core/validation#validateMinDomains
fn validate_min_domains(constraint: &Field<'_, '_>, errors: &mut Errors) {
    let (domains, action) = (
        constraint.child("minDomains"),
        constraint.child("whenUnsatisfiable").text(),
    );
    if domains.is_set() && action != "DoNotSchedule" {
        errors.push(domains.invalid(format!(
            "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        )));
    }
}

/// Validates the keys of labels that are added to a selector.
///
/// upstream: pkg/apis/core/validation#validateLabelKeys
pub(super) fn validate_label_keys(keys: &Field<'_, '_>, selector: &Field<'_, '_>, errors: &mut Errors) {
    if keys.is_empty() {
        return;
    }
    if !selector.is_set() {
        errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
        return;
    }
    for key in keys.items() {
        validate_label_name(&key, errors);
    }
}

/// Validates that a merged key occurs only once in the selector: a second one was there before the merge. The reference
/// reports the last index of such a key, directly below the term.
///
/// upstream: pkg/apis/core/validation#ValidateMatchLabelKeysAndMismatchLabelKeys
/// upstream: pkg/apis/core/validation#ValidateMatchLabelKeysInTopologySpread
pub(super) fn validate_merged_keys(
    term: &Field<'_, '_>,
    keys: &Field<'_, '_>,
    selector: &Field<'_, '_>,
    errors: &mut Errors,
) {
    if keys.is_empty() || !selector.is_set() {
        return;
    }
    let last: HashMap<&str, usize> = keys.items().enumerate().map(|(at, key)| (key.text(), at)).collect();
    let labels = selector.child("matchLabels");
    let mut selected: HashSet<&str> = labels.entries().map(|(key, _)| key).collect();
    for expression in selector.child("matchExpressions").items() {
        let key = expression.child("key").text();
        if let Some(at) = last.get(key)
            && selected.contains(key)
        {
            errors.push(FieldError::invalid(
                &term.path().index(*at),
                key,
                "exists in both matchLabelKeys and labelSelector",
            ));
        }
        selected.insert(key);
    }
}
