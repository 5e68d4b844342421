//! Correlation of the values of an object with those of the old object.

use std::cell::OnceCell;
use std::collections::HashMap;

use holdfast_schema::types::ListType;
use holdfast_value::{SmolStr, Value, json};

use crate::node::Node;

/// Number of items from which a list is searched by an index of keys rather than one by one.
const MANY: usize = 16;

/// Correlation of the items of a list with those of the old list: for associative lists, items with equal keys.
pub(super) struct Correlation<'v> {
    keys: &'v [SmolStr],
    items: &'v [Value],
    /// Items by the text of their keys, for long lists.
    by_key: OnceCell<HashMap<String, &'v Value>>,
}

impl<'v> Correlation<'v> {
    /// Correlates a list of the schema `node` with the old list `old`; `None` if its items have no keys.
    pub(super) fn new(node: &'v Node, old: &'v Value) -> Option<Self> {
        let by_key = node.list_type == Some(ListType::Map);
        let items = old.as_list().filter(|_| by_key)?;
        Some(Self {
            keys: &node.list_map_keys,
            items,
            by_key: OnceCell::new(),
        })
    }

    /// Returns the old item that corresponds to `item`.
    pub(super) fn old_item(&self, item: &Value) -> Option<&'v Value> {
        if self.items.len() < MANY {
            let same = |other: &&Value| self.keys.iter().all(|key| other.get(key) == item.get(key));
            return self.items.iter().find(same);
        }
        let by_key = self.by_key.get_or_init(|| {
            let mut by_key = HashMap::with_capacity(self.items.len());
            for item in self.items {
                by_key.entry(self.key_of(item)).or_insert(item);
            }
            by_key
        });
        by_key.get(&self.key_of(item)).copied()
    }

    /// Returns the text of the keys of an item; texts are equal exactly if the values are.
    fn key_of(&self, item: &Value) -> String {
        let mut text = String::new();
        for key in self.keys {
            if let Some(value) = item.get(key) {
                text.push_str(&json::to_string(value));
            }
            text.push('\0');
        }
        text
    }
}

impl Node {
    /// Returns true if a value of this schema is unchanged; the order of associative lists does not count.
    pub(super) fn is_same(&self, value: &Value, old: &Value) -> bool {
        if !self.within.keyed_lists && !self.within.open {
            return value == old;
        }
        match (value, old) {
            (Value::Map(new), Value::Map(before)) => {
                // The reference never treats an unspecified field as unchanged.
                new.same(before) && !self.within.open
                    || new.len() == before.len()
                        && new.iter().all(|(name, value)| {
                            let old = before.get(name);
                            old.is_some_and(|old| match self.field(name) {
                                Some(of) => of.is_same(value, old),
                                None => false,
                            })
                        })
            }
            (Value::List(new), Value::List(before)) => {
                if new.same(before) || new.len() != before.len() {
                    return new.same(before);
                }
                let (Some(items), Some(correlation)) = (self.items.as_deref(), Correlation::new(self, old)) else {
                    return value == old;
                };
                new.iter()
                    .all(|item| correlation.old_item(item).is_some_and(|old| items.is_same(item, old)))
            }
            _ => value == old,
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::Limits;

    use super::*;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn order_counts_but_in_lists_by_key() {
        let node = Node::read(&value(
            r#"{"type":"object","properties":{"map":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}}},
            "x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]},"atom":{"type":"array","items":{}}}}"#,
        ));
        for (new, old, same) in [
            (
                r#"{"map":[{"k":"a"},{"k":"b"}]}"#,
                r#"{"map":[{"k":"b"},{"k":"a"}]}"#,
                true,
            ),
            (r#"{"map":[{"k":"a","v":1}]}"#, r#"{"map":[{"k":"a","v":2}]}"#, false),
            (r#"{"map":[{"k":"a"}]}"#, r#"{"map":[{"k":"b"}]}"#, false),
            (r#"{"map":[{"k":"a"}]}"#, r#"{"map":[]}"#, false),
            (r#"{"atom":[1,2]}"#, r#"{"atom":[2,1]}"#, false),
            (r#"{"atom":[1,2]}"#, r#"{"atom":[1,2]}"#, true),
        ] {
            assert_eq!(node.is_same(&value(new), &value(old)), same, "{new} {old}");
        }
    }

    #[test]
    fn fields_of_which_nothing_is_said_are_never_as_they_were() {
        let node = Node::read(&value(
            r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"q":{"type":"string"}}}"#,
        ));
        let same = |text: &str| node.is_same(&value(text), &value(text));
        assert!(same(r#"{"q":"a"}"#));
        assert!(!same(r#"{"q":"a","z":1}"#));
    }

    #[test]
    fn items_of_long_lists_are_found_as_those_of_short_ones() {
        let node = Node::read(&value(
            r#"{"type":"array","items":{},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","p"]}"#,
        ));
        for many in [3, 100] {
            let items: Vec<Value> = (0..many)
                .map(|at| value(&format!(r#"{{"k":{at},"v":{at}}}"#)))
                .collect();
            let old = Value::from(items);
            let correlation = Correlation::new(&node, &old).unwrap();
            let found = correlation.old_item(&value(r#"{"k":2,"v":9}"#)).unwrap();
            assert_eq!(found.get("v"), Some(&Value::Int(2)), "{many}");
            assert!(correlation.old_item(&value(r#"{"k":"2"}"#)).is_none());
            assert!(correlation.old_item(&value(r#"{"k":2,"p":1}"#)).is_none());
        }
    }
}
