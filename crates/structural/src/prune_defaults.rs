//! Pruning of the defaults of a schema, as if each were part of an object.

use std::vec::IntoIter;

use holdfast_value::Value;

use crate::node::{Additional, Node};

/// Name of a map key whose value is unknown.
const ANY_KEY: &str = "*";

/// Maximum depth of the traversal.
const MAX_DEPTH: usize = 130;

/// Step from a value to one within it.
enum Step<'n> {
    Field(&'n str),
    Item,
}

/// Position of a default in an object, from the default up to the object.
struct Position<'n> {
    step: Step<'n>,
    above: Option<&'n Position<'n>>,
}

/// Returns the smallest object that holds `value` at the position.
fn surround(position: Option<&Position<'_>>, value: Value) -> Value {
    let Some(Position { step, above }) = position else {
        return value;
    };
    let outer = match step {
        Step::Field(name) => {
            let mut map = Value::empty_map();
            map.set_at(&[*name], value);
            map
        }
        Step::Item => vec![value].into(),
    };
    surround(*above, outer)
}

/// Returns the value at the position, if the object still has it.
fn value_at<'v>(position: Option<&Position<'_>>, object: &'v Value) -> Option<&'v Value> {
    let Some(Position { step, above }) = position else {
        return Some(object);
    };
    let outer = value_at(*above, object)?;
    match step {
        Step::Field(name) => outer.get(name),
        Step::Item => outer.as_list()?.first(),
    }
}

/// Walk over the defaults of a schema.
struct Walk<'p> {
    /// Returns a whole object without its unspecified fields.
    prune: &'p dyn Fn(&Value) -> Option<Value>,
    /// Defaults after pruning, in the order of the walk.
    pruned: Vec<Option<Value>>,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node, position: Option<&Position<'_>>, depth: usize) {
        if !node.within.defaults || depth > MAX_DEPTH {
            return;
        }
        if let Some(default) = &node.default {
            let object = surround(position, default.clone());
            let pruned = (self.prune)(&object).unwrap_or(object);
            self.pruned.push(value_at(position, &pruned).cloned());
        }
        let steps = node.properties.iter().map(|(name, of)| (Step::Field(name), of));
        let additional = match &node.additional {
            Additional::Schema(of) => Some((Step::Field(ANY_KEY), &**of)),
            _ => None,
        };
        let items = node.items.as_deref().map(|of| (Step::Item, of));
        for (step, of) in steps.chain(additional).chain(items) {
            let position = Position { step, above: position };
            self.node(of, Some(&position), depth + 1);
        }
    }
}

impl Node {
    /// Returns the defaults of the schema of whole objects and of all schemas below it after `prune`, which removes
    /// the unspecified fields of a whole object. A default is `None` if pruning removes it.
    pub(super) fn pruned_defaults(&self, prune: &dyn Fn(&Value) -> Option<Value>) -> Vec<Option<Value>> {
        let mut walk = Walk {
            prune,
            pruned: Vec::new(),
        };
        walk.node(self, None, 0);
        walk.pruned
    }

    /// Replaces all defaults with those of [`Node::pruned_defaults`].
    pub(super) fn replace_defaults(&mut self, defaults: Vec<Option<Value>>) {
        self.replace_next_defaults(&mut defaults.into_iter(), 0);
    }

    fn replace_next_defaults(&mut self, defaults: &mut IntoIter<Option<Value>>, depth: usize) {
        if !self.within.defaults || depth > MAX_DEPTH {
            return;
        }
        if self.default.is_some() {
            self.default = defaults.next().flatten();
        }
        let named = self.properties.iter_mut().map(|(_, of)| of);
        let additional = match &mut self.additional {
            Additional::Schema(of) => Some(&mut **of),
            _ => None,
        };
        for of in named.chain(additional).chain(self.items.as_deref_mut()) {
            of.replace_next_defaults(defaults, depth + 1);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use std::sync::Arc;

    use holdfast_value::{Limits, json};

    use crate::custom_type::{CustomType, VersionSchema};
    use crate::rules::CompileContext;
    use crate::testing::builtin;

    /// Returns the object with the defaults of the schema.
    fn filled(schema: &str, preserves_unknown: bool, object: &str) -> String {
        let value = |text: &str| json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let version = VersionSchema {
            preserves_unknown,
            ..VersionSchema::new(Some(value(schema)))
        };
        let custom_type = CustomType::new(&version, Arc::new(builtin()), CompileContext::default());
        json::to_string(&custom_type.with_defaults(value(object)).unwrap())
    }

    #[test]
    fn unspecified_fields_of_defaults_are_pruned() {
        const POD: &str = r#"{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,
            "default":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","nope":1},"spec":{"b":1}}}"#;
        const READ: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"b":1}}"#;
        for (schema, object, expected) in [
            (format!(r#"{{"p":{POD}}}"#), "{}", format!(r#"{{"p":{READ}}}"#)),
            (
                format!(r#"{{"l":{{"items":{{"properties":{{"p":{POD}}}}}}}}}"#),
                r#"{"l":[{}]}"#,
                format!(r#"{{"l":[{{"p":{READ}}}]}}"#),
            ),
            (
                format!(r#"{{"o":{{"properties":{{"p":{POD}}}}}}}"#),
                r#"{"o":{}}"#,
                format!(r#"{{"o":{{"p":{READ}}}}}"#),
            ),
            (
                format!(r#"{{"m":{{"additionalProperties":{{"properties":{{"p":{POD}}}}}}}}}"#),
                r#"{"m":{"k":{}}}"#,
                format!(r#"{{"m":{{"k":{{"p":{READ}}}}}}}"#),
            ),
            (
                r#"{"m":{"additionalProperties":{"properties":{"a":{}},"default":{"a":1,"b":2}}}}"#.to_owned(),
                r#"{"m":{"k":null}}"#,
                r#"{"m":{"k":{"a":1}}}"#.to_owned(),
            ),
            (
                r#"{"p":{"x-kubernetes-embedded-resource":true,"properties":{"metadata":{"default":{"name":"z","nope":1}}}}}"#
                    .to_owned(),
                r#"{"p":{}}"#,
                r#"{"p":{"metadata":{"name":"z"}}}"#.to_owned(),
            ),
        ] {
            let schema = format!(r#"{{"type":"object","properties":{schema}}}"#);
            assert_eq!(filled(&schema, false, object), expected, "{schema}");
        }
    }

    #[test]
    fn defaults_are_kept_if_unknown_fields_are_preserved() {
        let schema = r#"{"type":"object","properties":{"o":{"properties":{"a":{}},"default":{"b":1}}}}"#;
        assert_eq!(filled(schema, true, "{}"), r#"{"o":{"b":1}}"#);
        assert_eq!(filled(schema, false, "{}"), r#"{"o":{}}"#);
    }
}
