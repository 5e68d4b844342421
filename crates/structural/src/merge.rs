//! Merge schemas of structural schemas, for server-side apply.
//!
//! The reference derives them from the OpenAPI document that it publishes for a CRD. Lists are atomic unless
//! `x-kubernetes-list-type` specifies another type; below a schema that preserves unknown fields, unspecified values
//! merge by their deduced types.

use holdfast_merge::{DEDUCED, FieldSpec, ListSpec, MapSpec, Reference, Scalar, Schema, SchemaBuilder, TypeSpec};
use holdfast_schema::types::{ListType, MapType, TypeId, TypeTable, anything, type_spec};
use holdfast_value::SmolStr;

use crate::node::{Additional, JsonType, Node};

/// Name of the type of the objects themselves.
pub(super) const ROOT: &str = "root";

/// Returns the merge schema of objects without a published schema: every value has its deduced type.
pub(super) fn deduced_schema() -> Schema {
    let mut builder = SchemaBuilder::new();
    builder.define_deduced();
    builder.build()
}

/// Returns the merge schema of objects whose schema is `root`; metadata is of the type `metadata` of `types`.
/// `preserves_unknown` is true if the CRD preserves all unspecified fields.
pub(super) fn merge_schema(root: &Node, preserves_unknown: bool, types: &TypeTable, metadata: TypeId) -> Schema {
    let mut builder = SchemaBuilder::new();
    builder.define_deduced();
    for id in reached(types, metadata) {
        let ty = types.get(id);
        builder.define(ty.name.clone(), type_spec(types, ty));
    }
    let writer = Writer {
        metadata: types.get(metadata).name.clone(),
    };
    let preserves_unknown = preserves_unknown || root.preserves_unknown;
    builder.define(ROOT, writer.object(root, preserves_unknown, true));
    builder.build()
}

struct Writer {
    metadata: SmolStr,
}

impl Writer {
    fn reference(&self, node: &Node, preserves: bool) -> Reference {
        let preserves = preserves || node.preserves_unknown;
        match node.kind {
            Some(JsonType::Object) => self.object(node, preserves, node.embedded).into(),
            None if !node.properties.is_empty() => self.object(node, preserves, node.embedded).into(),
            Some(JsonType::Array) => self.list(node, preserves).into(),
            Some(JsonType::Integer | JsonType::Number) => Scalar::Numeric.into(),
            Some(JsonType::Boolean) => Scalar::Boolean.into(),
            Some(JsonType::String) => {
                let format = node.checks.as_ref().map_or("", |checks| checks.format.as_str());
                match format {
                    "date-time" | "datetime" => Scalar::Untyped.into(),
                    _ => Scalar::String.into(),
                }
            }
            Some(JsonType::Unknown) | None => Reference::inline(anything()),
        }
    }

    fn object(&self, node: &Node, preserves: bool, is_object: bool) -> TypeSpec {
        let mut fields: Vec<FieldSpec> = node
            .properties
            .iter()
            .filter(|(name, _)| !(is_object && name == "metadata"))
            .map(|(name, of)| FieldSpec {
                name: name.clone(),
                reference: self.reference(of, preserves),
                default: of.default.clone(),
            })
            .collect();
        if is_object {
            for name in ["apiVersion", "kind"] {
                if node.property(name).is_none() {
                    fields.push(FieldSpec::new(name, Scalar::String));
                }
            }
            fields.push(FieldSpec::new("metadata", Reference::named(self.metadata.clone())));
        }
        let free = || Some(Reference::named(DEDUCED));
        let element = match &node.additional {
            Additional::Schema(of) => Some(self.reference(of, preserves)),
            Additional::Allowed(true) => free(),
            Additional::Allowed(false) => None,
            Additional::Unsaid if preserves || node.properties.is_empty() => free(),
            Additional::Unsaid => None,
        };
        let mut map = MapSpec::from_fields(fields);
        map.element = element;
        match node.map_type {
            Some(MapType::Atomic) => map.atomic().into(),
            Some(MapType::Granular) | None => map.into(),
        }
    }

    fn list(&self, node: &Node, preserves: bool) -> TypeSpec {
        let item = match &node.items {
            Some(of) => self.reference(of, preserves),
            None => Reference::named(DEDUCED),
        };
        match node.list_type {
            Some(ListType::Set) => ListSpec::set(item).into(),
            Some(ListType::Map) => ListSpec::keyed(item, node.list_map_keys.iter().cloned()).into(),
            Some(ListType::Atomic) | None => ListSpec::atomic(item).into(),
        }
    }
}

/// Returns the types that values of type `root` consist of, including itself.
fn reached(types: &TypeTable, root: TypeId) -> Vec<TypeId> {
    let (mut found, mut at) = (vec![root], 0);
    while let Some(id) = found.get(at).copied() {
        at += 1;
        for field in types.get(id).fields() {
            if let Some(id) = field.shape.type_id()
                && !found.contains(&id)
            {
                found.push(id);
            }
        }
    }
    found
}
