//! ResourceQuotas: <https://kubernetes.io/docs/concepts/policy/resource-quotas/>.

use std::collections::HashSet;

use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::validation::resources::{is_extended, validate_amount, validate_name};
use crate::validation::{Errors, immutable};

/// What only ResourceQuotas do.
pub(crate) struct ResourceQuota;

/// Names that quotas may use without a domain.
const STANDARD: [&str; 17] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "services.nodeports",
    "services.loadbalancers",
    "replicationcontrollers",
    "persistentvolumeclaims",
];
const STANDARD_TOO: [&str; 2] = ["secrets", "configmaps"];

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Scopes that exclude each other.
const OPPOSITES: [(&str, &str); 2] = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];
/// What may be counted within the scopes of Pods.
const OF_PODS: [&str; 7] = [
    "pods",
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];

impl Strategy for ResourceQuota {
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        validate_amounts(&spec.child("hard"), &mut errors);
        validate_scopes(&spec, &mut errors);
        validate_selector(&spec.child("scopeSelector"), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old) = (Field::root(object), Field::root(old));
        if context.subresource == Some("status") {
            let status = root.child("status");
            let mut errors = Errors::new();
            validate_amounts(&status.child("hard"), &mut errors);
            validate_amounts(&status.child("used"), &mut errors);
            return errors;
        }
        let mut errors = self.validate(context, object);
        immutable(
            &root.child("spec").child("scopes"),
            &old.child("spec").child("scopes"),
            &mut errors,
        );
        errors
    }
}

fn validate_amounts(list: &Field<'_, '_>, errors: &mut Errors) {
    for (name, amount) in list.entries() {
        let well_formed = validate_name(name, &amount, errors);
        let known = STANDARD.contains(&name) || STANDARD_TOO.contains(&name) || name.starts_with("requests.hugepages-");
        if well_formed && !name.contains('/') && !known && !name.starts_with("hugepages-") {
            errors.push(amount.invalid_as(name, "must be a standard resource for quota"));
        }
        let counted = name.starts_with("count/") || is_extended(name);
        validate_amount(if counted { "pods" } else { name }, &amount, errors);
    }
}

fn validate_scopes(spec: &Field<'_, '_>, errors: &mut Errors) {
    let scopes = spec.child("scopes");
    if scopes.is_empty() {
        return;
    }
    let set: HashSet<&str> = scopes.slice().iter().filter_map(Value::as_str).collect();
    // Each of these errors shows all scopes, so one of a sort is enough.
    if set.iter().any(|scope| !SCOPES.contains(scope)) {
        errors.push(scopes.invalid("unsupported scope"));
    }
    for scope in SCOPES.iter().copied().filter(|scope| set.contains(scope)) {
        let hard = spec.child("hard");
        for (name, _) in hard.entries() {
            let standard = STANDARD.contains(&name) || STANDARD_TOO.contains(&name);
            let fits = match scope {
                _ if !standard => true,
                "BestEffort" => name == "pods",
                "VolumeAttributesClass" => true,
                _ => OF_PODS.contains(&name),
            };
            if !fits {
                errors.push(scopes.invalid("unsupported scope applied to resource"));
                break;
            }
        }
    }
    for (one, other) in OPPOSITES {
        if set.contains(one) && set.contains(other) {
            errors.push(scopes.invalid("conflicting scopes"));
        }
    }
}

fn validate_selector(selector: &Field<'_, '_>, errors: &mut Errors) {
    // The reference gives these places without the index of the requirement.
    let place = selector.path().child("matchExpressions");
    for requirement in selector.child("matchExpressions").items() {
        let part = |name: &str| requirement.child(name).value().cloned();
        let (scope, operator, values) = (part("scopeName"), part("operator"), part("values"));
        let shown = |name: &str| place.child(name);
        let scope_text = scope.as_ref().and_then(Value::as_str).unwrap_or_default();
        let operator_text = operator.as_ref().and_then(Value::as_str).unwrap_or_default();
        let count = values.as_ref().and_then(Value::as_list).map_or(0, |list| list.len());
        if !SCOPES.contains(&scope_text) {
            errors.push(FieldError::invalid(
                &shown("scopeName"),
                scope_text,
                "unsupported scope",
            ));
        }
        match operator_text {
            "In" | "NotIn" if count == 0 => errors.push(FieldError::required(
                &shown("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            "Exists" | "DoesNotExist" if count > 0 => errors.push(FieldError::invalid(
                &shown("values"),
                values.clone().unwrap_or_default(),
                "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            odd => errors.push(FieldError::invalid(
                &shown("operator"),
                odd,
                "not a valid selector operator",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn quota(spec: &str) -> Vec<String> {
        Harness::new().errors(&format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q}}, spec: {{{spec}}}}}"
        ))
    }

    #[test]
    fn quotas_count_what_they_know_in_whole_numbers() {
        assert!(quota("hard: {pods: 3, requests.cpu: 500m, count/deployments.apps: 2}").is_empty());
        assert_eq!(
            quota("hard: {weird: 1}"),
            [
                r#"spec.hard[weird]: Invalid value: "weird": must be a standard resource type or fully qualified"#,
                r#"spec.hard[weird]: Invalid value: "weird": must be a standard resource for quota"#,
            ]
        );
        assert_eq!(
            quota("hard: {pods: 1500m}"),
            [r#"spec.hard[pods]: Invalid value: "1500m": must be an integer"#]
        );
    }

    #[test]
    fn scopes_do_not_exclude_each_other() {
        assert_eq!(
            quota("scopes: [Terminating, NotTerminating]"),
            [r#"spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes"#]
        );
    }
}
