//! Whether the defaults of a schema are values of it.

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
        self.defaults_at(field, 0, &mut RuleBudget::default(), errors);
    }

    fn defaults_at(&self, field: &FieldPath, depth: usize, budget: &mut RuleBudget, errors: &mut Vec<FieldError>) {
        if !self.within.defaults || depth > MAX_DEPTH {
            return;
        }
        if let Some(default) = &self.default {
            let field = field.child("default");
            if self.prune(default, false, &mut Dropped::default()).is_some() {
                errors.push(FieldError::invalid(
                    &field,
                    default.clone(),
                    "must not have unknown fields",
                ));
            }
            let before = errors.len();
            self.validate_embedded(default, &field, errors);
            if errors.len() == before {
                errors.extend(self.validate(default, None, &field));
            }
            if errors.len() == before
                && let Some(rules) = Rules::new(self, self.embedded)
            {
                // A default comes in the place of itself.
                let found = rules.validate(self, default, Some(default), false, &field, budget);
                errors.extend(found.errors);
            }
        }
        if let Some(items) = &self.items {
            items.defaults_at(&field.child("items"), depth + 1, budget, errors);
        }
        for (name, below) in &self.properties {
            below.defaults_at(&field.child("properties").key(name), depth + 1, budget, errors);
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
