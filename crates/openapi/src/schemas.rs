//! The schema of a type in both forms of OpenAPI.

use std::collections::BTreeSet;

use holdfast_schema::GroupVersionKind;
use holdfast_schema::types::{
    Field, ListType, MapType, Scalar, Shape, Type, TypeId, TypeKind, TypeTable, Union, stated_default,
};
use holdfast_value::{Map, SmolStr, Value};

use super::{Descriptions, Form, object, texts};

/// Writer of the schemas of the types of a table.
pub(super) struct SchemaWriter<'a> {
    pub(super) table: &'a TypeTable,
    pub(super) descriptions: &'a dyn Descriptions,
    pub(super) form: Form,
    /// True if the values that fields may have are listed.
    pub(super) lists_values: bool,
}

impl SchemaWriter<'_> {
    /// Returns the schema of the type. `is_listed` returns true for the kinds that the document lists.
    pub(super) fn schema(&self, of: &Type, is_listed: &dyn Fn(&GroupVersionKind) -> bool) -> Value {
        let mut schema = match &of.kind {
            TypeKind::Scalar(scalar) => self.scalar(*scalar),
            TypeKind::Struct(fields) => {
                let mut schema = Map::new();
                schema.insert("type", "object");
                let mut required: Vec<_> = fields.iter().filter(|field| field.required).collect();
                required.sort_by_key(|field| field.place());
                let required: Vec<_> = required.iter().map(|field| field.name.as_str()).collect();
                if !required.is_empty() {
                    schema.insert("required", texts(required));
                }
                if !fields.is_empty() {
                    let properties = fields.iter().map(|field| (field.name.clone(), self.field(of, field)));
                    schema.insert("properties", Map::from_sorted(properties.collect()));
                }
                schema
            }
        };
        if let Some(description) = self.descriptions.of_type(&of.name) {
            schema.insert("description", description);
        }
        if let Some(map_type) = of.map_type {
            schema.insert("x-kubernetes-map-type", map_type_name(map_type));
        }
        let kinds: Vec<Value> = of.kinds.iter().filter(|kind| is_listed(kind)).map(kind_entry).collect();
        if !kinds.is_empty() {
            schema.insert("x-kubernetes-group-version-kind", kinds);
        }
        if !of.unions.is_empty() {
            let unions: Vec<Value> = of.unions.iter().map(union_entry).collect();
            schema.insert("x-kubernetes-unions", unions);
        }
        Value::Map(schema)
    }

    fn scalar(&self, scalar: Scalar) -> Map {
        let typed = |name: &str| Map::from_iter([(SmolStr::new_static("type"), Value::from(name))]);
        let one_of = |names: [&str; 2]| {
            let choices = names.map(|name| Value::Map(typed(name))).to_vec();
            Map::from_iter([(SmolStr::new_static("oneOf"), Value::from(choices))])
        };
        match (scalar, self.form) {
            (Scalar::Quantity, Form::V2) => typed("string"),
            (Scalar::Quantity, Form::V3) => one_of(["string", "number"]),
            (Scalar::IntOrString, form) => {
                let mut schema = match form {
                    Form::V2 => typed("string"),
                    Form::V3 => one_of(["integer", "string"]),
                };
                schema.insert("format", "int-or-string");
                schema
            }
            (Scalar::Time | Scalar::MicroTime, _) => {
                let mut schema = typed("string");
                schema.insert("format", "date-time");
                schema
            }
            (Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Patch, _) => typed("object"),
            (
                Scalar::Json | Scalar::JsonSchemaOrBool | Scalar::JsonSchemaOrArray | Scalar::JsonSchemaOrStringArray,
                _,
            ) => Map::new(),
        }
    }

    fn field(&self, of: &Type, field: &Field) -> Value {
        let mut schema = match (&field.shape, self.form) {
            (Shape::Ref(_), Form::V3) => Map::new(),
            (shape, _) if self.lists_values => self.shape(shape, &field.enum_values),
            (shape, _) => self.shape(shape, &[]),
        };
        if let Some(description) = self.field_description(of, field) {
            schema.insert("description", description);
        }
        if let Some(default) = stated_default(self.table, field).filter(|_| self.form == Form::V3) {
            schema.insert("default", default);
        }
        if let Some(list_type) = field.list_type {
            let name = match list_type {
                ListType::Atomic => "atomic",
                ListType::Set => "set",
                ListType::Map => "map",
            };
            schema.insert("x-kubernetes-list-type", name);
        }
        if !field.keys.is_empty() {
            schema.insert(
                "x-kubernetes-list-map-keys",
                texts(field.keys.iter().map(|key| &key.name)),
            );
        }
        if let Some(map_type) = field.map_type {
            schema.insert("x-kubernetes-map-type", map_type_name(map_type));
        }
        if let Some(key) = &field.patch.merge_key {
            schema.insert("x-kubernetes-patch-merge-key", key.clone());
        }
        let strategies = [
            (field.patch.merge, "merge"),
            (field.patch.replace, "replace"),
            (field.patch.retain_keys, "retainKeys"),
        ];
        let tags: Vec<&str> = strategies
            .into_iter()
            .filter(|(set, _)| *set)
            .map(|(_, name)| name)
            .collect();
        if !tags.is_empty() {
            schema.insert("x-kubernetes-patch-strategy", tags.join(","));
        }
        if let (Shape::Ref(id), Form::V3) = (&field.shape, self.form) {
            let reference = self.form.reference(&self.table.get(*id).name);
            if schema.is_empty() {
                return reference;
            }
            // In v3 a reference excludes all other keys of its schema, so with other keys the reference goes into
            // `allOf`.
            schema.insert("allOf", Value::from(vec![reference]));
        }
        Value::Map(schema)
    }

    /// Returns the description of a field. If a field has a fixed set of values, they follow its text, so that
    /// `kubectl explain` prints them. The items of lists and the values of maps are not listed.
    fn field_description(&self, of: &Type, field: &Field) -> Option<String> {
        let text = self.descriptions.of_field(&of.name, &field.name)?;
        let is_collection = matches!(field.shape, Shape::List(_) | Shape::Map(_));
        if !self.lists_values || is_collection || field.enum_values.is_empty() {
            return Some(text.to_owned());
        }
        let lines = field.enum_values.iter().map(|value| format!("\n - `\"{value}\"`"));
        Some(format!("{text}\n\nPossible enum values:{}", lines.collect::<String>()))
    }

    /// Returns the schema of a shape; listed values belong to the innermost scalar.
    fn shape(&self, shape: &Shape, listed: &[SmolStr]) -> Map {
        let (name, format) = match shape {
            Shape::String => ("string", None),
            Shape::Bytes => ("string", Some("byte")),
            Shape::Int32 => ("integer", Some("int32")),
            Shape::Int64 => ("integer", Some("int64")),
            Shape::Double => ("number", Some("double")),
            Shape::Bool => ("boolean", None),
            Shape::List(_) => ("array", None),
            Shape::Map(_) => ("object", None),
            Shape::Any => return Map::new(),
            Shape::Ref(id) => {
                return match self.form.reference(&self.table.get(*id).name) {
                    Value::Map(reference) => reference,
                    _ => Map::new(),
                };
            }
        };
        let mut schema = Map::new();
        schema.insert("type", name);
        if let Some(format) = format {
            schema.insert("format", format);
        }
        match shape {
            Shape::List(item) => {
                schema.insert("items", self.shape(item, listed));
            }
            Shape::Map(value) => {
                schema.insert("additionalProperties", self.shape(value, listed));
            }
            _ if !listed.is_empty() => {
                schema.insert("enum", texts(listed));
            }
            _ => {}
        }
        schema
    }
}

/// Returns the types that those of `roots` consist of, including themselves.
pub(super) fn closure(table: &TypeTable, roots: BTreeSet<TypeId>) -> BTreeSet<TypeId> {
    let mut found = BTreeSet::new();
    let mut open: Vec<TypeId> = roots.into_iter().collect();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(table.get(id).fields().iter().filter_map(|field| field.shape.type_id()));
        }
    }
    found
}

fn map_type_name(map_type: MapType) -> &'static str {
    match map_type {
        MapType::Atomic => "atomic",
        MapType::Granular => "granular",
    }
}

/// Returns a kind in the form of the extension `x-kubernetes-group-version-kind`.
pub(super) fn kind_entry(kind: &GroupVersionKind) -> Value {
    object([
        ("group", Value::from(kind.group_version.group.clone())),
        ("version", Value::from(kind.group_version.version.clone())),
        ("kind", Value::from(kind.kind.clone())),
    ])
}

fn union_entry(union: &Union) -> Value {
    let fields = union
        .fields
        .iter()
        .map(|(field, value)| (field.clone(), Value::from(value.clone())));
    let mut entry = Map::new();
    entry.insert("fields-to-discriminateBy", fields.collect::<Map>());
    if let Some(discriminator) = &union.discriminator {
        entry.insert("discriminator", discriminator.clone());
    }
    Value::Map(entry)
}
