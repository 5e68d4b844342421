//! Differences between two versions of an object, field by field, as clients read them.

use holdfast_value::{Map, Value, json};
use holdfast_writes::{FieldChange, Path, PathElement};
use serde::Serialize;

use crate::http::status::bounded;

/// Maximum length in bytes of the values in the diff of one object. Fields beyond it are counted only.
const MAX_OBJECT_BYTES: usize = 256 << 10;

/// Change of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FieldDiff {
    pub(super) field: String,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before_truncated: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_truncated: Option<String>,
}

impl FieldDiff {
    fn new(field: String, before_value: Option<&Value>, after_value: Option<&Value>) -> Self {
        let (before, before_truncated) = bounded(before_value);
        let (after, after_truncated) = bounded(after_value);
        Self {
            field,
            change: match (before_value, after_value) {
                (None, _) => "Added",
                (_, None) => "Removed",
                _ => "Changed",
            },
            before,
            before_truncated,
            after,
            after_truncated,
        }
    }

    fn length(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let value = |value: &Option<Value>| value.as_ref().map_or(0, |value| json::to_string(value).len());
        self.field.len()
            + value(&self.before)
            + value(&self.after)
            + text(&self.before_truncated)
            + text(&self.after_truncated)
    }

    /// Returns the same change without its values.
    fn without_values(self) -> Self {
        Self {
            before: None,
            before_truncated: None,
            after: None,
            after_truncated: None,
            ..self
        }
    }
}

/// Form of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffValues {
    /// Changes contain the values.
    Included,
    /// Changes contain only the paths.
    Omitted,
}

/// Changes of the fields of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldDiffs {
    pub(super) fields: Vec<FieldDiff>,
    /// Path of each of the fields.
    pub(super) paths: Vec<Path>,
    /// Number of further changes.
    pub(super) omitted: usize,
    /// Length of the changes in bytes.
    pub(super) length: usize,
}

impl FieldDiffs {
    /// Returns the changes of leaves: those of a map that is added or removed, otherwise the whole field.
    pub(super) fn new(changes: &[FieldChange], values: DiffValues) -> Self {
        let mut visitor = DiffVisitor {
            diffs: Self::default(),
            path: Path::new(),
            field: String::new(),
            values,
        };
        for change in changes {
            visitor.path = change.path.clone();
            visitor.field = change.path.to_string();
            visitor.visit(change.before.as_ref(), change.after.as_ref());
        }
        visitor.diffs
    }
}

struct DiffVisitor {
    diffs: FieldDiffs,
    /// Path of the visited field, and its text.
    path: Path,
    field: String,
    values: DiffValues,
}

impl DiffVisitor {
    fn visit(&mut self, before: Option<&Value>, after: Option<&Value>) {
        let Some(map) = self.map(before, after) else {
            return self.add(before, after);
        };
        for (name, value) in map {
            let end = self.field.len();
            self.field.push('.');
            self.field.push_str(name);
            self.path.push(PathElement::Field(name.clone()));
            match after {
                Some(_) => self.visit(None, Some(value)),
                None => self.visit(Some(value), None),
            }
            self.path.pop();
            self.field.truncate(end);
        }
    }

    /// Returns the map that is added or removed, if the field is one. An item of a list is one field.
    fn map<'v>(&self, before: Option<&'v Value>, after: Option<&'v Value>) -> Option<&'v Map> {
        let map = match (before, after) {
            (None, Some(Value::Map(map))) | (Some(Value::Map(map)), None) => map,
            _ => return None,
        };
        (!map.is_empty() && !self.field.ends_with(']')).then_some(map)
    }

    fn add(&mut self, before: Option<&Value>, after: Option<&Value>) {
        if self.diffs.omitted > 0 {
            self.diffs.omitted += 1;
            return;
        }
        let diff = FieldDiff::new(self.field.clone(), before, after);
        let diff = match self.values {
            DiffValues::Included => diff,
            DiffValues::Omitted => diff.without_values(),
        };
        let length = self.diffs.length + diff.length();
        if length > MAX_OBJECT_BYTES {
            self.diffs.omitted = 1;
            return;
        }
        self.diffs.length = length;
        self.diffs.fields.push(diff);
        self.diffs.paths.push(self.path.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_beyond_the_bound_are_counted() {
        let text = "x".repeat(3000);
        let map: Map = (0..200)
            .map(|number| (format!("k{number:03}").into(), Value::from(text.as_str())))
            .collect();
        let change = FieldChange {
            path: Path::from_fields(["data"]),
            before: None,
            after: Some(Value::Map(map)),
        };
        let diffs = FieldDiffs::new(std::slice::from_ref(&change), DiffValues::Included);
        assert_eq!(diffs.fields.len() + diffs.omitted, 200);
        assert!(
            diffs.omitted > 0 && diffs.length <= MAX_OBJECT_BYTES,
            "{}",
            diffs.omitted
        );
        assert_eq!(diffs.paths.len(), diffs.fields.len());
        let names = FieldDiffs::new(&[change], DiffValues::Omitted);
        assert_eq!((names.fields.len(), names.omitted), (200, 0));
        assert_eq!(
            (names.fields[7].field.as_str(), &names.fields[7].after),
            (".data.k007", &None)
        );
    }
}
