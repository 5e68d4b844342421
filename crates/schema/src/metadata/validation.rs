//! Validation of the metadata of an object of any kind, in the order and the words of the reference.

use std::collections::BTreeSet;

use holdfast_gotext::quote::{is_printable, quote};
use holdfast_value::{Map, SmolStr, Value};

use super::checks::{MetadataChecks, MetadataRules, UpdateOrder};
use super::formats;
use super::name::NameRule;
use crate::field_error::{FieldError, FieldPath};
use crate::names::GroupVersion;

/// Maximum size of all annotations of an object together in bytes, keys and values.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Maximum length of a field manager's name.
pub const FIELD_MANAGER_MAX_BYTES: usize = 128;

/// Maximum length of the name of a subresource in `managedFields`, in bytes.
const SUBRESOURCE_MAX: usize = 256;

/// Validates the metadata of an object that is to be created.
///
/// upstream: k8s.io/apimachinery/pkg/api/validation#ValidateObjectMeta
pub fn validate_metadata(rules: &MetadataRules<'_>, object: &Value) -> Vec<FieldError> {
    let names = Names {
        namespaced: rules.namespaced,
        name: &|name| rules.name_errors(object, name),
        prefix: &|prefix| rules.prefix_errors(object, prefix),
    };
    whole_metadata(object, &names, rules.checks.finalizer_names)
}

/// Validates the metadata of a written Scale, whatever the kind of the scaled object.
///
/// upstream: pkg/apis/autoscaling/validation#ValidateScale
pub fn validate_scale_metadata(scale: &Value) -> Vec<FieldError> {
    let names = Names {
        namespaced: true,
        name: &|name| NameRule::Subdomain.check(name),
        prefix: &|prefix| NameRule::Subdomain.check_prefix(prefix),
    };
    whole_metadata(scale, &names, true)
}

/// The name rules that apply to an object.
struct Names<'r> {
    namespaced: bool,
    name: &'r dyn Fn(&str) -> formats::Messages,
    prefix: &'r dyn Fn(&str) -> formats::Messages,
}

fn whole_metadata(object: &Value, names: &Names<'_>, finalizers_by_name: bool) -> Vec<FieldError> {
    let root = FieldPath::new("metadata");
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let text = |field: &str| metadata.str_at(&[field]).unwrap_or_default();
    let mut errors = Vec::new();

    let name = text("name");
    generated_name(&root, metadata, names.prefix, &mut errors);
    if name.is_empty() {
        errors.push(FieldError::required(
            &root.child("name"),
            "name or generateName is required",
        ));
    } else {
        let field = root.child("name");
        let wrong = (names.name)(name);
        errors.extend(wrong.into_iter().map(|text| FieldError::invalid(&field, name, text)));
    }
    if names.namespaced {
        let (field, namespace) = (root.child("namespace"), text("namespace"));
        if namespace.is_empty() {
            errors.push(FieldError::required(&field, ""));
        } else {
            let wrong = formats::dns_label(namespace);
            errors.extend(
                wrong
                    .into_iter()
                    .map(|text| FieldError::invalid(&field, namespace, text)),
            );
        }
    }
    if metadata
        .get("generation")
        .and_then(Value::as_i64)
        .is_some_and(|generation| generation < 0)
    {
        let field = root.child("generation");
        let generation = metadata.get("generation").cloned().unwrap_or_default();
        errors.push(FieldError::invalid(
            &field,
            generation,
            "must be greater than or equal to 0",
        ));
    }
    labels(&root, metadata, &mut errors);
    annotations(&root, metadata, &mut errors);
    owner_references(&root, metadata, &mut errors);
    finalizers(&root, metadata, &mut errors);
    managed_fields(&root, metadata, &mut errors);
    if finalizers_by_name {
        finalizer_names(&root, metadata, &mut errors);
    }
    errors
}

/// Reports the errors that `rule` finds in the beginning of a name, if there is one.
fn generated_name(
    root: &FieldPath,
    metadata: &Value,
    rule: impl FnOnce(&str) -> formats::Messages,
    errors: &mut Vec<FieldError>,
) {
    let prefix = metadata.str_at(&["generateName"]).unwrap_or_default();
    if !prefix.is_empty() {
        let field = root.child("generateName");
        let messages = rule(prefix).into_iter();
        errors.extend(messages.map(|why| FieldError::invalid(&field, prefix, why)));
    }
}

/// Validates the metadata of an embedded object, at `root`. It needs no name, and any valid path segment is allowed.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta#validateEmbeddedResource
pub fn validate_embedded_metadata(root: &FieldPath, metadata: &Value, errors: &mut Vec<FieldError>) {
    for (name, prefix) in [("generateName", true), ("name", false)] {
        let text = metadata.str_at(&[name]).unwrap_or_default();
        if text.is_empty() {
            continue;
        }
        let rule = NameRule::PathSegment;
        let wrong = if prefix {
            rule.check_prefix(text)
        } else {
            rule.check(text)
        };
        let field = root.child(name);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(&field, text, why)));
    }
    let namespace = metadata.str_at(&["namespace"]).unwrap_or_default();
    if !namespace.is_empty() {
        let (field, wrong) = (root.child("namespace"), formats::dns_label(namespace));
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(&field, namespace, why)));
    }
    labels(root, metadata, errors);
    annotations(root, metadata, errors);
    owner_references(root, metadata, errors);
    finalizers(root, metadata, errors);
    managed_fields(root, metadata, errors);
}

/// Validates the metadata of an object that is to replace `old` by a write to `subresource`, which is empty for the
/// object itself.
///
/// The reference validates metadata for all kinds and again in most kinds' own validation, so that clients see each of
/// these errors several times among the causes; so does this function.
///
/// upstream: k8s.io/apimachinery/pkg/api/validation#ValidateObjectMetaUpdate
pub fn validate_metadata_update(
    rules: &MetadataRules<'_>,
    subresource: &str,
    object: &Value,
    old: &Value,
) -> Vec<FieldError> {
    // All kinds accept any path segment as the beginning of a name; each kind adds its own rule.
    let mut of_all = Vec::new();
    if let Some(metadata) = object.get("metadata") {
        let in_paths = |prefix: &str| NameRule::PathSegment.check_prefix(prefix);
        generated_name(&FieldPath::new("metadata"), metadata, in_paths, &mut of_all);
    }
    let of_kind = own_prefix_errors(rules, object);
    let checks = rules.checks;
    repeated_errors(checks, subresource, of_all, of_kind, object, old).first
}

/// Returns the errors that [`validate_metadata_update`] leaves out for kinds that report them between other errors; see
/// [`UpdateOrder`].
pub fn rest_of_metadata_update(
    rules: &MetadataRules<'_>,
    subresource: &str,
    object: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let checks = rules.checks;
    if matches!(checks.update_order, UpdateOrder::ChangeFirst | UpdateOrder::WholeFirst) {
        return Vec::new();
    }
    let of_kind = own_prefix_errors(rules, object);
    repeated_errors(checks, subresource, Vec::new(), of_kind, object, old).rest
}

/// Validates `generateName` by the kind's own name rule.
fn own_prefix_errors(rules: &MetadataRules<'_>, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(metadata) = object.get("metadata") {
        let rule = |prefix: &str| rules.prefix_errors(object, prefix);
        generated_name(&FieldPath::new("metadata"), metadata, rule, &mut errors);
    }
    errors
}

/// Validates the metadata of a changed object as a whole, except name and namespace, for kinds that do so between their
/// other checks.
///
/// upstream: k8s.io/apimachinery/pkg/api/validation#ValidateObjectMeta
pub fn validate_metadata_whole(rules: &MetadataRules<'_>, object: &Value) -> Vec<FieldError> {
    let root = FieldPath::new("metadata");
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let mut errors = own_prefix_errors(rules, object);
    shape(&root, metadata, &mut errors);
    finalizers(&root, metadata, &mut errors);
    if rules.checks.finalizer_names {
        finalizer_names(&root, metadata, &mut errors);
    }
    errors
}

/// Validation errors of the metadata of an update.
struct UpdateFaults {
    /// Errors reported before all others.
    first: Vec<FieldError>,
    /// Errors reported between the others.
    rest: Vec<FieldError>,
}

/// Returns the errors of an update, repeated as often as in the reference. The errors of the beginning of a name are
/// passed in.
fn repeated_errors(
    checks: &MetadataChecks,
    subresource: &str,
    of_all: Vec<FieldError>,
    of_kind: Vec<FieldError>,
    object: &Value,
    old: &Value,
) -> UpdateFaults {
    let root = FieldPath::new("metadata");
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let old = old.get("metadata").unwrap_or(&Value::Null);
    let (mut whole, mut update) = (Vec::new(), Vec::new());
    shape(&root, metadata, &mut whole);
    changes(&root, metadata, old, &mut update);
    update.extend(whole.iter().cloned());
    finalizers(&root, metadata, &mut whole);
    let mut first = of_all;
    first.extend(whole.iter().cloned());
    first.extend(update.iter().cloned());
    whole.splice(0..0, of_kind);
    if checks.finalizer_names {
        finalizer_names(&root, metadata, &mut whole);
        finalizer_names(&root, metadata, &mut update);
    }
    let own = checks.for_subresource(subresource);
    let repeated = |errors: &[FieldError], times: u8| (0..times).flat_map(|_| errors.to_vec()).collect::<Vec<_>>();
    let (update, whole) = (repeated(&update, own.update), repeated(&whole, own.whole));
    let order = match own.whole {
        0 if !subresource.is_empty() => UpdateOrder::ChangeFirst,
        _ => checks.update_order,
    };
    let (now, later, rest) = match order {
        UpdateOrder::ChangeFirst => (update, whole, Vec::new()),
        UpdateOrder::WholeFirst => (whole, update, Vec::new()),
        UpdateOrder::ObjectFirst => (whole, Vec::new(), update),
        UpdateOrder::ChangesFirst => (update, Vec::new(), whole),
    };
    first.extend(now);
    first.extend(later);
    UpdateFaults { first, rest }
}

/// Validates metadata in the same way for new objects and updates.
fn shape(root: &FieldPath, metadata: &Value, errors: &mut Vec<FieldError>) {
    labels(root, metadata, errors);
    annotations(root, metadata, errors);
    owner_references(root, metadata, errors);
    managed_fields(root, metadata, errors);
}

/// Validates changes of metadata.
fn changes(root: &FieldPath, metadata: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if old.get("deletionTimestamp").is_some() {
        no_new_finalizers(root, metadata, old, errors);
    }
    let generation = |metadata: &Value| metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation(metadata) < generation(old) {
        let (field, value) = (root.child("generation"), generation(metadata));
        errors.push(FieldError::invalid(&field, value, "must not be decremented"));
    }
    for name in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if metadata.get(name) != old.get(name) {
            let value = metadata.get(name).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(&root.child(name), value, "field is immutable"));
        }
    }
}

fn labels(root: &FieldPath, metadata: &Value, errors: &mut Vec<FieldError>) {
    let Some(labels) = metadata.get("labels").and_then(Value::as_map) else {
        return;
    };
    let field = root.child("labels");
    for (key, value) in labels {
        let wrong = formats::qualified_name(key);
        errors.extend(
            wrong
                .into_iter()
                .map(|text| FieldError::invalid(&field, key.clone(), text)),
        );
        let value = value.as_str().unwrap_or_default();
        let wrong = formats::label_value(value);
        errors.extend(wrong.into_iter().map(|text| FieldError::invalid(&field, value, text)));
    }
}

fn annotations(root: &FieldPath, metadata: &Value, errors: &mut Vec<FieldError>) {
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_map) {
        validate_annotations(&root.child("annotations"), annotations, errors);
    }
}

/// Validates annotations, which are at `field`.
///
/// upstream: k8s.io/apimachinery/pkg/api/validation#ValidateAnnotations
pub fn validate_annotations(field: &FieldPath, annotations: &Map, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in annotations {
        size += key.len() + value.as_str().map_or(0, str::len);
        // Annotation keys may contain capitals, label keys may not.
        let wrong = if key.bytes().any(|byte| byte.is_ascii_uppercase()) {
            formats::qualified_name(&key.to_lowercase())
        } else {
            formats::qualified_name(key)
        };
        errors.extend(
            wrong
                .into_iter()
                .map(|text| FieldError::invalid(field, key.clone(), text)),
        );
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(field, ANNOTATIONS_MAX));
    }
}

/// Limit in bytes of the owner references in errors.
const SHOWN_OWNERS: usize = 1 << 20;

/// upstream: k8s.io/apimachinery/pkg/api/validation#ValidateOwnerReferences
fn owner_references(root: &FieldPath, metadata: &Value, errors: &mut Vec<FieldError>) {
    let Some(references) = metadata.get("ownerReferences").and_then(Value::as_list) else {
        return;
    };
    let field = root.child("ownerReferences");
    let mut controller: Option<String> = None;
    let mut all = None::<String>;
    let mut room = SHOWN_OWNERS;
    for reference in references {
        let text = |name: &str| reference.str_at(&[name]).unwrap_or_default();
        let group_version = GroupVersion::parse(text("apiVersion"));
        if group_version.is_none() {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(
                &field.child("apiVersion"),
                text("apiVersion"),
                detail,
            ));
        }
        for name in ["kind", "name", "uid"] {
            if text(name).is_empty() {
                errors.push(FieldError::invalid(&field.child(name), "", "must not be empty"));
            }
        }
        if text("kind") == "Event" && text("apiVersion") == "v1" {
            let shown = in_order(reference);
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_text(&field, shown, detail));
        }
        if reference.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                None => controller = Some(this),
                // Each of these errors reports all references: a very large number of them adds no information.
                Some(_) if room == 0 => {}
                Some(first) => {
                    let shown = all.get_or_insert_with(|| {
                        let shown: Vec<String> = references.iter().map(in_order).collect();
                        shown.join(",")
                    });
                    room = room.saturating_sub(shown.len());
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    errors.push(FieldError::invalid_text(&field, format!("[{shown}]"), &detail));
                }
            }
        }
    }
}

/// Returns the text of an owner reference with its members in the order in which the reference writes them.
fn in_order(reference: &Value) -> String {
    const ORDER: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let members: Vec<String> = ORDER
        .iter()
        .filter_map(|name| Some((name, reference.get(name)?)))
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// Validates the format of finalizers like the reference does for new objects: the path has no index here.
fn finalizers(root: &FieldPath, metadata: &Value, errors: &mut Vec<FieldError>) {
    let field = root.child("finalizers");
    let (mut orphan, mut foreground) = (false, false);
    for finalizer in texts(metadata, "finalizers") {
        let wrong = formats::qualified_name(finalizer);
        errors.extend(
            wrong
                .into_iter()
                .map(|text| FieldError::invalid(&field, finalizer.clone(), text)),
        );
        orphan |= finalizer == "orphan";
        foreground |= finalizer == "foregroundDeletion";
    }
    if orphan && foreground {
        let value = metadata.get("finalizers").cloned().unwrap_or_default();
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(&field, value, detail));
    }
}

/// Rejects finalizers without a domain, except the standard ones.
///
/// upstream: pkg/apis/core/validation#validateKubeFinalizerName
fn finalizer_names(root: &FieldPath, metadata: &Value, errors: &mut Vec<FieldError>) {
    for (at, finalizer) in texts(metadata, "finalizers").enumerate() {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer.as_str()) {
            let field = root.child("finalizers").index(at);
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(&field, finalizer.clone(), detail));
        }
    }
}

fn no_new_finalizers(root: &FieldPath, metadata: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let before: BTreeSet<&SmolStr> = texts(old, "finalizers").collect();
    let added: BTreeSet<&SmolStr> = texts(metadata, "finalizers")
        .filter(|name| !before.contains(name))
        .collect();
    if !added.is_empty() {
        let names: Vec<String> = added.iter().map(|name| quote(name)).collect();
        errors.push(FieldError::forbidden(
            &root.child("finalizers"),
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                names.join(", ")
            ),
        ));
    }
}

/// Validates `metadata.managedFields` of `object`, as far as that is possible from each entry.
///
/// upstream: k8s.io/apimachinery/pkg/util/managedfields#ValidateManagedFields
pub fn validate_managed_fields(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(metadata) = object.get("metadata") {
        managed_fields(&FieldPath::new("metadata"), metadata, &mut errors);
    }
    errors
}

/// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateManagedFields
fn managed_fields(root: &FieldPath, metadata: &Value, errors: &mut Vec<FieldError>) {
    let Some(entries) = metadata.get("managedFields").and_then(Value::as_list) else {
        return;
    };
    for (at, entry) in entries.iter().enumerate() {
        let field = || root.child("managedFields").index(at);
        let operation = entry.str_at(&["operation"]).unwrap_or_default();
        if !matches!(operation, "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid(&field().child("operation"), operation, detail));
        }
        let fields_type = entry.str_at(&["fieldsType"]).unwrap_or_default();
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            errors.push(FieldError::invalid(
                &field().child("fieldsType"),
                fields_type,
                "must be `FieldsV1`",
            ));
        }
        let manager = entry.str_at(&["manager"]).unwrap_or_default();
        validate_field_manager(|| field().child("manager"), manager, errors);
        let subresource = entry.str_at(&["subresource"]).unwrap_or_default();
        if subresource.len() > SUBRESOURCE_MAX {
            errors.push(FieldError::too_long(&field().child("subresource"), SUBRESOURCE_MAX));
        }
    }
}

/// Validates the name of a field manager. An empty name is valid.
///
/// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateFieldManager
pub fn validate_field_manager(field: impl Fn() -> FieldPath, manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > FIELD_MANAGER_MAX_BYTES {
        errors.push(FieldError::too_long(&field(), FIELD_MANAGER_MAX_BYTES));
    }
    for (at, character) in manager.char_indices() {
        if !is_printable(character) {
            let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
            errors.push(FieldError::invalid(&field(), manager, detail));
        }
    }
}

fn texts<'a>(metadata: &'a Value, field: &str) -> impl Iterator<Item = &'a SmolStr> + use<'a> {
    metadata
        .get(field)
        .and_then(Value::as_list)
        .into_iter()
        .flat_map(|list| list.iter())
        .filter_map(|item| match item {
            Value::String(text) => Some(text),
            _ => None,
        })
}

#[cfg(test)]
mod tests;
