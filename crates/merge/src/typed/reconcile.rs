//! Adaptation of a set to a changed schema.

use super::{Errors, Kind, Typed, ValidationError, ValidationErrors, first_kind};
use crate::schema::{Schema, TypeRef};
use crate::set::{Entry, Level};
use crate::{Path, PathElement, Set};

impl Typed {
    /// Adapts a set to this value's schema: paths below a container that is now atomic are replaced by the path of the
    /// container. Returns `None` if nothing changes. Fields that the schema does not know and untyped maps are
    /// unchanged, and a container that became granular changes nothing.
    ///
    /// # Errors
    /// Fails if the schema has no usable type for a part of the set.
    pub fn reconcile_field_set_with_schema(&self, set: &Set) -> Result<Option<Set>, ValidationErrors> {
        let mut reconciler = Reconciler {
            schema: &self.schema,
            atomic: None,
            errors: Errors::default(),
        };
        reconciler.node(self.type_ref, set.level(), false, None);
        reconciler.errors.result()?;
        Ok(reconciler
            .atomic
            .map(|atomic| set.recursive_difference(&atomic).union(&atomic)))
    }
}

struct Reconciler<'a> {
    schema: &'a Schema,
    /// Paths that have become atomic.
    atomic: Option<Set>,
    errors: Errors,
}

/// Position of a node. Nearly all sets need no change, so a path is built only on demand.
#[derive(Clone, Copy)]
struct Place<'p> {
    element: &'p PathElement,
    above: Option<&'p Place<'p>>,
}

impl Place<'_> {
    fn path(&self) -> Path {
        let mut elements = Vec::new();
        let mut at = Some(self);
        while let Some(place) = at {
            elements.push(place.element.clone());
            at = place.above;
        }
        elements.into_iter().rev().collect()
    }
}

impl Reconciler<'_> {
    /// Checks a node and the part of the set below it; `bare` is true if the set has the node itself and nothing below.
    fn node(&mut self, type_ref: TypeRef, below: Level<'_>, bare: bool, place: Option<&Place<'_>>) {
        let resolved = self.schema.resolve(type_ref);
        if resolved.missing {
            let name = resolved.name.as_deref().unwrap_or("inlined type");
            return self
                .errors
                .push(ValidationError::new(format!("could not resolve {name}")));
        }
        match (first_kind(resolved.kinds()), &resolved.map, &resolved.list) {
            (Some(Kind::Scalar), ..) => {}
            (Some(Kind::Map), Some(map), _) if map.deduced => {}
            (Some(Kind::Map), Some(map), _) if map.atomic => {
                if !bare && !below.is_empty() {
                    self.becomes_atomic(place);
                }
            }
            (Some(Kind::Map), Some(map), _) => {
                let mut fields = map.cursor();
                for entry in below.entries() {
                    let declared = match entry.element() {
                        PathElement::Field(name) => fields.find(name),
                        _ => None,
                    };
                    let type_ref = declared.map_or(map.element, |field| field.type_ref);
                    if type_ref != TypeRef::NONE {
                        self.entry(type_ref, entry, place);
                    }
                }
            }
            (Some(Kind::List), _, Some(list)) if list.is_atomic() => {
                if !bare {
                    self.becomes_atomic(place);
                }
            }
            (Some(Kind::List), _, Some(list)) => {
                for entry in below.entries() {
                    self.entry(list.element, entry, place);
                }
            }
            _ => self.errors.push(super::unusable(resolved)),
        }
    }

    fn entry(&mut self, type_ref: TypeRef, entry: Entry<'_>, above: Option<&Place<'_>>) {
        let bare = entry.is_member() && entry.below().is_empty();
        let before = self.errors.count();
        let element = entry.element();
        self.node(type_ref, entry.below(), bare, Some(&Place { element, above }));
        self.errors.prefix(before, || element.clone());
    }

    fn becomes_atomic(&mut self, place: Option<&Place<'_>>) {
        let path = place.map(Place::path).unwrap_or_default();
        self.atomic.get_or_insert_default().insert(&path);
    }
}
