//! Set of paths of a value.

use holdfast_value::{Map, Value};

use super::items::{in_order, names};
use super::{Errors, Kind, Typed, ValidationError, ValidationErrors, deduce, first_kind, unusable};
use crate::schema::{ListType, MapType, Schema, TypeRef};
use crate::set::SetBuilder;
use crate::{PathElement, Set};

impl Typed {
    /// Returns the paths that an apply of this value owns: its leaves, every list item and every map entry that is not
    /// a declared field, and declared fields that are null or an empty map.
    ///
    /// ```
    /// use holdfast_merge::Typed;
    /// use holdfast_value::{Limits, json};
    ///
    /// let typed = |text: &str| Typed::deduced(json::parse(text.as_bytes(), &Limits::REQUEST).unwrap());
    ///
    /// let set = typed(r#"{"spec":{"replicas":3}}"#).to_field_set()?;
    /// assert_eq!(set.to_fields_v1(), r#"{"f:spec":{".":{},"f:replicas":{}}}"#);
    /// # Ok::<(), holdfast_merge::ValidationErrors>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the schema has no usable type for a part of the value.
    pub fn to_field_set(&self) -> Result<Set, ValidationErrors> {
        let mut walk = SetWalk::new(&self.schema, Ownership::Applied);
        walk.node(self.type_ref, &self.value);
        walk.errors.result().map(|()| walk.builder.finish())
    }
}

/// Selection of a value's paths for a set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The paths that an apply owns.
    Applied,
    /// The paths that are added or removed with the value as a whole: its leaves and every container.
    Whole,
}

/// Walk that adds the paths below a node to a builder.
pub(super) struct SetWalk<'a> {
    schema: &'a Schema,
    ownership: Ownership,
    pub(super) builder: SetBuilder,
    pub(super) errors: Errors,
}

impl<'a> SetWalk<'a> {
    pub(super) fn new(schema: &'a Schema, ownership: Ownership) -> Self {
        Self {
            schema,
            ownership,
            // Compared values are mostly equal, but all paths of an applied value are owned.
            builder: match ownership {
                Ownership::Applied => SetBuilder::with_room(),
                Ownership::Whole => SetBuilder::default(),
            },
            errors: Errors::default(),
        }
    }

    /// Adds the paths below a node; returns true if the node itself is a member.
    pub(super) fn node(&mut self, type_ref: TypeRef, value: &Value) -> bool {
        let resolved = self.schema.resolve(type_ref);
        let whole = self.ownership == Ownership::Whole;
        if resolved.missing {
            self.errors.push(unusable(resolved));
            return whole;
        }
        match (first_kind(deduce(resolved, value)), &resolved.map, &resolved.list) {
            (Some(Kind::Scalar), ..) => true,
            (Some(Kind::Map), Some(map), _) => {
                match value {
                    Value::Map(entries) if !map.atomic => self.map(map, entries),
                    _ => {}
                }
                whole || map.atomic
            }
            (Some(Kind::List), _, Some(list)) => {
                match value {
                    Value::List(items) if !list.is_atomic() => self.list(list, items),
                    _ => {}
                }
                whole || list.is_atomic()
            }
            _ => {
                self.errors.push(unusable(resolved));
                whole
            }
        }
    }

    /// Adds an entry for the node at `element`.
    #[inline]
    pub(super) fn child(&mut self, element: PathElement, type_ref: TypeRef, value: &Value, member: bool) {
        let before = self.errors.count();
        let at = self.builder.open(element);
        let member = self.node(type_ref, value) || member;
        if self.errors.count() > before
            && let Some(element) = self.builder.element(at).cloned()
        {
            self.errors.prefix(before, || element);
        }
        self.builder.close(at, member);
    }

    fn map(&mut self, map: &MapType, entries: &Map) {
        let mut fields = map.cursor();
        for (key, value) in entries {
            let field = fields.find(key);
            let empty = match value {
                Value::Null => true,
                Value::Map(entries) => entries.is_empty(),
                _ => false,
            };
            let below = field.map_or(map.element, |field| field.type_ref);
            self.child(PathElement::Field(key.clone()), below, value, field.is_none() || empty);
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the order holds indices of items")]
    fn list(&mut self, list: &ListType, items: &[Value]) {
        let Ok(names) = names(list, items) else {
            return self.list_with_nameless_items(list, items);
        };
        if in_order(&names) {
            for (name, item) in names.iter().zip(items) {
                self.child(list.element(name), list.element, item, true);
            }
            return;
        }
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by(|a, b| names[*a].compare(&names[*b]));
        for same in order.chunk_by(|a, b| names[*a].compare(&names[*b]).is_eq()) {
            match same {
                [] => {}
                [at] => self.child(list.element(&names[*at]), list.element, &items[*at], true),
                // Items with the same key are owned as one item without content.
                [at, ..] => self.builder.push_leaf(list.element(&names[*at])),
            }
        }
    }

    /// Adds items of which some have no key. These are identified by their position; if whole values are requested,
    /// they are errors.
    fn list_with_nameless_items(&mut self, list: &ListType, items: &[Value]) {
        let named: Vec<_> = items.iter().filter(|item| list.name(item).is_ok()).cloned().collect();
        self.list(list, &named);
        for (at, item) in items.iter().enumerate() {
            match (list.name(item), self.ownership) {
                (Ok(_), _) => {}
                (Err(reason), Ownership::Whole) => {
                    self.errors
                        .push(ValidationError::new(format!("element {at}: {reason}")));
                }
                (Err(_), Ownership::Applied) => {
                    self.builder
                        .push_leaf(PathElement::Index(i64::try_from(at).unwrap_or(i64::MAX)));
                }
            }
        }
    }
}
