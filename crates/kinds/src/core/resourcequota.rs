//! ResourceQuotas: <https://kubernetes.io/docs/concepts/policy/resource-quotas/>.

use std::collections::HashSet;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::table::{NamedCell, scalar_text};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::{Field, FieldError};
use holdfast_value::Value;

use crate::kind::kind;
use crate::validation::Errors;
use crate::validation::resources::{
    CLAIMED_STORAGE, is_extended, is_standard_for_quota, validate_amount, validate_name,
};

/// Rules of ResourceQuotas only.
pub(crate) struct ResourceQuota;

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
/// Resources that Pod scopes apply to.
const OF_PODS: [&str; 7] = [
    "pods",
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(ResourceQuota)
        .cells(CELLS)
        .counted_by_plural()
        .empty_status()
        .metadata_checks(of_core(0, 1))
        .done()
}

impl Strategy for ResourceQuota {
    /// upstream: pkg/registry/core/resourcequota#resourcequotaStrategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let spec = root.child("spec");
        let mut errors = Errors::new();
        validate_amounts(&spec.child("hard"), &mut errors);
        validate_scopes(&spec, &mut errors);
        validate_selector(&spec, &mut errors);
        errors
    }

    /// upstream: pkg/registry/core/resourcequota#resourcequotaStrategy.ValidateUpdate
    /// upstream: pkg/registry/core/resourcequota#resourcequotaStatusStrategy.ValidateUpdate
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
        let (spec, old_spec) = (root.child("spec"), old.child("spec"));
        let (scopes, old_scopes) = (spec.child("scopes"), old_spec.child("scopes"));
        if set_of(&scopes) != set_of(&old_scopes) {
            errors.push(scopes.invalid("field is immutable"));
        }
        errors
    }
}

fn set_of<'v>(scopes: &Field<'v, '_>) -> HashSet<&'v str> {
    scopes.slice().iter().filter_map(Value::as_str).collect()
}

/// upstream: pkg/apis/core/validation#ValidateResourceQuotaSpec
fn validate_amounts(list: &Field<'_, '_>, errors: &mut Errors) {
    for (name, amount) in list.entries() {
        validate_name(name, &amount, errors);
        if !name.contains('/') && !is_standard_for_quota(name) {
            errors.push(amount.invalid_as(name, "must be a standard resource for quota"));
        }
        let counted = name.starts_with("count/") || is_extended(name);
        validate_amount(if counted { "pods" } else { name }, &amount, errors);
    }
}

/// upstream: pkg/apis/core/validation#validateResourceQuotaScopes
fn validate_scopes(spec: &Field<'_, '_>, errors: &mut Errors) {
    let scopes = spec.child("scopes");
    if scopes.is_empty() {
        return;
    }
    let set = set_of(&scopes);
    for scope in scopes.items() {
        if !SCOPES.contains(&scope.text()) {
            errors.push(scopes.invalid("unsupported scope"));
        }
        for _ in 0..unfit(scope.text(), spec) {
            errors.push(scopes.invalid("unsupported scope applied to resource"));
        }
    }
    for (one, other) in OPPOSITES {
        if set.contains(one) && set.contains(other) {
            errors.push(scopes.invalid("conflicting scopes"));
        }
    }
}

/// Returns the number of resources that the scope does not apply to.
///
/// upstream: pkg/apis/core/helper#IsResourceQuotaScopeValidForResource
fn unfit(scope: &str, spec: &Field<'_, '_>) -> usize {
    let hard = spec.child("hard");
    let fits = |name: &str| match scope {
        _ if !is_standard_for_quota(name) => true,
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | CLAIMED_STORAGE),
        scope if SCOPES.contains(&scope) => OF_PODS.contains(&name),
        _ => true,
    };
    hard.entries().filter(|(name, _)| !fits(name)).count()
}

/// Validates scope selectors. The reference omits the index of the requirement.
///
/// upstream: pkg/apis/core/validation#validateScopedResourceSelectorRequirement
fn validate_selector(spec: &Field<'_, '_>, errors: &mut Errors) {
    let selector = spec.child("scopeSelector");
    let expressions = selector.child("matchExpressions");
    let place = expressions.path();
    let shown_selector = || selector.value().cloned().unwrap_or_default();
    let mut set = HashSet::new();
    for requirement in expressions.items() {
        let requirement = Field::placed(requirement.value(), place.as_str());
        let (scope, operator, values) = (
            requirement.child("scopeName"),
            requirement.child("operator"),
            requirement.child("values"),
        );
        if !SCOPES.contains(&scope.text()) {
            errors.push(scope.invalid_text("unsupported scope"));
        }
        for _ in 0..unfit(scope.text(), spec) {
            errors.push(requirement.invalid_as(shown_selector(), "unsupported scope applied to resource"));
        }
        if EXISTING.contains(&scope.text()) && operator.text() != "Exists" {
            errors.push(operator.invalid_text(
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                 ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            ));
        }
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => errors.push(
                values.required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"),
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(
                values.invalid("must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"),
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(operator.invalid_text("not a valid selector operator")),
        }
        set.insert(scope.text());
    }
    for (one, other) in OPPOSITES {
        if set.contains(one) && set.contains(other) {
            // The reference prints the other list of scopes here.
            let shown = spec.child("scopes").value().cloned().unwrap_or_default();
            errors.push(expressions.invalid_as(shown, "conflicting scopes"));
        }
    }
}

/// Scopes that only support the operators without values.
const EXISTING: [&str; 5] = [
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    "CrossNamespacePodAffinity",
];

/// Table cells that show more than the value at one path.
pub(super) const CELLS: &[NamedCell] = &[
    ("quota-limits", |object, _| quota(object, true)),
    ("quota-requests", |object, _| quota(object, false)),
];

/// Returns the used and the hard amounts of a quota, either of limits or of everything else.
fn quota(quota: &Value, of_limits: bool) -> Value {
    let hard = quota.at(&["status", "hard"]).and_then(Value::as_map);
    let entries = hard
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("limits.") == of_limits)
        .map(|(name, hard)| {
            let used = quota
                .at(&["status", "used", name.as_str()])
                .map_or_else(|| "0".to_owned(), scalar_text);
            format!("{name}: {used}/{}", scalar_text(hard))
        });
    entries.collect::<Vec<_>>().join(", ").into()
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
