//! Validation of a version without its schema: subresources, columns and selectable fields.

use std::collections::HashSet;

use holdfast_schema::{FieldError, FieldPath};
use holdfast_structural::{JsonType, Node, Notation};
use holdfast_value::Value;

use super::{items, text};
use crate::validation::Errors;

/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionSubresources
pub(super) fn subresources(version: &Value, root: &FieldPath, errors: &mut Errors) {
    let Some(scale) = version.at(&["subresources", "scale"]).filter(|scale| !scale.is_null()) else {
        return;
    };
    for (name, required, below, why) in [
        (
            "specReplicasPath",
            true,
            &[".spec."][..],
            "should be a json path under .spec",
        ),
        (
            "statusReplicasPath",
            true,
            &[".status."],
            "should be a json path under .status",
        ),
        (
            "labelSelectorPath",
            false,
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
        ),
    ] {
        let (field, path) = (root.child("scale").child(name), text(scale, name));
        if path.is_empty() {
            if required {
                errors.push(FieldError::required(&field, ""));
            }
        } else if let Some(error) = simple_path(path, &field) {
            errors.push(error);
        } else if !below.iter().any(|below| path.starts_with(below)) {
            errors.push(FieldError::invalid(&field, path, why));
        }
    }
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateSimpleJSONPath
fn simple_path(path: &str, field: &FieldPath) -> Option<FieldError> {
    let why = "must be a simple json path starting with .";
    (!path.starts_with('.')).then(|| FieldError::invalid(field, path, why))
}

pub(super) fn columns(version: &Value, root: &FieldPath, errors: &mut Errors) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    for (at, column) in items(version, "additionalPrinterColumns").iter().enumerate() {
        let field = root.index(at);
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(&field.child("name"), ""));
        }
        let (types, field_of_type) = (format!("must be one of {}", TYPES.join(",")), field.child("type"));
        match text(column, "type") {
            "" => errors.push(FieldError::required(&field_of_type, types)),
            of if TYPES.contains(&of) => {}
            of => errors.push(FieldError::invalid(&field_of_type, of, types)),
        }
        let format = text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let why = format!("must be one of {}", FORMATS.join(","));
            errors.push(FieldError::invalid(&field.child("format"), format, why));
        }
        let (path, field) = (text(column, "jsonPath"), field.child("JSONPath"));
        if path.is_empty() {
            errors.push(FieldError::required(&field, ""));
        } else {
            errors.extend(simple_path(path, &field));
        }
    }
}

/// Validates the selectable fields of objects. `refused` is the reason if there must be none.
/// There may be at most `limit`.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceSelectableFields
pub(super) fn selectable_fields(
    version: &Value,
    refused: Option<&str>,
    limit: usize,
    root: &FieldPath,
    errors: &mut Errors,
) {
    let selectable = items(version, "selectableFields");
    if selectable.is_empty() {
        return;
    }
    if let Some(why) = refused {
        errors.push(FieldError::invalid(root, "", why));
        return;
    }
    let schema = Node::read(version.at(&["schema", "openAPIV3Schema"]).unwrap_or(&Value::Null));
    let mut known: HashSet<String> = HashSet::new();
    for (at, selectable) in selectable.iter().enumerate() {
        let (field, path) = (root.index(at).child("jsonPath"), text(selectable, "jsonPath"));
        if path.is_empty() {
            errors.push(FieldError::required(&field, ""));
            continue;
        }
        match schema.at_path(path, Notation::Dotted) {
            Err(why) => errors.push(FieldError::invalid(&field, path, format!("is an invalid path: {why}"))),
            Ok((found, of)) => {
                if found.as_str().split(['.', '[']).next() == Some("metadata") {
                    errors.push(FieldError::invalid(
                        &field,
                        path,
                        "must not point to fields in metadata",
                    ));
                }
                let kind = of.and_then(|of| of.kind);
                if !matches!(kind, Some(JsonType::String | JsonType::Boolean | JsonType::Integer)) {
                    let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                    errors.push(FieldError::invalid(&field, path, why));
                }
                if !known.insert(found.as_str().to_owned()) {
                    errors.push(FieldError::duplicate(&field, path));
                }
            }
        }
    }
    if known.len() > limit {
        errors.push(FieldError::too_many(root, known.len(), limit));
    }
}
