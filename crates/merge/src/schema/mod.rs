//! Merge schemas: the rules by which each part of an object merges.
//!
//! A [`Schema`] is immutable and shared. [`SchemaBuilder`] describes it and resolves every reference to an index once;
//! walks over objects then follow indexes. The terms are those of the Kubernetes [merge strategy
//! markers](https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy).

mod builder;
mod reader;

use std::collections::HashMap;

use holdfast_value::{Names, SmolStr, Value};

pub use builder::{FieldSpec, ListSpec, MapSpec, Reference, SchemaBuilder, SchemaError, Target, TypeSpec};

/// Set of types that refer to one another.
///
/// ```
/// use holdfast_merge::{DEDUCED, SchemaBuilder};
///
/// let mut builder = SchemaBuilder::new();
/// builder.define_deduced();
/// let schema = builder.build();
/// assert!(schema.named(DEDUCED).is_some());
/// assert!(schema.named("Deployment").is_none());
/// ```
#[derive(Debug)]
pub struct Schema {
    types: Vec<Type>,
    names: HashMap<SmolStr, TypeRef>,
}

/// Type of a schema, by index. It is valid only with the schema that returned it.
///
/// ```
/// use holdfast_merge::{MapSpec, Scalar, SchemaBuilder, TypeRef};
///
/// let mut builder = SchemaBuilder::new();
/// builder.define("Labels", MapSpec::new(Scalar::String));
/// let schema = builder.build();
/// let labels: TypeRef = schema.named("Labels").unwrap();
/// assert_eq!(schema.named("Labels"), Some(labels));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeRef(u32);

/// Type: the kinds of value that it allows. Most types allow one kind.
#[derive(Clone, Debug, Default)]
pub struct Type {
    /// Declared name; `None` for inline types.
    pub(crate) name: Option<SmolStr>,
    /// True if the referenced type is not defined.
    pub(crate) missing: bool,
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<ListType>,
    pub(crate) map: Option<MapType>,
}

/// Values that a scalar may have. Null is allowed everywhere.
///
/// ```
/// use std::sync::Arc;
/// use holdfast_merge::{Duplicates, FieldSpec, MapSpec, Scalar, SchemaBuilder, Typed};
/// use holdfast_value::{Limits, json};
///
/// let replicas = FieldSpec::new("replicas", Scalar::Numeric);
/// let schema = Arc::new(SchemaBuilder::new().define("Scale", MapSpec::from_fields([replicas])).build());
/// let scale = schema.named("Scale").unwrap();
/// let is_valid = |text: &str| {
///     let value = json::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
///     Typed::new(value, schema.clone(), scale, Duplicates::Rejected).is_ok()
/// };
/// assert!(is_valid(r#"{"replicas":1}"#) && is_valid(r#"{"replicas":null}"#));
/// assert!(!is_valid(r#"{"replicas":"1"}"#));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Integers and floats.
    Numeric,
    /// Text.
    String,
    /// True or false.
    Boolean,
    /// Any scalar.
    Untyped,
    /// An unknown name: only null is valid.
    Unknown(SmolStr),
}

/// Ownership of a map or list: as a whole or item by item.
///
/// ```
/// use holdfast_merge::{ListSpec, Relationship, Scalar};
///
/// let finalizers = ListSpec::set(Scalar::String);
/// assert_eq!(finalizers.relationship, Relationship::Associative);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relationship {
    /// The map or list is owned and replaced as a whole.
    Atomic,
    /// Each item has its own owners. Lists need this to have separate items; keys, if any, identify the items.
    Associative,
    /// Each entry has its own owners: the default of maps.
    Separable,
}

/// A list.
#[derive(Clone, Debug)]
pub(crate) struct ListType {
    pub(crate) element: TypeRef,
    pub(crate) relationship: Relationship,
    /// Fields that identify an item, sorted; empty for sets.
    pub(crate) keys: Box<[KeyField]>,
    /// Names of the key fields in their declared order.
    pub(crate) declared_keys: Box<[SmolStr]>,
    /// True if the items' type allows maps. Only maps can have keys.
    pub(crate) items_are_maps: bool,
}

/// Field that identifies list items, with the value for items that lack it.
#[derive(Clone, Debug)]
pub(crate) struct KeyField {
    pub(crate) name: SmolStr,
    pub(crate) default: Option<Value>,
}

/// A map or struct.
#[derive(Clone, Debug)]
pub(crate) struct MapType {
    /// Declared fields.
    pub(crate) fields: Fields,
    /// Type of entries that are not declared fields; [`TypeRef::NONE`] if none are allowed.
    pub(crate) element: TypeRef,
    pub(crate) atomic: bool,
    /// True for a map of arbitrary content, whose type is deduced from its values.
    pub(crate) deduced: bool,
}

/// A declared field.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: SmolStr,
    pub(crate) type_ref: TypeRef,
    pub(crate) default: Option<Value>,
    /// True if the name needs no escape in the text of a field set.
    pub(crate) is_plain: bool,
}

/// Name of the type that deduces merge rules from the values.
pub const DEDUCED: &str = "__untyped_deduced_";

/// Name of the type that accepts any value as a whole.
pub const UNTYPED_ATOMIC: &str = "__untyped_atomic_";

impl TypeRef {
    /// Type without allowed kinds, for undeclared types.
    pub(crate) const NONE: TypeRef = TypeRef(0);
}

impl Schema {
    /// Returns the type of this name.
    pub fn named(&self, name: &str) -> Option<TypeRef> {
        self.names.get(name).copied()
    }

    /// Returns the names of all declared types, in no particular order.
    pub fn type_names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(SmolStr::as_str)
    }

    /// Returns the type of a reference.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a schema has at least one type")]
    pub(crate) fn resolve(&self, type_ref: TypeRef) -> &Type {
        // Index 0 is the type that allows no value, so a reference of another schema does no harm.
        self.types.get(type_ref.0 as usize).unwrap_or(&self.types[0])
    }
}

impl Type {
    /// Returns the allowed kinds as bits: scalar, list, map.
    pub(crate) fn kinds(&self) -> u8 {
        u8::from(self.scalar.is_some()) | u8::from(self.list.is_some()) << 1 | u8::from(self.map.is_some()) << 2
    }
}

impl ListType {
    pub(crate) fn is_atomic(&self) -> bool {
        self.relationship == Relationship::Atomic
    }
}

/// Declared fields of a struct, sorted by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    fields: Box<[Field]>,
    names: Names,
}

impl Fields {
    /// Creates fields from any order. The first of several fields with one name wins.
    pub(crate) fn new(mut fields: Vec<Field>) -> Self {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        fields.dedup_by(|later, earlier| later.name == earlier.name);
        Self {
            names: Names::from_sorted(fields.iter().map(|field| field.name.as_str())),
            fields: fields.into(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the index of a name at or after a position, or the index to insert it.
    #[inline]
    fn position(&self, from: usize, name: &str) -> Result<usize, usize> {
        self.names
            .position(from, name, |at| self.fields.get(at).map(|field| field.name.as_str()))
    }
}

impl MapType {
    /// Returns the declared field of this name.
    #[inline]
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.position(0, name).ok()?;
        self.fields.fields.get(at)
    }

    /// Returns a cursor that finds fields by names in ascending order.
    #[inline]
    pub(crate) fn cursor(&self) -> FieldCursor<'_> {
        FieldCursor {
            fields: &self.fields,
            at: 0,
        }
    }
}

/// Cursor that finds declared fields for the sorted keys of a map and searches only the fields ahead.
pub(crate) struct FieldCursor<'a> {
    fields: &'a Fields,
    at: usize,
}

impl<'a> FieldCursor<'a> {
    /// Returns the field of this name. Names must come in ascending order.
    #[inline]
    pub(crate) fn find(&mut self, name: &str) -> Option<&'a Field> {
        match self.fields.position(self.at, name) {
            Ok(at) => {
                self.at = at;
                self.fields.fields.get(at)
            }
            Err(at) => {
                self.at = at;
                None
            }
        }
    }
}
