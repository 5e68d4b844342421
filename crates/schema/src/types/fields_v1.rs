//! Sets of fields in their JSON form.

use holdfast_merge::{PathElement, fields_v1_source, fields_v1_text};
use holdfast_value::json::Deferred;
use holdfast_value::{Entry, Map, Value, json};
use smallvec::SmallVec;

/// Owned fields of the managers of an object that is read: parsed only when they are needed.
pub const OWNED_FIELDS: Deferred<'static> = Deferred {
    path: &["metadata", "managedFields", "fieldsV1"],
    make: fields_v1_source,
};

/// Appends a set of fields in the reference's form: elements for a struct's fields by name, then the items of lists by
/// their keys or values, which are compared as such: `k:{"containerPort":80}` precedes `k:{"containerPort":443}`.
pub fn write_fields_v1(set: &Value, out: &mut Vec<u8>) {
    if let Some(text) = fields_v1_text(set) {
        return out.extend_from_slice(text);
    }
    let Value::Map(map) = set else {
        return json::write(set, out);
    };
    out.push(b'{');
    let mut write = |at: usize, (name, within): &Entry| {
        if at > 0 {
            out.push(b',');
        }
        json::write_string(name, out);
        out.push(b':');
        write_fields_v1(within, out);
    };
    match reordered(map) {
        None => map.iter().enumerate().for_each(|(at, entry)| write(at, entry)),
        Some(entries) => entries.into_iter().enumerate().for_each(|(at, entry)| write(at, entry)),
    }
    out.push(b'}');
}

/// Returns the entries in the order of path elements, if that is not the order of their texts.
fn reordered(map: &Map) -> Option<SmallVec<[&Entry; 16]>> {
    let items = map.partition_point(|(name, _)| name.as_str() < "i:");
    let (fields, texts) = map.split_at_checked(items)?;
    if texts.len() < 2 || texts.iter().all(|(name, _)| is_ordered_by_text(name)) {
        return None;
    }
    let mut elements = Vec::with_capacity(texts.len());
    for entry in texts {
        // A malformed set is left unchanged.
        elements.push((PathElement::parse(&entry.0).ok()?, entry));
    }
    elements.sort_by(|(a, _), (b, _)| a.cmp(b));
    Some(
        fields
            .iter()
            .chain(elements.into_iter().map(|(_, entry)| entry))
            .collect(),
    )
}

/// Returns true if, among elements of this form, the order of texts is that of elements: a key with one text that has
/// no character which sorts before its closing quote, `k:{"name":"a"}`.
fn is_ordered_by_text(name: &str) -> bool {
    let text = name
        .strip_prefix("k:{\"")
        .and_then(|rest| rest.strip_suffix("\"}"))
        .or_else(|| name.strip_prefix("v:\"")?.strip_suffix('"'));
    text.is_some_and(|text| {
        let (key, value) = text.split_once("\":\"").unwrap_or(("", text));
        let is_plain = |text: &str| text.bytes().all(|byte| byte > b'"' && byte != b'\\');
        is_plain(key) && is_plain(value)
    })
}

#[cfg(test)]
mod tests {
    use holdfast_value::Limits;

    use super::*;

    #[test]
    fn items_stand_in_the_order_of_their_keys_and_values() {
        for text in [
            r#"{".":{},"f:a":{},"f:b":{".":{}}}"#,
            r#"{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{},"k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{}}"#,
            r#"{"k:{\"name\":\"a\"}":{},"k:{\"name\":\"a b\"}":{"f:x":{}},"k:{\"name\":\"ab\"}":{}}"#,
            r#"{"v:2":{},"v:10":{},"v:\"a\"":{},"v:\"b\"":{}}"#,
            r#"{"k:{\"a\":1}":{},"v:1":{},"i:0":{},"i:2":{},"i:10":{}}"#,
        ] {
            let set = json::parse(text.as_bytes(), &Limits::REQUEST).unwrap();
            let mut out = Vec::new();
            write_fields_v1(&set, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
