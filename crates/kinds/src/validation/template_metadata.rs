//! Metadata of objects that are created from a template.

use holdfast_schema::metadata::labels::validate_labels;
use holdfast_schema::metadata::validate_annotations;
use holdfast_schema::{Field, Provenance};
use holdfast_value::Value;

use super::Errors;

/// Fields that a template must not set, with the reference's names, in the order of its fields.
const FORBIDDEN: [(&str, &str); 13] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
];

/// Reports metadata other than labels and annotations in a template.
///
/// upstream: pkg/apis/core/validation#ValidateTemplateObjectMeta
pub(crate) fn validate_template_metadata(metadata: &Field<'_, '_>, provenance: Provenance<'_>, errors: &mut Errors) {
    let annotations = metadata.child("annotations");
    if let Some(map) = annotations.value().and_then(Value::as_map) {
        validate_annotations(&annotations.path(), map, errors);
    }
    validate_labels(&metadata.child("labels"), errors);
    for (name, shown) in FORBIDDEN {
        let sent = metadata.value().and_then(|metadata| metadata.get(name));
        let zero = match sent {
            None => true,
            Some(Value::Null) => !name.ends_with("Timestamp"),
            Some(Value::Int(0)) => name == "generation",
            Some(Value::String(text)) => text.is_empty(),
            Some(_) => false,
        };
        // A list that the client sends counts as set even if it is empty.
        if !zero || provenance.empty_at(&metadata.child(name)).is_some() {
            errors.push(metadata.child(shown).forbidden("cannot be set"));
        }
    }
}
