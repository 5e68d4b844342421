//! Defaulting that leaves subtrees without missing fields untouched: shared subtrees stay shared.

use holdfast_value::{Map, SmolStr, Value};

/// Sets the member `key` of a map if it is missing. Returns true if it was.
pub(crate) fn set_missing(object: &mut Value, key: &str, value: impl FnOnce() -> Value) -> bool {
    if object.get(key).is_some_and(|found| !found.is_null()) {
        return false;
    }
    match object.as_map_mut() {
        Some(map) => {
            map.insert(key, value());
            true
        }
        None => false,
    }
}

/// Sets the member `key` of the map at `path` if the map exists and the member does not.
pub fn set_missing_at(object: &mut Value, path: &[&str], key: &str, value: impl FnOnce() -> Value) {
    let lacks = |map: &Value| map.as_map().is_some() && map.get(key).is_none_or(Value::is_null);
    if object.at(path).is_some_and(lacks)
        && let Some(map) = object.at_mut(path)
    {
        set_missing(map, key, value);
    }
}

/// Sets the value at `path`, or removes it if `value` is `None`.
pub(crate) fn put_at(object: &mut Value, path: &[&str], value: Option<Value>) {
    match value {
        Some(value) => object.set_at(path, value),
        None => drop(object.remove_at(path)),
    }
}

/// Changes the items of the list at `key` for which `asks` returns true.
pub fn change_items(object: &mut Value, key: &str, asks: impl Fn(&Value) -> bool, change: impl Fn(&mut Value)) {
    let any = object
        .get(key)
        .and_then(Value::as_list)
        .is_some_and(|list| list.iter().any(&asks));
    if !any {
        return;
    }
    let list = object
        .as_map_mut()
        .and_then(|map| map.get_mut(key))
        .and_then(Value::as_list_mut);
    if let Some(list) = list {
        list.make_mut().iter_mut().filter(|item| asks(item)).for_each(change);
    }
}

/// Replaces `null` entries of a map of bytes with empty ones, since protobuf cannot distinguish them.
pub(crate) fn empty_for_null(object: &mut Value, key: &str) {
    let entries = object.get(key).and_then(Value::as_map);
    if !entries.is_some_and(|entries| entries.iter().any(|(_, value)| value.is_null())) {
        return;
    }
    let filled = entries
        .into_iter()
        .flat_map(|entries| entries.iter())
        .map(|(name, value)| {
            let value = if value.is_null() { "".into() } else { value.clone() };
            (name.clone(), value)
        });
    let filled: Vec<(SmolStr, Value)> = filled.collect();
    object.set_at(&[key], Map::from_unsorted(filled).into());
}

/// Replaces an empty list with `null`: protobuf, in which the reference stores built-in kinds, cannot distinguish the
/// two, and this is visible in fields that are never omitted.
pub(crate) fn none_if_empty(object: &mut Value, path: &[&str]) {
    if object
        .at(path)
        .and_then(Value::as_list)
        .is_some_and(|list| list.is_empty())
    {
        object.set_at(path, Value::Null);
    }
}

/// Returns true if a field is missing, `null`, or the zero value of its type.
pub fn is_zero(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false) | Value::Int(0)) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::List(list)) => list.is_empty(),
        Some(Value::Map(map)) => map.is_empty(),
        Some(_) => false,
    }
}
