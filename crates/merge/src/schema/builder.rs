//! Builder and compiler of schemas.

use std::collections::HashMap;

use holdfast_value::{SmolStr, Value};

use super::{
    DEDUCED, Field, Fields, KeyField, ListType, MapType, Relationship, Scalar, Schema, Type, TypeRef, UNTYPED_ATOMIC,
};
use crate::path_element::is_plain;

/// Describes the types of a schema and compiles them.
///
/// ```
/// use holdfast_merge::{FieldSpec, ListSpec, MapSpec, Reference, Scalar, SchemaBuilder};
///
/// let mut builder = SchemaBuilder::new();
/// builder.define(
///     "Port",
///     MapSpec::from_fields([
///         FieldSpec::new("port", Scalar::Numeric),
///         FieldSpec::new("protocol", Scalar::String).with_default("TCP"),
///     ]),
/// );
/// builder.define(
///     "Service",
///     MapSpec::from_fields([FieldSpec::new("ports", ListSpec::keyed(Reference::named("Port"), ["port", "protocol"]))]),
/// );
/// let schema = builder.build();
/// assert!(schema.named("Service").is_some());
/// ```
#[derive(Clone, Debug, Default)]
pub struct SchemaBuilder {
    types: Vec<(SmolStr, TypeSpec)>,
}

/// Error of a schema description.
///
/// ```
/// use holdfast_merge::SchemaError;
///
/// let error = SchemaError::Shape { place: "types[0].name".into(), expected: "a string" };
/// assert_eq!(error.to_string(), "types[0].name: expected a string");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A part has the wrong shape.
    #[error("{place}: expected {expected}")]
    Shape {
        /// Path of the part.
        place: String,
        /// Expected content.
        expected: &'static str,
    },
    /// Types nest too deep within one another.
    #[error("types are nested more than 512 levels deep")]
    TooDeep,
}

/// Description of a type: the kinds of value that it allows.
///
/// ```
/// use holdfast_merge::{Scalar, TypeSpec};
///
/// // A type that is either a number or a text.
/// let port = TypeSpec { scalar: Some(Scalar::Untyped), ..TypeSpec::default() };
/// assert!(port.list.is_none() && port.map.is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct TypeSpec {
    /// Scalar that is allowed, if any.
    pub scalar: Option<Scalar>,
    /// List that is allowed, if any.
    pub list: Option<ListSpec>,
    /// Map or struct that is allowed, if any.
    pub map: Option<MapSpec>,
}

/// Use of a type, by name or inline, with an optional relationship that replaces the type's own.
///
/// ```
/// use holdfast_merge::{FieldSpec, MapSpec, Reference, Relationship, SchemaBuilder};
///
/// let template = Reference::named("Template").with_relationship(Relationship::Atomic);
/// let mut builder = SchemaBuilder::new();
/// builder.define("Template", MapSpec::from_fields([]));
/// builder.define("Job", MapSpec::from_fields([FieldSpec::new("template", template)]));
/// assert!(builder.build().named("Job").is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Reference {
    /// Type that is used.
    pub target: Target,
    /// Relationship that replaces that of the map, or else of the list.
    pub relationship: Option<Relationship>,
}

/// Target of a reference.
///
/// ```
/// use holdfast_merge::{Reference, Scalar, Target};
///
/// assert!(matches!(Reference::named("Port").target, Target::Named(name) if name == "Port"));
/// assert!(matches!(Reference::inline(Scalar::String).target, Target::Inline(_)));
/// ```
#[derive(Clone, Debug)]
pub enum Target {
    /// A type by its name. It may be defined later; if it is never defined, any use of it is an error.
    Named(SmolStr),
    /// A type defined inline.
    Inline(Box<TypeSpec>),
}

/// Description of a list.
///
/// ```
/// use holdfast_merge::{ListSpec, Reference, Relationship, Scalar};
///
/// assert_eq!(ListSpec::atomic(Scalar::String).relationship, Relationship::Atomic);
/// assert!(ListSpec::set(Scalar::String).keys.is_empty());
/// assert_eq!(ListSpec::keyed(Reference::named("Port"), ["port", "protocol"]).keys.len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct ListSpec {
    /// Type of the items.
    pub element: Reference,
    /// Associative for sets and keyed lists, otherwise atomic.
    pub relationship: Relationship,
    /// Fields that identify an item; empty for sets.
    pub keys: Vec<SmolStr>,
}

/// Description of a map or struct.
///
/// ```
/// use holdfast_merge::{MapSpec, Relationship, Scalar};
///
/// // Labels: each entry has its own owners. A selector is owned as a whole.
/// assert_eq!(MapSpec::new(Scalar::String).relationship, Relationship::Separable);
/// assert_eq!(MapSpec::new(Scalar::String).atomic().relationship, Relationship::Atomic);
/// ```
#[derive(Clone, Debug)]
pub struct MapSpec {
    /// Declared fields, in any order.
    pub fields: Vec<FieldSpec>,
    /// Type of other entries, if they are allowed.
    pub element: Option<Reference>,
    /// Atomic if the map is owned as a whole.
    pub relationship: Relationship,
}

/// Description of a declared field.
///
/// ```
/// use holdfast_merge::{FieldSpec, Scalar};
///
/// let protocol = FieldSpec::new("protocol", Scalar::String).with_default("TCP");
/// assert_eq!(protocol.default, Some("TCP".into()));
/// ```
#[derive(Clone, Debug)]
pub struct FieldSpec {
    /// Name of the field.
    pub name: SmolStr,
    /// Type of the field.
    pub reference: Reference,
    /// Value in the key of a list item that lacks the field.
    pub default: Option<Value>,
}

impl Reference {
    /// Creates a reference to a named type.
    pub fn named(name: impl Into<SmolStr>) -> Self {
        Self {
            target: Target::Named(name.into()),
            relationship: None,
        }
    }

    /// Creates a reference to an inline type.
    pub fn inline(spec: impl Into<TypeSpec>) -> Self {
        Self {
            target: Target::Inline(Box::new(spec.into())),
            relationship: None,
        }
    }

    /// Returns the same type with another relationship.
    pub fn with_relationship(mut self, relationship: Relationship) -> Self {
        self.relationship = Some(relationship);
        self
    }
}

impl<T: Into<TypeSpec>> From<T> for Reference {
    fn from(spec: T) -> Self {
        Self::inline(spec)
    }
}

impl From<Scalar> for TypeSpec {
    fn from(scalar: Scalar) -> Self {
        Self {
            scalar: Some(scalar),
            ..Self::default()
        }
    }
}

impl From<ListSpec> for TypeSpec {
    fn from(list: ListSpec) -> Self {
        Self {
            list: Some(list),
            ..Self::default()
        }
    }
}

impl From<MapSpec> for TypeSpec {
    fn from(map: MapSpec) -> Self {
        Self {
            map: Some(map),
            ..Self::default()
        }
    }
}

impl ListSpec {
    /// Creates a list that is owned as a whole.
    pub fn atomic(element: impl Into<Reference>) -> Self {
        Self {
            element: element.into(),
            relationship: Relationship::Atomic,
            keys: Vec::new(),
        }
    }

    /// Creates a list of distinct scalars, each with its own owners.
    pub fn set(element: impl Into<Reference>) -> Self {
        Self {
            relationship: Relationship::Associative,
            ..Self::atomic(element)
        }
    }

    /// Creates a list of maps that are identified by key fields, each with its own owners.
    pub fn keyed<K: Into<SmolStr>>(element: impl Into<Reference>, keys: impl IntoIterator<Item = K>) -> Self {
        Self {
            keys: keys.into_iter().map(Into::into).collect(),
            ..Self::set(element)
        }
    }
}

impl MapSpec {
    /// Creates a struct of declared fields, each with its own owners.
    pub fn from_fields(fields: impl IntoIterator<Item = FieldSpec>) -> Self {
        Self {
            fields: fields.into_iter().collect(),
            element: None,
            relationship: Relationship::Separable,
        }
    }

    /// Creates a map with entries of one type, each with its own owners.
    pub fn new(element: impl Into<Reference>) -> Self {
        Self {
            fields: Vec::new(),
            element: Some(element.into()),
            relationship: Relationship::Separable,
        }
    }

    /// Makes the map owned as a whole.
    pub fn atomic(mut self) -> Self {
        self.relationship = Relationship::Atomic;
        self
    }

    /// Allows entries other than the declared fields.
    pub fn with_element(mut self, element: impl Into<Reference>) -> Self {
        self.element = Some(element.into());
        self
    }
}

impl FieldSpec {
    /// Creates a field of a type.
    pub fn new(name: impl Into<SmolStr>, reference: impl Into<Reference>) -> Self {
        Self {
            name: name.into(),
            reference: reference.into(),
            default: None,
        }
    }

    /// Sets the value of this field in the keys of list items that lack it.
    pub fn with_default(mut self, default: impl Into<Value>) -> Self {
        self.default = Some(default.into());
        self
    }
}

impl SchemaBuilder {
    /// Creates a schema without types.
    pub fn new() -> Self {
        Self::default()
    }

    /// Defines a named type. The first definition of a name wins.
    pub fn define(&mut self, name: impl Into<SmolStr>, spec: impl Into<TypeSpec>) -> &mut Self {
        self.types.push((name.into(), spec.into()));
        self
    }

    /// Defines the types [`DEDUCED`], which treats maps as granular and lists as atomic, and [`UNTYPED_ATOMIC`].
    pub fn define_deduced(&mut self) -> &mut Self {
        for (name, relationship) in [
            (UNTYPED_ATOMIC, Relationship::Atomic),
            (DEDUCED, Relationship::Separable),
        ] {
            let spec = TypeSpec {
                scalar: Some(Scalar::Untyped),
                list: Some(ListSpec::atomic(Reference::named(UNTYPED_ATOMIC))),
                map: Some(MapSpec {
                    relationship,
                    ..MapSpec::new(Reference::named(name))
                }),
            };
            self.define(name, spec);
        }
        self
    }

    /// Compiles the schema.
    #[expect(clippy::indexing_slicing, reason = "the table issued the id")]
    pub fn build(&self) -> Schema {
        let mut compiler = Compiler {
            // Index 0 allows no value.
            types: vec![Type::default()],
            names: HashMap::with_capacity(self.types.len()),
            overrides: Vec::new(),
            scalars: Vec::new(),
        };
        for (name, _) in &self.types {
            if !compiler.names.contains_key(name) {
                let type_ref = compiler.add(Type {
                    name: Some(name.clone()),
                    ..Type::default()
                });
                compiler.names.insert(name.clone(), type_ref);
            }
        }
        let mut defined = vec![false; compiler.types.len()];
        for (name, spec) in &self.types {
            let Some(type_ref) = compiler.names.get(name).copied() else {
                continue;
            };
            let done = &mut defined[type_ref.0 as usize];
            if !std::mem::replace(done, true) {
                let mut compiled = compiler.compile(spec);
                compiled.name = Some(name.clone());
                compiler.types[type_ref.0 as usize] = compiled;
            }
        }
        compiler.apply_overrides();
        compiler.find_key_defaults();
        Schema {
            types: compiler.types,
            names: compiler.names,
        }
    }
}

/// Types of a schema during compilation.
struct Compiler {
    types: Vec<Type>,
    names: HashMap<SmolStr, TypeRef>,
    /// References with their own relationship: the index reserved for each, the target, and the relationship.
    overrides: Vec<(TypeRef, TypeRef, Relationship)>,
    /// Scalars used so far. Each is one type, however often it is used inline.
    scalars: Vec<(Scalar, TypeRef)>,
}

impl Compiler {
    fn add(&mut self, new: Type) -> TypeRef {
        let index = u32::try_from(self.types.len()).unwrap_or_default();
        self.types.push(new);
        TypeRef(index)
    }

    fn compile(&mut self, spec: &TypeSpec) -> Type {
        Type {
            name: None,
            missing: false,
            scalar: spec.scalar.clone(),
            list: spec.list.as_ref().map(|list| self.compile_list(list)),
            map: spec.map.as_ref().map(|map| self.compile_map(map)),
        }
    }

    fn compile_list(&mut self, spec: &ListSpec) -> ListType {
        let mut keys: Vec<_> = spec
            .keys
            .iter()
            .map(|name| KeyField {
                name: name.clone(),
                default: None,
            })
            .collect();
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        ListType {
            element: self.reference(&spec.element),
            relationship: spec.relationship,
            keys: keys.into(),
            declared_keys: spec.keys.clone().into(),
            items_are_maps: false,
        }
    }

    fn compile_map(&mut self, spec: &MapSpec) -> MapType {
        let list = spec
            .fields
            .iter()
            .map(|field| Field {
                name: field.name.clone(),
                type_ref: self.reference(&field.reference),
                default: field.default.clone(),
                is_plain: is_plain(&field.name),
            })
            .collect();
        let fields = Fields::new(list);
        MapType {
            deduced: fields.is_empty() && spec.element.as_ref().is_some_and(is_deduced),
            fields,
            element: spec
                .element
                .as_ref()
                .map_or(TypeRef::NONE, |element| self.reference(element)),
            atomic: spec.relationship == Relationship::Atomic,
        }
    }

    fn reference(&mut self, reference: &Reference) -> TypeRef {
        let target = match &reference.target {
            Target::Named(name) => self.by_name(name),
            Target::Inline(spec) => self.inline(spec),
        };
        let Some(relationship) = reference.relationship else {
            return target;
        };
        let known = self
            .overrides
            .iter()
            .find(|(_, of, with)| *of == target && *with == relationship);
        if let Some((known, ..)) = known {
            return *known;
        }
        let place = self.add(Type::default());
        self.overrides.push((place, target, relationship));
        place
    }

    fn by_name(&mut self, name: &SmolStr) -> TypeRef {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let missing = Type {
            name: Some(name.clone()),
            missing: true,
            ..Type::default()
        };
        let known = self
            .types
            .iter()
            .position(|known| known.missing && known.name == missing.name);
        match known.and_then(|at| u32::try_from(at).ok()) {
            Some(at) => TypeRef(at),
            None => self.add(missing),
        }
    }

    fn inline(&mut self, spec: &TypeSpec) -> TypeRef {
        if let (Some(scalar), None, None) = (&spec.scalar, &spec.list, &spec.map) {
            if let Some((_, known)) = self.scalars.iter().find(|(known, _)| known == scalar) {
                return *known;
            }
            let type_ref = self.add(Type {
                scalar: Some(scalar.clone()),
                ..Type::default()
            });
            self.scalars.push((scalar.clone(), type_ref));
            return type_ref;
        }
        let compiled = self.compile(spec);
        self.add(compiled)
    }

    /// Fills the reserved types of references with their own relationship. Their targets are always types, because a
    /// reference cannot point to another reference.
    #[expect(clippy::indexing_slicing, reason = "the table issued the id")]
    fn apply_overrides(&mut self) {
        for (place, target, relationship) in &self.overrides {
            let mut overridden = self.types[target.0 as usize].clone();
            if let Some(map) = &mut overridden.map {
                map.atomic = *relationship == Relationship::Atomic;
            } else if let Some(list) = &mut overridden.list {
                list.relationship = *relationship;
            } else {
                overridden.missing = true;
            }
            self.types[place.0 as usize] = overridden;
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the table issued the id")]
    fn find_key_defaults(&mut self) {
        for at in 0..self.types.len() {
            let Some(mut list) = self.types[at].list.take() else {
                continue;
            };
            if let Some(items) = &self.types[list.element.0 as usize].map {
                list.items_are_maps = true;
                for key in &mut list.keys {
                    key.default = items.field(&key.name).and_then(|field| field.default.clone());
                }
            }
            self.types[at].list = Some(list);
        }
    }
}

/// True if the entries of a map have the deduced type, or are inline untyped scalars.
fn is_deduced(element: &Reference) -> bool {
    match &element.target {
        Target::Named(name) => name == DEDUCED,
        Target::Inline(spec) => spec.scalar == Some(Scalar::Untyped),
    }
}
