//! Objects within objects (`x-kubernetes-embedded-resource`), and metadata, which the object itself has too.

use holdfast_schema::metadata::{formats, validate_embedded_metadata};
use holdfast_schema::types::{ListRebuild, MapRebuild, TypeId, TypeTable, decode};
use holdfast_schema::{FieldError, FieldPath};
use holdfast_value::{Map, Value};

use crate::node::Node;
use crate::prune::Dropped;

/// The type of the metadata of all objects.
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Decoder of metadata: by the type that all objects share.
#[derive(Clone, Copy)]
pub(super) struct Metadata<'t> {
    pub(super) types: &'t TypeTable,
    pub(super) of: TypeId,
    /// True if malformed metadata is dropped rather than rejected: for objects that are already stored.
    pub(super) drops_malformed: bool,
}

impl Metadata<'_> {
    /// Returns the metadata of an object in the form of its type; `None` if it has that form.
    ///
    /// # Errors
    /// If it is malformed.
    pub(super) fn read(&self, metadata: &Value, dropped: &mut Dropped) -> Result<Option<Value>, String> {
        if metadata.is_null() {
            return Ok(Some(Value::empty_map()));
        }
        match decode(self.types, self.of, metadata) {
            Ok(decoded) => {
                for unknown in decoded.unknown {
                    dropped.field("metadata", |dropped| dropped.record(&unknown.path));
                }
                let mut read = decoded.value;
                // For objects without a type of their own, the reference treats an empty list as absent.
                if read
                    .get("managedFields")
                    .and_then(Value::as_list)
                    .is_some_and(|list| list.is_empty())
                {
                    read.remove_at(&["managedFields"]);
                }
                Ok((read != *metadata).then_some(read))
            }
            Err(_) if self.drops_malformed => Ok(Some(self.readable(metadata))),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the fields that are well-formed.
    fn readable(&self, metadata: &Value) -> Value {
        let fields = metadata.as_map().into_iter().flatten();
        let readable: Map = fields
            .filter(|(name, value)| {
                let alone: Map = [((*name).clone(), (*value).clone())].into_iter().collect();
                decode(self.types, self.of, &Value::Map(alone)).is_ok()
            })
            .cloned()
            .collect();
        let decoded = decode(self.types, self.of, &Value::Map(readable));
        decoded
            .map(|decoded| decoded.value)
            .unwrap_or_else(|_| Value::empty_map())
    }
}

/// Converts the metadata of embedded objects in the defaults of a schema into the form of its type, as the reference
/// does while it checks them. Metadata that cannot be decoded stays, to be rejected.
pub fn read_embedded_defaults(schema: &mut Value, types: &TypeTable) {
    let node = Node::read(schema);
    if let Some(of) = types.id(OBJECT_META) {
        let metadata = Metadata {
            types,
            of,
            drops_malformed: false,
        };
        node.read_defaults(schema, metadata, false, true);
    }
}

impl Node {
    /// Converts the metadata in the defaults of `schema`, from which this node was read. Defaults within the metadata
    /// of an object are not defaults of objects.
    fn read_defaults(&self, schema: &mut Value, metadata: Metadata<'_>, within_metadata: bool, is_object: bool) {
        if !self.within.defaults || !self.within.embedded {
            return;
        }
        let is_object = is_object || self.embedded;
        let within_metadata = within_metadata && !is_object;
        if let Some(default) = self.default.as_ref().filter(|_| !within_metadata)
            && let Ok(Some(read)) =
                self.read_embedded(default, &FieldPath::default(), metadata, &mut Dropped::default())
        {
            schema.set_at(&["default"], read);
        }
        let Some(schema) = schema.as_map_mut() else { return };
        if let (Some(items), Some(schema)) = (&self.items, schema.get_mut("items")) {
            items.read_defaults(schema, metadata, within_metadata, false);
        }
        let mut properties = schema.get_mut("properties").and_then(Value::as_map_mut);
        for (name, node) in &self.properties {
            let identity = is_object && matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
            if let Some(schema) = properties.as_mut().and_then(|properties| properties.get_mut(name)) {
                node.read_defaults(schema, metadata, within_metadata || identity, false);
            }
        }
    }

    /// Returns the value with the metadata of embedded objects in its form; `None` if it has that form. The object
    /// itself is not converted.
    ///
    /// # Errors
    /// If metadata is malformed.
    pub(super) fn read_embedded(
        &self,
        value: &Value,
        path: &FieldPath,
        metadata: Metadata<'_>,
        dropped: &mut Dropped,
    ) -> Result<Option<Value>, FieldError> {
        if !self.within.embedded {
            return Ok(None);
        }
        match value {
            Value::Map(map) => {
                let mut rebuild = MapRebuild::new(map);
                for (at, (name, value)) in map.iter().enumerate() {
                    let below = self.path_of(path, name);
                    let identity = self.embedded && matches!(name.as_str(), "apiVersion" | "kind");
                    if identity && !matches!(value, Value::String(_)) {
                        if !metadata.drops_malformed {
                            return Err(FieldError::invalid(&below, value.clone(), "must be a string"));
                        }
                        rebuild.drop(at);
                        continue;
                    }
                    let changed = if self.embedded && name == "metadata" {
                        let read = dropped.field_at(path, |dropped| metadata.read(value, dropped));
                        read.map_err(|why| FieldError::invalid(&below, value.clone(), why))?
                    } else {
                        match self.field(name) {
                            Some(of) => of.read_embedded(value, &below, metadata, dropped)?,
                            None => None,
                        }
                    };
                    rebuild.keep_or_replace(at, changed);
                }
                Ok(rebuild.finish())
            }
            Value::List(list) => {
                let Some(of) = self.items.as_deref() else {
                    return Ok(None);
                };
                let mut rebuild = ListRebuild::new(list);
                for (at, item) in list.iter().enumerate() {
                    rebuild.replace(at, of.read_embedded(item, &path.index(at), metadata, dropped)?);
                }
                Ok(rebuild.finish())
            }
            _ => Ok(None),
        }
    }

    /// Returns the path of a field: `.name` if it is a property, and `[name]` if it is the key of a map. The
    /// identifying fields of an embedded object are properties, whatever its schema specifies.
    fn path_of(&self, path: &FieldPath, name: &str) -> FieldPath {
        let is_identity = self.embedded && matches!(name, "apiVersion" | "kind" | "metadata");
        match is_identity || self.property(name).is_some() {
            true => path.child(name),
            false => path.key(name),
        }
    }

    /// Validates the identity and the metadata of embedded objects.
    ///
    /// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta#Validate
    pub(super) fn validate_embedded(&self, value: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
        if !self.within.embedded {
            return;
        }
        match value {
            Value::Map(map) => {
                if self.embedded {
                    identity(map, path, errors);
                }
                for (name, value) in map {
                    if let Some(of) = self.field(name) {
                        of.validate_embedded(value, &self.path_of(path, name), errors);
                    }
                }
            }
            Value::List(list) => {
                for (at, item) in list.iter().enumerate() {
                    if let Some(of) = self.items.as_deref() {
                        of.validate_embedded(item, &path.index(at), errors);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Validates the identity of an object.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta#validateEmbeddedResource
pub(super) fn identity(object: &Map, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = path.child(name);
        let Some(value) = object.get(name) else {
            errors.push(FieldError::required(&field, ""));
            continue;
        };
        let mut invalid = |why: &str| errors.push(FieldError::invalid(&field, value.clone(), why));
        match value.as_str() {
            None => invalid("must be a string"),
            Some("") => invalid("must not be empty"),
            Some(text) if name == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    invalid(&format!("unexpected GroupVersion string: {text}"));
                }
            }
            Some(text) => {
                let messages = formats::dns_label_1035(&text.to_lowercase());
                if !messages.is_empty() {
                    invalid(&format!(
                        "may have mixed case, but should otherwise match: {}",
                        messages.join(",")
                    ));
                }
            }
        }
    }
    if let Some(metadata) = object.get("metadata") {
        validate_embedded_metadata(&path.child("metadata"), metadata, errors);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::testing::builtin;
    use holdfast_value::{Limits, json};

    use super::*;

    fn tree(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap_or_default()
    }

    #[test]
    fn embedded_objects_in_maps_are_named_by_key() {
        let node = Node::read(&tree(
            r#"{"type":"object","properties":{
                "m":{"type":"object","additionalProperties":{"type":"object","x-kubernetes-embedded-resource":true}},
                "p":{"type":"object","x-kubernetes-embedded-resource":true}}}"#,
        ));
        let object = tree(
            r##"{"m":{"k":{"apiVersion":"v1"},"l":{"apiVersion":"v1","kind":"A","metadata":{"labels":{"a":"#"}}}},"p":{"kind":"A"}}"##,
        );
        let mut errors = Vec::new();
        node.validate_embedded(&object, &FieldPath::new("spec"), &mut errors);
        let texts: Vec<String> = errors.iter().map(|error| error.to_string()).collect();
        let fields: Vec<&str> = texts.iter().filter_map(|text| text.split(": ").next()).collect();
        assert_eq!(
            fields,
            ["spec.m[k].kind", "spec.m[l].metadata.labels", "spec.p.apiVersion"]
        );

        let types = builtin();
        let metadata = Metadata {
            of: types.id(OBJECT_META).unwrap(),
            types: &types,
            drops_malformed: false,
        };
        let number = tree(r#"{"m":{"k":{"apiVersion":1,"kind":"A"}}}"#);
        let error = node
            .read_embedded(&number, &FieldPath::new("spec"), metadata, &mut Dropped::default())
            .err()
            .map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some("spec.m[k].apiVersion: Invalid value: 1: must be a string")
        );
    }
}
