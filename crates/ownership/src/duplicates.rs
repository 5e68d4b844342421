//! Items of a configuration with the same key in an associative list: their owners, and an apply that keeps all of them.
//!
//! The merge knows one item for each key. An apply that allows duplicates merges the first item of each key, and then adds
//! the others next to it. All of them have the same path, so they have the same owners.

use holdfast_merge::{PathElement, RepeatedItems, Typed};
use holdfast_value::Value;

use crate::error::{Collision, DuplicateItems};
use crate::lookup::{Fit, fit, value_at_mut};
use crate::managed::Managed;

/// Returns the error of a configuration with these items.
pub(crate) fn error(message: String, unique: Typed, repeated: Vec<RepeatedItems>, managed: &Managed) -> DuplicateItems {
    let collisions = repeated.into_iter().map(|repeated| {
        let mut path = repeated.list;
        path.push(repeated.key);
        let owners = managed.0.values().filter(|record| {
            let set = path
                .iter()
                .fold(record.set.clone(), |set, element| set.with_prefix(element));
            record.set.has(&path) || !set.is_empty()
        });
        Collision {
            managers: owners.map(|record| record.entry.display_name()).collect(),
            path: path.to_string(),
            positions: repeated.positions,
            items: repeated.items,
        }
    });
    DuplicateItems {
        message,
        collisions: collisions.collect(),
        smallest: unique.into_value(),
    }
}

/// Adds the further items of each key to the merged object.
pub(crate) fn add_to(object: &mut Value, repeated: &[RepeatedItems]) {
    for RepeatedItems { list, key, items, .. } in repeated {
        let Some(merged) = value_at_mut(object, list).and_then(Value::as_list_mut) else {
            continue;
        };
        let Some(at) = merged.iter().position(|item| is_named(key, item)) else {
            continue;
        };
        let further = items.iter().skip(1).cloned();
        merged.make_mut().splice(at + 1..at + 1, further);
    }
}

/// Returns true if `key` is the key of a list item.
fn is_named(key: &PathElement, item: &Value) -> bool {
    match key {
        PathElement::Key(key) => !matches!(fit(key, item), Fit::None),
        PathElement::Value(value) => value == item,
        PathElement::Field(_) | PathElement::Index(_) => false,
    }
}
