//! Times that are taken back: a write that changes nothing but times has changed nothing.

use holdfast_value::{List, Map, SmolStr, Value};

/// Gives the entries of `new` the times of `old` if the objects do not differ in anything else.
///
/// Is to be called once `new` has gone through all that changes it, before it is compared with the stored object: a field
/// manager sees neither what defaults and admission undo, nor what the server resets.
pub fn keep_times(new: &mut Value, old: &Value) {
    let (Some(entries), Some(old_entries)) = (list_in(new), list_in(old)) else {
        return;
    };
    let same_but_for_times = entries != old_entries
        && entries.len() == old_entries.len()
        && entries
            .iter()
            .zip(old_entries)
            .all(|(a, b)| same_but_for(a, b, "time", |_, _| true))
        && same_but_for(new, old, "metadata", |metadata, old_metadata| {
            same_but_for(metadata, old_metadata, "managedFields", |_, _| true)
        });
    if same_but_for_times {
        let old_entries = Value::List(old_entries.clone());
        new.set_at(&["metadata", "managedFields"], old_entries);
    }
}

fn list_in(object: &Value) -> Option<&List> {
    object.at(&["metadata", "managedFields"])?.as_list()
}

/// Whether two maps are equal but for the member `name`, of which `rest` decides where both have it.
fn same_but_for(a: &Value, b: &Value, name: &str, rest: impl Fn(&Value, &Value) -> bool) -> bool {
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
    here && others(a, name).eq(others(b, name))
}
