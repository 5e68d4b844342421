//! Which parents of a set's paths a schema declares.

use super::{Level, Set, SetBuilder};
use crate::PathElement;
use crate::schema::{Schema, TypeRef};

impl Set {
    /// The set with each declared field that has paths below it made a member. A list item or a map entry above a path
    /// stays what it was, since owning what is in it does not own it.
    pub fn ensure_named_fields_are_members(&self, schema: &Schema, type_ref: TypeRef) -> Set {
        let mut out = SetBuilder::with_capacity(self.nodes().len());
        name_fields(self.level(), schema, type_ref, &mut out);
        out.finish()
    }
}

fn name_fields(level: Level<'_>, schema: &Schema, type_ref: TypeRef, out: &mut SetBuilder) {
    let of = schema.resolve(type_ref);
    for entry in level.entries() {
        if entry.below().is_empty() {
            out.push_leaf(entry.element().clone());
            continue;
        }
        let mut member = entry.is_member();
        let mut below = TypeRef::NONE;
        match (entry.element(), &of.map, &of.list) {
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
        let at = out.open(entry.element().clone());
        name_fields(entry.below(), schema, below, out);
        out.close(at, member);
    }
}
