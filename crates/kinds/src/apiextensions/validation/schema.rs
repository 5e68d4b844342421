//! Validation of the JSON schemas of CRDs, keyword by keyword.

use holdfast_schema::{FieldError, FieldPath};
use holdfast_structural::Node;
use holdfast_value::{SeenValues, Value};

use super::{is_true, items, text};
use crate::validation::Errors;

/// Maximum nesting depth of schemas.
const MAX_DEPTH: usize = 128;

/// Keywords that are allowed at the root together with a status subresource, in the order of messages.
const AT_ROOT: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

/// Rejects root keywords that the schema of a version with a status subresource would lose.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#validateCustomResourceDefinitionValidation
pub(super) fn beside_status(schema: &Value, field: &FieldPath, errors: &mut Errors) {
    for (keyword, value) in schema.as_map().into_iter().flatten() {
        if keyword == "type" && value.as_str().is_some_and(|of| !of.is_empty() && of != "object") {
            let why =
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            let field = FieldPath::new(&format!("{}.type", field.as_str()));
            errors.push(FieldError::invalid(&field, value.clone(), why));
            return;
        }
        let known = AT_ROOT.iter().any(|(known, _)| known == keyword);
        if !known && !is_unset(value) {
            let allowed: Vec<&str> = AT_ROOT.iter().map(|(_, name)| *name).collect();
            let why = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                allowed.join(" ")
            );
            errors.push(FieldError::invalid(field, in_full(schema, 0), why));
            return;
        }
    }
}

/// Type of the value of a keyword when a schema is printed in full.
#[derive(Clone, Copy)]
enum Shown {
    Text,
    Flag,
    Any,
    Schema,
    Schemas,
    Named,
    Items,
    Additional,
}

/// All keywords, with their names in the reference's internal type.
const IN_FULL: [(&str, &str, Shown); 43] = [
    ("id", "ID", Shown::Text),
    ("$schema", "Schema", Shown::Text),
    ("$ref", "Ref", Shown::Any),
    ("description", "Description", Shown::Text),
    ("type", "Type", Shown::Text),
    ("nullable", "Nullable", Shown::Flag),
    ("format", "Format", Shown::Text),
    ("title", "Title", Shown::Text),
    ("default", "Default", Shown::Any),
    ("maximum", "Maximum", Shown::Any),
    ("exclusiveMaximum", "ExclusiveMaximum", Shown::Flag),
    ("minimum", "Minimum", Shown::Any),
    ("exclusiveMinimum", "ExclusiveMinimum", Shown::Flag),
    ("maxLength", "MaxLength", Shown::Any),
    ("minLength", "MinLength", Shown::Any),
    ("pattern", "Pattern", Shown::Text),
    ("maxItems", "MaxItems", Shown::Any),
    ("minItems", "MinItems", Shown::Any),
    ("uniqueItems", "UniqueItems", Shown::Flag),
    ("multipleOf", "MultipleOf", Shown::Any),
    ("enum", "Enum", Shown::Any),
    ("maxProperties", "MaxProperties", Shown::Any),
    ("minProperties", "MinProperties", Shown::Any),
    ("required", "Required", Shown::Any),
    ("items", "Items", Shown::Items),
    ("allOf", "AllOf", Shown::Schemas),
    ("oneOf", "OneOf", Shown::Schemas),
    ("anyOf", "AnyOf", Shown::Schemas),
    ("not", "Not", Shown::Schema),
    ("properties", "Properties", Shown::Named),
    ("additionalProperties", "AdditionalProperties", Shown::Additional),
    ("patternProperties", "PatternProperties", Shown::Named),
    ("dependencies", "Dependencies", Shown::Any),
    ("additionalItems", "AdditionalItems", Shown::Additional),
    ("definitions", "Definitions", Shown::Named),
    ("externalDocs", "ExternalDocs", Shown::Any),
    ("example", "Example", Shown::Any),
    (
        "x-kubernetes-preserve-unknown-fields",
        "XPreserveUnknownFields",
        Shown::Any,
    ),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", Shown::Flag),
    ("x-kubernetes-int-or-string", "XIntOrString", Shown::Flag),
    ("x-kubernetes-list-map-keys", "XListMapKeys", Shown::Any),
    ("x-kubernetes-list-type", "XListType", Shown::Any),
    ("x-kubernetes-map-type", "XMapType", Shown::Any),
];

/// Returns the schema as the reference prints it in a message: with every keyword, set or not.
fn in_full(schema: &Value, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    let mut shown = Value::empty_map();
    for (keyword, name, form) in IN_FULL {
        let value = schema.get(keyword).filter(|value| !value.is_null());
        shown.set_at(&[name], member_in_full(value, form, depth));
    }
    let rules = schema.get("x-kubernetes-validations").cloned();
    shown.set_at(&["XValidations"], rules.unwrap_or(Value::Null));
    shown
}

fn member_in_full(value: Option<&Value>, form: Shown, depth: usize) -> Value {
    let below = |schema: &Value| in_full(schema, depth + 1);
    let Some(value) = value else {
        return match form {
            Shown::Text => "".into(),
            Shown::Flag => false.into(),
            _ => Value::Null,
        };
    };
    match (form, value) {
        (Shown::Schema, schema) => below(schema),
        (Shown::Schemas, Value::List(list)) => list.iter().map(below).collect::<Vec<_>>().into(),
        (Shown::Named, Value::Map(map)) => {
            let named = map.iter().map(|(name, schema)| (name.clone(), below(schema)));
            Value::Map(named.collect())
        }
        (Shown::Items, Value::Map(_)) => {
            let mut items = Value::empty_map();
            items.set_at(&["Schema"], below(value));
            items.set_at(&["JSONSchemas"], Value::Null);
            items
        }
        (Shown::Items, Value::List(list)) => {
            let mut items = Value::empty_map();
            items.set_at(&["Schema"], Value::Null);
            items.set_at(&["JSONSchemas"], list.iter().map(below).collect::<Vec<_>>().into());
            items
        }
        (Shown::Additional, _) => {
            let mut additional = Value::empty_map();
            additional.set_at(&["Allows"], value.as_bool().unwrap_or(true).into());
            let schema = value.as_map().map_or(Value::Null, |_| below(value));
            additional.set_at(&["Schema"], schema);
            additional
        }
        _ => value.clone(),
    }
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::List(list) => list.is_empty(),
        _ => false,
    }
}

/// Returns true if the schema or a nested one has a default.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#schemaHasDefaults
pub(super) fn has_defaults(schema: &Value) -> bool {
    Node::read(schema).has_defaults()
}

/// Returns true if the schema or a nested one has an extension of Kubernetes, which only structural schemas may have.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#schemaHasKubernetesExtensions
pub(super) fn has_extensions(schema: &Value) -> bool {
    has(schema, 0, &|schema| {
        let filled = |keyword: &str| !items(schema, keyword).is_empty();
        let set = |keyword: &str| schema.get(keyword).is_some_and(|value| !value.is_null());
        is_true(schema, "x-kubernetes-embedded-resource")
            || set("x-kubernetes-preserve-unknown-fields")
            || is_true(schema, "x-kubernetes-int-or-string")
            || filled("x-kubernetes-list-map-keys")
            || set("x-kubernetes-list-type")
            || filled("x-kubernetes-validations")
    })
}

/// Returns true if the schema or a nested one satisfies a condition.
fn has(schema: &Value, depth: usize, condition: &dyn Fn(&Value) -> bool) -> bool {
    if depth > MAX_DEPTH || schema.as_map().is_none() {
        return false;
    }
    if condition(schema) {
        return true;
    }
    let single_keywords = ["items", "not", "additionalProperties", "additionalItems"];
    let single = single_keywords.into_iter().filter_map(|keyword| schema.get(keyword));
    let lists = ["items", "allOf", "anyOf", "oneOf"];
    let listed = lists.into_iter().flat_map(|keyword| items(schema, keyword));
    let map_keywords = ["properties", "patternProperties", "definitions", "dependencies"];
    let maps = map_keywords
        .into_iter()
        .filter_map(|keyword| schema.get(keyword)?.as_map());
    let named = maps.flatten().map(|(_, of)| of);
    single
        .chain(listed)
        .chain(named)
        .any(|below| has(below, depth + 1, condition))
}

/// Rules that were added after the first version of the API. An update of a CRD that violates one may violate it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strictness(u8);

impl Strictness {
    /// Types are those of OpenAPI.
    pub(super) const TYPES: Self = Self(1);
    /// Items of sets are atomic.
    pub(super) const SET_ITEMS: Self = Self(2);
    /// Keys of lists of type `map` always have a value, and items of sets and of such lists are not nullable.
    pub(super) const LIST_KEYS: Self = Self(4);
    /// All rules.
    pub(super) const ALL: Self = Self(7);

    /// Returns the rules one by one.
    pub(super) fn each(self) -> impl Iterator<Item = Self> {
        let rules = [Self::TYPES, Self::SET_ITEMS, Self::LIST_KEYS];
        rules.into_iter().filter(move |rule| self.contains(*rule))
    }

    /// Returns the rules without `rule`.
    pub(super) fn without(self, rule: Self) -> Self {
        Self(self.0 & !rule.0)
    }

    fn contains(self, rule: Self) -> bool {
        self.0 & rule.0 == rule.0
    }
}

/// Returns true if the schema or a nested one violates one of the rules.
pub(super) fn violates(schema: &Value, rules: Strictness) -> bool {
    has(schema, 0, &|schema| {
        rules.each().any(|rule| {
            let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
            let item = schema.get("items").filter(|item| item.as_map().is_some());
            match (rule, item) {
                (Strictness::TYPES, _) => !is_type(text(schema, "type")),
                (Strictness::SET_ITEMS, Some(item)) => list_type == Some("set") && non_atomic(item).is_some(),
                (_, Some(item)) => !member_errors(schema, item, &FieldPath::default()).is_empty(),
                (_, None) => false,
            }
        })
    })
}

/// The types of OpenAPI.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Returns true if a schema may have this type; an empty one means that it has none.
fn is_type(name: &str) -> bool {
    name.is_empty() || TYPES.contains(&name)
}

/// Returns the extension that makes an item of a set atomic, if the item lacks it.
fn non_atomic(item: &Value) -> Option<&'static str> {
    let (mark, unmarked) = match text(item, "type") {
        "object" => ("x-kubernetes-map-type", false),
        "array" => ("x-kubernetes-list-type", true),
        _ => return None,
    };
    let found = item.get(mark).and_then(Value::as_str);
    (!found.map_or(unmarked, |found| found == "atomic")).then_some(mark)
}

/// Validates the items of a list of type `set` or `map`; `field` is that of the items.
fn member_errors(schema: &Value, item: &Value, field: &FieldPath) -> Errors {
    let mut errors = Errors::new();
    let Some(list_type @ ("set" | "map")) = schema.get("x-kubernetes-list-type").and_then(Value::as_str) else {
        return errors;
    };
    if is_true(item, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&field.child("nullable"), why));
    }
    if list_type == "set" {
        return errors;
    }
    let all_required: SeenValues<&str> = items(item, "required").iter().filter_map(Value::as_str).collect();
    let keys = items(schema, "x-kubernetes-list-map-keys");
    for key in keys.iter().filter_map(Value::as_str) {
        let Some(of) = item.at(&["properties", key]) else {
            continue;
        };
        let field = field.child("properties").key(key);
        let required = all_required.contains(&key);
        if !required && of.get("default").is_none_or(Value::is_null) {
            let why =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(&field.child("default"), why));
        }
        if is_true(of, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&field.child("nullable"), why));
        }
    }
    errors
}

/// Validates the schema of a version by all rules except those that `strictness` lacks.
pub(super) fn validate(schema: &Value, field: &FieldPath, strictness: Strictness) -> Errors {
    let mut check = SchemaCheck {
        errors: Errors::new(),
        strictness,
        depth: 0,
    };
    check.schema(schema, field, true, None);
    check.errors
}

struct SchemaCheck {
    errors: Errors,
    strictness: Strictness,
    depth: usize,
}

impl SchemaCheck {
    /// Validates a schema and all nested ones. `no_defaults` is the reason why defaults are forbidden here.
    fn schema(&mut self, schema: &Value, field: &FieldPath, is_root: bool, no_defaults: Option<&str>) {
        if self.depth > MAX_DEPTH {
            self.errors
                .push(FieldError::forbidden(field, "schemas are nested too deep"));
            return;
        }
        if schema.as_map().is_none() {
            return;
        }
        self.depth += 1;
        self.keywords(schema, field, no_defaults);
        self.below(schema, field, is_root, no_defaults);
        self.extensions(schema, field);
        self.depth -= 1;
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#specStandardValidatorV3.validate
    fn forbid(&mut self, field: &FieldPath, keyword: &str, why: &str) {
        self.errors.push(FieldError::forbidden(&field.child(keyword), why));
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#specStandardValidatorV3.validate
    fn keywords(&mut self, schema: &Value, field: &FieldPath, no_defaults: Option<&str>) {
        let set = |keyword: &str| schema.get(keyword).is_some_and(|value| !value.is_null());
        let filled = |keyword: &str| {
            schema
                .get(keyword)
                .and_then(Value::as_map)
                .is_some_and(|map| !map.is_empty())
        };
        if let Some(place) = no_defaults.filter(|_| set("default")) {
            self.forbid(field, "default", &format!("must not be set {place}"));
        }
        if !text(schema, "id").is_empty() {
            self.forbid(field, "id", "id is not supported");
        }
        if set("additionalItems") {
            self.forbid(field, "additionalItems", "additionalItems is not supported");
        }
        for keyword in ["patternProperties", "definitions"] {
            if filled(keyword) {
                self.forbid(field, keyword, &format!("{keyword} is not supported"));
            }
        }
        if set("dependencies") {
            self.forbid(field, "dependencies", "dependencies is not supported");
        }
        if set("$ref") {
            self.forbid(field, "$ref", "$ref is not supported");
        }
        let schema_type = text(schema, "type");
        if !is_type(schema_type) && self.strictness.contains(Strictness::TYPES) {
            let error = FieldError::not_supported(&field.child("type"), schema_type, &TYPES);
            self.errors.push(error);
        }
        if schema_type == "null" {
            let why = "type cannot be set to null, use nullable as an alternative";
            self.forbid(field, "type", why);
        }
        if !items(schema, "items").is_empty() {
            self.forbid(field, "items", "items must be a schema object and not an array");
        }
        if is_true(schema, "uniqueItems") {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(field, "uniqueItems", why);
        }
    }

    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionOpenAPISchema
    fn below(&mut self, schema: &Value, field: &FieldPath, is_root: bool, no_defaults: Option<&str>) {
        let properties = schema.get("properties").and_then(Value::as_map);
        if let Some(additional) = schema.get("additionalProperties").filter(|value| !value.is_null()) {
            let says = additional.as_map().is_some() || additional.as_bool() == Some(false);
            if says && properties.is_some_and(|properties| !properties.is_empty()) {
                let why = "additionalProperties and properties are mutual exclusive";
                self.forbid(field, "additionalProperties", why);
            }
            self.schema(additional, &field.child("additionalProperties"), false, no_defaults);
        }
        for (name, of) in properties.into_iter().flatten() {
            let place = format!("in top-level {name}");
            let top = is_root && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            let no_defaults = if top { Some(place.as_str()) } else { no_defaults };
            self.schema(of, &field.child("properties").key(name), false, no_defaults);
        }
        if let Some(not) = schema.get("not") {
            self.schema(not, &field.child("not"), false, no_defaults);
        }
        for junctor in ["allOf", "oneOf", "anyOf"] {
            for (at, of) in items(schema, junctor).iter().enumerate() {
                self.schema(of, &field.child(junctor).index(at), false, no_defaults);
            }
        }
        match schema.get("items") {
            Some(Value::List(list)) => {
                for (at, of) in list.iter().enumerate() {
                    self.schema(of, &field.child("items").index(at), false, no_defaults);
                }
            }
            Some(of) => self.schema(of, &field.child("items"), false, no_defaults),
            None => {}
        }
    }

    /// Validates the `x-kubernetes-*` extensions of lists and maps.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionOpenAPISchema
    fn extensions(&mut self, schema: &Value, field: &FieldPath) {
        let schema_type = text(schema, "type");
        if schema
            .get("x-kubernetes-preserve-unknown-fields")
            .and_then(Value::as_bool)
            == Some(false)
        {
            let field = field.child("x-kubernetes-preserve-unknown-fields");
            self.errors
                .push(FieldError::invalid(&field, false, "must be true or undefined"));
        }
        let mark = |name: &str| schema.get(name).and_then(Value::as_str);
        for (name, wanted, supported) in [
            ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
            ("x-kubernetes-list-type", "array", &["atomic", "set", "map"]),
        ] {
            let Some(found) = mark(name) else { continue };
            if schema_type != wanted {
                let (field, why) = (field.child("type"), format!("must be {wanted} if {name} is specified"));
                self.errors.push(if schema_type.is_empty() {
                    FieldError::required(&field, why)
                } else {
                    FieldError::invalid(&field, schema_type, why)
                });
            } else if found == "set"
                && let Some(item) = schema.get("items")
            {
                self.items_of_set(item, &field.child("items"));
            }
            if !supported.contains(&found) {
                let error = FieldError::not_supported(&field.child(name), found, supported);
                self.errors.push(error);
            }
        }
        let list_type = mark("x-kubernetes-list-type");
        if !items(schema, "x-kubernetes-list-map-keys").is_empty() && list_type != Some("map") {
            let (field, why) = (
                field.child("x-kubernetes-list-type"),
                "must be map if x-kubernetes-list-map-keys is non-empty",
            );
            self.errors.push(match list_type {
                None => FieldError::required(&field, why),
                Some(found) => FieldError::invalid(&field, found, why),
            });
        }
        if list_type == Some("map") {
            self.keys(schema, field);
        }
        if let Some(item) = schema.get("items")
            && self.strictness.contains(Strictness::LIST_KEYS)
        {
            self.errors.extend(member_errors(schema, item, &field.child("items")));
        }
    }

    /// Validates the keys of a list of type `map`.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionOpenAPISchema
    #[expect(clippy::indexing_slicing, reason = "the place of one of the keys")]
    fn keys(&mut self, schema: &Value, field: &FieldPath) {
        let (keys, keys_field) = (
            items(schema, "x-kubernetes-list-map-keys"),
            field.child("x-kubernetes-list-map-keys"),
        );
        if keys.is_empty() {
            let why = "must not be empty if x-kubernetes-list-type is map";
            self.errors.push(FieldError::required(&keys_field, why));
        }
        let items_field = field.child("items");
        let Some(item) = schema.get("items").filter(|item| item.as_map().is_some()) else {
            self.errors
                .push(match schema.get("items").filter(|items| !items.is_null()) {
                    None => FieldError::required(&items_field, "must have a schema if x-kubernetes-list-type is map"),
                    Some(several) => FieldError::invalid(
                        &items_field,
                        member_in_full(Some(several), Shown::Items, 0),
                        "must only have a single schema if x-kubernetes-list-type is map",
                    ),
                });
            return;
        };
        if text(item, "type") != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            let error = FieldError::invalid(&items_field.child("type"), text(item, "type"), why);
            self.errors.push(error);
            return;
        }
        let shown = || Value::from(keys.to_vec());
        for (at, key) in keys.iter().enumerate() {
            let name = key.as_str().unwrap_or_default();
            match item.at(&["properties", name]) {
                Some(of) if matches!(text(of, "type"), "array" | "object") => {
                    let field = items_field.child("properties").key(name).child("type");
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.errors.push(FieldError::invalid(&field, text(item, "type"), why));
                }
                Some(_) => {}
                None => {
                    let why = "entries must all be names of item properties";
                    self.errors.push(FieldError::invalid(&keys_field, shown(), why));
                }
            }
            if keys[..at].contains(key) {
                let why = "must not contain duplicate entries";
                self.errors.push(FieldError::invalid(&keys_field, shown(), why));
            }
        }
    }

    /// Validates that the items of a set are atomic.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation#ValidateCustomResourceDefinitionOpenAPISchema
    fn items_of_set(&mut self, item: &Value, field: &FieldPath) {
        if let Some(mark) = non_atomic(item).filter(|_| self.strictness.contains(Strictness::SET_ITEMS)) {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            // The reference shows the list type, for objects too.
            let shown = item.get("x-kubernetes-list-type").cloned().unwrap_or_default();
            self.errors.push(FieldError::invalid(&field.child(mark), shown, why));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn a_schema_is_shown_with_every_keyword() {
        let text = r#"{"type":"object","oneOf":[{"required":["a"]}],"properties":{"a":{"additionalProperties":{"type":"string"}}}}"#;
        let shown = in_full(&json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap(), 0);
        assert_eq!(shown.as_map().unwrap().len(), IN_FULL.len() + 1);
        assert_eq!(shown.str_at(&["Type"]), Some("object"));
        let inner = shown.at(&["Properties", "a", "AdditionalProperties"]).unwrap();
        assert_eq!(inner.str_at(&["Schema", "Type"]), Some("string"));
        let choice = &shown.at(&["OneOf"]).and_then(Value::as_list).unwrap()[0];
        assert_eq!(json::to_string(choice.get("Required").unwrap()), r#"["a"]"#);
        assert_eq!(choice.get("Nullable"), Some(&Value::from(false)));
    }
}
