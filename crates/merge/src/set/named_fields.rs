//! Which parents of a set's paths a schema declares.

use super::{Entries, Entry, Set};
use crate::PathElement;
use crate::schema::{Schema, TypeRef};

impl Set {
    /// The set with each declared field that has paths below it made a member. A list item or a map entry above a path
    /// stays what it was, since owning what is in it does not own it.
    pub fn ensure_named_fields_are_members(&self, schema: &Schema, type_ref: TypeRef) -> Set {
        let mut out: Option<Entries> = None;
        let kind = schema.resolve(type_ref);
        for (at, entry) in self.entries().iter().enumerate() {
            if entry.children.is_empty() {
                if let Some(out) = &mut out {
                    out.push(entry.clone());
                }
                continue;
            }
            let mut member = entry.member;
            let mut below = TypeRef::NONE;
            match (&entry.element, &kind.map, &kind.list) {
                (PathElement::Field(name), Some(map), _) => match map.field(name) {
                    Some(field) => {
                        member = true;
                        below = field.type_ref;
                    }
                    None => below = map.element,
                },
                (PathElement::Key(_), _, Some(list)) => below = list.element,
                _ => {}
            }
            let children = entry.children.ensure_named_fields_are_members(schema, below);
            if out.is_none() && member == entry.member && children.same(&entry.children) {
                continue;
            }
            out.get_or_insert_with(|| self.entries()[..at].iter().cloned().collect())
                .push(Entry::new(entry.element.clone(), member, children));
        }
        out.map_or_else(|| self.clone(), Set::from_entries)
    }
}
