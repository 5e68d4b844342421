//! Lists that are sets or associative lists: no item may be repeated.

use std::collections::HashMap;

use holdfast_schema::types::ListType;
use holdfast_schema::{FieldError, FieldPath};
use holdfast_value::{List, Map, Value, json};

use crate::node::Node;

impl Node {
    /// Reports the items of sets and of associative lists that are repeated.
    pub(super) fn list_duplicates(&self, value: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
        if !self.within.keyed_lists {
            return;
        }
        match value {
            Value::Map(map) => {
                for (name, value) in map {
                    if let Some(of) = self.property(name) {
                        of.list_duplicates(value, &path.child(name), errors);
                    } else if let Some(of) = self.field(name) {
                        of.list_duplicates(value, &path.key(name), errors);
                    }
                }
            }
            Value::List(list) => {
                match self.list_type {
                    Some(ListType::Set) => repeated(list, path, errors, |item| Some(item.clone())),
                    Some(ListType::Map) => match without_keys(list, path) {
                        Some(error) => errors.push(error),
                        None => repeated(list, path, errors, |item| Some(self.key_of(item))),
                    },
                    Some(ListType::Atomic) | None => {}
                }
                let Some(of) = self.items.as_deref().filter(|of| of.within.keyed_lists) else {
                    return;
                };
                for (at, item) in list.iter().enumerate() {
                    of.list_duplicates(item, &path.index(at), errors);
                }
            }
            _ => {}
        }
    }

    /// Returns the key fields of an item that exist.
    fn key_of(&self, item: &Value) -> Value {
        let fields = self.list_map_keys.iter();
        let key: Map = fields
            .filter_map(|name| Some((name.clone(), item.get(name)?.clone())))
            .collect();
        Value::Map(key)
    }
}

fn repeated(list: &List, path: &FieldPath, errors: &mut Vec<FieldError>, key: impl Fn(&Value) -> Option<Value>) {
    let mut seen = HashMap::with_capacity(list.len());
    for (at, item) in list.iter().enumerate() {
        let Some(key) = key(item) else { continue };
        let mut text = json::to_string(&key);
        if matches!(key, Value::Float(_)) {
            // A number with a decimal point differs from a whole number.
            text.push('.');
        }
        // An item that is repeated several times is reported once.
        let times = seen.entry(text).or_insert(0_u8);
        *times = times.saturating_add(1);
        if *times == 2 {
            errors.push(FieldError::duplicate(&path.index(at), key));
        }
    }
}

/// Returns the first item of an associative list that cannot have key fields. A `null` item has no key, like an empty
/// one.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype#validateListMap
fn without_keys(list: &List, path: &FieldPath) -> Option<FieldError> {
    let mut items = list.iter().enumerate();
    let (at, item) = items.find(|(_, item)| !matches!(item, Value::Null | Value::Map(_)))?;
    let why = "must be an object for an array of list-type map";
    Some(FieldError::invalid(&path.index(at), item.clone(), why))
}

#[cfg(test)]
mod tests {
    use holdfast_value::Limits;

    use super::*;

    #[test]
    fn an_item_is_reported_when_it_stands_there_again() {
        let value = |text: &str| json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let node = Node::read(&value(
            r#"{"properties":{"set":{"items":{},"x-kubernetes-list-type":"set"},
            "map":{"items":{},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","p"]},"atom":{"items":{}}}}"#,
        ));
        for (object, found) in [
            (r#"{"set":[1,2,1,"1",1.0,1]}"#, vec!["set[2]: Duplicate value: 1"]),
            (
                r#"{"map":[{"k":"a","p":1,"v":1},{"k":"b"},{"k":"a","p":1,"v":2}]}"#,
                vec![r#"map[2]: Duplicate value: {"k":"a","p":1}"#],
            ),
            (
                r#"{"map":["x",{"k":"a"},{"k":"a"},"y"]}"#,
                vec![r#"map[0]: Invalid value: "x": must be an object for an array of list-type map"#],
            ),
            (r#"{"map":[null]}"#, vec![]),
            (r#"{"map":[null,{}]}"#, vec!["map[1]: Duplicate value: {}"]),
            (r#"{"atom":[1,1]}"#, vec![]),
        ] {
            let mut errors = Vec::new();
            node.list_duplicates(&value(object), &FieldPath::default(), &mut errors);
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, found, "{object}");
        }
    }
}
