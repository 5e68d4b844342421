//! Whether the defaults of a schema are values of it.

use holdfast_value::Value;

use super::Node;
use super::prune::Dropped;
use super::{RuleBudget, Rules};
use crate::{FieldError, FieldPath};

/// How deep defaults are looked for.
const MAX_DEPTH: usize = 130;

impl Node {
    /// What is wrong with the defaults of the schema at `field` and of all below it: they must hold nothing that is not
    /// specified, and satisfy the schema that they are the default of, its rules included.
    pub fn validate_defaults(&self, field: &FieldPath, errors: &mut Vec<FieldError>) {
        if !self.within.defaults {
            return;
        }
        let mut walk = Walk {
            budget: RuleBudget::default(),
            errors,
        };
        walk.schema(self, Rules::new(self, true).as_ref(), field, 0);
    }
}

struct Walk<'e> {
    /// What rules may cost on all defaults together.
    budget: RuleBudget,
    errors: &'e mut Vec<FieldError>,
}

impl Walk<'_> {
    /// A schema with its rules, if there are any, and all below it.
    fn schema(&mut self, node: &Node, rules: Option<&Rules>, field: &FieldPath, depth: usize) {
        if !node.within.defaults || depth > MAX_DEPTH {
            return;
        }
        if let Some(default) = &node.default {
            self.default(node, rules, default, &field.child("default"));
        }
        if let Some(items) = &node.items {
            let rules = rules.and_then(Rules::items);
            self.schema(items, rules, &field.child("items"), depth + 1);
        }
        for (name, below) in &node.properties {
            let rules = rules.and_then(|rules| rules.property(name));
            self.schema(below, rules, &field.child("properties").key(name), depth + 1);
        }
    }

    fn default(&mut self, node: &Node, rules: Option<&Rules>, default: &Value, field: &FieldPath) {
        if node.prune(default, false, &mut Dropped::default()).is_some() {
            let why = "must not have unknown fields";
            self.errors.push(FieldError::invalid(field, default.clone(), why));
        }
        let before = self.errors.len();
        node.validate_embedded(default, field, self.errors);
        if self.errors.len() == before {
            self.errors.extend(node.validate(default, None, field));
        }
        if let Some(rules) = rules.filter(|_| self.errors.len() == before) {
            // A default comes in the place of itself.
            let found = rules.validate(node, default, Some(default), false, field, &mut self.budget);
            self.errors.extend(found.errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn defaults_are_values_of_their_schema() {
        for (schema, told) in [
            (r#"{"type":"integer","default":1}"#, vec![]),
            (
                r#"{"type":"integer","default":"x"}"#,
                vec![r#"s.properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#],
            ),
            (
                r#"{"type":"object","properties":{"b":{"type":"string"}},"default":{"c":1}}"#,
                vec![r#"s.properties[a].default: Invalid value: {"c":1}: must not have unknown fields"#],
            ),
            (
                r#"{"type":"object","properties":{"b":{"type":"string"}},"required":["b"],"default":{}}"#,
                vec!["s.properties[a].default.b: Required value"],
            ),
            (
                r#"{"type":"string","default":"b","x-kubernetes-validations":[{"rule":"self == 'a'"}]}"#,
                vec![r#"s.properties[a].default: Invalid value: "b": failed rule: self == 'a'"#],
            ),
            (
                r#"{"type":"object","default":{"b":"c"},"properties":{"b":{"type":"string","x-kubernetes-validations":[{"rule":
                "self == oldSelf"},{"rule":"self.size() > 1","message":"too short"}]}}}"#,
                vec![r#"s.properties[a].default.b: Invalid value: "c": too short"#],
            ),
            (
                r#"{"type":"string","default":"long","maxLength":2,"x-kubernetes-validations":[{"rule":"self == 'a'"}]}"#,
                vec!["s.properties[a].default: Too long: may not be more than 2 bytes"],
            ),
        ] {
            let text = format!(r#"{{"type":"object","properties":{{"a":{schema}}}}}"#);
            let node = Node::read(&json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap());
            let mut errors = Vec::new();
            node.validate_defaults(&FieldPath::new("s"), &mut errors);
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, told, "{schema}");
        }
    }
}
