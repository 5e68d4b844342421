//! Workloads and the PodGroups created from their templates
//! (<https://kubernetes.io/docs/concepts/workloads/workload-api/>).

use holdfast_kind_tables::Kind;
use holdfast_resource::table::{NamedCell, items};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::conditions::validate_conditions;
use holdfast_schema::{Check, Field, FieldError, NoRules, Part, Rules};
use holdfast_value::Value;

use crate::kind::kind;
use crate::rules::PodGroupRule;
use crate::validation::Errors;

/// Strategy of PodGroups.
pub(crate) struct PodGroup;

/// Strategy of Workloads.
pub(crate) struct Workload;

/// Rules for types that must have exactly one of several fields.
struct Unions;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(PodGroup).cells(CELLS).empty_status().done()
}

impl<'v> Rules<'v> for Unions {
    type Rule = PodGroupRule;

    /// upstream: k8s.io/apimachinery/pkg/api/validate#Union
    fn rule(&self, rule: PodGroupRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let members: &[&str] = match rule {
            PodGroupRule::Policy => &["basic", "gang"],
            PodGroupRule::Claim => &["resourceClaimName", "resourceClaimTemplateName"],
            PodGroupRule::Reference => &["workload"],
        };
        let quoted = |names: &[&str]| {
            names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let set: Vec<&str> = members
            .iter()
            .copied()
            .filter(|name| part.child(name).is_set())
            .collect();
        match set.as_slice() {
            [_] => {}
            [] => {
                let why = format!("must specify one of: {}", quoted(members));
                check.errors.push(part.invalid_as("", why));
            }
            several => {
                let shown = format!("{{{}}}", quoted(several));
                let why = format!("must specify exactly one of: {}", quoted(members));
                check.errors.push(part.invalid_as(shown, why));
            }
        }
    }
}

/// Table cells.
pub(super) const CELLS: &[NamedCell] = &[
    ("pod-group-policy", |object, _| policy(object).into()),
    ("pod-group-status", |object, _| status(object).into()),
];

fn policy(group: &Value) -> &str {
    match group.at(&["spec", "schedulingPolicy", "gang"]) {
        Some(_) => "Gang",
        None => "Basic",
    }
}

fn status(group: &Value) -> &str {
    let text = |type_name: &str, name: &str| {
        let conditions = items(group, &["status", "conditions"]).iter();
        let found = conditions
            .rev()
            .find(|condition| condition.str_at(&["type"]) == Some(type_name))?;
        Some(found.str_at(&[name]).unwrap_or_default())
    };
    match (text("DisruptionTarget", "reason"), text("PodGroupScheduled", "status")) {
        (Some(reason), _) => reason,
        (None, Some("True")) => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    }
}

impl Strategy for PodGroup {
    /// upstream: pkg/registry/scheduling/podgroup#podGroupStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &Unions)
    }

    /// upstream: pkg/registry/scheduling/podgroup#podGroupStrategy.ValidateUpdate
    /// upstream: pkg/registry/scheduling/podgroup#podGroupStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        if context.subresource.is_some() {
            let status = root.child("status");
            validate_conditions(&status.child("conditions"), &mut errors);
            validate_claim_statuses(&status.child("resourceClaimStatuses"), &root.child("spec"), &mut errors);
        }
        errors.extend(self.validate(context, object));
        errors.extend(context.check_changes(object, old, &NoRules));
        errors
    }
}

/// Checks that each status belongs to a claim of the group.
///
/// upstream: pkg/apis/scheduling/validation#validatePodGroupResourceClaimStatuses
fn validate_claim_statuses(statuses: &Field<'_, '_>, spec: &Field<'_, '_>, errors: &mut Errors) {
    let claims = spec.child("resourceClaims");
    for status in statuses.items() {
        let name = status.child("name");
        if !claims.items().any(|claim| claim.child("name").text() == name.text()) {
            errors.push(name.invalid_text("must match the name of an entry in `spec.resourceClaims`"));
        }
    }
}

impl Strategy for Workload {
    /// upstream: pkg/registry/scheduling/workload#workloadStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &Unions)
    }

    /// upstream: pkg/registry/scheduling/workload#workloadStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, object);
        errors.extend(context.check_changes(object, old, &NoRules));
        errors
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const POLICY: &str = "schedulingPolicy: {gang: {minCount: 2}}";

    fn group(spec: &str) -> String {
        format!(
            "{{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {{name: a, namespace: b}}, spec: {{{spec}}}}}"
        )
    }

    fn harness(gates: &str) -> Harness {
        Harness::serving("api/alpha=true", &format!("GenericWorkload=true{gates}"))
    }

    #[test]
    fn fields_of_disabled_features_are_dropped() {
        let sent = group(&format!(
            "{POLICY}, priority: 3, schedulingConstraints: {{topology: [{{key: zone}}]}}"
        ));
        let created = harness("").create(&sent);
        assert_eq!(at(&created, "spec.priority"), "nothing");
        assert_eq!(at(&created, "spec.schedulingConstraints"), "nothing");
        let created = harness(",GangScheduling=true,WorkloadAwarePreemption=true").create(&sent);
        assert_eq!(at(&created, "spec.priority"), "3");
        assert_eq!(at(&created, "spec.disruptionMode"), "\"Pod\"");
    }

    #[test]
    fn groups_and_templates_are_checked() {
        let harness = harness("");
        assert_eq!(harness.errors(&group(POLICY)), Vec::<String>::new());
        assert_eq!(
            harness.errors(&group("schedulingPolicy: {gang: {minCount: 0}}")),
            ["spec.schedulingPolicy.gang.minCount: Required value"]
        );
        let workload = |spec: &str| {
            format!(
                "{{apiVersion: scheduling.k8s.io/v1alpha2, kind: Workload, metadata: {{name: a, namespace: b}}, spec: {{{spec}}}}}"
            )
        };
        let template = format!("podGroupTemplates: [{{name: t, {POLICY}}}]");
        assert_eq!(harness.errors(&workload(&template)), Vec::<String>::new());
        assert_eq!(
            harness.errors(&workload("podGroupTemplates: []")),
            ["spec.podGroupTemplates: Required value"]
        );
    }
}
