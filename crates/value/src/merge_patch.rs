//! JSON merge patches ([RFC 7386](https://www.rfc-editor.org/rfc/rfc7386)) as kube-apiserver's library applies them.

use crate::error::Error;
use crate::tree::{Entry, Map, Value};

/// Applies `patch` to `target`: maps are merged, `null` removes, any other value replaces. Unchanged subtrees are
/// shared with `target`, new ones with `patch`.
///
/// Unlike the RFC, the reference also drops `null` members of maps within lists, unless the list replaces a map.
///
/// ```
/// use holdfast_value::{Limits, json, merge_patch};
///
/// let target = json::parse(br#"{"a": 1, "b": 2}"#, &Limits::REQUEST)?;
/// let patch = json::parse(br#"{"b": null, "c": 3}"#, &Limits::REQUEST)?;
/// assert_eq!(json::to_string(&merge_patch::apply(&target, &patch)?), r#"{"a":1,"c":3}"#);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::PatchShape`] with the reference's message if either value is not a map.
pub fn apply(target: &Value, patch: &Value) -> Result<Value, Error> {
    let patch = match patch {
        Value::Map(patch) => patch,
        Value::Null => return Err(Error::PatchShape("Invalid JSON Patch".to_owned())),
        other => {
            let kind = other.json_kind();
            let message = format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
            return Err(Error::PatchShape(message));
        }
    };
    let Value::Map(target) = target else {
        return Err(Error::PatchShape("Invalid JSON Document".to_owned()));
    };
    Ok(Value::Map(merge(target, patch)))
}

/// Merges both maps in one parallel walk, so that many new keys cost no more than the walk.
fn merge(target: &Map, patch: &Map) -> Map {
    let mut merged: Vec<Entry> = Vec::with_capacity(target.len() + patch.len());
    let mut is_changed = false;
    let mut kept = target.iter().peekable();
    for (key, change) in patch {
        while let Some((before, value)) = kept.next_if(|(before, _)| before < key) {
            merged.push((before.clone(), value.clone()));
        }
        let before = kept.next_if(|(before, _)| before == key).map(|(_, value)| value);
        let after = patched(before, change);
        is_changed |= match (before, &after) {
            (Some(Value::Map(before)), Some(Value::Map(after))) => !after.same(before),
            (None, None) => false,
            _ => true,
        };
        merged.extend(after.map(|after| (key.clone(), after)));
    }
    if !is_changed {
        // Returning the original keeps an unchanged map shared.
        return target.clone();
    }
    merged.extend(kept.cloned());
    Map::from_sorted(merged)
}

/// Returns a member after a change to it; `None` removes it.
fn patched(before: Option<&Value>, change: &Value) -> Option<Value> {
    match (before, change) {
        (_, Value::Null) => None,
        (Some(Value::Map(before)), Value::Map(change)) => Some(Value::Map(merge(before, change))),
        // This is the only case in which the reference keeps nulls within lists.
        (Some(Value::Map(_)), change) => Some(change.clone()),
        (_, change) => Some(without_nulls(change)),
    }
}

/// Returns the value without the `null` members of its maps; items of lists are kept.
fn without_nulls(value: &Value) -> Value {
    if !has_null_member(value) {
        return value.clone();
    }
    match value {
        Value::Map(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Map(Map::from_sorted(
                kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect(),
            ))
        }
        Value::List(items) => Value::List(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

fn has_null_member(value: &Value) -> bool {
    match value {
        Value::Map(map) => map.iter().any(|(_, value)| value.is_null() || has_null_member(value)),
        Value::List(items) => items.iter().any(has_null_member),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::limits::Limits;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn examples_of_the_rfc_hold() {
        let cases = [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (
                r#"{"a":{"b":"c"}}"#,
                r#"{"a":{"b":"d","c":null}}"#,
                r#"{"a":{"b":"d"}}"#,
            ),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ];
        for (target, patch, expected) in cases {
            assert_eq!(
                apply(&parse(target), &parse(patch)).unwrap().to_string(),
                expected,
                "{target} {patch}"
            );
        }
    }

    #[test]
    fn nulls_within_new_lists_go_unless_the_list_replaces_a_map() {
        let patch = parse(r#"{"a":[null,{"b":null,"c":1}]}"#);
        for target in ["{}", r#"{"a":null}"#, r#"{"a":1}"#, r#"{"a":[2]}"#] {
            assert_eq!(
                apply(&parse(target), &patch).unwrap().to_string(),
                r#"{"a":[null,{"c":1}]}"#
            );
        }
        let replaced = apply(&parse(r#"{"a":{}}"#), &patch).unwrap();
        assert_eq!(replaced.to_string(), r#"{"a":[null,{"b":null,"c":1}]}"#);
    }

    #[test]
    fn unchanged_subtree_stays_shared() {
        let target = parse(r#"{"a":{"x":{"y":1}},"b":{"z":1}}"#);
        let patched = apply(&target, &parse(r#"{"b":{"z":2},"a":{"x":{"none":null}}}"#)).unwrap();
        let same = |key| {
            target
                .get(key)
                .unwrap()
                .as_map()
                .unwrap()
                .same(patched.get(key).unwrap().as_map().unwrap())
        };
        assert!(same("a"));
        assert!(!same("b"));
    }

    #[test]
    fn many_new_keys_take_no_long_time() {
        let members = |from: usize| {
            (from..400_000)
                .step_by(2)
                .map(|n| format!(r#""{n}":0"#))
                .collect::<Vec<_>>()
                .join(",")
        };
        let limits = Limits {
            max_bytes: usize::MAX,
            ..Limits::REQUEST
        };
        let parse = |from| json::parse(format!("{{{}}}", members(from)).as_bytes(), &limits).unwrap();
        assert_eq!(apply(&parse(0), &parse(1)).unwrap().as_map().unwrap().len(), 400_000);
    }

    #[test]
    fn patch_of_non_map_gives_reference_error() {
        let cases = [
            (
                "[1, 2]",
                "json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            (
                "\"text\"",
                "json: cannot unmarshal string into Go value of type map[string]interface {}",
            ),
            (
                "5",
                "json: cannot unmarshal number into Go value of type map[string]interface {}",
            ),
            ("null", "Invalid JSON Patch"),
        ];
        for (patch, expected) in cases {
            assert_eq!(apply(&parse("{}"), &parse(patch)).unwrap_err().to_string(), expected);
        }
    }
}
