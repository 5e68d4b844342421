//! The directives of patches.

use holdfast_value::{List, Map, Value};

/// Key of the directive for the map, list or item that contains it.
pub(super) const DIRECTIVE: &str = "$patch";
/// The key that lists the only keys that may remain in a map.
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
/// Prefix of the key that gives the order of a list.
pub(super) const SET_ORDER: &str = "$setElementOrder";
/// Prefix of the key that removes values from a list of scalars.
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

/// Values of `$patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// The patch replaces the existing value.
    Replace,
    /// The existing value is deleted.
    Delete,
    /// The default behaviour; lists do not support it.
    Merge,
}

impl Directive {
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "replace" => Some(Self::Replace),
            "delete" => Some(Self::Delete),
            "merge" => Some(Self::Merge),
            _ => None,
        }
    }
}

/// Returns the value of a patch without an existing value to merge it with. Maps with a `$patch` are left out, `None`
/// if that is the whole value. The reference keeps the other directives, as fields that no type knows.
pub(super) fn without_directives(patch: &Value) -> Option<Value> {
    match patch {
        Value::Map(map) if map.get(DIRECTIVE).is_some() => None,
        Value::Map(map) => {
            let entries = map
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), without_directives(value)?)));
            Some(Value::Map(Map::from_sorted(entries.collect())))
        }
        Value::List(items) => Some(Value::List(list_without_directives(items))),
        scalar => Some(scalar.clone()),
    }
}

/// Returns the items of a patch's list without directives, those with a `$patch` left out.
pub(super) fn list_without_directives(items: &List) -> List {
    items.iter().filter_map(without_directives).collect()
}

/// Returns the value of a patch without the fields that are null, at any depth.
pub(super) fn without_nulls(patch: &Value) -> Value {
    match patch {
        Value::Map(map) => {
            let entries = map
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)));
            Value::Map(Map::from_sorted(entries.collect()))
        }
        Value::List(items) => Value::List(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}
