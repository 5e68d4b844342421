//! The directives that may stand in a patch.

use holdfast_value::{List, Map, Value};

/// The key whose value says what happens to the map, list or item that it stands in.
pub(super) const DIRECTIVE: &str = "$patch";
/// The key that lists the only keys that may remain in a map.
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
/// What the key begins with that gives the order of a list.
pub(super) const SET_ORDER: &str = "$setElementOrder";
/// What the key begins with that takes values out of a list of scalars.
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

/// What `$patch` may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// The patch takes the place of what is there.
    Replace,
    /// What is there goes.
    Delete,
    /// What happens anyway; lists do not take it.
    Merge,
}

impl Directive {
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "replace" => Some(Self::Replace),
            "delete" => Some(Self::Delete),
            "merge" => Some(Self::Merge),
            _ => None,
        }
    }
}

/// The value of a patch where there is nothing to merge it with. Maps with a `$patch` are left out, `None` where that
/// is the whole value. The reference leaves the other directives in place, as fields that no type knows.
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

/// The items of a patch's list without directives, those with a `$patch` left out.
pub(super) fn list_without_directives(items: &List) -> List {
    items.iter().filter_map(without_directives).collect()
}

/// The value of a patch without the fields that are null, at any depth.
pub(super) fn without_nulls(patch: &Value) -> Value {
    match patch {
        Value::Map(map) => {
            let entries = map.iter().filter(|(_, value)| !value.is_null());
            let entries = entries.map(|(key, value)| (key.clone(), without_nulls(value)));
            Value::Map(Map::from_sorted(entries.collect()))
        }
        Value::List(items) => Value::List(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}
