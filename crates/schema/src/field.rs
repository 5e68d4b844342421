//! Reading an object for validation: a value together with its path.

use holdfast_value::Value;

use crate::field_error::{FieldError, FieldPath};

/// A field of an object and its path. Descending costs only the lookups; the text of the path is built only for a field
/// that turns out to be wrong.
///
/// A missing field reads as the zero value of its type (`""`, no items, `false`), as in the reference, and so does
/// `null`. A value of another type than requested reads as missing, since types are checked before validation.
#[derive(Clone, Copy)]
pub struct Field<'v, 'p> {
    value: Option<&'v Value>,
    place: Position<'v, 'p>,
}

#[derive(Clone, Copy)]
enum Position<'v, 'p> {
    Root(&'p str),
    Member(&'p Field<'v, 'p>, &'p str),
    Item(&'p Field<'v, 'p>, usize),
    Key(&'p Field<'v, 'p>, &'p str),
}

impl<'v, 'p> Field<'v, 'p> {
    /// Returns the object itself as a field.
    pub fn root(object: &'v Value) -> Self {
        Self::placed(Some(object), "")
    }

    /// Returns a value with the path `path` in its object.
    pub fn placed(value: Option<&'v Value>, path: &'p str) -> Self {
        Self {
            value: value.filter(|value| !value.is_null()),
            place: Position::Root(path),
        }
    }

    /// Returns the member `name` of the map here.
    pub fn child<'s>(&'s self, name: &'s str) -> Field<'v, 's> {
        Field {
            value: self
                .value
                .and_then(|value| value.get(name))
                .filter(|value| !value.is_null()),
            place: Position::Member(self, name),
        }
    }

    /// Returns the same value with the path of a member `name` of this field, for checks that report a value at another
    /// path.
    pub fn shown_as<'s>(&'s self, name: &'s str) -> Field<'v, 's> {
        Field {
            value: self.value,
            place: Position::Member(self, name),
        }
    }

    /// Returns another value with the path of this one, for checks that report a value elsewhere.
    pub fn in_place<'w>(&self, value: Option<&'w Value>) -> Field<'w, 'p>
    where
        'v: 'w,
    {
        Field {
            value: value.filter(|value| !value.is_null()),
            place: self.place,
        }
    }

    /// Returns the entry `key` of the map here, with the path `field[key]`.
    pub fn entry<'s>(&'s self, key: &'s str) -> Field<'v, 's> {
        Field {
            value: self
                .value
                .and_then(|value| value.get(key))
                .filter(|value| !value.is_null()),
            place: Position::Key(self, key),
        }
    }

    /// Returns the items of the list here, each with its path.
    pub fn items<'s>(&'s self) -> impl Iterator<Item = Field<'v, 's>> {
        self.slice().iter().enumerate().map(|(index, value)| Field {
            value: Some(value),
            place: Position::Item(self, index),
        })
    }

    /// Returns the entries of the map here, each with the path `field[key]`.
    pub fn entries<'s>(&'s self) -> impl Iterator<Item = (&'v str, Field<'v, 's>)> {
        let entries: &'v [_] = self.value.and_then(Value::as_map).map_or(&[], |map| map);
        entries.iter().map(|(key, value)| {
            let key: &'v str = key.as_str();
            let field = Field {
                value: Some(value),
                place: Position::Key(self, key),
            };
            (key, field)
        })
    }

    /// Returns true if this is the object's own value at `path`, and not a value that is only reported there.
    pub(crate) fn stands_at(&self, path: &[&str]) -> bool {
        match (self.place, path.split_last()) {
            (Position::Root(""), None) => true,
            (Position::Member(above, name), Some((last, path))) => name == *last && above.stands_at(path),
            _ => false,
        }
    }

    /// Returns the value, if the field is set.
    pub fn value(&self) -> Option<&'v Value> {
        self.value
    }

    /// Returns true if the field is set, even to an empty value.
    pub fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// Returns the text here; empty if there is none.
    pub fn text(&self) -> &'v str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the whole number here, if there is one.
    pub fn number(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    /// Returns true if the value here is `true`.
    pub fn is_true(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or_default()
    }

    /// Returns the items of the list here; none if there is no list.
    pub fn slice(&self) -> &'v [Value] {
        self.value.and_then(Value::as_list).map_or(&[], |list| list)
    }

    /// Returns the number of items of the list or of entries of the map here.
    pub fn len(&self) -> usize {
        match self.value {
            Some(Value::List(list)) => list.len(),
            Some(Value::Map(map)) => map.len(),
            _ => 0,
        }
    }

    /// Returns true if there is no item and no entry here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the path of the field.
    pub fn path(&self) -> FieldPath {
        match self.place {
            Position::Root(path) => FieldPath::new(path),
            Position::Member(parent, name) => parent.path().child(name),
            Position::Item(parent, index) => parent.path().index(index),
            Position::Key(parent, key) => parent.path().key(key),
        }
    }

    /// Returns the error that the field must be set.
    pub fn required(&self, detail: impl Into<String>) -> FieldError {
        FieldError::required(&self.path(), detail)
    }

    /// Returns the error that the field has an invalid value; a missing value is reported as `null`.
    pub fn invalid(&self, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(&self.path(), self.value.cloned().unwrap_or_default(), detail)
    }

    /// Returns the error that the number here is invalid; a missing value is reported as `0`.
    pub fn invalid_number(&self, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(&self.path(), self.number().unwrap_or_default(), detail)
    }

    /// Returns the error that the text here is invalid; a missing value is reported as `""`.
    pub fn invalid_text(&self, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(&self.path(), self.text(), detail)
    }

    /// Returns the error that the field is invalid, with `value` as the reported value.
    pub fn invalid_as(&self, value: impl Into<Value>, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(&self.path(), value, detail)
    }

    /// Returns the error that the text here is none of `supported`; a missing value is reported as `""`.
    pub fn not_supported(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(&self.path(), self.text(), supported)
    }

    /// Returns the error that the value here is already in the list; a missing value is reported as `""`.
    pub fn duplicate(&self) -> FieldError {
        FieldError::duplicate(&self.path(), self.value_or_empty_text())
    }

    /// Returns the error that the field may not be set or changed.
    ///
    /// upstream: k8s.io/apimachinery/pkg/util/validation/field#Forbidden
    pub fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        FieldError::forbidden(&self.path(), detail)
    }

    /// Returns the error that the field refers to something that does not exist; a missing value is reported as `""`.
    pub fn not_found(&self) -> FieldError {
        FieldError::not_found(&self.path(), self.value_or_empty_text())
    }

    fn value_or_empty_text(&self) -> Value {
        self.value.cloned().unwrap_or_else(|| "".into())
    }

    /// Returns the error that the text here is longer than `max` bytes.
    pub fn too_long(&self, max: usize) -> FieldError {
        FieldError::too_long(&self.path(), max)
    }

    /// Returns the error that there are more than `max` items or entries here.
    pub fn too_many(&self, max: usize) -> FieldError {
        FieldError::too_many(&self.path(), self.len(), max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_knows_where_it_stands() {
        let mut object = Value::empty_map();
        object.set_at(
            &["spec", "containers"],
            Value::from(vec![Value::empty_map(), {
                let mut container = Value::empty_map();
                container.set_at(&["limits", "cpu"], Value::from("1"));
                container
            }]),
        );
        let root = Field::root(&object);
        let spec = root.child("spec");
        let containers = spec.child("containers");
        let paths: Vec<String> = containers
            .items()
            .flat_map(|container| {
                let limits = container.child("limits");
                limits
                    .entries()
                    .map(|(_, limit)| limit.invalid("odd").to_string())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(paths, ["spec.containers[1].limits[cpu]: Invalid value: \"1\": odd"]);
    }

    #[test]
    fn missing_field_reads_as_zero() {
        let object = Value::empty_map();
        let root = Field::root(&object);
        let missing = root.child("a");
        let below = missing.child("b");
        assert!(!below.is_set() && below.is_empty() && !below.is_true());
        assert_eq!((below.text(), below.number(), below.items().count()), ("", None, 0));
        assert_eq!(below.invalid("x").to_string(), "a.b: Invalid value: null: x");
        assert_eq!(below.invalid_text("x").to_string(), "a.b: Invalid value: \"\": x");
        assert_eq!(below.invalid_number("x").to_string(), "a.b: Invalid value: 0: x");
        assert_eq!(below.duplicate().to_string(), "a.b: Duplicate value: \"\"");
    }
}
