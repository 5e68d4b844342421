//! Schemas in expressions: a [`Node`] as a CEL type.

use std::sync::Arc;

use holdfast_cel::{DeclField, DeclType, ListType as CelListType};
use holdfast_schema::types::ListType;
use holdfast_value::{SmolStr, Value};

use crate::node::{Additional, JsonType, Node};

impl Node {
    /// Returns the type of values of this schema in expressions; `None` if expressions do not support them: nothing is
    /// known of values without a type.
    ///
    /// `is_resource` means that the value is a whole object, at the root of a custom resource: expressions can name its
    /// `apiVersion`, `kind`, `metadata.name` and `metadata.generateName` (and those of embedded objects within),
    /// whatever the schema specifies. They cannot name unspecified fields, nor properties whose names CEL cannot
    /// express. Sizes follow `maxLength`, `maxItems` and `maxProperties`, or otherwise the maximum size of a request
    /// (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules>).
    pub fn decl_type(&self, is_resource: bool) -> Option<DeclType> {
        let declared = self.declare(is_resource)?;
        Some(if self.nullable { declared.nullable() } else { declared })
    }

    fn declare(&self, is_resource: bool) -> Option<DeclType> {
        if self.int_or_string {
            return Some(DeclType::int_or_string(self.most(|checks| checks.max_length)));
        }
        if is_resource && !self.names_itself() {
            return Some(DeclType::resource(self.declared_fields().0));
        }
        match self.kind? {
            JsonType::Object => self.declare_object(),
            JsonType::Array => {
                let node = self.items.as_deref()?;
                let items = node.decl_type(node.embedded)?;
                let list_type = match self.list_type {
                    Some(ListType::Set) => CelListType::Set,
                    Some(ListType::Map) => CelListType::Map(self.list_map_keys.clone()),
                    Some(ListType::Atomic) | None => CelListType::Atomic,
                };
                Some(DeclType::list(items, self.most(|checks| checks.max_items), list_type))
            }
            JsonType::String => Some(self.declare_text()),
            JsonType::Integer => Some(DeclType::int()),
            JsonType::Number => Some(DeclType::double()),
            JsonType::Boolean => Some(DeclType::bool()),
            JsonType::Unknown => None,
        }
    }

    fn declare_object(&self) -> Option<DeclType> {
        if let Additional::Schema(values) = &self.additional {
            let values = values.decl_type(values.embedded)?;
            return Some(DeclType::map(values, self.most(|checks| checks.max_properties)));
        }
        let says_nothing = self.properties.is_empty();
        if says_nothing && (self.preserves_unknown || matches!(self.additional, Additional::Allowed(true))) {
            return Some(DeclType::opaque());
        }
        let (fields, unnamed) = self.declared_fields();
        let object = DeclType::object(fields);
        Some(
            unnamed
                .into_iter()
                .fold(object, |object, (name, decl)| object.with_unnamed_property(name, &decl)),
        )
    }

    /// Returns the properties that can be named, and those that are always written and cannot be named.
    fn declared_fields(&self) -> (Vec<DeclField>, Vec<(&SmolStr, DeclType)>) {
        let (mut fields, mut unnamed) = (Vec::with_capacity(self.properties.len()), Vec::new());
        let required = self.checks.as_deref().map_or(&[][..], |checks| &checks.required);
        for (name, property) in &self.properties {
            let Some(decl) = property.decl_type(property.embedded) else {
                continue;
            };
            let decl = Arc::new(decl);
            let written = required.contains(name) && property.default.is_none();
            match DeclField::new(name.clone(), Arc::clone(&decl), written) {
                Some(field) => fields.push(field),
                None if written => unnamed.push((name, Arc::unwrap_or_clone(decl))),
                None => {}
            }
        }
        (fields, unnamed)
    }

    fn declare_text(&self) -> DeclType {
        let length = self.most(|checks| checks.max_length);
        let checks = self.checks.as_deref();
        match checks.map_or("", |checks| checks.format.as_str()) {
            "byte" => return DeclType::bytes(length),
            "duration" => return DeclType::duration(),
            "date" => return DeclType::date(),
            "date-time" => return DeclType::date_time(),
            _ => {}
        }
        match checks.map(|checks| &checks.values) {
            Some(values) if length.is_none() && !values.is_empty() => {
                DeclType::enumeration(values.iter().filter_map(Value::as_str))
            }
            _ => DeclType::string(length),
        }
    }

    /// Returns a size limit; a negative one is zero.
    fn most(&self, bound: impl Fn(&crate::node::Checks) -> Option<i64>) -> Option<u64> {
        let bound = bound(self.checks.as_deref()?)?;
        Some(u64::try_from(bound).unwrap_or_default())
    }

    /// Returns true if the schema specifies all fields that identify an object, so that none of them need be added.
    fn names_itself(&self) -> bool {
        let text = |node: &Node, name: &str| node.property(name).is_some_and(|of| of.kind == Some(JsonType::String));
        self.kind == Some(JsonType::Object)
            && text(self, "kind")
            && text(self, "apiVersion")
            && self.property("metadata").is_some_and(|metadata| {
                metadata.kind == Some(JsonType::Object) && text(metadata, "name") && text(metadata, "generateName")
            })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_cel::Environment;
    use holdfast_value::{Limits, json};

    use super::*;

    fn node(schema: &str) -> Node {
        Node::read(&json::parse(schema.as_bytes(), &Limits::TRUSTED).unwrap())
    }

    /// Returns the type of an expression about a value of the schema, or the error.
    fn type_of(schema: &str, is_resource: bool, expression: &str) -> String {
        let Some(decl) = node(schema).decl_type(is_resource) else {
            return "unseen".to_owned();
        };
        let environment = Environment::new().with_object("self", Arc::new(decl));
        match environment.compile(expression, &[]) {
            Ok(program) => program.output_type().to_string(),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn each_schema_has_the_type_that_expressions_see() {
        for (schema, of) in [
            (r#"{"type":"boolean"}"#, "bool"),
            (r#"{"type":"integer","format":"int32"}"#, "int"),
            (r#"{"type":"number"}"#, "double"),
            (r#"{"type":"string"}"#, "string"),
            (r#"{"type":"string","format":"uuid"}"#, "string"),
            (r#"{"type":"string","format":"byte"}"#, "bytes"),
            (r#"{"type":"string","format":"duration"}"#, "duration"),
            (r#"{"type":"string","format":"date"}"#, "timestamp"),
            (r#"{"type":"string","format":"date-time"}"#, "timestamp"),
            (r#"{"x-kubernetes-int-or-string":true}"#, "dyn"),
            (r#"{"type":"array","items":{"type":"string"}}"#, "list(string)"),
            (
                r#"{"type":"object","additionalProperties":{"type":"integer"}}"#,
                "map(string, int)",
            ),
            (r#"{"x-kubernetes-preserve-unknown-fields":true}"#, "unseen"),
            (
                r#"{"type":"array","items":{"x-kubernetes-preserve-unknown-fields":true}}"#,
                "unseen",
            ),
            (
                r#"{"type":"object","additionalProperties":{"x-kubernetes-preserve-unknown-fields":true}}"#,
                "unseen",
            ),
        ] {
            assert_eq!(type_of(schema, false, "self"), of, "{schema}");
        }
    }

    #[test]
    fn properties_are_named_as_cel_can_say_them() {
        let schema = r#"{"type":"object","properties":{"x-y":{"type":"integer"},"namespace":{"type":"string"},"$a":{"type":
            "string"},"any":{"x-kubernetes-preserve-unknown-fields":true}}}"#;
        for (expression, of) in [
            ("self.x__dash__y", "int"),
            ("self.__namespace__", "string"),
            (
                "self.any",
                "compilation failed: ERROR: <input>:1:5: undefined field 'any'",
            ),
            (
                "self.apiVersion",
                "compilation failed: ERROR: <input>:1:5: undefined field 'apiVersion'",
            ),
        ] {
            assert_eq!(type_of(schema, false, expression), of, "{expression}");
        }
    }

    #[test]
    fn whole_object_declares_only_kind_and_name_metadata() {
        let schema = r#"{"type":"object","properties":{"metadata":{"type":"object"},"spec":{"type":"object","properties":{
            "pod":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"a":{"type":"integer"}}}}}}}"#;
        for (expression, of) in [
            ("self.kind + self.apiVersion + self.metadata.name", "string"),
            ("self.metadata.generateName", "string"),
            ("self.spec.pod.kind + self.spec.pod.metadata.name", "string"),
            ("self.spec.pod.a", "int"),
            (
                "self.metadata.labels",
                "compilation failed: ERROR: <input>:1:14: undefined field 'labels'",
            ),
        ] {
            assert_eq!(type_of(schema, true, expression), of, "{expression}");
        }
    }

    #[test]
    fn sizes_are_those_that_the_schema_allows() {
        let most = |schema: &str| node(schema).decl_type(false).map(|decl| decl.max_elements());
        for (schema, expected) in [
            (r#"{"type":"string","maxLength":10}"#, 40),
            (r#"{"type":"string","maxLength":-1}"#, 0),
            (r#"{"type":"string","enum":["a","abc"]}"#, 3),
            (r#"{"type":"string","maxLength":2,"enum":["a","abc"]}"#, 8),
            (r#"{"type":"string","format":"byte","maxLength":10}"#, 10),
            (r#"{"x-kubernetes-int-or-string":true,"maxLength":3}"#, 12),
            (r#"{"type":"array","maxItems":7,"items":{"type":"integer"}}"#, 7),
            (r#"{"type":"array","items":{"type":"integer"}}"#, 1_572_863),
            (
                r#"{"type":"object","maxProperties":5,"additionalProperties":{"type":"integer"}}"#,
                5,
            ),
            // Each item has at least the size of `{"$a":""}` and a comma, since the field is required.
            (
                r#"{"type":"array","items":{"type":"object","required":["$a"],"properties":{"$a":{"type":"string"}}}}"#,
                3_145_726 / 11,
            ),
        ] {
            assert_eq!(most(schema), Some(expected), "{schema}");
        }
    }
}
