//! Ownership of a write in the form of `managedFields`, computed without a set, for the many writes after which the set
//! is not needed.

use std::sync::Arc;

use holdfast_value::{Map, Value};

use super::items::{Name, in_order, names};
use super::to_set::Ownership;
use super::validate::{is_valid, scalar_error};
use super::{Checked, Duplicates, Kind, Typed, ValidationErrors, deduce, first_kind, identical};
use crate::Set;
use crate::path_element::{is_plain, is_plain_value, write_plain_value};
use crate::scan::MAX_DEPTH;
use crate::schema::{ListType, MapType, Schema, TypeRef};
use crate::set::{Entry, Level, written};

impl Typed {
    /// Returns the FieldsV1 form of [`Typed::to_field_set`] without the paths of `but`: the fields that an apply of
    /// this value owns. `None` if the caller must build the set: the value does not fit its type, an item has no
    /// distinct key, or a name has escapes.
    pub fn to_applied_fields_v1(&self, but: &Set) -> Option<Value> {
        let left_out = LeftOut {
            paths: but.level(),
            ..LeftOut::default()
        };
        self.fields_v1(Ownership::Applied, None, left_out)
    }

    /// Creates a value without repeated keys like [`Typed::new`], and returns it with the result of
    /// [`Typed::to_applied_fields_v1`]. Both need one walk, unless there are errors or the caller must build the set.
    ///
    /// # Errors
    /// Returns all validation errors of the value.
    pub fn new_applied(
        value: Value,
        schema: Arc<Schema>,
        type_ref: TypeRef,
        but: &Set,
    ) -> Result<(Self, Option<Value>), ValidationErrors> {
        let mut typed = Self::unchecked(value, schema, type_ref);
        let fields = typed.to_applied_fields_v1(but);
        if fields.is_none() {
            typed.validate(Duplicates::Rejected)?;
        }
        typed.checked = Checked::Unique;
        Ok((typed, fields))
    }

    /// Returns the FieldsV1 form of the paths that the comparison of `older` with this value adds and modifies, without
    /// the paths of `but`, and without those of `ignored` and their descendants: the fields that an update owns if
    /// there are no managers yet.
    pub fn to_changed_fields_v1(&self, older: &Typed, but: &Set, ignored: &Set) -> Option<Value> {
        if !self.has_type_of(older) || older.checked < Checked::Valid {
            return None;
        }
        let left_out = LeftOut {
            paths: but.level(),
            trees: ignored.level(),
        };
        self.fields_v1(Ownership::Whole, Some(&older.value), left_out)
    }

    fn fields_v1(&self, ownership: Ownership, older: Option<&Value>, left_out: LeftOut<'_>) -> Option<Value> {
        let mut walk = TextWalk {
            schema: &self.schema,
            ownership,
            is_valid: self.checked >= Checked::Valid,
            depth: 0,
            out: Vec::with_capacity(2048),
            by_name: true,
        };
        walk.out.push(b'{');
        walk.node(self.type_ref, &self.value, older, left_out)?;
        walk.out.push(b'}');
        if walk.out.len() == "{}".len() {
            return Some(Value::empty_map());
        }
        let text = String::from_utf8(walk.out).ok()?;
        Some(Value::Map(Map::made_of(written(text, walk.by_name))))
    }
}

/// Paths to omit below a node.
#[derive(Clone, Copy, Default)]
struct LeftOut<'s> {
    paths: Level<'s>,
    /// Paths to omit with their descendants.
    trees: Level<'s>,
}

/// Walk that writes the paths below a node.
struct TextWalk<'a> {
    schema: &'a Schema,
    ownership: Ownership,
    /// True if the value is known to fit its type; otherwise the walk validates it.
    is_valid: bool,
    /// Number of maps and lists around the current node.
    depth: usize,
    out: Vec<u8>,
    /// True if all keys are in the order of their names.
    by_name: bool,
}

impl TextWalk<'_> {
    /// Writes the paths below a node; returns true if the node itself is a member. `older` is the previous value of the
    /// node.
    fn node(&mut self, type_ref: TypeRef, value: &Value, older: Option<&Value>, left_out: LeftOut<'_>) -> Option<bool> {
        let resolved = self.schema.resolve(type_ref);
        if resolved.missing {
            return None;
        }
        let kind = first_kind(deduce(resolved, value));
        if older.is_some_and(|older| first_kind(deduce(resolved, older)) != kind) {
            return None;
        }
        let differs = || older.is_none_or(|older| older != value);
        let fits = |walk: &Self| walk.is_valid || is_valid(walk.schema, type_ref, value, walk.depth);
        match (kind, &resolved.map, &resolved.list) {
            (Some(Kind::Scalar), ..) => fits(self).then(differs),
            (Some(Kind::Map), Some(map), _) if map.atomic => fits(self).then(differs),
            (Some(Kind::List), _, Some(list)) if list.is_atomic() => fits(self).then(differs),
            (Some(Kind::Map), ..) if !self.is_valid && !matches!(value, Value::Map(_) | Value::Null) => None,
            (Some(Kind::List), ..) if !self.is_valid && !matches!(value, Value::List(_) | Value::Null) => None,
            (Some(Kind::Map), Some(map), _) => {
                let older_map = older.and_then(Value::as_map);
                if let Some(entries) = value.as_map().filter(|entries| !entries.is_empty()) {
                    self.descend()?;
                    self.map(map, entries, older_map, left_out)?;
                    self.depth -= 1;
                } else if older_map.is_none_or(|older| older.is_empty()) {
                    return Some(self.is_member(older) || older.is_some() && differs());
                }
                Some(self.is_member(older))
            }
            (Some(Kind::List), _, Some(list)) => {
                let is_changed = older.and_then(Value::as_list).is_some_and(|older| !older.is_empty());
                let items = value.as_list().filter(|items| !items.is_empty());
                let is_left_out = items.is_some() && !(left_out.paths.is_empty() && left_out.trees.is_empty());
                if is_changed || is_left_out {
                    return None;
                }
                match items {
                    Some(items) => {
                        self.descend()?;
                        self.list(list, items)?;
                        self.depth -= 1;
                    }
                    None if older.is_some() => return Some(differs()),
                    None => {}
                }
                Some(self.is_member(older))
            }
            _ => None,
        }
    }

    /// Enters a map or list. One that is nested too deep does not fit its type.
    fn descend(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())
    }

    /// True if a container is a member: it was added as a whole, and containers count.
    fn is_member(&self, older: Option<&Value>) -> bool {
        self.ownership == Ownership::Whole && older.is_none()
    }

    fn map(&mut self, map: &MapType, entries: &Map, older: Option<&Map>, left_out: LeftOut<'_>) -> Option<()> {
        let LeftOut { mut paths, mut trees } = left_out;
        let mut fields = map.cursor();
        let mut older_entries = older.into_iter().flatten().peekable();
        let mut first = true;
        for (key, value) in entries {
            while older_entries.next_if(|(older, _)| older < key).is_some() {}
            let older_value = older_entries.next_if(|(older, _)| older == key).map(|(_, value)| value);
            if older_value.is_some_and(|older| identical(older, value)) {
                continue;
            }
            let tree = trees.advance_to_field(key);
            let field = fields.find(key);
            let type_ref = field.map_or(map.element, |field| field.type_ref);
            if tree.is_some_and(Entry::is_member) {
                if !self.is_valid && !is_valid(self.schema, type_ref, value, self.depth) {
                    return None;
                }
                continue;
            }
            let came = match self.ownership {
                Ownership::Whole => older_value.is_none(),
                Ownership::Applied => {
                    field.is_none()
                        || match value {
                            Value::Null => true,
                            Value::Map(entries) => entries.is_empty(),
                            _ => false,
                        }
                }
            };
            if !field.map_or_else(|| is_plain(key), |field| field.is_plain) {
                return None;
            }
            let start = self.out.len();
            // Capacity for the key and the punctuation around it.
            self.out.reserve(key.len() + 16);
            self.out.extend_from_slice(if first { b"\"f:" } else { b",\"f:" });
            self.out.extend_from_slice(key.as_bytes());
            let path = paths.advance_to_field(key);
            let left_out = LeftOut {
                paths: path.map(Entry::below).unwrap_or_default(),
                trees: tree.map(Entry::below).unwrap_or_default(),
            };
            let may_be = match path.is_some_and(Entry::is_member) {
                true => Membership::Never,
                false if came => Membership::Always,
                false => Membership::AsNode,
            };
            let written = self.below(start, type_ref, value, older_value, left_out, may_be)?;
            first &= !written;
        }
        Some(())
    }

    /// Writes the items of a list that had none before.
    fn list(&mut self, list: &ListType, items: &[Value]) -> Option<()> {
        let names = names(list, items).ok()?;
        let mut order: Vec<(&Name<'_>, &Value)> = names.iter().zip(items).collect();
        if !in_order(&names) {
            order.sort_by(|a, b| a.0.compare(b.0));
            // Items with the same key are owned as one.
            if !order.is_sorted_by(|a, b| a.0.compare(b.0).is_lt()) {
                return None;
            }
        }
        let mut last = None;
        for (at, (name, item)) in order.into_iter().enumerate() {
            let start = self.out.len();
            self.out.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
            let key_start = self.out.len();
            self.name(list, name)?;
            let key = key_start..self.out.len();
            if let Some(last) = last.replace(key.clone()) {
                self.by_name &= is_before(self.out.get(last)?, self.out.get(key)?);
            }
            self.below(start, list.element, item, None, LeftOut::default(), Membership::Always)?;
        }
        Some(())
    }

    /// Writes the key of an item; `None` if it needs escapes.
    fn name<'n>(&mut self, list: &'n ListType, name: &Name<'n>) -> Option<()> {
        let mut parts = name.parts(list);
        if list.keys.is_empty() {
            let (_, value) = parts.next()?;
            self.out.extend_from_slice(b"v:");
            return self.value(value);
        }
        self.out.extend_from_slice(b"k:{");
        let mut separator: &[u8] = b"\\\"";
        for (field, value) in parts {
            if !is_plain(field) {
                return None;
            }
            self.out.extend_from_slice(separator);
            self.out.extend_from_slice(field.as_bytes());
            self.out.extend_from_slice(b"\\\":");
            self.value(value)?;
            separator = b",\\\"";
        }
        self.out.push(b'}');
        Some(())
    }

    fn value(&mut self, value: &Value) -> Option<()> {
        is_plain_value(value).then(|| write_plain_value(value, &mut self.out))
    }

    /// Writes the value of an entry whose key began at `start`; returns true if the entry stays. An entry that is
    /// neither a member nor has anything below it is removed again.
    fn below(
        &mut self,
        start: usize,
        type_ref: TypeRef,
        value: &Value,
        older: Option<&Value>,
        left_out: LeftOut<'_>,
        membership: Membership,
    ) -> Option<bool> {
        let is_leaf = !matches!(value, Value::Map(_) | Value::List(_) | Value::Null);
        let scalar = self.schema.resolve(type_ref).scalar.as_ref();
        if let Some(scalar) = scalar.filter(|_| is_leaf && older.is_none()) {
            if !self.is_valid && scalar_error(scalar, value, "").is_some() {
                return None;
            }
            let is_member = !matches!(membership, Membership::Never);
            match is_member {
                true => self.out.extend_from_slice(b"\":{}"),
                false => self.out.truncate(start),
            }
            return Some(is_member);
        }
        self.out.extend_from_slice(b"\":{");
        let bare = self.out.len();
        let of_node = |of_node| match membership {
            Membership::Always => true,
            Membership::Never => false,
            Membership::AsNode => of_node,
        };
        // A node with anything below it is not a leaf.
        if of_node(self.is_member(older)) {
            self.out.extend_from_slice(b"\".\":{},");
        }
        let marked = self.out.len();
        let is_member = of_node(self.node(type_ref, value, older, left_out)?);
        if self.out.len() == marked {
            if !is_member {
                self.out.truncate(start);
                return Some(false);
            }
            self.out.truncate(bare);
        }
        self.out.push(b'}');
        Some(true)
    }
}

/// Membership of an entry in the set.
#[derive(Clone, Copy)]
enum Membership {
    Always,
    Never,
    /// Determined by the node below the key.
    AsNode,
}

/// True if a name sorts before another one, ignoring the backslashes of both.
fn is_before(a: &[u8], b: &[u8]) -> bool {
    fn plain(text: &[u8]) -> impl Iterator<Item = &u8> {
        text.iter().filter(|byte| **byte != b'\\')
    }
    plain(a).lt(plain(b))
}
