//! The merge schema of a table of types, for server-side apply.
//!
//! The reference derives it from the same definitions that it publishes as OpenAPI v3; this module derives it from the
//! table.

use holdfast_merge::{
    DEDUCED, FieldSpec, ListSpec, MapSpec, Reference, Relationship, Scalar as MergeScalar, Schema, SchemaBuilder,
    TypeSpec, UNTYPED_ATOMIC,
};
use holdfast_value::Value;

use crate::types::{Field, ListType, MapType, Omission, Scalar, Shape, Type, TypeKind, TypeTable};

/// Returns the merge schema of all types of a table, by their definition names.
pub fn merge_schema(table: &TypeTable) -> Schema {
    let mut builder = SchemaBuilder::new();
    builder.define_deduced();
    for (_, of) in table.iter() {
        builder.define(of.name.clone(), type_spec(table, of));
    }
    builder.build()
}

/// Returns the merge schema of one type of the table.
pub fn type_spec(table: &TypeTable, of: &Type) -> TypeSpec {
    let map = match &of.kind {
        // A definition that is an object without further properties may hold anything.
        TypeKind::Struct(fields) if fields.is_empty() => MapSpec::new(anything()),
        TypeKind::Struct(fields) => MapSpec::from_fields(fields.iter().map(|field| FieldSpec {
            name: field.name.clone(),
            reference: field_reference(table, field),
            default: stated_default(table, field),
        })),
        // The field manager that sets an embedded object owns it as a whole.
        TypeKind::Scalar(Scalar::RawExtension) => MapSpec::new(anything()).atomic(),
        TypeKind::Scalar(Scalar::FieldsV1 | Scalar::Patch) => MapSpec::new(anything()),
        // The type of each value is determined when the object is read.
        TypeKind::Scalar(
            Scalar::IntOrString
            | Scalar::Json
            | Scalar::JsonSchemaOrBool
            | Scalar::JsonSchemaOrArray
            | Scalar::JsonSchemaOrStringArray,
        ) => return anything(),
        TypeKind::Scalar(_) => return MergeScalar::Untyped.into(),
    };
    match of.map_type {
        Some(MapType::Atomic) => map.atomic().into(),
        Some(MapType::Granular) | None => map.into(),
    }
}

fn field_reference(table: &TypeTable, field: &Field) -> Reference {
    match (&field.shape, field.map_type) {
        (Shape::List(item), _) => {
            let item = shape_reference(table, item);
            match field.list_type {
                Some(ListType::Set) => ListSpec::set(item).into(),
                Some(ListType::Map) => ListSpec::keyed(item, field.keys.iter().map(|key| key.name.clone())).into(),
                Some(ListType::Atomic) | None => ListSpec::atomic(item).into(),
            }
        }
        (Shape::Map(value), map_type) => {
            let map = MapSpec::new(shape_reference(table, value));
            match map_type {
                Some(MapType::Atomic) => map.atomic().into(),
                Some(MapType::Granular) | None => map.into(),
            }
        }
        (shape, Some(MapType::Atomic)) => shape_reference(table, shape).with_relationship(Relationship::Atomic),
        (shape, Some(MapType::Granular)) => shape_reference(table, shape).with_relationship(Relationship::Separable),
        (shape, None) => shape_reference(table, shape),
    }
}

fn shape_reference(table: &TypeTable, shape: &Shape) -> Reference {
    match shape {
        Shape::String | Shape::Bytes => MergeScalar::String.into(),
        Shape::Int32 | Shape::Int64 | Shape::Double => MergeScalar::Numeric.into(),
        Shape::Bool => MergeScalar::Boolean.into(),
        Shape::Any => Reference::inline(anything()),
        Shape::Ref(id) => Reference::named(table.get(*id).name.clone()),
        Shape::List(item) => ListSpec::atomic(shape_reference(table, item)).into(),
        Shape::Map(value) => MapSpec::new(shape_reference(table, value)).into(),
    }
}

/// Returns the spec of any value: maps by their entries, lists as a whole.
pub fn anything() -> TypeSpec {
    TypeSpec {
        scalar: Some(MergeScalar::Untyped),
        list: Some(ListSpec::atomic(Reference::named(UNTYPED_ATOMIC))),
        map: Some(MapSpec::new(Reference::named(DEDUCED))),
    }
}

/// Returns the default in the definition of a field: the one that is marked in the source, otherwise the zero value of
/// a field that is never left out. It replaces a key field that an item leaves out.
pub fn stated_default(table: &TypeTable, field: &Field) -> Option<Value> {
    let never_absent = !field.pointer && field.omission == Omission::Never;
    match field.shape {
        _ if field.default_published && field.default.is_some() => field.default.clone(),
        Shape::String | Shape::Int32 | Shape::Int64 | Shape::Double | Shape::Bool
            if field.default_published || never_absent =>
        {
            Some(table.zero(&field.shape))
        }
        Shape::Ref(id) if !field.pointer && matches!(table.get(id).kind, TypeKind::Struct(_)) => {
            Some(Value::empty_map())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"package v1 io.example.v1

type v1.Outer struct
  any any 1
  labels {}string 2 map-atomic
  odd []string 3 set
  plain []v1.Outer 4
  port v1.Port 5 map-granular
  ports []v1.Port 6 keys(number,protocol="TCP")
  size v1.Quantity 7
  raw v1.RawExtension 8

type v1.Port struct atomic
  number int32 1 required never
  protocol string 2 published default="TCP"

type v1.Quantity quantity

type v1.RawExtension raw-extension
"#;

    fn reference_to(of: &str, field: &str) -> TypeSpec {
        let table = TypeTable::parse(TABLE).unwrap();
        let ty = table.get(table.id(&format!("io.example.v1.{of}")).unwrap());
        match field_reference(&table, ty.field(field).unwrap()).target {
            holdfast_merge::Target::Inline(spec) => *spec,
            holdfast_merge::Target::Named(name) => {
                let id = table.id(&name).unwrap();
                type_spec(&table, table.get(id))
            }
        }
    }

    #[test]
    fn lists_merge_as_they_are_marked() {
        let relationship = |field| reference_to("Outer", field).list.unwrap().relationship;
        assert_eq!(relationship("plain"), Relationship::Atomic);
        assert_eq!(relationship("odd"), Relationship::Associative);
        let ports = reference_to("Outer", "ports").list.unwrap();
        assert_eq!((ports.relationship, ports.keys.len()), (Relationship::Associative, 2));
    }

    #[test]
    fn maps_merge_as_they_are_marked() {
        assert_eq!(
            reference_to("Outer", "labels").map.unwrap().relationship,
            Relationship::Atomic
        );
        let table = TypeTable::parse(TABLE).unwrap();
        let outer = table.get(table.id("io.example.v1.Outer").unwrap());
        let port = field_reference(&table, outer.field("port").unwrap());
        assert_eq!(port.relationship, Some(Relationship::Separable));
    }

    #[test]
    fn types_of_their_own_form_are_scalars_and_raw_ones_deduced() {
        assert_eq!(reference_to("Outer", "size").scalar, Some(MergeScalar::Untyped));
        let raw = reference_to("Outer", "raw").map.unwrap();
        assert!(raw.element.is_some() && raw.fields.is_empty());
        assert!(reference_to("Outer", "any").map.is_some());
    }

    #[test]
    fn a_key_that_is_left_out_has_its_stated_default() {
        let port = reference_to("Outer", "port").map.unwrap();
        let defaults: Vec<_> = port.fields.iter().map(|field| field.default.clone()).collect();
        assert_eq!(defaults, [Some(Value::Int(0)), Some(Value::from("TCP"))]);
    }
}
