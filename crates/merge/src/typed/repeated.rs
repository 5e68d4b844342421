//! Items of associative lists whose key occurs more than once.

use holdfast_value::{List, Map, Value};

use super::items::{Groups, names};
use super::{Kind, Typed, deduce, first_kind};
use crate::scan::MAX_DEPTH;
use crate::schema::{ListType, MapType, Relationship, Schema, TypeRef};
use crate::{Path, PathElement};

/// Maximum number of keys that are reported.
const MAX_KEYS: usize = 100;

/// Items of a list with the same key.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_merge::{FieldSpec, ListSpec, MapSpec, Scalar, SchemaBuilder, Typed};
/// use holdfast_value::{Limits, json};
///
/// let ports = FieldSpec::new("ports", ListSpec::set(Scalar::Numeric));
/// let schema = Arc::new(SchemaBuilder::new().define("Thing", MapSpec::from_fields([ports])).build());
/// let thing = schema.named("Thing").unwrap();
/// let value = json::parse(br#"{"ports":[80,80]}"#, &Limits::REQUEST)?;
/// let (_, repeated) = Typed::unchecked(value, schema, thing).unique_items().unwrap();
/// assert_eq!(repeated[0].key.to_string(), "[=80]");
/// assert_eq!(repeated[0].items.len(), 2);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RepeatedItems {
    /// Path of the list.
    pub list: Path,
    /// Key of the items.
    pub key: PathElement,
    /// Positions of the items in the list.
    pub positions: Vec<usize>,
    /// The items.
    pub items: Vec<Value>,
}

impl Typed {
    /// Returns the value with the first of the items with the same key of each associative list, and all of these items.
    /// Lists within them are not searched. `None` if there are too many.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use holdfast_merge::{FieldSpec, ListSpec, MapSpec, Scalar, SchemaBuilder, Typed};
    /// use holdfast_value::{Limits, json};
    ///
    /// let tags = FieldSpec::new("tags", ListSpec::set(Scalar::String));
    /// let schema = Arc::new(SchemaBuilder::new().define("Thing", MapSpec::from_fields([tags])).build());
    /// let thing = schema.named("Thing").unwrap();
    /// let value = json::parse(br#"{"tags":["a","b","a"]}"#, &Limits::REQUEST).unwrap();
    ///
    /// let (unique, repeated) = Typed::unchecked(value, schema, thing).unique_items().unwrap();
    /// assert_eq!(json::to_string(unique.value()), r#"{"tags":["a","b"]}"#);
    /// assert_eq!((repeated[0].list.to_string().as_str(), &repeated[0].positions[..]), (".tags", &[0, 2][..]));
    /// ```
    pub fn unique_items(&self) -> Option<(Typed, Vec<RepeatedItems>)> {
        let mut finder = Finder {
            schema: &self.schema,
            path: Path::new(),
            found: Vec::new(),
        };
        let unique = finder.node(self.type_ref, &self.value);
        let is_complete = finder.found.len() <= MAX_KEYS;
        is_complete.then(|| {
            (
                Typed::unchecked(unique, self.schema.clone(), self.type_ref),
                finder.found,
            )
        })
    }
}

struct Finder<'a> {
    schema: &'a Schema,
    path: Path,
    found: Vec<RepeatedItems>,
}

impl Finder<'_> {
    /// Returns the node without repeated items.
    fn node(&mut self, type_ref: TypeRef, value: &Value) -> Value {
        let resolved = self.schema.resolve(type_ref);
        if resolved.missing || self.path.len() >= MAX_DEPTH {
            return value.clone();
        }
        match (
            first_kind(deduce(resolved, value)),
            &resolved.map,
            &resolved.list,
            value,
        ) {
            (Some(Kind::Map), Some(map), _, Value::Map(entries)) => self.map(map, entries),
            (Some(Kind::List), _, Some(list), Value::List(items)) => self.list(list, items),
            _ => value.clone(),
        }
    }

    fn below(&mut self, element: PathElement, type_ref: TypeRef, value: &Value) -> Value {
        self.path.push(element);
        let unique = self.node(type_ref, value);
        self.path.pop();
        unique
    }

    fn map(&mut self, map: &MapType, entries: &Map) -> Value {
        let mut fields = map.cursor();
        let mut unique = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let type_ref = fields.find(key).map_or(map.element, |field| field.type_ref);
            unique.push((
                key.clone(),
                self.below(PathElement::Field(key.clone()), type_ref, value),
            ));
        }
        Value::Map(Map::from_unsorted(unique))
    }

    fn list(&mut self, list: &ListType, items: &List) -> Value {
        let position = |at: usize| PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX));
        if list.is_atomic() {
            return Value::List(items.clone());
        }
        let is_associative = list.relationship == Relationship::Associative;
        let Some(names) = is_associative.then(|| names(list, items).ok()).flatten() else {
            let numbered = items.iter().enumerate();
            let unique: List = numbered
                .map(|(at, item)| self.below(position(at), list.element, item))
                .collect();
            return Value::List(unique);
        };
        let groups = Groups::new(&names, &[]);
        let positions = groups.positions(&groups.left);
        let mut unique = Vec::with_capacity(items.len());
        for (at, (name, item)) in names.iter().zip(items.iter()).enumerate() {
            let group = groups.left.get(at).and_then(|group| positions.get(*group));
            let same = group.map_or(&[][..], |positions| positions);
            if same.len() > 1 && self.found.len() <= MAX_KEYS && same.first() == Some(&at) {
                self.found.push(RepeatedItems {
                    list: self.path.clone(),
                    key: list.element(name),
                    positions: same.to_vec(),
                    items: same.iter().filter_map(|at| items.get(*at).cloned()).collect(),
                });
            }
            match same {
                [first, _, ..] if *first == at => unique.push(item.clone()),
                [_, _, ..] => {}
                _ => unique.push(self.below(list.element(name), list.element, item)),
            }
        }
        Value::List(List::from(unique))
    }
}
