//! ControllerRevisions: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/controller-revision-v1/>.

use holdfast_kind_tables::Kind;
use holdfast_resource::table::{NamedCell, items};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::{Changes, Check, FieldError, Part, Rules};
use holdfast_value::Value;

use crate::kind::kind;
use crate::rules::{ControllerRevisionChange, ControllerRevisionRule};

/// Strategy of ControllerRevisions.
pub(crate) struct ControllerRevision;

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(ControllerRevision)
        .cells(CELLS)
        .raw(&[&["data"]], Some("data"))
        .done()
}

impl Strategy for ControllerRevision {
    /// upstream: pkg/registry/apps/controllerrevision#strategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        context.check(object, &DataRules { is_new: true })
    }

    /// upstream: pkg/registry/apps/controllerrevision#strategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        context.check_update(object, old, &DataRules { is_new: false })
    }
}

/// Validation of the data: required on creation, immutable on update.
struct DataRules {
    is_new: bool,
}

impl<'v> Rules<'v> for DataRules {
    type Rule = ControllerRevisionRule;

    /// upstream: pkg/apis/apps/validation#ValidateControllerRevisionCreate
    fn rule(&self, rule: ControllerRevisionRule, revision: &Part<'v, '_>, check: &mut Check<'_>) {
        let ControllerRevisionRule::Data = rule;
        let data = revision.child("data");
        match data.value() {
            Some(Value::Map(_)) => {}
            _ if !self.is_new => {}
            None => check.errors.push(data.required("data is mandatory")),
            Some(_) => check.errors.push(data.required("data must be a valid JSON object")),
        }
    }
}

impl<'v> Changes<'v> for DataRules {
    type Change = ControllerRevisionChange;

    /// Compares exactly, unlike `validation::same`, since empty parts of the data are significant.
    fn change(
        &self,
        change: ControllerRevisionChange,
        revision: &Part<'v, '_>,
        old: &Part<'v, '_>,
        check: &mut Check<'_>,
    ) {
        let ControllerRevisionChange::Data = change;
        let data = revision.child("data");
        if data.value() != old.child("data").value() {
            check.errors.push(data.invalid("field is immutable"));
        }
    }
}

/// Table cells that are not just the value at a path.
pub(super) const CELLS: &[NamedCell] = &[("controller", |object, _| controller(object))];

fn controller(object: &Value) -> Value {
    let mut owners = items(object, &["metadata", "ownerReferences"]).iter();
    let owner = owners.find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
    let Some(owner) = owner else { return "<none>".into() };
    let text = |field| owner.str_at(&[field]).unwrap_or_default();
    let kind = text("kind").to_lowercase();
    match text("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text("name")).into(),
        None => format!("{kind}/{}", text("name")).into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const ONE: &str = "{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: a}, revision: 1, data: {a: 1}}";

    #[test]
    fn data_is_an_object_that_stays() {
        let harness = Harness::new();
        assert!(harness.errors(ONE).is_empty());
        assert_eq!(
            harness.errors(&ONE.replace(", data: {a: 1}", "")),
            ["data: Required value: data is mandatory"]
        );
        assert_eq!(
            harness.update_errors(ONE, &ONE.replace("a: 1}", "a: 2}")),
            [r#"data: Invalid value: {"a":2}: field is immutable"#]
        );
    }
}
