//! Whether the defaults of a schema are values of it.

use super::Node;
use super::prune::Dropped;
use crate::{FieldError, FieldPath};

/// How deep defaults are looked for.
const MAX_DEPTH: usize = 130;

impl Node {
    /// What is wrong with the defaults of the schema at `field` and of all below it: they must hold nothing that is not
    /// specified, and satisfy the schema that they are the default of.
    pub fn validate_defaults(&self, field: &FieldPath, errors: &mut Vec<FieldError>) {
        self.defaults_at(field, 0, errors);
    }

    fn defaults_at(&self, field: &FieldPath, depth: usize, errors: &mut Vec<FieldError>) {
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
        }
        if let Some(items) = &self.items {
            items.defaults_at(&field.child("items"), depth + 1, errors);
        }
        for (name, below) in &self.properties {
            below.defaults_at(&field.child("properties").key(name), depth + 1, errors);
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
