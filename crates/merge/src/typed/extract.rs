//! Extraction of the parts of a value that a set contains.

use holdfast_value::{Entry, List, Map, Value};

use super::items::ItemEntries;
use super::{Kind, Typed, deduce, first_kind};
use crate::schema::{ListType, MapType, Schema, TypeRef};
use crate::set::Level;
use crate::{PathElement, Set};

/// Treatment of the key fields of list items during extraction.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_merge::{FieldSpec, KeyFields, ListSpec, MapSpec, Reference, Scalar, SchemaBuilder, Set, Typed};
/// use holdfast_value::{Limits, json};
///
/// let mut builder = SchemaBuilder::new();
/// let fields = ["name", "image"].map(|name| FieldSpec::new(name, Scalar::String));
/// builder.define("Container", MapSpec::from_fields(fields));
/// builder.define("Pod", MapSpec::from_fields([FieldSpec::new("containers", ListSpec::keyed(Reference::named("Container"), ["name"]))]));
/// let schema = Arc::new(builder.build());
/// let pod = schema.named("Pod").unwrap();
/// let value = json::parse(br#"{"containers":[{"name":"web","image":"nginx"}]}"#, &Limits::REQUEST)?;
/// let typed = Typed::trusted(value, schema, pod);
///
/// let image = Set::from_fields_v1(br#"{"f:containers":{"k:{\"name\":\"web\"}":{"f:image":{}}}}"#)?;
/// let named = typed.extract_items(&image, KeyFields::AsNamed);
/// assert_eq!(named.value().to_string(), r#"{"containers":[{"image":"nginx"}]}"#);
/// let appended = typed.extract_items(&image, KeyFields::Appended);
/// assert_eq!(appended.value().to_string(), r#"{"containers":[{"image":"nginx","name":"web"}]}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFields {
    /// Keeps them only if the set contains them.
    AsNamed,
    /// Keeps them whenever another field of the item is kept, so that the items stay mergeable.
    Appended,
}

impl Typed {
    /// Returns the parts of the value at the paths of a set. Atomic and empty containers are kept whole.
    ///
    /// The set at a map entry's own level selects the content below that entry if the entry is itself in the set, as in the
    /// reference. A list item in the set without paths below it is kept whole.
    pub fn extract_items(&self, items: &Set, key_fields: KeyFields) -> Typed {
        let with_keys = match key_fields {
            KeyFields::AsNamed => items.clone(),
            KeyFields::Appended => self.with_key_fields(items),
        };
        let extractor = Extractor { schema: &self.schema };
        let value = extractor.node(self.type_ref, &self.value, with_keys.level());
        self.with_value(value, self.checked)
    }

    /// Returns the set with the key fields of each item on the way of a path in this value.
    #[expect(clippy::indexing_slicing, reason = "the index of a step of this path")]
    fn with_key_fields(&self, items: &Set) -> Set {
        let Ok(present) = self.to_field_set() else {
            return items.clone();
        };
        let mut keys = Set::new();
        for path in items.paths().filter(|path| present.has(path)) {
            for (at, element) in path.iter().enumerate() {
                let PathElement::Key(key) = element else { continue };
                for (name, _) in key.fields() {
                    let mut to_key = path[..=at].to_vec();
                    to_key.push(PathElement::Field(name.clone()));
                    keys.insert(&to_key);
                }
            }
        }
        items.union(&keys)
    }
}

struct Extractor<'a> {
    schema: &'a Schema,
}

impl Extractor<'_> {
    fn node(&self, type_ref: TypeRef, value: &Value, items: Level<'_>) -> Value {
        let resolved = self.schema.resolve(type_ref);
        if resolved.missing {
            return Value::Null;
        }
        match (
            first_kind(deduce(resolved, value)),
            &resolved.map,
            &resolved.list,
            value,
        ) {
            (Some(Kind::Scalar), ..) => value.clone(),
            (Some(Kind::Map), Some(map), _, Value::Map(entries)) => match map.atomic || entries.is_empty() {
                true => value.clone(),
                false => self.map(map, entries, items),
            },
            (Some(Kind::List), _, Some(list), Value::List(entries)) => match list.is_atomic() || entries.is_empty() {
                true => value.clone(),
                false => self.list(list, entries, items),
            },
            _ => Value::Null,
        }
    }

    fn map(&self, map: &MapType, entries: &[Entry], items: Level<'_>) -> Value {
        let mut fields = map.cursor();
        let mut kept = Vec::new();
        let mut rest = items;
        for (key, value) in entries {
            let Some(entry) = rest.advance_to_field(key) else {
                continue;
            };
            let below = fields.find(key).map_or(map.element, |field| field.type_ref);
            let level = if entry.is_member() { items } else { entry.below() };
            kept.push((key.clone(), self.node(below, value, level)));
        }
        match kept.is_empty() {
            true => Value::Null,
            false => Value::Map(Map::from_sorted(kept)),
        }
    }

    fn list(&self, list: &ListType, entries: &[Value], items: Level<'_>) -> Value {
        let mut kept = Vec::new();
        let items = ItemEntries::from_level(items);
        for item in entries {
            let Some(entry) = items.find(list, item) else {
                continue;
            };
            kept.push(match entry.below().is_empty() {
                true => item.clone(),
                false => self.node(list.element, item, entry.below()),
            });
        }
        match kept.is_empty() {
            true => Value::Null,
            false => Value::List(List::from(kept)),
        }
    }
}
