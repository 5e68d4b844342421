//! Validation of the defaults of a schema against the schema itself.

use holdfast_schema::types::TypeTable;
use holdfast_schema::{Aggregate, FieldError, FieldPath};
use holdfast_value::Value;

use crate::embedded::{Metadata, OBJECT_META, identity};
use crate::node::{Additional, Node};
use crate::prune::Dropped;
use crate::rules::{CompileContext, RuleBudget, Rules};

/// Maximum depth of the search for defaults.
const MAX_DEPTH: usize = 130;

impl Node {
    /// Validates the defaults of the schema at `field` and of all below it: they must satisfy the schema that they are
    /// the default of, including its rules, and hold only specified fields if `must_be_pruned` is true.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting#ValidateDefaults
    pub fn validate_defaults(
        &self,
        types: &TypeTable,
        field: &FieldPath,
        must_be_pruned: bool,
        errors: &mut Vec<FieldError>,
    ) {
        if !self.within.defaults {
            return;
        }
        let mut walk = DefaultsChecker {
            budget: RuleBudget::default(),
            metadata: types.id(OBJECT_META).map(|of| Metadata {
                types,
                of,
                drops_malformed: false,
            }),
            must_be_pruned,
            errors,
        };
        walk.schema(
            self,
            Rules::new(self, true, &CompileContext::default()).as_ref(),
            None,
            field,
            0,
        );
    }
}

struct DefaultsChecker<'e> {
    /// Cost budget of the rules on all defaults together.
    budget: RuleBudget,
    /// Decoder of metadata.
    metadata: Option<Metadata<'e>>,
    /// True if defaults must hold only specified fields.
    must_be_pruned: bool,
    errors: &'e mut Vec<FieldError>,
}

impl DefaultsChecker<'_> {
    /// Validates a schema with its rules, if there are any, and all schemas below it.
    fn schema(
        &mut self,
        node: &Node,
        rules: Option<&Rules>,
        place: Option<&SchemaPosition<'_>>,
        field: &FieldPath,
        depth: usize,
    ) {
        if !node.within.defaults || depth > MAX_DEPTH {
            return;
        }
        // The root is an object with metadata of its own.
        let embedded = (node.embedded || depth == 0).then_some(SchemaPosition::Object(node));
        let place = embedded.as_ref().or(place);
        if let Some(default) = &node.default {
            self.default(node, rules, place, default, &field.child("default"), depth == 0);
        }
        if let Additional::Schema(of) = &node.additional
            && place.is_some_and(SchemaPosition::is_metadata)
        {
            self.forbid_defaults(of, &field.child("additionalProperties"), depth + 1);
        }
        if let Some(items) = &node.items {
            let rules = rules.and_then(Rules::items);
            let place = place.map(SchemaPosition::Item);
            self.schema(items, rules, place.as_ref(), &field.child("items"), depth + 1);
        }
        for (name, below) in &node.properties {
            let rules = rules.and_then(|rules| rules.property(name));
            let place = place.map(|place| SchemaPosition::Field(place, name));
            self.schema(
                below,
                rules,
                place.as_ref(),
                &field.child("properties").key(name),
                depth + 1,
            );
        }
    }

    /// Reports the defaults of entries in metadata, whose keys are unknown.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting#validate
    fn forbid_defaults(&mut self, node: &Node, field: &FieldPath, depth: usize) {
        if !node.within.defaults || depth > MAX_DEPTH {
            return;
        }
        if node.default.is_some() {
            let why = "must not be set inside additionalProperties applying to object metadata";
            self.errors.push(FieldError::forbidden(&field.child("default"), why));
        }
        if let Some(items) = &node.items {
            self.forbid_defaults(items, &field.child("items"), depth + 1);
        }
        for (name, below) in &node.properties {
            self.forbid_defaults(below, &field.child("properties").key(name), depth + 1);
        }
        if let Additional::Schema(of) = &node.additional {
            self.forbid_defaults(of, &field.child("additionalProperties"), depth + 1);
        }
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting#validate
    fn default(
        &mut self,
        node: &Node,
        rules: Option<&Rules>,
        place: Option<&SchemaPosition<'_>>,
        default: &Value,
        field: &FieldPath,
        is_root: bool,
    ) {
        if let Some(place) = place.filter(|place| place.is_metadata()) {
            if let Some(messages) = place.errors_of_metadata(default, self.metadata) {
                let why = format!("must result in valid metadata: {messages}");
                self.errors.push(FieldError::invalid(field, default.clone(), why));
                return;
            }
        } else {
            if self.must_be_pruned && node.prune(default, false, &mut Dropped::default()).is_some() {
                let why = "must not have unknown fields";
                self.errors.push(FieldError::invalid(field, default.clone(), why));
            }
            if let Some(error) = unreadable(node, is_root, default, field, self.metadata) {
                self.errors.push(error);
                return;
            }
        }
        let before = self.errors.len();
        if is_root && let Value::Map(object) = default {
            identity(object, field, self.errors);
        }
        node.validate_embedded(default, field, self.errors);
        if self.errors.len() == before {
            self.errors.extend(node.validate_default(default, field));
        }
        if let Some(rules) = rules.filter(|_| self.errors.len() == before) {
            // The default is its own old value.
            let found = rules.validate(node, default, Some(default), false, field, &mut self.budget);
            self.errors.extend(found.errors);
        }
    }
}

/// Returns the error of a value whose identity or metadata as an object cannot be decoded. `is_object` means that the
/// value is an object even if its schema does not specify one.
fn unreadable(
    node: &Node,
    is_object: bool,
    value: &Value,
    path: &FieldPath,
    metadata: Option<Metadata<'_>>,
) -> Option<FieldError> {
    let metadata = metadata?;
    if let Some(object) = value.as_map().filter(|_| is_object && !node.embedded) {
        for name in ["apiVersion", "kind"] {
            if let Some(value) = object.get(name).filter(|value| value.as_str().is_none()) {
                return Some(FieldError::invalid(
                    &path.child(name),
                    value.clone(),
                    "must be a string",
                ));
            }
        }
        if let Some(value) = object.get("metadata")
            && let Err(why) = metadata.read(value, &mut Dropped::default())
        {
            return Some(FieldError::invalid(&path.child("metadata"), value.clone(), why));
        }
    }
    node.read_embedded(value, path, metadata, &mut Dropped::default()).err()
}

/// Position of a schema within that of the nearest embedded object.
enum SchemaPosition<'a> {
    Object(&'a Node),
    Field(&'a SchemaPosition<'a>, &'a str),
    Item(&'a SchemaPosition<'a>),
}

impl SchemaPosition<'_> {
    /// Returns true if it is the identity or the metadata of the object, or something in them.
    fn is_metadata(&self) -> bool {
        match self {
            SchemaPosition::Object(_) => false,
            SchemaPosition::Field(SchemaPosition::Object(_), name) => {
                matches!(*name, "apiVersion" | "kind" | "metadata")
            }
            SchemaPosition::Field(place, _) | SchemaPosition::Item(place) => place.is_metadata(),
        }
    }

    fn object(&self) -> &Node {
        match self {
            SchemaPosition::Object(node) => node,
            SchemaPosition::Field(place, _) | SchemaPosition::Item(place) => place.object(),
        }
    }

    /// Returns the object with only `value` at this position.
    fn around(&self, value: Value) -> Value {
        match self {
            SchemaPosition::Object(_) => value,
            SchemaPosition::Field(place, name) => {
                let mut object = Value::empty_map();
                object.set_at(&[*name], value);
                place.around(object)
            }
            SchemaPosition::Item(place) => place.around(vec![value].into()),
        }
    }

    /// Returns the reason why an object with this default at this position, which is in its metadata, would be invalid.
    fn errors_of_metadata(&self, default: &Value, metadata: Option<Metadata<'_>>) -> Option<String> {
        let mut object = self.around(default.clone());
        for (name, any) in [("apiVersion", "validation/v1"), ("kind", "Validation")] {
            if object.get(name).is_none() {
                object.set_at(&[name], any.into());
            }
        }
        let (node, root) = (self.object(), FieldPath::default());
        if let Some(error) = unreadable(node, true, &object, &root, metadata) {
            return Some(error.to_string());
        }
        let mut messages = Vec::new();
        if let Some(object) = object.as_map().filter(|_| !node.embedded) {
            identity(object, &root, &mut messages);
        }
        node.validate_embedded(&object, &root, &mut messages);
        (!messages.is_empty()).then(|| Aggregate(&messages).to_string())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::builtin;
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn entries_of_metadata_have_no_defaults() {
        let text = r#"{"type":"object","properties":{"e":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{
            "metadata":{"type":"object","properties":{"annotations":{"type":"object","additionalProperties":{"type":"string","default":"x"}}}},
            "spec":{"type":"object","additionalProperties":{"type":"string","default":"x"}}}}}}"#;
        let schema = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let mut errors = Vec::new();
        Node::read(&schema).validate_defaults(&builtin(), &FieldPath::new("s"), true, &mut errors);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "s.properties[e].properties[metadata].properties[annotations].additionalProperties.default: Forbidden: must not be set inside additionalProperties applying to object metadata"
            ]
        );
    }

    #[test]
    fn metadata_in_defaults_is_read_as_such() {
        let types = builtin();
        for (schema, expected) in [
            (
                r#"{"type":"object","properties":{"metadata":{"type":"object","default":[1]}}}"#,
                concat!(
                    "s.properties[metadata].default: Invalid value: [1]: must result in valid metadata: metadata: Invalid value: [1]: ",
                    "json: cannot unmarshal array into Go value of type v1.ObjectMeta"
                ),
            ),
            (
                r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","default":true}}}}}"#,
                concat!(
                    "s.properties[metadata].properties[name].default: Invalid value: true: must result in valid metadata: metadata: ",
                    r#"Invalid value: {"name":true}: json: cannot unmarshal bool into Go struct field ObjectMeta.name of type string"#
                ),
            ),
            (
                r#"{"type":"object","properties":{"p":{"type":"object","x-kubernetes-embedded-resource":true,
                "x-kubernetes-preserve-unknown-fields":true,
                "default":{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":1}}}}}}"#,
                concat!(
                    r#"s.properties[p].default.metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number "#,
                    "into Go struct field ObjectMeta.labels of type string"
                ),
            ),
            (
                r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"default":{"kind":5}}"#,
                "s.default.kind: Invalid value: 5: must be a string",
            ),
        ] {
            let node = Node::read(&json::parse(schema.as_bytes(), &Limits::TRUSTED).unwrap());
            let mut errors = Vec::new();
            node.validate_defaults(&types, &FieldPath::new("s"), true, &mut errors);
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, [expected], "{schema}");
        }
    }

    #[test]
    fn defaults_are_values_of_their_schema() {
        let types = builtin();
        for (schema, message) in [
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
                r#"{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"metadata":{"type":"object","properties":
                {"name":{"type":"string","default":"a/b"},"labels":{"type":"object","properties":{"a":{"type":"string","default":"ok"}}}}}}}"#,
                vec![concat!(
                    r#"s.properties[a].properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid metadata: "#,
                    r#"metadata.name: Invalid value: "a/b": may not contain '/'"#
                )],
            ),
            (
                r#"{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"kind":{"type":"string","default":""}}}"#,
                vec![concat!(
                    r#"s.properties[a].properties[kind].default: Invalid value: "": must result in valid metadata: "#,
                    r#"kind: Invalid value: "": must not be empty"#
                )],
            ),
            (
                r#"{"type":"object","format":"foo","default":1.5}"#,
                vec![r#"s.properties[a].default: Invalid value: "float64":  in body must be of type foo: "float64""#],
            ),
            (r#"{"type":"object","format":"email","default":[1]}"#, vec![]),
            (
                r#"{"x-kubernetes-int-or-string":true,"format":"int32","default":1.5}"#,
                vec![r#"s.properties[a].default: Invalid value: "float64":  in body must be of type int32: "float64""#],
            ),
            (
                r#"{"type":"string","default":"long","maxLength":2,"x-kubernetes-validations":[{"rule":"self == 'a'"}]}"#,
                vec!["s.properties[a].default: Too long: may not be more than 2 bytes"],
            ),
        ] {
            let text = format!(r#"{{"type":"object","properties":{{"a":{schema}}}}}"#);
            let node = Node::read(&json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap());
            let mut errors = Vec::new();
            node.validate_defaults(&types, &FieldPath::new("s"), true, &mut errors);
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, message, "{schema}");
        }
    }
}
