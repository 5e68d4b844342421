//! Merge schemas: how each part of an object merges.
//!
//! A [`Schema`] is immutable and shared. It is described with [`SchemaBuilder`], which resolves every reference to an
//! index once; walks over objects then follow indexes. The terms are those of the Kubernetes
//! [merge strategy markers](https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy).

mod builder;
mod reader;

use std::collections::HashMap;

use holdfast_value::{Names, SmolStr, Value};

pub use builder::{FieldSpec, ListSpec, MapSpec, Reference, SchemaBuilder, SchemaError, Target, TypeSpec};

/// A set of types that refer to one another.
#[derive(Debug)]
pub struct Schema {
    types: Vec<Type>,
    names: HashMap<SmolStr, TypeRef>,
}

/// A type of one schema, by index. Only of use with the schema that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeRef(u32);

/// A type: the kinds of value it allows. Most allow one.
#[derive(Clone, Debug, Default)]
pub struct Type {
    /// What it was declared as; `None` for types written in place.
    pub(crate) name: Option<SmolStr>,
    /// Whether nothing stands behind a reference to this type.
    pub(crate) missing: bool,
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<ListType>,
    pub(crate) map: Option<MapType>,
}

/// What a scalar may hold. Null is allowed everywhere.
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
    /// A name that means nothing: no value is valid but null.
    Unknown(SmolStr),
}

/// Whether a map or list is owned as a whole or item by item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relationship {
    /// Owned and replaced as a whole.
    Atomic,
    /// Items are owned apart. A list needs this to have items of its own; with keys, they name its items.
    Associative,
    /// Entries are owned apart: the default of maps.
    Separable,
}

/// A list.
#[derive(Clone, Debug)]
pub(crate) struct ListType {
    pub(crate) element: TypeRef,
    pub(crate) relationship: Relationship,
    /// The fields that name an item, sorted; none for sets.
    pub(crate) keys: Box<[KeyField]>,
    /// The names of the key fields as they were declared.
    pub(crate) declared_keys: Box<[SmolStr]>,
    /// Whether the items are of a type that allows maps, which alone can have keys.
    pub(crate) items_are_maps: bool,
}

/// A field that names list items, with its value where an item leaves it out.
#[derive(Clone, Debug)]
pub(crate) struct KeyField {
    pub(crate) name: SmolStr,
    pub(crate) default: Option<Value>,
}

/// A map or struct.
#[derive(Clone, Debug)]
pub(crate) struct MapType {
    /// The declared fields.
    pub(crate) fields: Fields,
    /// The type of entries that are not declared fields; [`TypeRef::NONE`] where none are allowed.
    pub(crate) element: TypeRef,
    pub(crate) atomic: bool,
    /// Whether this is a map of anything, whose shape is deduced from values.
    pub(crate) deduced: bool,
}

/// A declared field.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: SmolStr,
    pub(crate) type_ref: TypeRef,
    pub(crate) default: Option<Value>,
    /// Whether the name stands in texts of field sets as it is.
    pub(crate) is_plain: bool,
}

/// The name of the type that deduces how to merge from the values.
pub const DEDUCED: &str = "__untyped_deduced_";

/// The name of the type that takes any value as a whole.
pub const UNTYPED_ATOMIC: &str = "__untyped_atomic_";

impl TypeRef {
    /// The type that allows nothing, for what is not declared.
    pub(crate) const NONE: TypeRef = TypeRef(0);
}

impl Schema {
    /// The type of this name.
    pub fn named(&self, name: &str) -> Option<TypeRef> {
        self.names.get(name).copied()
    }

    /// The names of all declared types, in no order.
    pub fn type_names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(SmolStr::as_str)
    }

    /// What a reference stands for.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a schema has at least one type")]
    pub(crate) fn resolve(&self, type_ref: TypeRef) -> &Type {
        // Index 0 is the type that allows nothing, so that a reference of another schema does no harm.
        self.types.get(type_ref.0 as usize).unwrap_or(&self.types[0])
    }
}

impl Type {
    /// Which kinds are there, as bits: scalar, list, map.
    pub(crate) fn kinds(&self) -> u8 {
        u8::from(self.scalar.is_some()) | u8::from(self.list.is_some()) << 1 | u8::from(self.map.is_some()) << 2
    }
}

impl ListType {
    pub(crate) fn is_atomic(&self) -> bool {
        self.relationship == Relationship::Atomic
    }
}

/// The declared fields of a struct, sorted by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    fields: Box<[Field]>,
    names: Names,
}

impl Fields {
    /// Fields in any order; of several with one name the first counts.
    pub(crate) fn new(mut fields: Vec<Field>) -> Self {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        fields.dedup_by(|later, earlier| later.name == earlier.name);
        Self {
            names: Names::of_sorted(fields.iter().map(|field| field.name.as_str())),
            fields: fields.into(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Where a field of this name is at or after a position, or where it would be.
    #[inline]
    fn position(&self, from: usize, name: &str) -> Result<usize, usize> {
        self.names
            .position(from, name, |at| self.fields.get(at).map(|field| field.name.as_str()))
    }
}

impl MapType {
    /// The declared field of this name.
    #[inline]
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.position(0, name).ok()?;
        self.fields.fields.get(at)
    }

    /// A reader of fields by names in ascending order.
    #[inline]
    pub(crate) fn cursor(&self) -> FieldCursor<'_> {
        FieldCursor {
            fields: &self.fields,
            at: 0,
        }
    }
}

/// Finds declared fields for the sorted keys of a map, searching only what lies ahead.
pub(crate) struct FieldCursor<'a> {
    fields: &'a Fields,
    at: usize,
}

impl<'a> FieldCursor<'a> {
    /// The field of this name; names must come in ascending order.
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
