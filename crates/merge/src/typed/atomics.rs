//! Maps and lists of a value that are replaced as a whole.

use holdfast_value::Value;

use super::Typed;
use crate::PathElement;
use crate::schema::{Schema, TypeRef};

impl Typed {
    /// Returns the paths of the maps and lists of this value that are atomic by their type, in the form of messages.
    /// Does not descend into map entries that are not declared fields.
    pub fn atomics(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.schema, self.type_ref, &self.value, &mut String::new(), &mut found);
        found
    }
}

fn walk(schema: &Schema, type_ref: TypeRef, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let resolved = schema.resolve(type_ref);
    let begun = path.len();
    match (value, &resolved.map, &resolved.list) {
        (Value::Map(map), Some(map_type), _) => {
            if map_type.atomic {
                found.push(path.clone());
            }
            for (key, entry) in map {
                if let Some(field) = map_type.field(key) {
                    path.push_str(&PathElement::Field(key.clone()).to_string());
                    walk(schema, field.type_ref, entry, path, found);
                    path.truncate(begun);
                }
            }
        }
        (Value::List(items), _, Some(list_type)) => {
            if list_type.is_atomic() {
                found.push(path.clone());
            }
            for (index, item) in items.iter().enumerate() {
                path.push_str(&PathElement::Index(index as i64).to_string());
                walk(schema, list_type.element, item, path, found);
                path.truncate(begun);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use holdfast_value::{Limits, json};

    use crate::{Duplicates, FieldSpec, ListSpec, MapSpec, Reference, Scalar, SchemaBuilder, Typed};

    #[test]
    fn atomic_containers_are_listed_by_path() {
        let built = SchemaBuilder::new()
            .define(
                "Item",
                MapSpec::from_fields([
                    FieldSpec::new("name", Scalar::String),
                    FieldSpec::new("ports", ListSpec::atomic(Scalar::Numeric)),
                ]),
            )
            .define(
                "Root",
                MapSpec::from_fields([
                    FieldSpec::new("items", ListSpec::keyed(Reference::named("Item"), ["name"])),
                    FieldSpec::new("words", ListSpec::atomic(Scalar::String)),
                ]),
            )
            .build();
        let schema = Arc::new(built);
        let root = schema.named("Root").unwrap();
        let atomics = |text: &str| {
            let value = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
            Typed::new(value, schema.clone(), root, Duplicates::Rejected)
                .unwrap()
                .atomics()
        };
        assert_eq!(atomics(r#"{"items":[{"name":"a"}]}"#), Vec::<String>::new());
        assert_eq!(
            atomics(r#"{"items":[{"name":"a","ports":[1]}],"words":["x"]}"#),
            [".items[0].ports", ".words"]
        );
    }
}
