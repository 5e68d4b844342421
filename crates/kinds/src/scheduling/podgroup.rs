//! Workloads and the groups of Pods that are made of their templates (<https://kubernetes.io/docs/concepts/workloads/workload-api/>).

use holdfast_resource::table::{NamedCell, items};
use holdfast_resource::{Check, Field, FieldError, Part, Refusal, Rules, Strategy, WriteContext};
use holdfast_value::Value;

use crate::features::{Feature, Features};
use crate::validation::Errors;
use crate::validation::conditions::validate_conditions;

/// What only PodGroups do.
pub(crate) struct PodGroup {
    /// The features that are on.
    pub(crate) features: Features,
}

/// What only Workloads do.
pub(crate) struct Workload {
    /// The features that are on.
    pub(crate) features: Features,
}

/// The fields of a group, or of a template of groups, that features hold back.
const GATED: [(Feature, &str); 5] = [
    (Feature::TopologyAwareWorkloadScheduling, "schedulingConstraints"),
    (Feature::DRAWorkloadResourceClaims, "resourceClaims"),
    (Feature::WorkloadAwarePreemption, "disruptionMode"),
    (Feature::WorkloadAwarePreemption, "priorityClassName"),
    (Feature::WorkloadAwarePreemption, "priority"),
];

/// The types that hold exactly one of some fields.
struct Unions;

impl<'v> Rules<'v> for Unions {
    fn rule(&self, name: &str, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let members: &[&str] = match name {
            "policy" => &["basic", "gang"],
            "claim" => &["resourceClaimName", "resourceClaimTemplateName"],
            "reference" => &["workload"],
            _ => return check.unknown_rule(name, part),
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

/// Drops what nobody may set yet, unless `old` has it: `dropDisabledPodGroupSpecFields`.
fn drop_disabled(features: Features, spec: &mut Value, old: Option<&Value>) {
    for (feature, name) in GATED {
        if !features.has(feature) && old.is_none_or(|old| old.get(name).is_none()) {
            spec.remove_at(&[name]);
        }
    }
}

/// The cells of tables.
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
    let text = |sort: &str, name: &str| {
        let conditions = items(group, &["status", "conditions"]).iter();
        let found = conditions
            .rev()
            .find(|condition| condition.str_at(&["type"]) == Some(sort))?;
        Some(found.str_at(&[name]).unwrap_or_default())
    };
    match (text("DisruptionTarget", "reason"), text("PodGroupScheduled", "status")) {
        (Some(reason), _) => reason,
        (None, Some("True")) => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    }
}

impl PodGroup {
    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        if let Some(spec) = object.at_mut(&["spec"]) {
            drop_disabled(self.features, spec, old.and_then(|old| old.get("spec")));
        }
    }
}

impl Strategy for PodGroup {
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        self.drop_disabled(object, None);
        Ok(())
    }

    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        if context.subresource.is_none() {
            self.drop_disabled(object, Some(old));
            return Ok(());
        }
        let uses_claims = old.at(&["spec", "resourceClaims"]).is_some();
        if !uses_claims && !self.features.has(Feature::DRAWorkloadResourceClaims) {
            object.remove_at(&["status", "resourceClaimStatuses"]);
        }
        Ok(())
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &Unions)
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        if context.subresource.is_some() {
            let status = root.child("status");
            validate_conditions(&status.child("conditions"), &mut errors);
            validate_claim_statuses(&status.child("resourceClaimStatuses"), &root.child("spec"), &mut errors);
        }
        errors.extend(self.validate(context, object));
        errors.extend(context.check_changes(object, old, &Unions));
        errors
    }
}

/// `validatePodGroupResourceClaimStatuses`: each is of a claim of the group.
fn validate_claim_statuses(statuses: &Field<'_, '_>, spec: &Field<'_, '_>, errors: &mut Errors) {
    let claims = spec.child("resourceClaims");
    for status in statuses.items() {
        let name = status.child("name");
        if !claims.items().any(|claim| claim.child("name").text() == name.text()) {
            errors.push(name.invalid_text("must match the name of an entry in `spec.resourceClaims`"));
        }
    }
}

impl Workload {
    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        const TEMPLATES: [&str; 2] = ["spec", "podGroupTemplates"];
        let before = old.and_then(|old| old.at(&TEMPLATES)).and_then(Value::as_list);
        let Some(templates) = object.at_mut(&TEMPLATES).and_then(Value::as_list_mut) else {
            return;
        };
        for (at, template) in templates.make_mut().iter_mut().enumerate() {
            drop_disabled(self.features, template, before.and_then(|before| before.get(at)));
        }
    }
}

impl Strategy for Workload {
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
        self.drop_disabled(object, None);
        Ok(())
    }

    fn prepare_for_update(&self, _context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
        self.drop_disabled(object, Some(old));
        Ok(())
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &Unions)
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.validate(context, object);
        errors.extend(context.check_changes(object, old, &Unions));
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
    fn what_features_hold_back_is_dropped() {
        let given = group(&format!(
            "{POLICY}, priority: 3, schedulingConstraints: {{topology: [{{key: zone}}]}}"
        ));
        let created = harness("").create(&given);
        assert_eq!(at(&created, "spec.priority"), "nothing");
        assert_eq!(at(&created, "spec.schedulingConstraints"), "nothing");
        let created = harness(",GangScheduling=true,WorkloadAwarePreemption=true").create(&given);
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
