//! What a write owns in the form of `managedFields`, without its set: for the many writes after which the set is not needed.

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
    /// The FieldsV1 form of [`Typed::to_field_set`] without the paths of `but`: what an apply of this value owns. `None` where the
    /// set is to be made: where the value does not fit its type, an item has no name of its own, or a name has escapes.
    pub fn to_applied_fields_v1(&self, but: &Set) -> Option<Value> {
        let left_out = LeftOut {
            paths: but.level(),
            ..LeftOut::default()
        };
        self.fields_v1(Ownership::Applied, None, left_out)
    }

    /// As [`Typed::new`] of a value without items of one name, with what [`Typed::to_applied_fields_v1`] gives of it: one walk sees
    /// both, but where something is wrong or the set is to be made.
    ///
    /// # Errors
    /// Everything about the value that does not fit.
    pub fn new_applied(
        value: Value,
        schema: Arc<Schema>,
        type_ref: TypeRef,
        but: &Set,
    ) -> Result<(Self, Option<Value>), ValidationErrors> {
        let mut typed = Self::unchecked(value, schema, type_ref);
        let fields = typed.to_applied_fields_v1(but);
        if fields.is_none() {
            typed.validate(Duplicates::Refused)?;
        }
        typed.checked = Checked::Unique;
        Ok((typed, fields))
    }

    /// The same of what the comparison of `older` with this value adds and modifies, without the paths of `ignored` and all below
    /// them: what an update owns where no manager owns anything yet.
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

/// What is left out below a node.
#[derive(Clone, Copy, Default)]
struct LeftOut<'s> {
    paths: Level<'s>,
    /// Paths that are left out with all below them.
    trees: Level<'s>,
}

/// Writes the paths below a node.
struct TextWalk<'a> {
    schema: &'a Schema,
    ownership: Ownership,
    /// Whether the value is known to fit its type; else the walk looks whether it does.
    is_valid: bool,
    /// In how many maps and lists the walk is.
    depth: usize,
    out: Vec<u8>,
    /// Whether all keys stand in the order of their names.
    by_name: bool,
}

impl TextWalk<'_> {
    /// Writes what is below a node, and says whether the node is itself a member. `older` is what stood there before.
    fn node(&mut self, type_ref: TypeRef, value: &Value, older: Option<&Value>, left_out: LeftOut<'_>) -> Option<bool> {
        let of = self.schema.resolve(type_ref);
        if of.missing {
            return None;
        }
        let kind = first_kind(deduce(of, value));
        if older.is_some_and(|older| first_kind(deduce(of, older)) != kind) {
            return None;
        }
        let differs = || older.is_none_or(|older| older != value);
        let fits = |walk: &Self| walk.is_valid || is_valid(walk.schema, type_ref, value, walk.depth);
        match (kind, &of.map, &of.list) {
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

    /// Goes into a map or a list; what is too deep does not fit its type.
    fn descend(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())
    }

    /// Whether a container is a member: where it came as a whole, and that counts.
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
            // Room for the key and all that stands around it.
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
            let written = self.below(start, type_ref, (value, older_value), left_out, may_be)?;
            first &= !written;
        }
        Some(())
    }

    /// Writes the items of a list, where there were none before.
    fn list(&mut self, list: &ListType, items: &[Value]) -> Option<()> {
        let names = names(list, items).ok()?;
        let mut order: Vec<(&Name<'_>, &Value)> = names.iter().zip(items).collect();
        if !in_order(&names) {
            order.sort_by(|a, b| a.0.compare(b.0));
            // Items of one name are owned as one.
            if !order.is_sorted_by(|a, b| a.0.compare(b.0).is_lt()) {
                return None;
            }
        }
        let mut last = None;
        for (at, (name, item)) in order.into_iter().enumerate() {
            let start = self.out.len();
            self.out.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
            let key = self.out.len();
            self.name(list, name)?;
            let key = key..self.out.len();
            if let Some(last) = last.replace(key.clone()) {
                self.by_name &= is_before(self.out.get(last)?, self.out.get(key)?);
            }
            self.below(
                start,
                list.element,
                (item, None),
                LeftOut::default(),
                Membership::Always,
            )?;
        }
        Some(())
    }

    /// Writes the name of an item; `None` where it has escapes of its own.
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

    /// Writes what stands behind the key of an entry that began at `start`, and says whether it stays: one that is neither a
    /// member nor has anything below it is taken back.
    fn below(
        &mut self,
        start: usize,
        type_ref: TypeRef,
        (value, older): (&Value, Option<&Value>),
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
        // What has something below it is no leaf.
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

/// Whether an entry is a member.
#[derive(Clone, Copy)]
enum Membership {
    Always,
    Never,
    /// Where what stands there makes it one.
    AsNode,
}

/// Whether a name stands before another one, without the backslashes of both.
fn is_before(a: &[u8], b: &[u8]) -> bool {
    fn plain(text: &[u8]) -> impl Iterator<Item = &u8> {
        text.iter().filter(|byte| **byte != b'\\')
    }
    plain(a).lt(plain(b))
}
