//! Removal of unspecified fields, and of `null` in fields that are not nullable.

use std::sync::LazyLock;

use holdfast_schema::FieldPath;
use holdfast_schema::types::{ListRebuild, MapRebuild};
use holdfast_value::{List, Map, Value};

use crate::node::{Additional, Node};

/// Maximum number of reported dropped fields, which is the reference's.
const MAX_REPORTED: usize = 100;

/// The fields that pruning dropped, for strict field validation.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// The paths: names joined by dots, indices in brackets.
    pub(super) paths: Vec<String>,
    place: String,
}

impl Dropped {
    pub(super) fn record(&mut self, name: &str) {
        if self.paths.len() < MAX_REPORTED {
            let dot = if self.place.is_empty() { "" } else { "." };
            self.paths.push(format!("{}{dot}{name}", self.place));
        }
    }

    /// Walks a value below the current one, whose step `push` appends to the path.
    fn within<T>(&mut self, push: impl FnOnce(&mut String), walk: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.place.len();
        push(&mut self.place);
        let outcome = walk(self);
        self.place.truncate(before);
        outcome
    }

    /// Walks the value at `path` of the object.
    pub(super) fn field_at<T>(&mut self, path: &FieldPath, walk: impl FnOnce(&mut Self) -> T) -> T {
        self.within(|place| place.push_str(path.as_str()), walk)
    }

    pub(super) fn field<T>(&mut self, name: &str, walk: impl FnOnce(&mut Self) -> T) -> T {
        let push = |place: &mut String| {
            if !place.is_empty() {
                place.push('.');
            }
            place.push_str(name);
        };
        self.within(push, walk)
    }

    fn item<T>(&mut self, index: usize, walk: impl FnOnce(&mut Self) -> T) -> T {
        self.within(|place| place.push_str(&format!("[{index}]")), walk)
    }
}

/// A schema that specifies nothing.
static UNSPECIFIED: LazyLock<Node> = LazyLock::new(Node::default);

/// Fields that every object has, whether a schema specifies them or not.
const IDENTITY: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Node {
    /// Returns the value without unspecified fields; `None` if there are none. At the root, `is_object` is true: the
    /// fields that every object has are kept.
    pub(super) fn prune(&self, value: &Value, is_object: bool, dropped: &mut Dropped) -> Option<Value> {
        self.prune_within(value, is_object, false, dropped)
    }

    /// Prunes like [`Node::prune`]; in a list that preserves unknown fields, its items do so too.
    fn prune_within(&self, value: &Value, is_object: bool, keeps: bool, dropped: &mut Dropped) -> Option<Value> {
        let keeps = keeps || self.preserves_unknown;
        match value {
            Value::Map(map) => self.prune_map(map, is_object || self.embedded, keeps, dropped),
            Value::List(list) => self.prune_list(list, keeps, dropped),
            scalar => rounded(scalar),
        }
    }

    fn prune_map(&self, map: &Map, is_object: bool, keeps: bool, dropped: &mut Dropped) -> Option<Value> {
        let mut rebuild = MapRebuild::new(map);
        for (at, (name, value)) in map.iter().enumerate() {
            if is_object && IDENTITY.contains(&name.as_str()) {
                rebuild.keep(at);
            } else if let Some(of) = self.field(name) {
                let pruned = dropped.field(name, |dropped| of.prune(value, false, dropped));
                rebuild.keep_or_replace(at, pruned);
            } else if matches!(self.additional, Additional::Allowed(_)) {
                // A later check decides if other fields are allowed; nothing is specified within them.
                let pruned = dropped.field(name, |dropped| UNSPECIFIED.prune(value, false, dropped));
                rebuild.keep_or_replace(at, pruned);
            } else if keeps {
                rebuild.keep_or_replace(at, rounded(value));
            } else {
                dropped.record(name);
                rebuild.drop(at);
            }
        }
        rebuild.finish()
    }

    fn prune_list(&self, list: &List, keeps: bool, dropped: &mut Dropped) -> Option<Value> {
        let items = match self.items.as_deref() {
            Some(of) => of,
            None if keeps => return rounded_list(list),
            None => &UNSPECIFIED,
        };
        let mut rebuild = ListRebuild::new(list);
        for (at, value) in list.iter().enumerate() {
            let pruned = dropped.item(at, |dropped| items.prune_within(value, false, keeps, dropped));
            rebuild.replace(at, pruned);
        }
        rebuild.finish()
    }

    /// Returns the value without the fields that are `null` but neither nullable nor have a default; `None` if there
    /// are none.
    pub(super) fn without_nulls(&self, value: &Value) -> Option<Value> {
        match value {
            Value::Map(map) => {
                let mut rebuild = MapRebuild::new(map);
                for (at, (name, value)) in map.iter().enumerate() {
                    match self.field(name) {
                        Some(of) if of.is_wrong_null(value) => rebuild.drop(at),
                        Some(of) => rebuild.keep_or_replace(at, of.without_nulls(value)),
                        None => rebuild.keep(at),
                    }
                }
                rebuild.finish()
            }
            Value::List(list) => {
                let items = self.items.as_deref()?;
                let mut rebuild = ListRebuild::new(list);
                for (at, value) in list.iter().enumerate() {
                    rebuild.replace(at, items.without_nulls(value));
                }
                rebuild.finish()
            }
            _ => None,
        }
    }
}

/// Returns the value with floats for whole numbers that exceed signed 64 bits, as the reference reads them unless a
/// type specifies otherwise; `None` if there are none.
pub(super) fn rounded(value: &Value) -> Option<Value> {
    match value {
        Value::UInt(number) => Some(Value::Float(*number as f64)),
        Value::Map(map) => {
            let mut rebuild = MapRebuild::new(map);
            for (at, (_, value)) in map.iter().enumerate() {
                rebuild.keep_or_replace(at, rounded(value));
            }
            rebuild.finish()
        }
        Value::List(list) => rounded_list(list),
        _ => None,
    }
}

fn rounded_list(list: &List) -> Option<Value> {
    let mut rebuild = ListRebuild::new(list);
    for (at, value) in list.iter().enumerate() {
        rebuild.replace(at, rounded(value));
    }
    rebuild.finish()
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    fn pruned(schema: &str, object: &str) -> (String, Vec<String>) {
        let (object, mut dropped) = (value(object), Dropped::default());
        let pruned = Node::read(&value(schema)).prune(&object, true, &mut dropped);
        (json::to_string(&pruned.unwrap_or(object)), dropped.paths)
    }

    #[test]
    fn unspecified_fields_are_dropped_at_every_depth() {
        let schema = r#"{"properties":{"spec":{"properties":{"a":{},"l":{"items":{"properties":{"c":{}}}},
            "m":{"additionalProperties":{"properties":{"d":{}}}}}}}}"#;
        let object =
            r#"{"kind":"A","metadata":{"x":1},"spec":{"a":1,"z":1,"l":[{"c":1,"z":1}],"m":{"k":{"d":1,"z":1}}},"z":1}"#;
        let (kept, dropped) = pruned(schema, object);
        assert_eq!(
            kept,
            r#"{"kind":"A","metadata":{"x":1},"spec":{"a":1,"l":[{"c":1}],"m":{"k":{"d":1}}}}"#
        );
        assert_eq!(dropped, ["spec.l[0].z", "spec.m.k.z", "spec.z", "z"]);
    }

    #[test]
    fn specified_field_below_preserved_fields_is_pruned() {
        let schema = r#"{"properties":{"spec":{"x-kubernetes-preserve-unknown-fields":true,
            "properties":{"known":{"properties":{"a":{}}}}}}}"#;
        let (kept, dropped) = pruned(schema, r#"{"spec":{"free":{"z":1},"known":{"a":1,"z":1}}}"#);
        assert_eq!(kept, r#"{"spec":{"free":{"z":1},"known":{"a":1}}}"#);
        assert_eq!(dropped, ["spec.known.z"]);
    }

    #[test]
    fn boolean_additional_properties_specify_nothing_within() {
        let object = r#"{"spec":{"a":{"b":1,"c":{"d":1}},"e":1}}"#;
        for allowed in ["true", "false"] {
            let schema = format!(r#"{{"properties":{{"spec":{{"additionalProperties":{allowed}}}}}}}"#);
            let (kept, dropped) = pruned(&schema, object);
            assert_eq!(kept, r#"{"spec":{"a":{},"e":1}}"#);
            assert_eq!(dropped, ["spec.a.b", "spec.a.c"]);
        }
    }

    #[test]
    fn items_of_lists_that_keep_unknown_fields_keep_theirs() {
        let schema = r#"{"properties":{"l":{"x-kubernetes-preserve-unknown-fields":true,"items":{"properties":{"a":{"properties":{}}}}}}}"#;
        let (kept, dropped) = pruned(schema, r#"{"l":[{"a":{"x":1},"z":1}]}"#);
        assert_eq!(kept, r#"{"l":[{"a":{},"z":1}]}"#);
        assert_eq!(dropped, ["l[0].a.x"]);
    }

    #[test]
    fn whole_numbers_that_64_bits_do_not_hold_become_floats() {
        let schema = r#"{"properties":{"n":{"type":"number"},"l":{"x-kubernetes-preserve-unknown-fields":true},
            "o":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}"#;
        let object =
            r#"{"l":[9223372036854775808,1],"n":18446744073709551615,"o":{"a":{"b":12345678901234567890,"c":1}}}"#;
        let (kept, dropped) = pruned(schema, object);
        assert_eq!(
            kept,
            r#"{"l":[9223372036854776000,1],"n":18446744073709552000,"o":{"a":{"b":12345678901234567000,"c":1}}}"#
        );
        assert!(dropped.is_empty());
    }

    #[test]
    fn nulls_stay_where_they_may_stand() {
        let schema = r#"{"properties":{"a":{"type":"string"},"b":{"nullable":true},"l":{"items":{"nullable":true}}}}"#;
        let node = Node::read(&value(schema));
        let changed = node.without_nulls(&value(r#"{"a":null,"b":null,"l":[null],"x":null}"#));
        assert_eq!(json::to_string(&changed.unwrap()), r#"{"b":null,"l":[null],"x":null}"#);
        assert!(node.without_nulls(&value(r#"{"b":null}"#)).is_none());
    }
}
