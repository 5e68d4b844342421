//! Reader of the reference's schema language (`types:` with `name`, `scalar`, `list`, `map`).

use holdfast_value::{Map, SmolStr, Value};

use super::builder::Target;
use super::{FieldSpec, ListSpec, MapSpec, Reference, Relationship, Scalar, SchemaBuilder, SchemaError, TypeSpec};
use crate::scan::MAX_DEPTH;

impl SchemaBuilder {
    /// Reads the types of a document in the schema language of structured-merge-diff.
    ///
    /// # Errors
    /// Fails if a part does not have the shape that the language requires.
    pub fn read(document: &Value) -> Result<SchemaBuilder, SchemaError> {
        let mut builder = SchemaBuilder::new();
        for entry in items(document.get("types"), "types")? {
            let entry = map(entry, "type")?;
            builder.define(text(entry, "name")?, read_type(entry, 0)?);
        }
        Ok(builder)
    }
}

fn read_type(entry: &Map, depth: usize) -> Result<TypeSpec, SchemaError> {
    if depth > MAX_DEPTH {
        return Err(SchemaError::TooDeep);
    }
    Ok(TypeSpec {
        scalar: present(entry, "scalar").map(read_scalar).transpose()?,
        list: present(entry, "list").map(|list| read_list(list, depth)).transpose()?,
        map: present(entry, "map").map(|map| read_map(map, depth)).transpose()?,
    })
}

fn read_scalar(scalar: &Value) -> Result<Scalar, SchemaError> {
    let name = scalar.as_str().ok_or_else(|| shape("scalar", "a string"))?;
    Ok(match name {
        "numeric" => Scalar::Numeric,
        "string" => Scalar::String,
        "boolean" => Scalar::Boolean,
        "untyped" => Scalar::Untyped,
        unknown => Scalar::Unknown(unknown.into()),
    })
}

fn read_list(list: &Value, depth: usize) -> Result<ListSpec, SchemaError> {
    let list = map(list, "list")?;
    let element = match present(list, "elementType") {
        Some(element) => read_reference(element, depth)?,
        None => Reference::inline(TypeSpec::default()),
    };
    let mut keys = Vec::new();
    for key in items(list.get("keys"), "keys")? {
        keys.push(key.as_str().map(SmolStr::new).ok_or_else(|| shape("keys", "strings"))?);
    }
    Ok(ListSpec {
        element,
        relationship: read_relationship(list)?.unwrap_or(Relationship::Separable),
        keys,
    })
}

fn read_map(description: &Value, depth: usize) -> Result<MapSpec, SchemaError> {
    let description = map(description, "map")?;
    let mut fields = Vec::new();
    for field in items(description.get("fields"), "fields")? {
        let field = map(field, "field")?;
        let reference = match present(field, "type") {
            Some(reference) => read_reference(reference, depth)?,
            None => Reference::inline(TypeSpec::default()),
        };
        fields.push(FieldSpec {
            name: text(field, "name")?,
            reference,
            default: present(field, "default").cloned(),
        });
    }
    Ok(MapSpec {
        fields,
        element: present(description, "elementType")
            .map(|element| read_reference(element, depth))
            .transpose()?,
        relationship: read_relationship(description)?.unwrap_or(Relationship::Separable),
    })
}

fn read_reference(reference: &Value, depth: usize) -> Result<Reference, SchemaError> {
    let reference = map(reference, "type reference")?;
    let target = match present(reference, "namedType") {
        Some(name) => Target::Named(name.as_str().ok_or_else(|| shape("namedType", "a string"))?.into()),
        None => Target::Inline(Box::new(read_type(reference, depth + 1)?)),
    };
    Ok(Reference {
        target,
        relationship: read_relationship(reference)?,
    })
}

fn read_relationship(entry: &Map) -> Result<Option<Relationship>, SchemaError> {
    let Some(relationship) = present(entry, "elementRelationship") else {
        return Ok(None);
    };
    match relationship.as_str() {
        Some("atomic") => Ok(Some(Relationship::Atomic)),
        Some("associative") => Ok(Some(Relationship::Associative)),
        // `separable`, `granular` and anything else mean the same.
        Some(_) => Ok(Some(Relationship::Separable)),
        None => Err(shape("elementRelationship", "a string")),
    }
}

fn present<'a>(entry: &'a Map, name: &str) -> Option<&'a Value> {
    entry.get(name).filter(|value| !value.is_null())
}

fn map<'a>(value: &'a Value, place: &str) -> Result<&'a Map, SchemaError> {
    value.as_map().ok_or_else(|| shape(place, "a map"))
}

fn items<'a>(value: Option<&'a Value>, place: &str) -> Result<&'a [Value], SchemaError> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::List(items)) => Ok(items),
        Some(_) => Err(shape(place, "a list")),
    }
}

fn text(entry: &Map, name: &str) -> Result<SmolStr, SchemaError> {
    entry
        .get(name)
        .and_then(Value::as_str)
        .map(SmolStr::new)
        .ok_or_else(|| shape(name, "a string"))
}

fn shape(place: &str, expected: &'static str) -> SchemaError {
    SchemaError::Shape {
        place: place.to_owned(),
        expected,
    }
}
