//! CRDs with the size and shape of those of well-known operators, for tests and benchmarks: certificates, monitoring
//! and compositions.
//!
//! The large ones embed Pods, as those of operators do. Their schemas are generated from a server's own OpenAPI
//! document of `v1` in the way in which controller-gen generates them from Go types: references are inlined, extensions
//! that CRDs do not know are left out, and quantities and ports become int-or-string.

mod certificates;
mod compositions;
mod monitoring;

use serde_json::{Map, Value, json};

pub use certificates::certificates;
pub use compositions::compositions;
pub use monitoring::{collectors, monitoring};

/// Path of the OpenAPI document of the types.
pub const DOCUMENT: &str = "/openapi/v3/api/v1";

/// Prefix of a reference to another schema.
const REFERENCE: &str = "#/components/schemas/";

/// Pattern that controller-gen writes for a quantity.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The types of `v1`, as a server publishes them.
pub struct Types {
    schemas: Map<String, Value>,
}

impl Types {
    /// Reads the document at [`DOCUMENT`]. A document without schemas has no types.
    pub fn from_document(document: &Value) -> Self {
        let schemas = document["components"]["schemas"].as_object();
        Self {
            schemas: schemas.cloned().unwrap_or_default(),
        }
    }

    /// Returns the structural schema of a type of `v1`, such as `Container`, with all referenced types inlined. A
    /// missing type accepts any value.
    pub fn core(&self, name: &str) -> Value {
        self.named(&format!("io.k8s.api.core.v1.{name}"))
    }

    fn named(&self, name: &str) -> Value {
        match name.rsplit('.').next() {
            Some("Quantity") => quantity(),
            Some("IntOrString") => int_or_string(),
            Some("ObjectMeta") => embedded_metadata(),
            _ => self.structural(self.schemas.get(name).unwrap_or(&Value::Null)),
        }
    }

    /// Returns a published schema as a CRD may hold it.
    fn structural(&self, published: &Value) -> Value {
        let Some(published) = published.as_object() else {
            return json!({"x-kubernetes-preserve-unknown-fields": true});
        };
        let target = |schema: &Value| {
            let target = schema["$ref"].as_str()?.strip_prefix(REFERENCE)?;
            Some(self.named(target))
        };
        let whole = Value::Object(published.clone());
        let inlined = target(&whole).or_else(|| target(&whole["allOf"][0]));
        let mut schema = inlined.unwrap_or_else(|| json!({}));
        for (keyword, value) in published {
            let value = match keyword.as_str() {
                "properties" => {
                    let properties = value.as_object().into_iter().flatten();
                    properties
                        .map(|(name, property)| (name.clone(), self.structural(property)))
                        .collect()
                }
                "items" | "additionalProperties" => self.structural(value),
                "$ref" | "allOf" | "oneOf" | "enum" | "default" => continue,
                "x-kubernetes-list-type" | "x-kubernetes-list-map-keys" | "x-kubernetes-map-type" => value.clone(),
                extension if extension.starts_with("x-kubernetes-") => continue,
                _ => value.clone(),
            };
            schema[keyword] = value;
        }
        default_keys(&mut schema);
        schema
    }
}

/// Adds defaults to the keys of a list that are not required, because a list key needs one of both.
fn default_keys(list: &mut Value) {
    let keys = list["x-kubernetes-list-map-keys"].take();
    if keys.is_null() {
        if let Some(list) = list.as_object_mut() {
            list.remove("x-kubernetes-list-map-keys");
        }
        return;
    }
    for key in keys.as_array().into_iter().flatten().filter_map(Value::as_str) {
        let required = list["items"]["required"].as_array();
        if !required.is_some_and(|required| required.iter().any(|name| name == key)) {
            let default = if key == "protocol" { "TCP" } else { "" };
            list["items"]["properties"][key]["default"] = default.into();
        }
    }
    list["x-kubernetes-list-map-keys"] = keys;
}

fn quantity() -> Value {
    json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY, "x-kubernetes-int-or-string": true,
    })
}

fn int_or_string() -> Value {
    json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
}

/// Returns the schema of the metadata that operators let users set on generated objects.
fn embedded_metadata() -> Value {
    object(
        "Labels and annotations of what is made.",
        &[],
        json!({
            "name": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        }),
    )
}

fn object(description: &str, required: &[&str], properties: Value) -> Value {
    let mut schema = json!({"type": "object", "description": description, "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// Returns a list whose items are distinguished by these keys.
fn list_map(keys: &[&str], items: Value) -> Value {
    json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
}

/// Returns the conditions of a status, as `metav1.Condition` has them.
fn conditions() -> Value {
    let condition = object(
        "What is known of one side of the object.",
        &["type", "status", "lastTransitionTime", "reason", "message"],
        json!({
            "type": {"type": "string", "maxLength": 316},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "reason": {"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
            "message": {"type": "string", "maxLength": 32768},
        }),
    );
    list_map(&["type"], condition)
}

/// Returns a selector of objects by their labels.
fn label_selector() -> Value {
    let expression = object(
        "A requirement on the values of a key.",
        &["key", "operator"],
        json!({
            "key": {"type": "string"},
            "operator": {"type": "string"},
            "values": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
        }),
    );
    let mut selector = object(
        "Which objects are meant. An empty selector means all.",
        &[],
        json!({
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
            "matchExpressions": {"type": "array", "items": expression, "x-kubernetes-list-type": "atomic"},
        }),
    );
    selector["x-kubernetes-map-type"] = "atomic".into();
    selector
}

/// Returns a key of a secret.
fn secret_key() -> Value {
    let mut key = object(
        "A key of a Secret in the same namespace.",
        &["key"],
        json!({"name": {"type": "string", "default": ""}, "key": {"type": "string"}, "optional": {"type": "boolean"}}),
    );
    key["x-kubernetes-map-type"] = "atomic".into();
    key
}

/// One version of a CRD.
struct Version {
    name: &'static str,
    spec: Value,
    status: Value,
    columns: Value,
    scale: Value,
}

/// Returns a CRD of versions, of which the first is stored.
fn crd(group: &str, scope: &str, names: &Value, versions: Vec<Version>) -> Value {
    let versions: Vec<Value> = versions
        .into_iter()
        .enumerate()
        .map(|(number, version)| {
            let root = object(
                &format!("{} of {group}.", names["kind"].as_str().unwrap_or_default()),
                &["spec"],
                json!({
                    "apiVersion": text("The version of the schema of this representation."),
                    "kind": text("The kind that this object is of."),
                    "metadata": {"type": "object"},
                    "spec": version.spec,
                    "status": version.status,
                }),
            );
            let mut subresources = json!({"status": {}});
            if !version.scale.is_null() {
                subresources["scale"] = version.scale;
            }
            json!({
                "name": version.name, "served": true, "storage": number == 0,
                "schema": {"openAPIV3Schema": root},
                "subresources": subresources,
                "additionalPrinterColumns": version.columns,
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{group}", names["plural"].as_str().unwrap_or_default()),
            "annotations": {"controller-gen.kubebuilder.io/version": "v0.18.0"},
        },
        "spec": {"group": group, "scope": scope, "names": names, "versions": versions},
    })
}
