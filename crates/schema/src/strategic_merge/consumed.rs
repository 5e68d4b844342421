//! The rest of a patch after its merge: the reference removes directives and lists from it as it applies them, and
//! reports the rest if the outcome cannot be decoded.

use holdfast_value::{List, Map, SmolStr, Value};

use super::directive::{DIRECTIVE, Directive, RETAIN_KEYS, SET_ORDER, without_directives, without_nulls};
use super::{PatchMember, PatchStrategy, PatchType, field_behind};

/// Returns the form in which the reference reports `patch` after it was merged into `original`, an object of type `of`.
pub fn consumed_patch<T: PatchType>(patch: &Value, original: &Value, of: &T) -> Value {
    match (patch, original) {
        (Value::Map(patch), Value::Map(original)) => Value::Map(consumed(patch, original, of)),
        _ => patch.clone(),
    }
}

fn consumed<T: PatchType>(patch: &Map, original: &Map, of: &T) -> Map {
    if let Some(directive) = patch.get(DIRECTIVE) {
        let mut rest = patch.clone();
        // A map that deletes is left unchanged.
        if Directive::from_value(directive) == Some(Directive::Replace) {
            rest.remove(DIRECTIVE);
        }
        return rest;
    }
    let done: Vec<&str> = patch
        .iter()
        .filter_map(|(key, _)| field_behind(key.strip_prefix(SET_ORDER)?))
        .collect();
    let left = patch.iter().filter(|(key, _)| {
        let obeyed = key == RETAIN_KEYS || key.starts_with(SET_ORDER);
        !obeyed && done.binary_search(&key.as_str()).is_err()
    });
    let entries = left.map(|(key, value)| (key.clone(), consumed_value(key, value, original, of)));
    Map::from_sorted(entries.collect())
}

fn consumed_value<T: PatchType>(key: &SmolStr, patch: &Value, original: &Map, of: &T) -> Value {
    let member = || of.member(key);
    match (original.get(key), patch) {
        (None, patch) => unmerged(&without_nulls(patch)),
        (Some(Value::Map(original)), Value::Map(map)) => match member() {
            Some(member) if member.strategy != PatchStrategy::Replace => {
                Value::Map(consumed(map, original, &member.value))
            }
            _ => patch.clone(),
        },
        (Some(Value::List(original)), Value::List(items)) => match member() {
            Some(member) if member.strategy == PatchStrategy::Merge => {
                Value::List(items_left(items, original, &member))
            }
            _ => patch.clone(),
        },
        (Some(there), patch) if std::mem::discriminant(there) == std::mem::discriminant(patch) => patch.clone(),
        (Some(_), patch) => without_nulls(patch),
    }
}

/// Returns the rest of a value that was merged with nothing: below its outermost level, directives are removed from
/// maps.
fn unmerged(patch: &Value) -> Value {
    match patch {
        Value::Map(map) if !map.contains_key(DIRECTIVE) => {
            let entries = map
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), without_directives(value)?)));
            Value::Map(Map::from_sorted(entries.collect()))
        }
        Value::List(items) => Value::List(items.iter().map(unmerged).collect()),
        other => other.clone(),
    }
}

/// Returns the rest of the items of a list that is merged: items that matched an existing item are themselves merged.
fn items_left<T: PatchType>(items: &List, original: &List, member: &PatchMember<T>) -> List {
    let Some(key) = &member.merge_key else {
        return items.clone();
    };
    let mut there: Vec<(&Value, &Map)> = original
        .iter()
        .filter_map(|item| Some((item.get(key)?, item.as_map()?)))
        .collect();
    there.sort_by(|(a, _), (b, _)| a.compare(b));
    let met = |item: &Value| {
        let identity = item.get(key)?;
        let at = there.partition_point(|(other, _)| other.compare(identity).is_lt());
        let (other, map) = there.get(at)?;
        other.compare(identity).is_eq().then_some(*map)
    };
    let left = items.iter().map(|item| match (item, met(item)) {
        (Value::Map(map), Some(there)) if !map.contains_key(DIRECTIVE) => {
            Value::Map(consumed(map, there, &member.value))
        }
        _ => item.clone(),
    });
    left.collect()
}
