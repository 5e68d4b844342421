//! Restored times: a write that changes only the times of entries has changed nothing.

use holdfast_value::{List, Map, SmolStr, Value};

/// Restores the times of `old` in the entries of `new` if the objects differ in nothing else.
///
/// Call it after all changes to `new` and before the comparison with the stored object: a field manager cannot see
/// which changes defaults and admission revert and which fields the server resets. `is_same` compares two fields.
pub fn keep_times(new: &mut Value, old: &Value, is_same: Comparison) {
    let (Some(entries), Some(old_entries)) = (list_in(new), list_in(old)) else {
        return;
    };
    let same_but_for_times = entries != old_entries
        && entries.len() == old_entries.len()
        && entries
            .iter()
            .zip(old_entries)
            .all(|(a, b)| same_but_for(a, b, "time", equal, |_, _| true))
        && same_but_for(new, old, "metadata", is_same, |metadata, old_metadata| {
            same_but_for(metadata, old_metadata, "managedFields", is_same, |_, _| true)
        });
    if same_but_for_times {
        let old_entries = Value::List(old_entries.clone());
        new.set_at(&["metadata", "managedFields"], old_entries);
    }
}

/// Comparison of two fields; true if they are equal. `None` is a missing field.
///
/// ```
/// use holdfast_ownership::{Comparison, keep_times};
/// use holdfast_value::{Limits, json};
///
/// let object = |time: &str| {
///     let text = format!(r#"{{"metadata":{{"managedFields":[{{"manager":"a","time":"{time}"}}]}}}}"#);
///     json::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
/// };
/// let is_same: Comparison = |one, other| one == other;
/// let (mut new, old) = (object("2026-01-02T00:00:00Z"), object("2026-01-01T00:00:00Z"));
/// keep_times(&mut new, &old, is_same);
/// assert_eq!(new, old);
/// ```
pub type Comparison = fn(Option<&Value>, Option<&Value>) -> bool;

fn equal(a: Option<&Value>, b: Option<&Value>) -> bool {
    a == b
}

fn list_in(object: &Value) -> Option<&List> {
    object.at(&["metadata", "managedFields"])?.as_list()
}

/// True if two maps are equal except for the member `name`; if both have it, `rest` compares it.
fn same_but_for(a: &Value, b: &Value, name: &str, is_same: Comparison, rest: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Value::Map(a), Value::Map(b)) = (a, b) else {
        return a == b;
    };
    fn others<'a>(map: &'a Map, name: &'a str) -> impl Iterator<Item = &'a (SmolStr, Value)> {
        map.iter().filter(move |(key, _)| key != name)
    }
    let here = match (a.get(name), b.get(name)) {
        (Some(a), Some(b)) => rest(a, b),
        _ => true,
    };
    let mut pairs = others(a, name).zip(others(b, name));
    here && others(a, name).count() == others(b, name).count()
        && pairs.all(|(a, b)| a.0 == b.0 && is_same(Some(&a.1), Some(&b.1)))
}
