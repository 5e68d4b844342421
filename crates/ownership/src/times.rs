//! Times that are taken back: a write that changes nothing but times has changed nothing.

use holdfast_value::{List, Map, SmolStr, Value};

/// Gives the entries of `new` the times of `old` if the objects do not differ in anything else.
///
/// Is to be called once `new` has gone through all that changes it, before it is compared with the stored object: a field
/// manager sees neither what defaults and admission undo, nor what the server resets.
/// `is_same` says whether two fields hold the same.
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

/// Whether two fields hold the same; `None` is a field that is not there.
pub type Comparison = fn(Option<&Value>, Option<&Value>) -> bool;

fn equal(a: Option<&Value>, b: Option<&Value>) -> bool {
    a == b
}

fn list_in(object: &Value) -> Option<&List> {
    object.at(&["metadata", "managedFields"])?.as_list()
}

/// Whether two maps are the same but for the member `name`, of which `rest` decides where both have it.
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
