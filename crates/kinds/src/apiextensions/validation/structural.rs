//! Validation that a schema is structural: the shape of values is specified once and completely, outside of `allOf`,
//! `anyOf`, `oneOf` and `not`
//! (<https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>).

use holdfast_schema::{FieldError, FieldPath};
use holdfast_structural::Pattern;
use holdfast_value::Value;

use super::{is_true, items, text};
use crate::validation::Errors;

/// Maximum depth of the traversal. Deeper schemas are rejected earlier.
const MAX_DEPTH: usize = 130;

/// Returns the reasons why the schema is not structural, sorted by message.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema#ValidateStructural
pub(super) fn validate(schema: &Value, field: &FieldPath) -> Errors {
    let mut walk = StructuralCheck {
        errors: Errors::new(),
        depth: 0,
    };
    walk.schema(schema, Level::Root, field);
    // The reference requires only for the junctors of the root that the fields they validate are specified outside of
    // them.
    walk.complete_junctors(schema, schema, field, field);
    let mut errors = walk.errors;
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// Returns true if the schema is structural.
pub(super) fn is_structural(schema: &Value) -> bool {
    unreadable(schema).is_none() && validate(schema, &FieldPath::default()).is_empty()
}

/// Returns the reason why a schema cannot be converted to a structural one: keywords that structural schemas do not
/// have.
pub(super) fn unreadable(schema: &Value) -> Option<&'static str> {
    unreadable_within(schema, 0)
}

/// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema#validateUnsupportedFields
fn unreadable_within(schema: &Value, depth: usize) -> Option<&'static str> {
    if depth > MAX_DEPTH || schema.as_map().is_none() {
        return None;
    }
    let filled = |keyword: &str| match schema.get(keyword) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Map(map)) => !map.is_empty(),
        _ => false,
    };
    for (keyword, why) in [
        ("id", "OpenAPIV3Schema 'id' is not supported"),
        ("$schema", "OpenAPIV3Schema 'schema' is not supported"),
        ("$ref", "OpenAPIV3Schema '$ref' is not supported"),
        (
            "patternProperties",
            "OpenAPIV3Schema 'patternProperties' is not supported",
        ),
        ("definitions", "OpenAPIV3Schema 'definitions' is not supported"),
    ] {
        if filled(keyword) {
            return Some(why);
        }
    }
    for (keyword, why) in [
        ("dependencies", "OpenAPIV3Schema 'dependencies' is not supported"),
        ("additionalItems", "OpenAPIV3Schema 'additionalItems' is not supported"),
    ] {
        if set(schema, keyword) {
            return Some(why);
        }
    }
    let within = |keyword: &str| unreadable_within(schema.get(keyword)?, depth + 1);
    let within_list = |keyword: &str| {
        items(schema, keyword)
            .iter()
            .find_map(|of| unreadable_within(of, depth + 1))
    };
    let junctors = within("not").or_else(|| ["allOf", "anyOf", "oneOf"].into_iter().find_map(within_list));
    if junctors.is_some() {
        return junctors;
    }
    if schema
        .get("x-kubernetes-preserve-unknown-fields")
        .and_then(Value::as_bool)
        == Some(false)
    {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined");
    }
    if !items(schema, "items").is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array");
    }
    within("items")
        .or_else(|| properties(schema).find_map(|(_, of)| unreadable_within(of, depth + 1)))
        .or_else(|| within("additionalProperties"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

struct StructuralCheck {
    errors: Errors,
    depth: usize,
}

fn set(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword).is_some_and(|value| !value.is_null())
}

fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let map = schema.get("properties").and_then(Value::as_map);
    map.into_iter().flatten().map(|(name, of)| (name.as_str(), of))
}

/// Returns true if the choices are exactly `integer` and `string`.
fn is_int_or_string(choices: &[Value]) -> bool {
    let is = |choice: &Value, of: &str| choice.as_map().is_some_and(|map| map.len() == 1) && text(choice, "type") == of;
    matches!(choices, [a, b] if is(a, "integer") && is(b, "string"))
}

impl StructuralCheck {
    fn required(&mut self, field: FieldPath, why: &str) {
        self.errors.push(FieldError::required(&field, why));
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema#validateStructuralInvariants
    fn forbidden(&mut self, field: FieldPath, why: &str) {
        self.errors.push(FieldError::forbidden(&field, why));
    }

    fn invalid(&mut self, field: FieldPath, value: impl Into<Value>, why: &str) {
        self.errors.push(FieldError::invalid(&field, value, why));
    }

    fn schema(&mut self, schema: &Value, level: Level, field: &FieldPath) {
        if self.depth > MAX_DEPTH {
            return;
        }
        self.depth += 1;
        self.shape(schema, level, field);
        self.values(schema, field);
        self.depth -= 1;
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema#validateStructuralInvariants
    fn shape(&mut self, schema: &Value, level: Level, field: &FieldPath) {
        let schema_type = text(schema, "type");
        let embedded = is_true(schema, "x-kubernetes-embedded-resource");
        let preserves = is_true(schema, "x-kubernetes-preserve-unknown-fields");
        let int_or_string = is_true(schema, "x-kubernetes-int-or-string");
        match schema.get("items").filter(|item| item.as_map().is_some()) {
            Some(item) => self.schema(item, Level::Item, &field.child("items")),
            None if schema_type == "array" => self.required(field.child("items"), "must be specified"),
            None => {}
        }
        for (name, below) in properties(schema) {
            self.schema(below, Level::Field, &field.child("properties").key(name));
        }
        if let Some(additional) = schema.get("additionalProperties").filter(|value| !value.is_null()) {
            let field = field.child("additionalProperties");
            if level == Level::Root {
                self.forbidden(field.clone(), "must not be used at the root");
            }
            if embedded {
                let why = "must not be used if x-kubernetes-embedded-resource is set";
                self.forbidden(field.clone(), why);
            }
            if additional.as_map().is_some() {
                self.schema(additional, Level::Field, &field);
            }
        }
        if int_or_string {
            for (name, also) in [
                ("x-kubernetes-preserve-unknown-fields", preserves),
                ("x-kubernetes-embedded-resource", embedded),
            ] {
                if also {
                    self.invalid(
                        field.child(name),
                        true,
                        "must be false if x-kubernetes-int-or-string is true",
                    );
                }
            }
        }
        let type_field = field.child("type");
        if embedded && schema_type != "object" {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            if schema_type.is_empty() {
                self.required(type_field.clone(), why);
            } else {
                self.invalid(type_field.clone(), schema_type, why);
            }
        } else if schema_type.is_empty() && !int_or_string && !preserves {
            let why = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.required(type_field.clone(), why);
        }
        if level == Level::Root && !schema_type.is_empty() && schema_type != "object" {
            self.invalid(type_field, schema_type, "must be object at the root");
        }
        self.identity(schema, level, embedded, field);
        if embedded && !preserves && properties(schema).next().is_none() {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.required(field.child("properties"), why);
        }
    }

    /// Validates the schemas of `kind`, `apiVersion` and `metadata`, which every object has.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema#validateStructuralMetadataInvariants
    fn identity(&mut self, schema: &Value, level: Level, embedded: bool, field: &FieldPath) {
        let is_object = level == Level::Root || embedded;
        for name in ["kind", "apiVersion"] {
            let Some(of) = schema.at(&["properties", name]).filter(|_| is_object) else {
                continue;
            };
            if text(of, "type") != "string" {
                let field = field.child("properties").key(name).child("type");
                self.invalid(field, text(of, "type"), "must be string");
            }
        }
        let Some(metadata) = schema.at(&["properties", "metadata"]) else {
            return;
        };
        let field = field.child("properties").key("metadata");
        if is_object && text(metadata, "type") != "object" {
            self.invalid(field.child("type"), text(metadata, "type"), "must be object");
        }
        let says_more = |(keyword, value): (&str, &Value)| match keyword {
            "type" | "default" => false,
            "properties" => value
                .as_map()
                .is_some_and(|map| map.iter().any(|(name, _)| name != "name" && name != "generateName")),
            _ => !value.is_null(),
        };
        let mut keywords = metadata
            .as_map()
            .into_iter()
            .flatten()
            .map(|(keyword, value)| (keyword.as_str(), value));
        if level == Level::Root && keywords.any(says_more) {
            let why =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.forbidden(field, why);
        }
    }

    /// Validates the value validations of a schema.
    fn values(&mut self, schema: &Value, field: &FieldPath) {
        let first_of_all = items(schema, "allOf").first();
        let skips_any = is_int_or_string(items(schema, "anyOf"));
        let skips_first = first_of_all.is_some_and(|first| is_int_or_string(items(first, "anyOf")));
        self.junctors(schema, skips_any, skips_first, field);
        self.pattern(schema, field);
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema#validateValueValidation
    fn pattern(&mut self, schema: &Value, field: &FieldPath) {
        let pattern = text(schema, "pattern");
        if let Err(error) = Pattern::check(pattern) {
            let why = format!("must be a valid regular expression, but isn't: {error}");
            self.invalid(field.child("pattern"), pattern, &why);
        }
    }

    fn junctors(&mut self, schema: &Value, skips_any: bool, skips_first: bool, field: &FieldPath) {
        for (junctor, skipped) in [("anyOf", skips_any), ("allOf", false), ("oneOf", false)] {
            for (at, nested) in items(schema, junctor).iter().enumerate().filter(|_| !skipped) {
                let skips_any = junctor == "allOf" && at == 0 && skips_first;
                self.nested(nested, skips_any, &field.child(junctor).index(at));
            }
        }
        if let Some(not) = schema.get("not") {
            self.nested(not, false, &field.child("not"));
        }
    }

    /// Validates a schema in a junctor: it may validate values but must not specify their shape.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema#validateNestedValueValidation
    fn nested(&mut self, schema: &Value, skips_any: bool, field: &FieldPath) {
        if self.depth > MAX_DEPTH || schema.as_map().is_none() {
            return;
        }
        self.depth += 1;
        self.junctors(schema, skips_any, false, field);
        self.pattern(schema, field);
        if let Some(item) = schema.get("items") {
            self.nested(item, false, &field.child("items"));
        }
        for (name, below) in properties(schema) {
            self.nested(below, false, &field.child("properties").key(name));
        }
        for (keyword, word) in [
            ("type", "empty"),
            ("additionalProperties", "undefined"),
            ("default", "undefined"),
            ("title", "empty"),
            ("description", "empty"),
            ("nullable", "false"),
            ("x-kubernetes-preserve-unknown-fields", "false"),
            ("x-kubernetes-embedded-resource", "false"),
            ("x-kubernetes-int-or-string", "false"),
            ("x-kubernetes-list-map-keys", "empty"),
            ("x-kubernetes-list-type", "undefined"),
            ("x-kubernetes-map-type", "undefined"),
            ("x-kubernetes-validations", "empty"),
        ] {
            let says = match (word, schema.get(keyword)) {
                ("empty", Some(Value::String(text))) => !text.is_empty(),
                ("empty", Some(Value::List(list))) => !list.is_empty(),
                ("false", Some(value)) => value.as_bool() == Some(true),
                // A ban on additional properties does not specify their shape.
                ("undefined", Some(Value::Bool(false))) if keyword == "additionalProperties" => false,
                ("undefined", _) => set(schema, keyword),
                _ => false,
            };
            if says {
                self.forbidden(field.child(keyword), &format!("must be {word} to be structural"));
            }
        }
        if schema.at(&["properties", "metadata"]).is_some() {
            let field = field.child("properties").key("metadata");
            self.forbidden(field, "must not be specified in a nested context");
        }
        self.depth -= 1;
    }

    fn complete_junctors(&mut self, nested: &Value, schema: &Value, field: &FieldPath, nested_field: &FieldPath) {
        if let Some(not) = nested.get("not") {
            self.complete_nested(not, schema, field, &nested_field.child("not"));
        }
        for junctor in ["allOf", "anyOf", "oneOf"] {
            for (at, of) in items(nested, junctor).iter().enumerate() {
                self.complete_nested(of, schema, field, &nested_field.child(junctor).index(at));
            }
        }
    }

    fn complete_nested(&mut self, nested: &Value, schema: &Value, field: &FieldPath, nested_field: &FieldPath) {
        if self.depth > MAX_DEPTH {
            return;
        }
        self.depth += 1;
        self.complete_junctors(nested, schema, field, nested_field);
        let mut below = |nested: &Value, schema: Option<&Value>, field: FieldPath, nested_field: FieldPath| match schema
        {
            Some(schema) => self.complete_nested(nested, schema, &field, &nested_field),
            None => self.required(field, &format!("because it is defined in {nested_field}")),
        };
        if let Some(item) = nested.get("items") {
            below(
                item,
                schema.get("items"),
                field.child("items"),
                nested_field.child("items"),
            );
        }
        for (name, of) in properties(nested) {
            below(
                of,
                schema.at(&["properties", name]),
                field.child("properties").key(name),
                nested_field.child("properties").key(name),
            );
        }
        self.depth -= 1;
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn errors(schema: &str) -> Vec<String> {
        let schema = json::parse(schema.as_bytes(), &Limits::TRUSTED).unwrap();
        validate(&schema, &FieldPath::new("s"))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn keywords_that_there_is_no_place_for_make_a_schema_unreadable() {
        let reason = |schema: &str| unreadable(&json::parse(schema.as_bytes(), &Limits::TRUSTED).unwrap());
        assert_eq!(
            reason(r#"{"properties":{"a":{"not":{"$schema":"x"}}}}"#),
            Some("OpenAPIV3Schema 'schema' is not supported")
        );
        assert!(reason(r#"{"properties":{"a":{"items":[{}]}}}"#).is_some());
        assert_eq!(reason(r#"{"properties":{"a":{"items":[]},"id":{}}}"#), None);
    }

    #[test]
    fn a_structural_schema_says_once_what_values_look_like() {
        for (schema, expected) in [
            (
                r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}}}"#,
                vec![],
            ),
            (
                r#"{"properties":{"a":{"type":"string"}}}"#,
                vec!["s.type: Required value: must not be empty at the root"],
            ),
            (
                r#"{"type":"array","items":{"type":"string"}}"#,
                vec![r#"s.type: Invalid value: "array": must be object at the root"#],
            ),
            (
                r#"{"type":"object","properties":{"a":{}}}"#,
                vec!["s.properties[a].type: Required value: must not be empty for specified object fields"],
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"array"}}}"#,
                vec!["s.properties[a].items: Required value: must be specified"],
            ),
            (
                r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
                vec!["s.additionalProperties: Forbidden: must not be used at the root"],
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"properties":{"a":{"type":"string"}}}]}"#,
                vec!["s.anyOf[0].properties[a].type: Forbidden: must be empty to be structural"],
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"object","allOf":[{"properties":{"b":{"minLength":1}}}]}}}"#,
                vec![],
            ),
            (
                r#"{"type":"object","allOf":[{"pattern":"("}]}"#,
                vec!["s.allOf[0].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't"],
            ),
            (
                r#"{"type":"object","allOf":[{"properties":{"b":{"minLength":1}}}]}"#,
                vec!["s.properties[b]: Required value: because it is defined in s.allOf[0].properties[b]"],
            ),
            (
                r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"labels":{"type":"object"}}}}}"#,
                vec![
                    "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
                ],
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string","pattern":"a("}}}"#,
                vec!["s.properties[a].pattern"],
            ),
        ] {
            let found = errors(schema);
            assert_eq!(found.len(), expected.len(), "{schema}: {found:?}");
            for (found, expected) in found.iter().zip(&expected) {
                assert!(found.starts_with(expected), "{found}");
            }
        }
    }
}
