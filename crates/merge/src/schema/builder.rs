//! How schemas are described and compiled.

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
///     MapSpec::of_fields([
///         FieldSpec::new("port", Scalar::Numeric),
///         FieldSpec::new("protocol", Scalar::String).with_default("TCP"),
///     ]),
/// );
/// builder.define(
///     "Service",
///     MapSpec::of_fields([FieldSpec::new("ports", ListSpec::keyed(Reference::named("Port"), ["port", "protocol"]))]),
/// );
/// let schema = builder.build();
/// assert!(schema.named("Service").is_some());
/// ```
#[derive(Clone, Debug, Default)]
pub struct SchemaBuilder {
    types: Vec<(SmolStr, TypeSpec)>,
}

/// Why a description of a schema cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A part has the wrong shape.
    #[error("{place}: expected {expected}")]
    Shape {
        /// The part.
        place: String,
        /// What should be there.
        expected: &'static str,
    },
    /// Types nest too deep within one another.
    #[error("types are nested more than 512 levels deep")]
    TooDeep,
}

/// A type, described: the kinds of value it allows.
#[derive(Clone, Debug, Default)]
pub struct TypeSpec {
    /// The scalar it allows, if any.
    pub scalar: Option<Scalar>,
    /// The list it allows, if any.
    pub list: Option<ListSpec>,
    /// The map or struct it allows, if any.
    pub map: Option<MapSpec>,
}

/// A use of a type: by name or written in place, with the relationship it has here if that differs.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The type that is meant.
    pub target: Target,
    /// Replaces the relationship of the map, else list, that is meant.
    pub relationship: Option<Relationship>,
}

/// What a reference points to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A type by its name; it may be defined later, or never, in which case any use of it is an error.
    Named(SmolStr),
    /// A type written in place.
    Inline(Box<TypeSpec>),
}

/// A list, described.
#[derive(Clone, Debug)]
pub struct ListSpec {
    /// The type of its items.
    pub element: Reference,
    /// Associative for sets and keyed lists, else atomic.
    pub relationship: Relationship,
    /// The fields that name an item; none for sets.
    pub keys: Vec<SmolStr>,
}

/// A map or struct, described.
#[derive(Clone, Debug)]
pub struct MapSpec {
    /// The declared fields, in any order.
    pub fields: Vec<FieldSpec>,
    /// The type of other entries, where they are allowed.
    pub element: Option<Reference>,
    /// Atomic where it is owned as a whole.
    pub relationship: Relationship,
}

/// A declared field, described.
#[derive(Clone, Debug)]
pub struct FieldSpec {
    /// Its name.
    pub name: SmolStr,
    /// Its type.
    pub reference: Reference,
    /// Its value in the name of a list item that leaves it out.
    pub default: Option<Value>,
}

impl Reference {
    /// A reference to a named type.
    pub fn named(name: impl Into<SmolStr>) -> Self {
        Self {
            target: Target::Named(name.into()),
            relationship: None,
        }
    }

    /// A reference to a type written in place.
    pub fn inline(spec: impl Into<TypeSpec>) -> Self {
        Self {
            target: Target::Inline(Box::new(spec.into())),
            relationship: None,
        }
    }

    /// The same type with another relationship.
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
    /// A list owned as a whole.
    pub fn atomic(element: impl Into<Reference>) -> Self {
        Self {
            element: element.into(),
            relationship: Relationship::Atomic,
            keys: Vec::new(),
        }
    }

    /// A list of unlike scalars, each owned apart.
    pub fn set(element: impl Into<Reference>) -> Self {
        Self {
            relationship: Relationship::Associative,
            ..Self::atomic(element)
        }
    }

    /// A list of maps, each owned apart and named by key fields.
    pub fn keyed<K: Into<SmolStr>>(element: impl Into<Reference>, keys: impl IntoIterator<Item = K>) -> Self {
        Self {
            keys: keys.into_iter().map(Into::into).collect(),
            ..Self::set(element)
        }
    }
}

impl MapSpec {
    /// A struct of declared fields, each owned apart.
    pub fn of_fields(fields: impl IntoIterator<Item = FieldSpec>) -> Self {
        Self {
            fields: fields.into_iter().collect(),
            element: None,
            relationship: Relationship::Separable,
        }
    }

    /// A map with entries of one type, each owned apart.
    pub fn of(element: impl Into<Reference>) -> Self {
        Self {
            fields: Vec::new(),
            element: Some(element.into()),
            relationship: Relationship::Separable,
        }
    }

    /// The same map, owned as a whole.
    pub fn atomic(mut self) -> Self {
        self.relationship = Relationship::Atomic;
        self
    }

    /// The same struct with entries beside the declared fields.
    pub fn with_element(mut self, element: impl Into<Reference>) -> Self {
        self.element = Some(element.into());
        self
    }
}

impl FieldSpec {
    /// A field of a type.
    pub fn new(name: impl Into<SmolStr>, reference: impl Into<Reference>) -> Self {
        Self {
            name: name.into(),
            reference: reference.into(),
            default: None,
        }
    }

    /// The same field with a value for the names of list items that leave it out.
    pub fn with_default(mut self, default: impl Into<Value>) -> Self {
        self.default = Some(default.into());
        self
    }
}

impl SchemaBuilder {
    /// A schema without types.
    pub fn new() -> Self {
        Self::default()
    }

    /// Defines a named type. Of types with one name the first counts.
    pub fn define(&mut self, name: impl Into<SmolStr>, spec: impl Into<TypeSpec>) -> &mut Self {
        self.types.push((name.into(), spec.into()));
        self
    }

    /// Defines the types [`DEDUCED`], which deduces maps to be granular and lists atomic, and [`UNTYPED_ATOMIC`].
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
                    ..MapSpec::of(Reference::named(name))
                }),
            };
            self.define(name, spec);
        }
        self
    }

    /// Compiles the schema.
    #[expect(clippy::indexing_slicing, reason = "the table gave out the id itself")]
    pub fn build(&self) -> Schema {
        let mut compiler = Compiler {
            // Index 0 allows nothing.
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

/// The types of a schema while it is compiled.
struct Compiler {
    types: Vec<Type>,
    names: HashMap<SmolStr, TypeRef>,
    /// References with a relationship of their own: the place made for each, what it refers to, and the relationship.
    overrides: Vec<(TypeRef, TypeRef, Relationship)>,
    /// The scalars used so far; each is one type, however often it is written in place.
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
        let fields = spec
            .fields
            .iter()
            .map(|field| Field {
                name: field.name.clone(),
                type_ref: self.reference(&field.reference),
                default: field.default.clone(),
                is_plain: is_plain(&field.name),
            })
            .collect();
        let fields = Fields::new(fields);
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

    /// Fills the places of references with a relationship of their own. Their targets are no such places, as a reference
    /// points to a type and not to another reference.
    #[expect(clippy::indexing_slicing, reason = "the table gave out the id itself")]
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

    #[expect(clippy::indexing_slicing, reason = "the table gave out the id itself")]
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

/// Whether the entries of a map are of the deduced type, or of an untyped scalar written in place.
fn is_deduced(element: &Reference) -> bool {
    match &element.target {
        Target::Named(name) => name == DEDUCED,
        Target::Inline(spec) => spec.scalar == Some(Scalar::Untyped),
    }
}
