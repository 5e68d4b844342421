//! Schemas of custom resources in the OpenAPI documents: the schema of a CRD, with the fields that every object has.

use holdfast_resource::{Registry, Served};
use holdfast_schema::{GroupVersion, GroupVersionKind, KindName, PublishedSchema};
use holdfast_value::{Map, SmolStr, Value};

use super::schemas::kind_entry;
use super::{Descriptions, Form, object, texts};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

const PRESERVES: &str = "x-kubernetes-preserve-unknown-fields";

/// Returns true if a schema sets the flag.
fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

/// Returns the built-in types that the schemas of custom resources refer to.
pub(super) fn named_types() -> [String; 2] {
    ["ObjectMeta", "ListMeta"].map(|name| format!("{META}{name}"))
}

/// Returns the title and version of the document of a group version that serves custom resources only.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder#builder.getOpenAPIV3Config
pub(super) fn info() -> Value {
    object([
        ("title", Value::from("Kubernetes CRD Swagger")),
        ("version", Value::from("v0.1.0")),
    ])
}

/// Returns the schemas of the custom resources of a group version, and of lists of them, by their definition names.
pub(super) fn schemas(
    registry: &Registry,
    group_version: &GroupVersion,
    form: Form,
    descriptions: &dyn Descriptions,
) -> Vec<(SmolStr, Value)> {
    let writer = Writer { form, descriptions };
    let mut schemas = Vec::new();
    for served in registry.served_in(group_version) {
        if let Some(schema) = served.version().kind_type.published_schema() {
            schemas.extend([writer.object(&served, &schema), writer.list(&served)]);
        }
    }
    schemas
}

/// Returns the definition names of the custom resources of a group version, and of lists of them.
pub(super) fn names<'r>(
    registry: &'r Registry,
    group_version: &'r GroupVersion,
) -> impl Iterator<Item = SmolStr> + use<'r> {
    let served = registry.served_in(group_version);
    let is_custom = |served: &Served| served.resource.crd.is_some();
    served.filter(is_custom).flat_map(|served| {
        let version = served.version();
        let list = KindName::new(version.group_version.clone(), version.list_kind.clone());
        [version.kind_type.published_name(), list.definition_name()]
    })
}

struct Writer<'a> {
    form: Form,
    descriptions: &'a dyn Descriptions,
}

impl Writer<'_> {
    fn object(&self, served: &Served, published: &PublishedSchema) -> (SmolStr, Value) {
        let (version, kind) = (served.version(), &served.resource.kind);
        let mut schema = self.root(published);
        mark_selectable(&mut schema, &version.field_selectors);
        mark(&mut schema, &version.group_version, kind);
        (version.kind_type.published_name(), schema)
    }

    /// Returns the schema of a kind, with the fields that every object has. Clients treat the specified fields as all
    /// there are, so a kind without a schema has none of them.
    fn root(&self, published: &PublishedSchema) -> Value {
        let any_object = object([("type", Value::from("object"))]);
        let PublishedSchema::Specified {
            schema,
            preserves_unknown,
        } = published
        else {
            return any_object;
        };
        if self.form == Form::V2 && (*preserves_unknown || flag(schema, PRESERVES)) {
            return any_object;
        }
        let mut root = self.schema(schema, 0);
        if root.get("type").is_none() {
            root.set_at(&["type"], "object".into());
        }
        self.add_identity(&mut root, self.descriptions.of_any_kind().0, "ObjectMeta");
        root
    }

    fn list(&self, served: &Served) -> (SmolStr, Value) {
        let (version, resource) = (served.version(), &served.resource);
        let published = version.kind_type.published_name();
        let items = object([
            (
                "description",
                Value::from(format!(
                    "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
                    resource.plural
                )),
            ),
            ("type", Value::from("array")),
            ("items", self.form.reference(&published)),
        ]);
        let mut schema = object([
            (
                "description",
                Value::from(format!("{} is a list of {}", version.list_kind, resource.kind)),
            ),
            ("type", Value::from("object")),
            ("required", texts(["items"])),
            ("properties", object([("items", items)])),
        ]);
        self.add_identity(&mut schema, self.descriptions.of_any_kind().1, "ListMeta");
        mark(&mut schema, &version.group_version, &version.list_kind);
        mark_selectable(&mut schema, &version.field_selectors);
        let list = KindName::new(version.group_version.clone(), version.list_kind.clone());
        (list.definition_name(), schema)
    }

    /// Adds the fields that every object has; `described` is the kind whose name the description of the metadata
    /// contains.
    fn add_identity(&self, schema: &mut Value, described: &str, metadata: &str) {
        for field in ["apiVersion", "kind"] {
            let mut of = object([("type", Value::from("string"))]);
            if let Some(words) = self.descriptions.of_field(self.descriptions.of_any_kind().0, field) {
                of.set_at(&["description"], words.into());
            }
            schema.set_at(&["properties", field], of);
        }
        let reference = self.form.reference(&format!("{META}{metadata}"));
        let mut of = match self.form {
            Form::V2 => reference,
            Form::V3 => object([("allOf", Value::from(vec![reference]))]),
        };
        if let Some(words) = self.descriptions.of_field(described, "metadata") {
            of.set_at(&["description"], words.into());
        }
        schema.set_at(&["properties", "metadata"], of);
    }

    /// Returns a schema of a CRD in this form. The older form has no choices and no null, and its clients treat the
    /// specified fields as all there are.
    fn schema(&self, schema: &Value, depth: usize) -> Value {
        let Some(map) = schema.as_map().filter(|_| depth < 128) else {
            return schema.clone();
        };
        let flag = |name: &str| flag(schema, name);
        let older = self.form == Form::V2;
        let opaque = older && (flag(PRESERVES) || flag("nullable"));
        let mut out = Map::new();
        for (keyword, value) in map {
            match keyword.as_str() {
                "oneOf" | "anyOf" | "allOf" | "not" | "nullable" | "default" if older => {}
                "type" if opaque && (flag("nullable") || matches!(value.as_str(), Some("object" | "array"))) => {}
                "type" if older && value.as_str() == Some("array") && schema.get("items").is_none() => {}
                "properties" | "items" if opaque => {}
                "required" if older => {
                    let kept = required_in_older_form(schema, value);
                    if !kept.is_empty() {
                        out.insert(keyword.clone(), Value::from(kept));
                    }
                }
                "properties" => {
                    let properties: Map = value
                        .as_map()
                        .into_iter()
                        .flatten()
                        .map(|(name, of)| (name.clone(), self.schema(of, depth + 1)))
                        .collect();
                    out.insert(keyword.clone(), properties);
                }
                "items" | "additionalProperties" => {
                    out.insert(keyword.clone(), self.schema(value, depth + 1));
                }
                _ => {
                    out.insert(keyword.clone(), value.clone());
                }
            }
        }
        let mut out = Value::Map(out);
        if flag("x-kubernetes-int-or-string") && !older {
            unfold_int_or_string(&mut out);
        }
        if flag("x-kubernetes-embedded-resource") && !(older && flag(PRESERVES)) {
            self.add_identity(&mut out, self.descriptions.of_any_kind().0, "ObjectMeta");
            require_identity(&mut out);
        }
        out
    }
}

/// Returns the fields that are required and not nullable.
fn required_in_older_form(schema: &Value, required: &Value) -> Vec<Value> {
    let nullable = |of: Option<&Value>| of.is_some_and(|of| flag(of, "nullable"));
    if nullable(schema.get("additionalProperties")) {
        return Vec::new();
    }
    let required = required.as_list().into_iter().flat_map(|list| list.iter());
    required
        .filter(|name| !nullable(name.as_str().and_then(|name| schema.at(&["properties", name]))))
        .cloned()
        .collect()
}

/// Replaces `x-kubernetes-int-or-string` with the choice that it means.
fn unfold_int_or_string(schema: &mut Value) {
    let of_type = |name: &str| object([("type", Value::from(name))]);
    let choice = Value::from(vec![of_type("integer"), of_type("string")]);
    let first = schema.get("allOf").and_then(Value::as_list).and_then(|all| all.first());
    let is_said = schema.get("anyOf") == Some(&choice)
        || first.is_some_and(|first| *first == object([("anyOf", choice.clone())]));
    if is_said {
        return;
    }
    if schema.get("anyOf").is_none() {
        schema.set_at(&["anyOf"], choice);
        return;
    }
    let members = schema
        .get("allOf")
        .and_then(Value::as_list)
        .into_iter()
        .flat_map(|all| all.iter().cloned());
    let all: Vec<Value> = std::iter::once(object([("anyOf", choice)])).chain(members).collect();
    schema.set_at(&["allOf"], all.into());
}

/// Requires an embedded object to specify its apiVersion and kind.
fn require_identity(schema: &mut Value) {
    const CONVENTIONS: &str =
        "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    let mut required: Vec<Value> = schema
        .get("required")
        .and_then(Value::as_list)
        .map(|list| list.to_vec())
        .unwrap_or_default();
    for (name, words) in [
        (
            "kind",
            format!(
                "kind is a string value representing the type of this object. In CamelCase. {CONVENTIONS}#types-kinds"
            ),
        ),
        (
            "apiVersion",
            format!(
                "apiVersion defines the versioned schema of this representation of an object. {CONVENTIONS}#resources"
            ),
        ),
    ] {
        schema.set_at(&["properties", name, "description"], words.into());
        if !required.iter().any(|known| known.as_str() == Some(name)) {
            required.push(name.into());
        }
    }
    schema.set_at(&["required"], required.into());
}

/// Adds the selectable fields.
fn mark_selectable(schema: &mut Value, selectable: &[SmolStr]) {
    let fields: Vec<Value> = selectable
        .iter()
        .map(|path| object([("fieldPath", Value::from(path.as_str()))]))
        .collect();
    if !fields.is_empty() {
        schema.set_at(&["x-kubernetes-selectable-fields"], fields.into());
    }
}

fn mark(schema: &mut Value, group_version: &GroupVersion, kind: &str) {
    let kind = GroupVersionKind {
        group_version: group_version.clone(),
        kind: SmolStr::new(kind),
    };
    schema.set_at(&["x-kubernetes-group-version-kind"], vec![kind_entry(&kind)].into());
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::super::NoDescriptions;
    use super::*;

    #[test]
    fn the_older_form_leaves_out_what_its_clients_cannot_read() {
        let text = r#"{"type":"object","properties":{"a":{"type":"string","nullable":true},
            "b":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"c":{"type":"string"}}},
            "d":{"type":"integer","anyOf":[{"minimum":1}],"default":1}},"required":["a","d"]}"#;
        let schema = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let written = |form| {
            let writer = Writer {
                form,
                descriptions: &NoDescriptions,
            };
            json::to_string(&writer.schema(&schema, 0))
        };
        assert_eq!(
            written(Form::V2),
            r#"{"properties":{"a":{},"b":{"x-kubernetes-preserve-unknown-fields":true},"d":{"type":"integer"}},"required":["d"],"type":"object"}"#
        );
        assert_eq!(written(Form::V3), json::to_string(&schema));
    }

    #[test]
    fn extension_keywords_are_expanded() {
        let text = r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true},
            "b":{"x-kubernetes-int-or-string":true,"anyOf":[{"minimum":1}]},
            "e":{"type":"object","x-kubernetes-embedded-resource":true,"required":["spec"]}}}"#;
        let schema = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
        let writer = Writer {
            form: Form::V3,
            descriptions: &NoDescriptions,
        };
        let written = writer.schema(&schema, 0);
        let at = |path: &[&str]| written.at(path).map(json::to_string).unwrap_or_default();
        let choice = r#"[{"type":"integer"},{"type":"string"}]"#;
        assert_eq!(at(&["properties", "a", "anyOf"]), choice);
        assert_eq!(at(&["properties", "b", "allOf"]), format!(r#"[{{"anyOf":{choice}}}]"#));
        assert_eq!(at(&["properties", "e", "required"]), r#"["spec","kind","apiVersion"]"#);
    }

    #[test]
    fn v2_root_that_preserves_unknown_fields_is_any_object() {
        let schema =
            r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"spec":{"type":"object"}}}"#;
        let schema = json::parse(schema.as_bytes(), &Limits::TRUSTED).unwrap();
        let root = |form| {
            let writer = Writer {
                form,
                descriptions: &NoDescriptions,
            };
            let published = PublishedSchema::Specified {
                schema: schema.clone(),
                preserves_unknown: false,
            };
            writer.root(&published)
        };
        assert_eq!(json::to_string(&root(Form::V2)), r#"{"type":"object"}"#);
        let newer = root(Form::V3);
        assert!(newer.at(&["properties", "metadata"]).is_some() && newer.at(&["properties", "spec"]).is_some());
    }

    #[test]
    fn the_name_of_a_definition_begins_with_its_group_turned_round() {
        assert_eq!(
            KindName::new(GroupVersion::new("a.example.com", "v1"), "Widget".into()).definition_name(),
            "com.example.a.v1.Widget"
        );
    }
}
