//! Removal of the paths of a set from a value.

use holdfast_value::{Entry, List, Map, Value};

use super::items::ItemEntries;
use super::{Kind, Typed, deduce, first_kind, same};
use crate::Set;
use crate::schema::{ListType, MapType, Schema, TypeRef};
use crate::set::Level;

/// Replacement of a container whose whole content is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emptied {
    /// Null.
    Null,
    /// The empty container.
    Kept,
}

impl Typed {
    /// Returns the value without the parts at the paths of a set. A container whose whole content is removed becomes
    /// null, and so does an atomic or empty container with paths below it. Unchanged parts are shared with this value.
    ///
    /// ```
    /// use holdfast_merge::Typed;
    /// use holdfast_value::{Limits, json};
    ///
    /// let typed = |text: &str| Typed::deduced(json::parse(text.as_bytes(), &Limits::REQUEST).unwrap());
    ///
    /// let set = holdfast_merge::Set::from_fields_v1(br#"{"f:a":{}}"#)?;
    /// let left = typed(r#"{"a":1,"b":2}"#).remove_items(&set);
    /// assert_eq!(json::to_string(left.value()), r#"{"b":2}"#);
    /// # Ok::<(), holdfast_merge::FieldsError>(())
    /// ```
    pub fn remove_items(&self, items: &Set) -> Typed {
        self.remove_items_leaving(items, Emptied::Null)
    }

    /// Removes like [`Typed::remove_items`], but leaves an empty container if its whole content is removed.
    pub fn remove_items_keeping_containers(&self, items: &Set) -> Typed {
        self.remove_items_leaving(items, Emptied::Kept)
    }

    /// Removes like [`Typed::remove_items`], with a choice of the replacement for containers that lose their whole
    /// content.
    pub(crate) fn remove_items_leaving(&self, items: &Set, emptied: Emptied) -> Typed {
        let remover = Remover {
            schema: &self.schema,
            emptied,
        };
        let value = remover.node(self.type_ref, &self.value, items.level());
        self.with_value(value, self.checked)
    }
}

struct Remover<'a> {
    schema: &'a Schema,
    emptied: Emptied,
}

impl Remover<'_> {
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
            (Some(Kind::Map), Some(map), _, Value::Map(entries)) if !map.atomic && !entries.is_empty() => {
                let remaining = self.map(map, entries, items);
                self.container(value, remaining, |entries| Value::Map(Map::from_sorted(entries)))
            }
            (Some(Kind::List), _, Some(list), Value::List(entries)) if !list.is_atomic() && !entries.is_empty() => {
                let remaining = self.list(list, entries, items);
                self.container(value, remaining, |items| Value::List(List::from(items)))
            }
            _ => Value::Null,
        }
    }

    /// Returns the remaining part of a container. On request, a nested container stays a container even if nothing can
    /// be removed within it.
    fn part(&self, type_ref: TypeRef, value: &Value, items: Level<'_>) -> Value {
        match (self.node(type_ref, value, items), value) {
            (Value::Null, Value::Map(_)) if self.emptied == Emptied::Kept => Value::empty_map(),
            (Value::Null, Value::List(_)) if self.emptied == Emptied::Kept => Value::List(List::from(Vec::new())),
            (left, _) => left,
        }
    }

    /// Returns a container after removal: the same, or a new one with the remaining parts.
    fn container<T>(&self, value: &Value, remaining: Option<Vec<T>>, make: impl FnOnce(Vec<T>) -> Value) -> Value {
        match remaining {
            None => value.clone(),
            Some(parts) if parts.is_empty() && self.emptied == Emptied::Null => Value::Null,
            Some(parts) => make(parts),
        }
    }

    fn map(&self, map: &MapType, entries: &[Entry], mut items: Level<'_>) -> Option<Vec<Entry>> {
        let mut fields = map.cursor();
        let mut remaining = Remaining::new(entries);
        for (at, (key, value)) in entries.iter().enumerate() {
            let Some(entry) = items.advance_to_field(key) else {
                remaining.keep(at);
                continue;
            };
            if entry.is_member() {
                remaining.drop(at);
                continue;
            }
            let below = fields.find(key).map_or(map.element, |field| field.type_ref);
            let left = self.part(below, value, entry.below());
            match same(&left, value) {
                true => remaining.keep(at),
                false => remaining.replace(at, (key.clone(), left)),
            }
        }
        remaining.changed
    }

    fn list(&self, list: &ListType, entries: &[Value], items: Level<'_>) -> Option<Vec<Value>> {
        let mut remaining = Remaining::new(entries);
        let items = ItemEntries::from_level(items);
        for (at, item) in entries.iter().enumerate() {
            let Some(entry) = items.find(list, item) else {
                remaining.keep(at);
                continue;
            };
            if entry.is_member() {
                remaining.drop(at);
                continue;
            }
            let left = self.part(list.element, item, entry.below());
            match same(&left, item) {
                true => remaining.keep(at),
                false => remaining.replace(at, left),
            }
        }
        remaining.changed
    }
}

/// Remaining parts of a container, copied only once one changes.
struct Remaining<'a, T> {
    all: &'a [T],
    changed: Option<Vec<T>>,
}

impl<'a, T: Clone> Remaining<'a, T> {
    fn new(all: &'a [T]) -> Self {
        Self { all, changed: None }
    }

    #[expect(clippy::indexing_slicing, reason = "called with the index of an entry of the map")]
    fn keep(&mut self, at: usize) {
        if let Some(changed) = &mut self.changed {
            changed.push(self.all[at].clone());
        }
    }

    fn drop(&mut self, at: usize) {
        self.before(at);
    }

    fn replace(&mut self, at: usize, part: T) {
        self.before(at).push(part);
    }

    #[expect(clippy::indexing_slicing, reason = "called with the index of an entry of the map")]
    fn before(&mut self, at: usize) -> &mut Vec<T> {
        let all = self.all;
        self.changed.get_or_insert_with(|| all[..at].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn a_container_that_is_empty_already_stays_one_on_request() {
        let value = json::parse(br#"{"a":{},"l":[1],"m":{"n":1}}"#, &Limits::TRUSTED).unwrap();
        let items = Set::from_fields_v1(br#"{"f:a":{"f:b":{}},"f:l":{"i:0":{}},"f:m":{"f:n":{}}}"#).unwrap();
        let value = Typed::deduced(value);
        let left = |emptied| json::to_string(value.remove_items_leaving(&items, emptied).value());
        assert_eq!(left(Emptied::Kept), r#"{"a":{},"l":[],"m":{}}"#);
        assert_eq!(left(Emptied::Null), r#"{"a":null,"l":null,"m":null}"#);
    }
}
