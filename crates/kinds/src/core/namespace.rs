//! Namespaces: <https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/>.

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::{DeletionRules, InitialObjects, Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::qualified_name;
use holdfast_schema::metadata::new_object;
use holdfast_schema::{Field, FieldError, UpdateOrder};
use holdfast_value::Value;

use crate::defaults::is_zero;
use crate::kind::kind;
use crate::validation::Errors;

/// Label that holds a namespace's name, so that selectors can select it.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Finalizer that the namespace controller removes once the namespace is empty.
const FINALIZER: &str = "kubernetes";
/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = [FINALIZER, "orphan", "foregroundDeletion"];

/// Rules of Namespaces only.
pub(crate) struct Namespace;

/// Namespaces that exist from the start.
const FROM_THE_START: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Returns the kind with its capabilities.
pub(super) fn declare() -> Kind {
    kind(Namespace)
        .holds_namespaces()
        .initial_objects()
        .deletion(DeletionRules {
            held: Some(holds_deletion),
            checks_preconditions: true,
            ..DeletionRules::default()
        })
        .metadata_checks(in_order(UpdateOrder::WholeFirst, COMMON_CHECKS))
        .done()
}

impl Strategy for Namespace {
    /// upstream: pkg/apis/core/v1#SetDefaults_Namespace
    fn default_fields(&self, _version: &str, object: &mut Value) {
        label_by_name(object);
    }

    /// upstream: pkg/registry/core/namespace#namespaceStrategy.PrepareForCreate
    fn prepare_for_create(&self, _context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        // A generated name was not known yet when defaults were set.
        label_by_name(object);
        let mut status = Value::empty_map();
        status.set_at(&["phase"], "Active".into());
        object.set_at(&["status"], status);
        let mut finalizers = object
            .at(&["spec", "finalizers"])
            .and_then(Value::as_list)
            .map(|list| list.to_vec())
            .unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER)) {
            finalizers.push(FINALIZER.into());
            object.set_at(&["spec", "finalizers"], finalizers.into());
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/namespace#namespaceStrategy.PrepareForUpdate
    /// upstream: pkg/registry/core/namespace#namespaceFinalizeStrategy.PrepareForUpdate
    /// upstream: pkg/registry/core/namespace#namespaceStatusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        // Only the `finalize` subresource changes the finalizers of the specification.
        if context.subresource != Some("finalize")
            && let Some(finalizers) = old.at(&["spec", "finalizers"])
            && object.at(&["spec", "finalizers"]) != Some(finalizers)
        {
            object.set_at(&["spec", "finalizers"], finalizers.clone());
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/namespace#namespaceStrategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        validate_finalizers(&root.child("spec").child("finalizers"), &mut errors);
        errors
    }

    /// upstream: pkg/registry/core/namespace#namespaceStrategy.ValidateUpdate
    /// upstream: pkg/registry/core/namespace#namespaceFinalizeStrategy.ValidateUpdate
    /// upstream: pkg/registry/core/namespace#namespaceStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, _old: &Value) -> Vec<FieldError> {
        let root = Field::root(object);
        let mut errors = Errors::new();
        match context.subresource {
            Some("finalize") => validate_finalize_update(&root.child("spec").child("finalizers"), &mut errors),
            Some("status") => {
                let (status, metadata) = (root.child("status"), root.child("metadata"));
                let phase = status.child("phase");
                let ending = metadata.child("deletionTimestamp").is_set();
                // The reference capitalizes this name.
                let place = status.shown_as("Phase");
                if !ending && phase.text() != "Active" {
                    errors.push(place.invalid_as(phase.text(), "may only be 'Active' if `deletionTimestamp` is empty"));
                }
                if ending && phase.text() != "Terminating" {
                    errors.push(place.invalid_as(
                        phase.text(),
                        "may only be 'Terminating' if `deletionTimestamp` is not empty",
                    ));
                }
            }
            _ => {}
        }
        errors
    }

    /// upstream: pkg/registry/core/namespace/storage#REST.Delete
    fn prepare_for_delete(&self, _context: &WriteContext<'_>, object: &mut Value) {
        object.set_at(&["status", "phase"], "Terminating".into());
    }
}

impl InitialObjects for Namespace {
    fn initial_objects(&self) -> Vec<Value> {
        FROM_THE_START
            .map(|name| new_object("v1", "Namespace", "", name))
            .into()
    }
}

/// Returns true if the contents of the namespace must be deleted first.
pub(super) fn holds_deletion(object: &Value) -> bool {
    !is_zero(object.at(&["spec", "finalizers"]))
}

/// Adds the label with the name to a namespace that has a name.
fn label_by_name(object: &mut Value) {
    let name = object.at(&["metadata", "name"]).filter(|name| !is_zero(Some(name)));
    let Some(name) = name.cloned() else {
        return;
    };
    let label = ["metadata", "labels", NAME_LABEL];
    if object.at(&label) != Some(&name) {
        object.set_at(&label, name);
    }
}

/// Validates the finalizers of a new namespace. The reference reports their errors at the list.
///
/// upstream: pkg/apis/core/validation#ValidateNamespace
fn validate_finalizers(finalizers: &Field<'_, '_>, errors: &mut Errors) {
    let place = finalizers.path();
    for finalizer in finalizers.items() {
        validate_finalizer(&Field::placed(finalizer.value(), place.as_str()), errors);
    }
}

/// Validates the finalizers after a write to `finalize`, each at its index.
///
/// upstream: pkg/apis/core/validation#ValidateNamespaceFinalizeUpdate
fn validate_finalize_update(finalizers: &Field<'_, '_>, errors: &mut Errors) {
    for finalizer in finalizers.items() {
        validate_finalizer(&finalizer, errors);
    }
}

/// upstream: pkg/apis/core/validation#validateKubeFinalizerName
fn validate_finalizer(finalizer: &Field<'_, '_>, errors: &mut Errors) {
    let name = finalizer.text();
    let messages = qualified_name(name);
    errors.extend(messages.into_iter().map(|message| finalizer.invalid_text(message)));
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        errors.push(finalizer.invalid_text("name is neither a standard finalizer name nor is it fully qualified"));
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Harness, at};

    const TEAM: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: team}}";

    #[test]
    fn namespace_gets_name_label_and_finalizer() {
        let created = Harness::new().create(TEAM);
        assert_eq!(
            at(&created, "metadata.labels"),
            r#"{"kubernetes.io/metadata.name":"team"}"#
        );
        assert_eq!(at(&created, "spec.finalizers"), r#"["kubernetes"]"#);
        assert_eq!(at(&created, "status.phase"), r#""Active""#);
        assert!(super::holds_deletion(&created));
    }

    #[test]
    fn a_finalizer_is_checked_for_its_form_and_its_group() {
        let errors = Harness::new().errors(&TEAM.replace("}}", "}, spec: {finalizers: ['-a']}}"));
        assert!(errors[0].starts_with("spec.finalizers: Invalid value: \"-a\": name part must consist of"));
        let group = r#"spec.finalizers: Invalid value: "-a": name is neither a standard finalizer name nor is it fully qualified"#;
        assert_eq!(errors[1..], [group]);
    }

    #[test]
    fn only_finalize_changes_its_finalizers() {
        let harness = Harness::new();
        let created = harness.create(TEAM);
        let updated = harness.update(&created, &TEAM.replace("}}", "}, spec: {finalizers: [example.com/x]}}"));
        assert_eq!(at(&updated, "spec.finalizers"), r#"["kubernetes"]"#);
        assert_eq!(
            harness.subresource_errors(
                Some("finalize"),
                TEAM,
                &TEAM.replace("}}", "}, spec: {finalizers: [x]}}")
            ),
            [
                r#"spec.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified"#
            ]
        );
    }
}
