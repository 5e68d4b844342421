//! Whole objects in JSON, in the form in which they are served and stored.

use holdfast_value::{Map, SmolStr, Value, json};

use crate::names::{GroupVersion, GroupVersionKind};
use crate::types::{Shape, Type, TypeId, TypeTable, members, write_json};

const METADATA: &str = "metadata";
const RESOURCE_VERSION: &str = "resourceVersion";

impl TypeTable {
    /// Returns the type of the objects of a kind, by the texts in their `apiVersion` and `kind`.
    pub fn id_of_object(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        self.id_of_kind(&GroupVersionKind {
            group_version: GroupVersion::parse(api_version)?,
            kind: SmolStr::new(kind),
        })
    }
}

/// Appends the JSON of an object of the type `of`: its fields in the order of the type, as in the reference's
/// responses. The fields of an object without a type are in the order of their names.
pub fn write_object(types: &TypeTable, of: Option<TypeId>, object: &Value, out: &mut Vec<u8>) {
    match of {
        Some(of) => write_json(types, Some(&Shape::Ref(of)), object, out),
        None => json::write(object, out),
    }
}

/// Appends like [`write_object`], with room for the resource version instead of the one that the object has, if any.
/// Returns the offset at which its text belongs; `None` if the object has no metadata.
pub fn write_object_with_room(types: &TypeTable, of: Option<TypeId>, object: &Value, out: &mut Vec<u8>) -> Option<u32> {
    let mut revision_at = None;
    let ty = of.map(|of| types.get(of));
    write_members(ty, object.as_map(), out, |name, value, shape, out| match value {
        Value::Map(metadata) if name == METADATA => {
            let member_type = match shape {
                Some(Shape::Ref(id)) => Some(types.get(*id)),
                _ => None,
            };
            revision_at = write_metadata(types, member_type, metadata, out);
        }
        _ => write_json(types, shape, value, out),
    });
    revision_at
}

fn write_metadata(types: &TypeTable, of: Option<&Type>, metadata: &Map, out: &mut Vec<u8>) -> Option<u32> {
    let mut revision_at = None;
    let with_room;
    let metadata = if metadata.contains_key(RESOURCE_VERSION) {
        metadata
    } else {
        let mut copy = metadata.clone();
        copy.insert(RESOURCE_VERSION, "");
        with_room = copy;
        &with_room
    };
    write_members(of, Some(metadata), out, |name, value, shape, out| match name {
        RESOURCE_VERSION => {
            out.extend_from_slice(b"\"\"");
            revision_at = u32::try_from(out.len() - 1).ok();
        }
        _ => write_json(types, shape, value, out),
    });
    revision_at
}

/// Writes a map, with `write` for the value of each member.
fn write_members(
    of: Option<&Type>,
    map: Option<&Map>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&str, &Value, Option<&Shape>, &mut Vec<u8>),
) {
    out.push(b'{');
    let mut member = |name: &SmolStr, value: &Value, shape: Option<&Shape>| {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        json::write_string(name, out);
        out.push(b':');
        write(name, value, shape, out);
    };
    match (of, map) {
        (Some(of), Some(map)) => {
            for found in &members(of, map) {
                member(found.name(), found.value(), found.shape());
            }
        }
        (None, Some(map)) => map.iter().for_each(|(name, value)| member(name, value, None)),
        (_, None) => {}
    }
    out.push(b'}');
}
