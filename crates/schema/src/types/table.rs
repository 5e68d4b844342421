use std::collections::HashMap;
use std::sync::OnceLock;

use holdfast_value::{Map, Names, SmolStr, Value};

use crate::names::GroupVersionKind;
use crate::types::defaults::leads_to_default;
use crate::types::{
    Field, MapType, Omission, OrderItem, Scalar, Shape, Step, Type, TypeId, TypeKind, TypeTags, Union, is_empty,
};

/// All types of a set of kinds; see the [module](crate::types).
#[derive(Clone, Debug, Default)]
pub struct TypeTable {
    pub(super) types: Vec<Type>,
    by_name: HashMap<SmolStr, TypeId>,
    by_kind: HashMap<GroupVersionKind, TypeId>,
    json_schema: Option<TypeId>,
    /// Go names of the types of fields; see [`TypeTable::with_go_types`].
    pub(super) go_types: &'static str,
}

/// Error in a set of types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Two types have one name.
    #[error("the type {0} stands there twice")]
    RepeatedType(SmolStr),
    /// Two fields of a type have one name.
    #[error("the field {field} of {of} stands there twice")]
    RepeatedField {
        /// The type.
        of: SmolStr,
        /// The field.
        field: SmolStr,
    },
    /// A type is referred to and was never added.
    #[error("the type {0} is named and not there")]
    MissingType(SmolStr),
    /// A type would contain itself by value.
    #[error("a value of type {0} that is not set would be endless")]
    Endless(SmolStr),
    /// The order of the checks of a type names a field without checks.
    #[error("the order of {of} names {field}, of which nothing is said")]
    UnmarkedField {
        /// The type.
        of: SmolStr,
        /// The field.
        field: SmolStr,
    },
    /// The order of the checks of a type omits a field that has checks.
    #[error("the order of {of} leaves out {field}, of which something is said")]
    UncheckedField {
        /// The type.
        of: SmolStr,
        /// The field.
        field: SmolStr,
    },
    /// A type has more than 65,535 fields.
    #[error("the type {0} has too many fields")]
    TooManyFields(SmolStr),
    /// More than 128 of the gates that fields name are off.
    #[error("{0} gates of fields are off, which are too many")]
    TooManyGates(usize),
}

impl TypeTable {
    /// Returns a builder of a table.
    pub fn builder() -> TypeTableBuilder {
        TypeTableBuilder::default()
    }

    /// Returns the type at `id`, which must be of this table.
    #[expect(clippy::indexing_slicing, reason = "the table gave out the id itself")]
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// Returns the type of that definition name.
    pub fn id(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// Returns the type of the objects of a kind. Kinds that many groups share (`DeleteOptions`) are found in each of
    /// them.
    pub fn id_of_kind(&self, kind: &GroupVersionKind) -> Option<TypeId> {
        self.by_kind.get(kind).copied()
    }

    /// Returns all types in the order in which they were first named, with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        (0u32..).map(TypeId).zip(&self.types)
    }

    /// Returns the type of JSON schemas, which some scalars hold.
    pub fn json_schema(&self) -> Option<TypeId> {
        self.json_schema
    }

    /// Returns the number of types.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Returns true if there is no type.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Returns the zero value of a shape: the value that the reference writes for an unset field.
    pub fn zero(&self, shape: &Shape) -> Value {
        match shape {
            Shape::String => Value::from(""),
            Shape::Int32 | Shape::Int64 | Shape::Double => Value::Int(0),
            Shape::Bool => Value::Bool(false),
            Shape::Ref(id) => self.get(*id).zero(),
            Shape::Bytes | Shape::Any | Shape::List(_) | Shape::Map(_) => Value::Null,
        }
    }

    /// Returns the value that the reference writes for `field` if it is unset; `None` if it is left out.
    pub fn unset(&self, field: &Field) -> Option<Value> {
        match (field.omission, &field.shape) {
            (Omission::Never, _) if field.pointer => Some(Value::Null),
            (Omission::Never, shape) => Some(self.zero(shape)),
            (Omission::Empty, Shape::Ref(id)) if !field.pointer => Some(self.get(*id).zero()),
            (Omission::Empty | Omission::Zero, _) => None,
        }
    }

    /// Returns true if the reference leaves out `field` if its value is `value`, which is not `null`.
    pub fn leaves_out(&self, field: &Field, value: &Value) -> bool {
        match field.omission {
            Omission::Empty => !field.pointer && is_empty(value) && !matches!(field.shape, Shape::Ref(_)),
            Omission::Zero => *value == self.zero(&field.shape),
            Omission::Never => false,
        }
    }
}

/// Collects types in any order; [`TypeTableBuilder::build`] checks that they are consistent.
#[derive(Debug, Default)]
pub struct TypeTableBuilder {
    ids: HashMap<SmolStr, TypeId>,
    names: Vec<SmolStr>,
    types: Vec<Option<Type>>,
}

impl TypeTableBuilder {
    /// Returns the id of the type `name`, which may be added before or after. For use in [`Shape::Ref`].
    pub fn reference(&mut self, name: &str) -> TypeId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = TypeId(self.types.len() as u32);
        let name = SmolStr::new(name);
        self.ids.insert(name.clone(), id);
        self.names.push(name);
        self.types.push(None);
        id
    }

    /// Returns the id of the type `name`, if it was named before.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.ids.get(name).copied()
    }

    /// Adds a struct; its fields are in the order in which the reference writes them.
    pub fn add_struct(&mut self, name: &str, fields: Vec<Field>) -> Result<&mut Type, TableError> {
        self.add(name, TypeKind::Struct(fields))
    }

    /// Adds a type that has a form of its own.
    pub fn add_scalar(&mut self, name: &str, scalar: Scalar) -> Result<&mut Type, TableError> {
        self.add(name, TypeKind::Scalar(scalar))
    }

    #[expect(clippy::indexing_slicing, reason = "ids are given out here, and windows are of two")]
    fn add(&mut self, name: &str, mut kind: TypeKind) -> Result<&mut Type, TableError> {
        let id = self.reference(name);
        let name = self.names[id.0 as usize].clone();
        if let TypeKind::Struct(fields) = &mut kind {
            if fields.len() >= usize::from(u16::MAX) {
                return Err(TableError::TooManyFields(name));
            }
            for (place, field) in (0..).zip(fields.iter_mut()) {
                field.place = place;
            }
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            fields.shrink_to_fit();
            if let Some(pair) = fields.windows(2).find(|pair| pair[0].name == pair[1].name) {
                let field = pair[0].name.clone();
                return Err(TableError::RepeatedField { of: name, field });
            }
        }
        let slot = &mut self.types[id.0 as usize];
        if slot.is_some() {
            return Err(TableError::RepeatedType(name));
        }
        Ok(slot.insert(Type {
            name,
            names: Names::from_sorted(kind.fields().iter().map(|field| field.name.as_str())),
            kind,
            map_type: None::<MapType>,
            kinds: Vec::new(),
            published: true,
            unions: Vec::<Union>::new(),
            tags: TypeTags::default(),
            zero: OnceLock::new(),
            always_written: Vec::new(),
            reaches_default: false,
            default_fields: Vec::new(),
            written_lists: Vec::new(),
            disabled: Vec::new(),
        }))
    }

    /// Builds the table of all added types.
    #[expect(clippy::indexing_slicing, reason = "the table gave out the id itself")]
    pub fn build(self) -> Result<TypeTable, TableError> {
        let mut types = Vec::with_capacity(self.types.len());
        for (known_type, name) in self.types.into_iter().zip(&self.names) {
            types.push(known_type.ok_or_else(|| TableError::MissingType(name.clone()))?);
        }
        let mut table = TypeTable {
            types,
            by_name: self.ids,
            by_kind: HashMap::new(),
            json_schema: None,
            go_types: "",
        };
        let json_schema = table.iter().find(|(_, of)| of.short_name() == "JSONSchemaProps");
        table.json_schema = json_schema.map(|(id, _)| id);
        for at in 0..table.types.len() {
            let id = TypeId(at as u32);
            table.resolve_zero(id, &mut Vec::new())?;
            for kind in &table.types[at].kinds {
                table.by_kind.insert(kind.clone(), id);
            }
        }
        table.resolve_defaults();
        table.resolve_written_lists();
        table.resolve_checks()?;
        Ok(table)
    }
}

impl TypeTable {
    /// Finds the fields that lead to defaults. Types may be recursive, so this iterates until nothing new is found.
    #[expect(clippy::indexing_slicing, reason = "the table gave out the id itself")]
    fn resolve_defaults(&mut self) {
        let mut grew = true;
        while grew {
            grew = false;
            for at in 0..self.types.len() {
                let ty = &self.types[at];
                let leads = |field: &Field| field.default.is_some() || leads_to_default(self, &field.shape);
                let places: Vec<u16> = (0u16..)
                    .zip(ty.fields())
                    .filter(|(_, field)| leads(field))
                    .map(|(place, _)| place)
                    .collect();
                let ty = &mut self.types[at];
                if places.len() > ty.default_fields.len() {
                    ty.reaches_default = true;
                    ty.default_fields = places;
                    grew = true;
                }
            }
        }
    }

    /// Finds the checks of the values of each type. Types may be recursive, so this iterates until nothing new is
    /// found.
    #[expect(clippy::indexing_slicing, reason = "the table gave out the id itself")]
    fn resolve_checks(&mut self) -> Result<(), TableError> {
        let mut grew = true;
        while grew {
            grew = false;
            for at in 0..self.types.len() {
                let ty = &self.types[at];
                let steps = self.steps(ty, &ty.tags.order, &|field| {
                    field.tags.holds() || self.leads_to_check(&field.shape)
                });
                let changes = self.steps(ty, &ty.tags.changes, &|field| {
                    field.tags.immutable.is_some() || self.leads_to_change(&field.shape)
                });
                let tags = &mut self.types[at].tags;
                if steps.len() > tags.steps.len() || changes.len() > tags.change_steps.len() {
                    (tags.steps, tags.change_steps) = (steps, changes);
                    grew = true;
                }
            }
        }
        self.types.iter().try_for_each(complete_order)
    }

    /// Returns the steps of a type: those of its order if it has one, otherwise its fields in the reference's order; in
    /// both cases only fields with checks.
    fn steps(&self, of: &Type, order: &[OrderItem], looked_at: &dyn Fn(&Field) -> bool) -> Vec<Step> {
        let fields = (0u16..).zip(of.fields());
        if order.is_empty() {
            let mut fields: Vec<_> = fields.filter(|(_, field)| looked_at(field)).collect();
            fields.sort_by_key(|(_, field)| field.place);
            return fields.into_iter().map(|(at, _)| Step::Field(at)).collect();
        }
        let step = |item: &OrderItem| match item {
            OrderItem::Rule(id) => Some(Step::Rule(*id)),
            OrderItem::FieldOfRule(_) => None,
            OrderItem::Field(name) => {
                let mut fields = fields.clone();
                let (at, _) = fields.find(|(_, field)| field.name == *name && looked_at(field))?;
                Some(Step::Field(at))
            }
        };
        order.iter().filter_map(step).collect()
    }

    fn leads_to_check(&self, shape: &Shape) -> bool {
        shape.type_id().is_some_and(|id| !self.get(id).tags.steps.is_empty())
    }

    /// Follows changes only through structs: only the kind can match an item with its old item.
    fn leads_to_change(&self, shape: &Shape) -> bool {
        matches!(shape, Shape::Ref(id) if !self.get(*id).tags.change_steps.is_empty())
    }

    /// Computes the zero value of a type, after those of the structs within it.
    #[expect(clippy::indexing_slicing, reason = "the table gave out the id itself")]
    fn resolve_zero(&mut self, id: TypeId, above: &mut Vec<TypeId>) -> Result<(), TableError> {
        let ty = self.get(id);
        if ty.zero.get().is_some() {
            return Ok(());
        }
        if above.contains(&id) {
            return Err(TableError::Endless(ty.name.clone()));
        }
        let zero = match &ty.kind {
            TypeKind::Scalar(scalar) => scalar.zero(),
            TypeKind::Struct(fields) => {
                let held: Vec<TypeId> = fields.iter().filter_map(held_by_value).collect();
                above.push(id);
                for inner in held {
                    self.resolve_zero(inner, above)?;
                }
                above.pop();
                let fields = self.get(id).fields();
                let written: Vec<_> = fields
                    .iter()
                    .enumerate()
                    .filter_map(|(at, field)| Some((at as u16, field.name.clone(), self.unset(field)?)))
                    .collect();
                self.types[id.0 as usize].always_written = written.iter().map(|(at, ..)| *at).collect();
                let entries = written.into_iter().map(|(_, name, value)| (name, value)).collect();
                Value::Map(Map::from_sorted(entries))
            }
        };
        // It was unset just before, and no other code has access to the table yet.
        let _ = self.get(id).zero.set(zero);
        Ok(())
    }
}

/// Returns the type that a field holds by value and writes even if it is unset.
fn held_by_value(field: &Field) -> Option<TypeId> {
    match field.shape {
        Shape::Ref(id) if !field.pointer && field.omission != Omission::Zero => Some(id),
        _ => None,
    }
}

/// Rejects an order of checks that names a field without checks or omits one that has some.
fn complete_order(of: &Type) -> Result<(), TableError> {
    let tags = &of.tags;
    let orders = [
        (&tags.order, &tags.steps, true),
        (&tags.changes, &tags.change_steps, false),
    ];
    for (order, steps, of_values) in orders.into_iter().filter(|(order, ..)| !order.is_empty()) {
        let in_steps = |name: &str| {
            let looked_at = steps.iter().filter_map(|step| of.looked_at(step));
            looked_at.map(|field| &field.name).any(|known| known == name)
        };
        let mut checked = order.iter().filter_map(|item| match item {
            OrderItem::Field(name) => Some(name),
            OrderItem::FieldOfRule(_) | OrderItem::Rule(_) => None,
        });
        if let Some(name) = checked.find(|name| !in_steps(name)) {
            let (of, field) = (of.name.clone(), name.clone());
            return Err(TableError::UnmarkedField { of, field });
        }
        let marked = |field: &&Field| match of_values {
            true => field.tags.holds(),
            false => field.tags.immutable.is_some(),
        };
        let names = |item: &OrderItem, field: &Field| match item {
            OrderItem::Field(name) | OrderItem::FieldOfRule(name) => *name == field.name,
            OrderItem::Rule(_) => false,
        };
        let left_out = |field: &&Field| !order.iter().any(|item| names(item, field));
        if let Some(field) = of.fields().iter().filter(marked).find(left_out) {
            let (of, field) = (of.name.clone(), field.name.clone());
            return Err(TableError::UncheckedField { of, field });
        }
    }
    Ok(())
}
