//! Set of a value's leaves, for values without a schema that defines how their lists merge.

use holdfast_value::Value;

use super::{Set, SetBuilder};
use crate::PathElement;
use crate::path_element::Key;

/// Fields that serve as keys of list items that have them with a scalar value, sorted.
const LIKELY_KEYS: [&str; 3] = ["id", "key", "name"];

impl Set {
    /// Returns the leaves of a value: scalars and nulls. Items of lists are identified by their fields `id`, `key` and
    /// `name`, otherwise by their position.
    pub fn from_value(value: &Value) -> Set {
        let mut builder = SetBuilder::default();
        collect(value, &mut builder);
        builder.finish()
    }
}

/// Adds the leaves below a value; returns true if the value is itself a leaf.
fn collect(value: &Value, builder: &mut SetBuilder) -> bool {
    match value {
        Value::Map(map) => {
            for (name, below) in map {
                push(PathElement::Field(name.clone()), below, builder);
            }
            false
        }
        Value::List(items) => {
            let start = builder.position();
            for (at, item) in items.iter().enumerate() {
                push(item_element(at, item), item, builder);
            }
            builder.sort_level(start);
            false
        }
        _ => true,
    }
}

fn push(element: PathElement, value: &Value, builder: &mut SetBuilder) {
    let at = builder.open(element);
    let member = collect(value, builder);
    builder.close(at, member);
}

fn item_element(at: usize, item: &Value) -> PathElement {
    let is_scalar = |value: &&Value| !matches!(value, Value::Null | Value::Map(_) | Value::List(_));
    let keys: Vec<_> = LIKELY_KEYS
        .iter()
        .filter_map(|name| Some(((*name).into(), item.get(name).filter(is_scalar)?.clone())))
        .collect();
    match keys.is_empty() {
        true => PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX)),
        false => PathElement::Key(Key::new(keys)),
    }
}
