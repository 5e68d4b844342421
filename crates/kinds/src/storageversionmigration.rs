//! Kinds of the group `storagemigration.k8s.io`: StorageVersionMigrations, each of which rewrites the objects of a
//! resource (<https://kubernetes.io/docs/tasks/manage-kubernetes-objects/storage-version-migration/>).

use holdfast_kind_tables::Kind;
use holdfast_resource::table::{NamedCell, items};
use holdfast_resource::{Strategy, WriteContext};
use holdfast_schema::metadata::conditions::validate_conditions;
use holdfast_schema::metadata::formats::{dns_label_1035, dns_subdomain};
use holdfast_schema::{Field, FieldError, NoRules};
use holdfast_value::Value;

use crate::config::Config;
use crate::kind::kind;
use crate::validation::Errors;

/// Returns the kind of the group with this plural name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    let migrations = || kind(StorageVersionMigration).cells(CELLS).empty_status().done();
    (plural == "storageversionmigrations").then(migrations)
}

/// Rules of StorageVersionMigrations only.
struct StorageVersionMigration;

/// Table cells.
const CELLS: &[NamedCell] = &[
    ("migrated-resource", |object, _| resource_name(object)),
    ("migration-status", |object, _| migration_status(object)),
];

fn resource_name(object: &Value) -> Value {
    let text = |name| object.str_at(&["spec", "resource", name]).unwrap_or_default();
    match text("group") {
        "" => text("resource").into(),
        group => format!("{}.{group}", text("resource")).into(),
    }
}

fn migration_status(object: &Value) -> Value {
    const STATES: [&str; 3] = ["Running", "Succeeded", "Failed"];
    let conditions = items(object, &["status", "conditions"]).iter();
    let mut holding = conditions.filter(|condition| condition.str_at(&["status"]) == Some("True"));
    let last = holding.rfind(|condition| {
        condition
            .str_at(&["type"])
            .is_some_and(|type_name| STATES.contains(&type_name))
    });
    last.and_then(|condition| condition.str_at(&["type"]))
        .unwrap_or("Unknown")
        .into()
}

impl Strategy for StorageVersionMigration {
    /// upstream: pkg/registry/storagemigration/storagemigration#strategy.Validate
    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        validate_spec(&Field::root(object).child("spec"), &mut errors);
        errors
    }

    /// upstream: pkg/registry/storagemigration/storagemigration#strategy.ValidateUpdate
    /// upstream: pkg/registry/storagemigration/storagemigration#statusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (root, old_root) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        if context.subresource.is_some() {
            validate_status(&root.child("status"), &old_root.child("status"), &mut errors);
            return errors;
        }
        validate_spec(&root.child("spec"), &mut errors);
        errors.extend(context.check_changes(object, old, &NoRules));
        errors
    }
}

/// Validates a StorageVersionMigration.
///
/// upstream: pkg/apis/storagemigration/validation#ValidateStorageVersionMigration
fn validate_spec(spec: &Field<'_, '_>, errors: &mut Errors) {
    let named = spec.child("resource");
    let (resource, group) = (named.child("resource"), named.child("group"));
    if resource.text().is_empty() {
        errors.push(resource.required("resource is required to be set"));
    } else {
        let messages = dns_label_1035(resource.text());
        if !messages.is_empty() {
            errors.push(resource.invalid(messages.join(",")));
        }
    }
    if !group.text().is_empty() {
        let messages = dns_subdomain(group.text());
        if !messages.is_empty() {
            errors.push(group.invalid(messages.join(",")));
        }
    }
}

/// Validates an update of the status of a StorageVersionMigration.
///
/// upstream: pkg/apis/storagemigration/validation#ValidateStorageVersionMigrationStatusUpdate
fn validate_status(status: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (version, before) = (status.child("resourceVersion"), old.child("resourceVersion"));
    if !version.text().is_empty()
        && let Some(why) = version_error(version.text())
    {
        errors.push(version.invalid(why));
    }
    let conditions = status.child("conditions");
    validate_conditions(&conditions, errors);
    if !before.text().is_empty() && before.text() != version.text() {
        errors.push(version.invalid_text("field is immutable"));
    }
    let [succeeded, failed] =
        ["Succeeded", "Failed"].map(|type_name| [is_true(status, type_name), is_true(old, type_name)]);
    if succeeded[0] && failed[0] {
        errors.push(conditions.invalid("Both success and failed conditions cannot be true at the same time"));
    }
    for ([now, before], name) in [(succeeded, "Success"), (failed, "Failed")] {
        if before && !now {
            errors.push(conditions.invalid(format!("{name} condition cannot be set to false once it is true")));
        }
    }
}

/// Returns the error of an invalid resource version, with the message of `CompareResourceVersion`.
fn version_error(text: &str) -> Option<String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let well_formed = digits && !text.starts_with('0');
    (!well_formed).then(|| format!("resource version is not well formed: {text}"))
}

fn is_true(status: &Field<'_, '_>, type_name: &str) -> bool {
    let conditions = status.child("conditions");
    let found = conditions
        .items()
        .find(|condition| condition.child("type").text() == type_name);
    found.is_some_and(|condition| condition.child("status").text() == "True")
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn a_migration_names_a_resource() {
        let harness = Harness::serving("api/beta=true", "StorageVersionMigrator=true");
        let migration = |resource: &str| {
            format!(
                "{{apiVersion: storagemigration.k8s.io/v1beta1, kind: StorageVersionMigration, metadata: {{name: a}}, spec: \
                 {{resource: {{{resource}}}}}}}"
            )
        };
        assert_eq!(
            harness.errors(&migration("group: apps, resource: deployments")),
            Vec::<String>::new()
        );
        assert_eq!(
            harness.errors(&migration("group: apps")),
            ["spec.resource.resource: Required value: resource is required to be set"]
        );
    }
}
