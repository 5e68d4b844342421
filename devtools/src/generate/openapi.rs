//! Types as the OpenAPI v2 document has them: fields, shapes, required, enums, markers.

use anyhow::{Context as _, bail};
use holdfast_schema::types::{Field, ListType, MapType, MergeKey, Scalar, Shape, TypeTableBuilder, Union};
use holdfast_schema::{GroupVersion, GroupVersionKind};
use holdfast_value::SmolStr;
use serde_json::Value;

use super::facts::texts;

/// Definitions with a special form.
const SCALARS: [(&str, Scalar); 11] = [
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", Scalar::Quantity),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", Scalar::IntOrString),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", Scalar::Time),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", Scalar::MicroTime),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", Scalar::RawExtension),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", Scalar::FieldsV1),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", Scalar::Patch),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        Scalar::Json,
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
        Scalar::JsonSchemaOrBool,
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
        Scalar::JsonSchemaOrArray,
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
        Scalar::JsonSchemaOrStringArray,
    ),
];

/// Returns the scalar that the definition `name` is, if it is one.
pub(super) fn scalar(name: &str) -> Option<Scalar> {
    SCALARS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, scalar)| *scalar)
}

/// Returns the fields of a definition.
pub(super) fn fields(definition: &Value, builder: &mut TypeTableBuilder) -> anyhow::Result<Vec<Field>> {
    let required = texts(&definition["required"]);
    let properties = definition["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| {
            let mut field = field(name, property, builder).with_context(|| name.clone())?;
            field.required = required.contains(&name.as_str());
            Ok(field)
        })
        .collect()
}

fn field(name: &str, property: &Value, builder: &mut TypeTableBuilder) -> anyhow::Result<Field> {
    let mut field = Field::new(name, shape(property, builder)?);
    let listed = [
        &property["enum"],
        &property["items"]["enum"],
        &property["additionalProperties"]["enum"],
    ];
    field.enum_values = listed.into_iter().flat_map(texts).map(SmolStr::new).collect();
    field.list_type = match property["x-kubernetes-list-type"].as_str() {
        Some("atomic") => Some(ListType::Atomic),
        Some("set") => Some(ListType::Set),
        Some("map") => Some(ListType::Map),
        None => None,
        Some(odd) => bail!("list type {odd}"),
    };
    let keys = texts(&property["x-kubernetes-list-map-keys"]).into_iter();
    field.keys = keys
        .map(|key| MergeKey {
            name: SmolStr::new(key),
            default: None,
        })
        .collect();
    field.map_type = map_type(property)?;
    for strategy in property["x-kubernetes-patch-strategy"]
        .as_str()
        .unwrap_or_default()
        .split(',')
    {
        match strategy {
            "merge" => field.patch.merge = true,
            "replace" => field.patch.replace = true,
            "retainKeys" => field.patch.retain_keys = true,
            "" => {}
            odd => bail!("patch strategy {odd}"),
        }
    }
    field.patch.merge_key = property["x-kubernetes-patch-merge-key"].as_str().map(SmolStr::new);
    Ok(field)
}

fn shape(schema: &Value, builder: &mut TypeTableBuilder) -> anyhow::Result<Shape> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return Ok(Shape::Ref(builder.reference(name)));
    }
    Ok(match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), None) => Shape::String,
        (Some("string"), Some("byte")) => Shape::Bytes,
        (Some("integer"), Some("int32")) => Shape::Int32,
        (Some("integer"), Some("int64")) => Shape::Int64,
        (Some("number"), Some("double")) => Shape::Double,
        (Some("boolean"), None) => Shape::Bool,
        (Some("array"), None) => Shape::List(Box::new(shape(&schema["items"], builder)?)),
        (Some("object"), None) if schema.get("additionalProperties").is_some() => {
            Shape::Map(Box::new(shape(&schema["additionalProperties"], builder)?))
        }
        odd => bail!("type {odd:?}"),
    })
}

/// Returns the map type that a definition or a property states.
pub(super) fn map_type(schema: &Value) -> anyhow::Result<Option<MapType>> {
    Ok(match schema["x-kubernetes-map-type"].as_str() {
        Some("atomic") => Some(MapType::Atomic),
        Some("granular") => Some(MapType::Granular),
        None => None,
        Some(odd) => bail!("map type {odd}"),
    })
}

/// Returns the kinds whose objects are of a definition.
pub(super) fn kinds(definition: &Value) -> Vec<GroupVersionKind> {
    let kinds = definition["x-kubernetes-group-version-kind"]
        .as_array()
        .into_iter()
        .flatten();
    kinds
        .filter_map(|kind| {
            Some(GroupVersionKind {
                group_version: GroupVersion::new(kind["group"].as_str()?, kind["version"].as_str()?),
                kind: SmolStr::new(kind["kind"].as_str()?),
            })
        })
        .collect()
}

/// Returns the unions of a definition.
pub(super) fn unions(definition: &Value) -> Vec<Union> {
    let unions = definition["x-kubernetes-unions"].as_array().into_iter().flatten();
    unions
        .map(|union| {
            let mut fields: Vec<_> = union["fields-to-discriminateBy"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(field, value)| Some((SmolStr::new(field), SmolStr::new(value.as_str()?))))
                .collect();
            fields.sort();
            Union {
                discriminator: union["discriminator"].as_str().map(SmolStr::new),
                fields,
            }
        })
        .collect()
}
