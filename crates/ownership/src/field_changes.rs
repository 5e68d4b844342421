//! Difference of two versions of an object, field by field, and the fields that an applier no longer owns.

use holdfast_merge::{Path, PathElement, Set, Typed, ValidationErrors};
use holdfast_value::Value;

use crate::entry::{DecodeError, Operation, Source};
use crate::lookup::value_at;
use crate::managed::Managed;

/// Fields of the metadata that the server sets in every write. They are no difference.
const SERVER_FIELDS: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
    "selfLink",
];

/// Difference in one field.
///
/// ```
/// use holdfast_merge::Typed;
/// use holdfast_ownership::changed_fields;
/// use holdfast_value::{Limits, json};
///
/// let typed = |text: &str| Typed::deduced(json::parse(text.as_bytes(), &Limits::REQUEST).unwrap());
/// let changes = changed_fields(typed(r#"{"size":1}"#), typed(r#"{"size":2,"colour":"red"}"#))?;
/// let colour = changes.iter().find(|change| change.path.to_string() == ".colour").unwrap();
/// assert_eq!((&colour.before, &colour.after), (&None, &Some("red".into())));
/// # Ok::<(), holdfast_merge::ValidationErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Path of the field. A container that was added or removed as a whole is one field.
    pub path: Path,
    /// Value before; `None` if the field was added.
    pub before: Option<Value>,
    /// Value after; `None` if the field was removed.
    pub after: Option<Value>,
}

/// Compares two versions of an object of the same type, and returns the different fields in the order of their paths.
/// Fields that the server sets in every write are left out.
///
/// ```
/// use holdfast_merge::Typed;
/// use holdfast_ownership::changed_fields;
/// use holdfast_value::{Limits, json};
///
/// let typed = |text: &str| Typed::deduced(json::parse(text.as_bytes(), &Limits::REQUEST).unwrap());
/// let before = typed(r#"{"metadata":{"resourceVersion":"1"},"size":1}"#);
/// let after = typed(r#"{"metadata":{"resourceVersion":"2"},"size":2}"#);
///
/// let changes = changed_fields(before, after)?;
/// assert_eq!(changes.len(), 1);
/// assert_eq!(changes[0].path.to_string(), ".size");
/// # Ok::<(), holdfast_merge::ValidationErrors>(())
/// ```
///
/// # Errors
/// If the types differ, or if either version does not fit its type.
pub fn changed_fields(before: Typed, after: Typed) -> Result<Vec<FieldChange>, ValidationErrors> {
    let (before, after) = (without_server_fields(before), without_server_fields(after));
    let comparison = before.compare(&after)?;
    let mut changes = Vec::new();
    for set in [&comparison.removed, &comparison.modified, &comparison.added] {
        for path in outermost(set) {
            changes.push(FieldChange {
                before: value_at(before.value(), &path).cloned(),
                after: value_at(after.value(), &path).cloned(),
                path,
            });
        }
    }
    // A value whose kind changes is in two of the sets.
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes.dedup_by(|one, other| one.path == other.path);
    Ok(changes)
}

/// Returns the fields that `manager` owns by an apply in `before`, no longer owns in `after`, and that `after` still
/// has.
///
/// # Errors
/// If the managed fields of either version cannot be read.
pub fn given_up_fields(before: &Value, after: &Value, manager: &str) -> Result<Vec<Path>, DecodeError> {
    let (owned, kept) = (applied_fields(before, manager)?, applied_fields(after, manager)?);
    let given_up = owned.difference(&kept);
    let there = outermost(&given_up).filter(|path| value_at(after, path).is_some());
    Ok(there.collect())
}

/// Returns the fields that `manager` owns by an apply to the object itself.
fn applied_fields(object: &Value, manager: &str) -> Result<Set, DecodeError> {
    let managed = Managed::decode(object, Source::Request)?;
    let own = managed.0.into_values().find(|record| {
        let entry = &record.entry;
        entry.manager == manager && entry.operation == Operation::Apply && entry.subresource.is_empty()
    });
    Ok(own.map(|record| record.set).unwrap_or_default())
}

/// Returns the paths of a set that are not below another one of its paths.
fn outermost(set: &Set) -> impl Iterator<Item = Path> + '_ {
    set.paths().filter(|path| {
        let parents = (1..path.len()).filter_map(|length| path.get(..length));
        !parents.into_iter().any(|parent: &[PathElement]| set.has(parent))
    })
}

fn without_server_fields(object: Typed) -> Typed {
    let (schema, type_ref) = (object.schema().clone(), object.type_ref());
    let mut value = object.into_value();
    for field in SERVER_FIELDS {
        value.remove_at(&["metadata", field]);
    }
    Typed::unchecked(value, schema, type_ref)
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn tree(text: &str) -> Value {
        yaml::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    fn changes(before: &str, after: &str) -> Vec<String> {
        let changes = changed_fields(Typed::deduced(tree(before)), Typed::deduced(tree(after))).unwrap();
        let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), ToString::to_string);
        let line = |change: &FieldChange| format!("{} {} {}", change.path, text(&change.before), text(&change.after));
        changes.iter().map(line).collect()
    }

    #[test]
    fn changes_have_both_values_and_the_order_of_paths() {
        assert_eq!(
            changes(
                "{metadata: {uid: a}, z: 1, b: {c: 2, d: 3}, gone: {x: 1}}",
                "{metadata: {uid: b}, z: 2, b: {c: 2, e: 4}, new: {k: {w: 1}}}"
            ),
            [
                ".b.d 3 -",
                ".b.e - 4",
                r#".gone {"x":1} -"#,
                r#".new - {"k":{"w":1}}"#,
                ".z 1 2"
            ]
        );
        assert!(changes("{a: 1}", "{a: 1}").is_empty());
        assert!(
            !changes("{a: 1}", "{a: {b: 1}}").is_empty(),
            "the kind of value changes"
        );
    }

    #[test]
    fn given_up_fields_are_those_that_stay_without_the_manager() {
        let object = |fields: &str| {
            tree(&format!(
                "{{metadata: {{managedFields: [{{manager: m, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: \
                 {fields}}}]}}, data: {{a: 1, b: 2}}}}"
            ))
        };
        let before = object("{'f:data': {'f:a': {}, 'f:b': {}, 'f:c': {}}}");
        let paths = |manager: &str| {
            let paths = given_up_fields(&before, &object("{'f:data': {'f:a': {}}}"), manager).unwrap();
            paths.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(paths("m"), [".data.b"], "the field c is removed");
        assert!(paths("other").is_empty());
        let unreadable = tree("{metadata: {managedFields: [{operation: Nonsense}]}}");
        assert!(given_up_fields(&unreadable, &before, "m").is_err());
    }
}
