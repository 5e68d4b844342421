//! Addition of the declared parents of a set's paths.

use super::{Level, Nodes, Set};
use crate::PathElement;
use crate::schema::{Schema, TypeRef};

impl Set {
    /// Returns the set with each declared field that has paths below it as a member. A list item or map entry above a
    /// path is unchanged, because owning its content does not own the item itself.
    pub fn ensure_named_fields_are_members(&self, schema: &Schema, type_ref: TypeRef) -> Set {
        let mut out = Nodes::with_capacity(self.level().nodes.len());
        name_fields(self.level(), schema, type_ref, &mut out);
        self.with_nodes(out)
    }
}

fn name_fields(level: Level<'_>, schema: &Schema, type_ref: TypeRef, out: &mut Nodes) {
    let resolved = schema.resolve(type_ref);
    for entry in level.entries() {
        if entry.below().is_empty() {
            out.push_leaf(entry.number());
            continue;
        }
        let mut member = entry.is_member();
        let mut below = TypeRef::NONE;
        match (entry.element(), &resolved.map, &resolved.list) {
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
        let at = out.open(entry.number());
        name_fields(entry.below(), schema, below, out);
        out.close(at, member);
    }
}
