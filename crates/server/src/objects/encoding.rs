//! Bytes of objects: their encoding for the store and for responses, and access to parts of them.

use std::ops::{ControlFlow, Range};

use holdfast_schema::types::{self, TypeId, TypeTable};
use holdfast_value::{Value, json};

use crate::http::protobuf;

/// Encodes an object for the store: without its resource version, but with a gap for it. The fields of built-in kinds
/// have the order of `types`, as in the reference's responses; the fields of other kinds are sorted by name.
///
/// Kind, version and metadata come first in built-in kinds: lists, whose items omit the first two, copy the rest of the
/// bytes (see [`list_item`]). Responses of metadata only cut the metadata out (see [`metadata_place`]).
pub fn encode(types: &TypeTable, object: &Value) -> holdfast_store::Value {
    encode_with_suffix(types, object, &[])
}

/// Encodes an object as [`encode`] does, followed by `suffix`, which is white space.
pub fn encode_with_suffix(types: &TypeTable, object: &Value, suffix: &[u8]) -> holdfast_store::Value {
    let mut bytes = Vec::with_capacity(4096);
    let room = types::write_object_with_room(types, type_of_object(types, object), object, &mut bytes);
    bytes.extend_from_slice(suffix);
    match room {
        Some(at) => holdfast_store::Value::object(bytes, at),
        None => holdfast_store::Value::plain(bytes),
    }
}

/// Encodes an object for a response, with its members in the order of [`encode`].
pub fn encode_answer(types: &TypeTable, object: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2048);
    types::write_object(types, type_of_object(types, object), object, &mut bytes);
    bytes
}

fn type_of_object(types: &TypeTable, object: &Value) -> Option<TypeId> {
    let text = |name| object.str_at(&[name]).unwrap_or_default();
    protobuf::type_of(types, text("apiVersion"), text("kind"))
}

/// Returns the bytes of an encoded object after kind and version, without the opening brace: the content of a list
/// item.
#[expect(clippy::indexing_slicing, reason = "an object begins with a brace")]
pub fn list_item<'a>(bytes: &'a [u8], kind: &str, api_version: &str) -> &'a [u8] {
    behind_identity(bytes, kind, api_version).unwrap_or(&bytes[1..])
}

/// Returns true if an encoded object has that kind and version.
pub fn is_of_version(bytes: &[u8], kind: &str, api_version: &str) -> bool {
    metadata_start(bytes, kind, api_version).is_some()
}

fn behind_identity<'a>(bytes: &'a [u8], kind: &str, api_version: &str) -> Option<&'a [u8]> {
    behind(
        bytes,
        [r#"{"kind":""#, kind, r#"","apiVersion":""#, api_version, r#"","#],
    )
}

fn behind<'a, const N: usize>(bytes: &'a [u8], parts: [&str; N]) -> Option<&'a [u8]> {
    let mut parts = parts.iter();
    parts.try_fold(bytes, |rest, part| rest.strip_prefix(part.as_bytes()))
}

/// Returns the start of the metadata in the bytes of an object, if it has that kind and version.
fn metadata_start(bytes: &[u8], kind: &str, api_version: &str) -> Option<usize> {
    const NAME: &str = r#""metadata":"#;
    let head = behind_identity(bytes, kind, api_version)
        // Custom resources have the order of names.
        .or_else(|| {
            behind(
                bytes,
                [r#"{"apiVersion":""#, api_version, r#"","kind":""#, kind, r#"","#],
            )
        });
    if let Some(rest) = head.and_then(|rest| behind(rest, [NAME])) {
        return Some(bytes.len() - rest.len());
    }
    // Other names may come before these.
    let (mut fitting, mut metadata) = (0, None);
    map_end(bytes, |start, end| {
        let member = bytes.get(start..end).unwrap_or_default();
        for (name, text) in [(r#""kind":""#, kind), (r#""apiVersion":""#, api_version)] {
            if let Some(rest) = behind(member, [name]) {
                if behind(rest, [text, "\""]) != Some(b"") {
                    return ControlFlow::Break(());
                }
                fitting += 1;
            }
        }
        if member.starts_with(NAME.as_bytes()) {
            metadata = Some(start + NAME.len());
        }
        match metadata {
            Some(_) if fitting == 2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    metadata.filter(|_| fitting == 2)
}

/// Returns the range of the metadata of an encoded object, as JSON, if it has that kind and version.
pub fn metadata_place(bytes: &[u8], kind: &str, api_version: &str) -> Option<Range<usize>> {
    let start = metadata_start(bytes, kind, api_version)?;
    if bytes.get(start) != Some(&b'{') {
        return None;
    }
    Some(start..json::end_of_value(bytes, start)?)
}

/// Returns metadata as JSON without their `managedFields`, in two pieces; `None` if they have none.
#[expect(clippy::indexing_slicing, reason = "the place of one of the members")]
pub fn without_managed_fields(metadata: &[u8]) -> Option<(&[u8], &[u8])> {
    const NAME: &[u8] = br#""managedFields":"#;
    let mut members = Vec::with_capacity(8);
    map_end(metadata, |start, end| {
        members.push((start, end));
        ControlFlow::Continue(())
    })?;
    let at = members.iter().position(|(start, end)| {
        metadata
            .get(*start..*end)
            .is_some_and(|member| member.starts_with(NAME))
    })?;
    let (start, end) = members[at];
    // The comma between it and its neighbour is removed too.
    let (start, end) = match at {
        0 => (start, members.get(1).map_or(end, |(next, _)| *next)),
        _ => (start - 1, end),
    };
    Some((metadata.get(..start)?, metadata.get(end..)?))
}

/// Returns the end of the map that `text` begins with. `member` gets the range of each of its members, and may end the
/// search.
fn map_end(text: &[u8], mut member: impl FnMut(usize, usize) -> ControlFlow<()>) -> Option<usize> {
    let (mut depth, mut at, mut start) = (0usize, 0, 1);
    loop {
        match text.get(at)? {
            b'"' if depth > 0 => {
                at = json::end_of_string(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return member(start, at).is_continue().then_some(at + 1);
                }
            }
            b',' if depth == 1 => {
                if member(start, at).is_break() {
                    return None;
                }
                start = at + 1;
            }
            // Metadata must be a map.
            _ if depth == 0 => return None,
            _ => {}
        }
        at += 1;
    }
}

/// Writes a small map with its members in the order of `names`.
pub(crate) fn write_in_order(map: &Value, names: &[&str], bytes: &mut Vec<u8>) {
    bytes.push(b'{');
    for key in names {
        if let Some(value) = map.get(key) {
            write_member(key, value, bytes);
        }
    }
    for (key, value) in map.as_map().into_iter().flatten() {
        if !names.contains(&key.as_str()) {
            write_member(key, value, bytes);
        }
    }
    bytes.push(b'}');
}

fn write_member(key: &str, value: &Value, bytes: &mut Vec<u8>) {
    if bytes.last() != Some(&b'{') {
        bytes.push(b',');
    }
    json::write_string(key, bytes);
    bytes.push(b':');
    json::write(value, bytes);
}

#[cfg(test)]
mod tests {
    use holdfast_value::Limits;

    use super::*;

    #[test]
    fn managed_fields_are_cut_out_of_metadata_wherever_they_stand() {
        for (metadata, rest) in [
            (
                r#"{"name":"a","managedFields":[{"a":"]}\""}]}"#,
                Some(r#"{"name":"a"}"#),
            ),
            (r#"{"managedFields":[],"name":"a"}"#, Some(r#"{"name":"a"}"#)),
            (r#"{"managedFields":[{}]}"#, Some("{}")),
            (
                r#"{"a":1,"managedFields":[],"b":{"c":2}}"#,
                Some(r#"{"a":1,"b":{"c":2}}"#),
            ),
            (r#"{"labels":{"managedFields":"x"}}"#, None),
            ("{}", None),
            ("null", None),
        ] {
            let pieces = without_managed_fields(metadata.as_bytes());
            let found = pieces.map(|(head, tail)| String::from_utf8([head, tail].concat()).unwrap());
            assert_eq!(found.as_deref(), rest, "{metadata}");
        }
    }

    fn types() -> TypeTable {
        holdfast_kind_tables::types().unwrap()
    }

    fn object(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn the_place_of_the_resource_version_is_within_the_metadata() {
        let metadata = r#""metadata":{"labels":{},"name":"a"},"spec":{"metadata":{}}"#;
        for (identity, before, behind) in [
            (
                r#""apiVersion":"v1","kind":"Pod""#,
                r#""name":"a","resourceVersion":""#,
                r#"","labels":{}}"#,
            ),
            (
                r#""apiVersion":"a.io/v1","kind":"A""#,
                r#""name":"a","resourceVersion":""#,
                "\"}",
            ),
        ] {
            let value = encode(&types(), &object(&format!("{{{identity},{metadata}}}")));
            let text = String::from_utf8(value.bytes().to_vec()).unwrap();
            let (head, tail) = text.split_at(value.revision_at().unwrap() as usize);
            assert!(head.ends_with(before), "{head}");
            assert!(tail.starts_with(behind), "{tail}");
        }
    }

    #[test]
    fn built_in_objects_are_written_in_the_order_of_their_types() {
        let text = r#"{"apiVersion":"v1","data":{"b":"<","a":"&"},"immutable":true,"kind":"ConfigMap","metadata":{"annotations":{"a":"}\\\""},"managedFields":[{"fieldsV1":{"f:b":{},"f:a":{}},"manager":"m"}],"name":"a","resourceVersion":"4"},"zone":1}"#;
        let object = object(text);
        let bytes = encode_answer(&types(), &object);
        let expected = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"4","annotations":{"a":"}\\\""},"managedFields":[{"manager":"m","fieldsV1":{"f:a":{},"f:b":{}}}]},"immutable":true,"data":{"a":"\u0026","b":"\u003c"},"zone":1}"#;
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), expected);
        assert_eq!(json::parse(&bytes, &Limits::TRUSTED).unwrap(), object);
    }

    #[test]
    fn other_objects_are_written_by_names() {
        let text = r#"{"kind":"A","apiVersion":"a.io/v1","spec":{"z":1,"b":[{"y":1,"x":2}]},"metadata":{"name":"a","labels":{}}}"#;
        let expected = r#"{"apiVersion":"a.io/v1","kind":"A","metadata":{"labels":{},"name":"a"},"spec":{"b":[{"x":2,"y":1}],"z":1}}"#;
        assert_eq!(encode_answer(&types(), &object(text)), expected.as_bytes());
        let text = r#"{"kind":"A","apiVersion":"a.io/v1","data":{"metadata":{}},"metadata":{},"a":1,"later":2}"#;
        let expected = r#"{"a":1,"apiVersion":"a.io/v1","data":{"metadata":{}},"kind":"A","later":2,"metadata":{}}"#;
        assert_eq!(encode_answer(&types(), &object(text)), expected.as_bytes());
    }

    #[test]
    fn metadata_are_cut_out_of_the_bytes_wherever_they_stand() {
        let metadata = r#"{"annotations":{"a":"}\\\"]"},"finalizers":["x"]}"#;
        for (kind, version, more) in [
            ("Pod", "v1", r#""spec":{}"#),
            ("A", "a.io/v1", r#""spec":{}"#),
            (
                "A",
                "a.io/v1",
                r#""a":{"kind":"B","metadata":{}},"kind2":"A","data":"metadata""#,
            ),
        ] {
            let text = format!(r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{metadata},{more}}}"#);
            let bytes = encode_answer(&types(), &object(&text));
            let place = metadata_place(&bytes, kind, version).unwrap();
            assert_eq!(std::str::from_utf8(&bytes[place]).unwrap(), metadata);
            for (kind, version) in [("Po", version), (kind, "v2"), ("Pods", version)] {
                assert_eq!(metadata_place(&bytes, kind, version), None);
                assert!(!is_of_version(&bytes, kind, version));
            }
        }
        for odd in [
            &b"{\"metadata\":1}"[..],
            b"{\"metadata\":{\"",
            b"{\"metadata\":}",
            b"{}",
            b"",
            b"{\"metadata\":{\"a\\",
            b"{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":1}",
        ] {
            assert_eq!(metadata_place(odd, "A", "v1"), None);
        }
    }

    #[test]
    fn an_item_of_a_list_is_the_object_without_kind_and_version() {
        let text = r#"{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{}}"#;
        let bytes = encode(&types(), &object(text)).bytes().clone();
        assert!(bytes.starts_with(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata""#));
        let item = list_item(&bytes, "ConfigMap", "v1");
        assert_eq!(item, br#""metadata":{"resourceVersion":""},"data":{"a":"1"}}"#);
    }
}
