//! Conversion to OpenAPI version 3, for servers that have only version 2.

use holdfast_value::{List, Map, SmolStr, Value};

/// The prefix of references to schemas, in both versions.
const DEFINITIONS: &str = "#/definitions/";
const SCHEMAS: &str = "#/components/schemas/";

/// The operations of a path.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// The members of an operation that are the same in both versions.
const SAME_OF_OPERATION: [&str; 6] = [
    "description",
    "externalDocs",
    "tags",
    "summary",
    "deprecated",
    "operationId",
];
/// The members of a parameter that are the same in both versions.
const SAME_OF_PARAMETER: [&str; 5] = ["name", "description", "in", "required", "allowEmptyValue"];
/// The members by which a parameter of version 2 describes its value itself.
const OF_SIMPLE_VALUE: [&str; 3] = ["type", "format", "uniqueItems"];
/// The members of a security scheme that are the same in both versions.
const SAME_OF_SCHEME: [&str; 4] = ["description", "type", "name", "in"];

/// Converts a document of version 2 into one of version 3. Some of it is lost, as in the reference's conversion.
pub(crate) fn of_version_2(document: &Value) -> Value {
    let mut converted = Map::new();
    converted.insert("openapi", "3.0.0");
    copy(document, &["info", "externalDocs"], &mut converted);
    let mut components = Map::new();
    let mut convert = |of: &str, as_: &str, change: &dyn Fn(&Value) -> Value| {
        if let Some(entries) = document.get(of).and_then(Value::as_map) {
            components.insert(as_, each(entries, change));
        }
    };
    convert("definitions", "schemas", &schema);
    convert("securityDefinitions", "securitySchemes", &scheme);
    convert("parameters", "parameters", &parameter);
    let produced = texts(document.get("produces"));
    convert("responses", "responses", &|one| response(one, &produced));
    if let Some(paths) = document.get("paths").and_then(Value::as_map) {
        converted.insert("paths", each(paths, &path));
    }
    converted.insert("components", Value::Map(components));
    Value::Map(converted)
}

fn each(entries: &Map, change: &dyn Fn(&Value) -> Value) -> Value {
    let changed = entries.iter().map(|(name, value)| (name.clone(), change(value)));
    Value::Map(changed.collect())
}

fn copy(from: &Value, names: &[&str], to: &mut Map) {
    for name in names {
        if let Some(value) = from.get(name) {
            to.insert(*name, value.clone());
        }
    }
}

/// Copies extensions, which are the same in both versions.
fn copy_extensions(from: &Value, to: &mut Map) {
    let extensions = from.as_map().into_iter().flat_map(|map| map.iter());
    for (name, value) in extensions.filter(|(name, _)| name.starts_with("x-")) {
        to.insert(name.clone(), value.clone());
    }
}

fn texts(list: Option<&Value>) -> Vec<SmolStr> {
    let items = list.and_then(Value::as_list).into_iter().flat_map(|list| list.iter());
    items.filter_map(Value::as_str).map(SmolStr::new).collect()
}

/// Converts a schema and redirects its references. A schema with more members than a reference holds the reference in
/// `allOf`, because a reference allows no other members next to it.
fn schema(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let reference = map.get("$ref").and_then(Value::as_str);
            let moved = reference.and_then(|reference| reference.strip_prefix(DEFINITIONS));
            let mut converted: Map = map
                .iter()
                .filter(|(name, _)| name != "$ref")
                .map(|(name, value)| (name.clone(), schema(value)))
                .collect();
            if let Some(name) = moved {
                let reference = format!("{SCHEMAS}{name}");
                if converted.is_empty() {
                    converted.insert("$ref", reference);
                } else {
                    let mut only = Map::new();
                    only.insert("$ref", reference);
                    converted.insert("allOf", Value::from(vec![Value::Map(only)]));
                }
            }
            Value::Map(converted)
        }
        Value::List(list) => list.iter().map(schema).collect::<Vec<Value>>().into(),
        other => other.clone(),
    }
}

fn scheme(value: &Value) -> Value {
    let mut converted = Map::new();
    copy(value, &SAME_OF_SCHEME, &mut converted);
    copy_extensions(value, &mut converted);
    if let Some(flow) = value.str_at(&["flow"]) {
        let mut urls = Map::new();
        for name in ["authorizationUrl", "tokenUrl", "scopes"] {
            copy(value, &[name], &mut urls);
        }
        let mut flows = Map::new();
        flows.insert(flow, Value::Map(urls));
        converted.insert("flows", Value::Map(flows));
    }
    Value::Map(converted)
}

fn path(value: &Value) -> Value {
    let mut converted = Map::new();
    copy_extensions(value, &mut converted);
    for method in METHODS {
        if let Some(of) = value.get(method) {
            converted.insert(method, operation(of));
        }
    }
    if let Some(parameters) = value.get("parameters").and_then(Value::as_list) {
        converted.insert("parameters", parameters_of(parameters));
    }
    Value::Map(converted)
}

fn parameters_of(list: &List) -> Value {
    list.iter().map(parameter).collect::<Vec<Value>>().into()
}

fn operation(value: &Value) -> Value {
    let mut converted = Map::new();
    copy(value, &SAME_OF_OPERATION, &mut converted);
    copy_extensions(value, &mut converted);
    let (consumed, produced) = (texts(value.get("consumes")), texts(value.get("produces")));
    let mut parameters = Vec::new();
    for one in value
        .get("parameters")
        .and_then(Value::as_list)
        .into_iter()
        .flat_map(|list| list.iter())
    {
        match one.get("schema").filter(|_| one.str_at(&["name"]) == Some("body")) {
            Some(of) => {
                let mut body = Map::new();
                if !consumed.is_empty() {
                    body.insert("content", content(of, &consumed));
                }
                converted.insert("requestBody", Value::Map(body));
            }
            None => parameters.push(parameter(one)),
        }
    }
    if !parameters.is_empty() {
        converted.insert("parameters", Value::from(parameters));
    }
    if let Some(responses) = value.get("responses").and_then(Value::as_map) {
        converted.insert("responses", each(responses, &|one| response(one, &produced)));
    }
    Value::Map(converted)
}

/// Returns the schema of a body in each of its media types.
fn content(of: &Value, media_types: &[SmolStr]) -> Value {
    let mut body = Map::new();
    body.insert("schema", schema(of));
    let types = media_types
        .iter()
        .map(|media_type| (media_type.clone(), Value::Map(body.clone())));
    Value::Map(types.collect())
}

fn response(value: &Value, produced: &[SmolStr]) -> Value {
    let mut converted = Map::new();
    if let Some(reference) = value.str_at(&["$ref"]) {
        converted.insert("$ref", reference.replacen("#/responses/", "#/components/responses/", 1));
    }
    copy(value, &["description"], &mut converted);
    copy_extensions(value, &mut converted);
    if let Some(of) = value.get("schema").filter(|_| !produced.is_empty()) {
        converted.insert("content", content(of, produced));
    }
    Value::Map(converted)
}

fn parameter(value: &Value) -> Value {
    let mut converted = Map::new();
    if let Some(reference) = value.str_at(&["$ref"]) {
        converted.insert(
            "$ref",
            reference.replacen("#/parameters/", "#/components/parameters/", 1),
        );
        return Value::Map(converted);
    }
    copy(value, &SAME_OF_PARAMETER, &mut converted);
    copy_extensions(value, &mut converted);
    let value_schema = match value.get("schema") {
        Some(value_schema) => schema(value_schema),
        None => {
            let mut value_schema = Map::new();
            copy(value, &OF_SIMPLE_VALUE, &mut value_schema);
            Value::Map(value_schema)
        }
    };
    converted.insert("schema", value_schema);
    Value::Map(converted)
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    fn converted(text: &str) -> String {
        json::to_string(&of_version_2(&json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()))
    }

    #[test]
    fn bodies_answers_and_parameters_have_schemas_of_their_own() {
        let document = r##"{"info":{"title":"t","version":"1"},"paths":{"/a":{"parameters":[{"name":"n","in":"path","type":"string",
            "uniqueItems":true,"required":true}],"post":{"operationId":"o","consumes":["application/json"],"produces":["*/*"],
            "parameters":[{"name":"body","in":"body","schema":{"$ref":"#/definitions/A"}},{"$ref":"#/parameters/P"}],
            "responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/A"}}},"x-own":1}}}}"##;
        let expected = concat!(
            r##"{"components":{},"info":{"title":"t","version":"1"},"openapi":"3.0.0","paths":{"/a":{"parameters":[{"in":"path","##,
            r##""name":"n","required":true,"schema":{"type":"string","uniqueItems":true}}],"post":{"operationId":"o","##,
            r##""parameters":[{"$ref":"#/components/parameters/P"}],"requestBody":{"content":{"application/json":{"schema":"##,
            r##"{"$ref":"#/components/schemas/A"}}}},"responses":{"200":{"content":{"*/*":{"schema":"##,
            r##"{"$ref":"#/components/schemas/A"}}},"description":"OK"}},"x-own":1}}}}"##,
        );
        assert_eq!(converted(document), expected);
    }

    #[test]
    fn a_reference_that_says_more_stands_in_a_list() {
        let document = r##"{"definitions":{"A":{"properties":{"b":{"description":"d","$ref":"#/definitions/B"},
            "c":{"type":"array","items":{"$ref":"#/definitions/B"}}}}}}"##;
        let expected = concat!(
            r##"{"components":{"schemas":{"A":{"properties":{"b":{"allOf":[{"$ref":"#/components/schemas/B"}],"description":"d"},"##,
            r##""c":{"items":{"$ref":"#/components/schemas/B"},"type":"array"}}}}},"openapi":"3.0.0"}"##,
        );
        assert_eq!(converted(document), expected);
    }
}
