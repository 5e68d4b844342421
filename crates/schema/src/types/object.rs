//! Whole objects in JSON, in the form in which they are served and stored.

use holdfast_value::{Map, SmolStr, Value, json};

use crate::names::{GroupVersion, GroupVersionKind};
use crate::types::write::{NO_PLACE, members};
use crate::types::{Field, Shape, Type, TypeId, TypeTable, write_json};

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
    let object_type = of.map(|id| types.get(id));
    let mut revision_at = None;
    out.push(b'{');
    for (at, member) in object
        .as_map()
        .into_iter()
        .flat_map(|map| members(object_type, map))
        .enumerate()
    {
        if at > 0 {
            out.push(b',');
        }
        member.write_name(out);
        match member.value() {
            Value::Map(metadata) if member.name() == METADATA => {
                let of_metadata = match member.shape() {
                    Some(Shape::Ref(id)) => Some(types.get(*id)),
                    _ => None,
                };
                revision_at = Some(write_metadata(types, of_metadata, metadata, out));
            }
            value => write_json(types, member.shape(), value, out),
        }
    }
    out.push(b'}');
    revision_at.flatten()
}

/// Writes metadata with an empty resource version. Returns the offset of its text, if it fits.
fn write_metadata(types: &TypeTable, of: Option<&Type>, metadata: &Map, out: &mut Vec<u8>) -> Option<u32> {
    let field = of.and_then(|of| of.field(RESOURCE_VERSION));
    let room = (field.map_or(NO_PLACE, Field::place), RESOURCE_VERSION);
    let mut revision_at = None;
    let mut write_room = |separator: &[u8], out: &mut Vec<u8>| {
        for part in [separator, b"\"", RESOURCE_VERSION.as_bytes(), b"\":\"\""] {
            out.extend_from_slice(part);
        }
        revision_at = u32::try_from(out.len() - 1).ok();
    };
    out.push(b'{');
    let (mut has_room, mut separator) = (false, &b""[..]);
    for member in members(of, metadata) {
        if !has_room && (member.place(), member.name().as_str()) >= room {
            write_room(separator, out);
            (has_room, separator) = (true, b",");
        }
        if member.name() == RESOURCE_VERSION {
            continue;
        }
        out.extend_from_slice(separator);
        separator = b",";
        member.write_name(out);
        write_json(types, member.shape(), member.value(), out);
    }
    if !has_room {
        write_room(separator, out);
    }
    out.push(b'}');
    revision_at
}

#[cfg(test)]
mod tests {
    use holdfast_value::Limits;

    use super::*;

    const TYPES: &str = "type a.Thing struct kind(v1/Thing)
  kind string -
  apiVersion string -
  metadata a.Meta 1

type a.Meta struct
  name string 1
  uid string 2
  resourceVersion string 3
  labels {}string 4
";

    #[test]
    fn room_is_at_place_of_resource_version() {
        let types = TypeTable::parse(TYPES).unwrap();
        let known = types.id("a.Thing");
        for (metadata, typed, untyped) in [
            ("{}", r#"{"resourceVersion":""}"#, r#"{"resourceVersion":""}"#),
            (
                r#"{"labels":{}}"#,
                r#"{"resourceVersion":"","labels":{}}"#,
                r#"{"labels":{},"resourceVersion":""}"#,
            ),
            (
                r#"{"uid":"u","name":"n"}"#,
                r#"{"name":"n","uid":"u","resourceVersion":""}"#,
                r#"{"name":"n","resourceVersion":"","uid":"u"}"#,
            ),
            (
                r#"{"resourceVersion":"7","zone":1,"a":2,"labels":{}}"#,
                r#"{"resourceVersion":"","labels":{},"a":2,"zone":1}"#,
                r#"{"a":2,"labels":{},"resourceVersion":"","zone":1}"#,
            ),
        ] {
            let text = format!(r#"{{"kind":"Thing","metadata":{metadata}}}"#);
            let object = json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap();
            for (of, expected) in [(known, typed), (None, untyped)] {
                let mut out = b"before ".to_vec();
                let at = write_object_with_room(&types, of, &object, &mut out).unwrap();
                let written = String::from_utf8(out).unwrap();
                assert_eq!(written, format!(r#"before {{"kind":"Thing","metadata":{expected}}}"#));
                assert!(written[..at as usize].ends_with(r#""resourceVersion":""#));
            }
        }
        let mut out = Vec::new();
        assert_eq!(
            write_object_with_room(&types, known, &Value::empty_map(), &mut out),
            None
        );
        assert_eq!(out, b"{}");
    }
}
