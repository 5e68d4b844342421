//! Custom objects. Their form in etcd is the served JSON without the revision and with a trailing line break.

use holdfast_schema::types::{TypeTable, write_object_with_room};
use holdfast_store::Value as Served;
use holdfast_value::{Limits, Value, cbor, json};

use crate::AtRestError;

/// Member of a served object that is not stored.
const REVISION: &[u8] = br#""resourceVersion":""#;

/// Returns the stored form of a served object.
pub(crate) fn encode(served: &Served) -> Vec<u8> {
    let bytes = served.bytes();
    let mut stored = Vec::with_capacity(bytes.len() + 1);
    match served.revision_at().and_then(|at| around_revision(bytes, at as usize)) {
        Some((head, tail)) => {
            stored.extend_from_slice(head);
            stored.extend_from_slice(tail);
        }
        None => stored.extend_from_slice(bytes),
    }
    stored.push(b'\n');
    stored
}

/// Returns the bytes before and after the member whose value ends at `at`, without one of the commas around it.
fn around_revision(bytes: &[u8], at: usize) -> Option<(&[u8], &[u8])> {
    let (head, tail) = bytes.split_at_checked(at)?;
    let (head, tail) = (head.strip_suffix(REVISION)?, tail.strip_prefix(b"\"")?);
    Some(match (head.strip_suffix(b","), tail.strip_prefix(b",")) {
        (_, Some(tail)) => (head, tail),
        (Some(head), None) => (head, tail),
        (None, None) => (head, tail),
    })
}

/// Returns the served form of a stored object.
pub(crate) fn decode(types: &TypeTable, stored: &[u8]) -> Result<Served, AtRestError> {
    let object = tree(stored)?;
    for name in ["kind", "apiVersion"] {
        if object.str_at(&[name]).unwrap_or_default().is_empty() {
            return Err(AtRestError::Unidentified(if name == "kind" {
                "Kind"
            } else {
                "apiVersion"
            }));
        }
    }
    Ok(write_served(types, None, &object, stored.len() + 32, &[]))
}

/// Decodes a stored object from JSON, or from tagged CBOR, which a kube-apiserver on the same etcd may write.
pub(crate) fn tree(stored: &[u8]) -> Result<Value, holdfast_value::Error> {
    match stored.starts_with(&cbor::SELF_DESCRIBED) {
        true => cbor::parse(stored, &Limits::TRUSTED),
        false => json::parse(stored, &Limits::TRUSTED),
    }
}

/// Writes an object in its served form, followed by `suffix`, which is white space.
pub(crate) fn write_served(
    types: &TypeTable,
    of: Option<holdfast_schema::types::TypeId>,
    object: &Value,
    capacity: usize,
    suffix: &[u8],
) -> Served {
    let mut bytes = Vec::with_capacity(capacity);
    let room = write_object_with_room(types, of, object, &mut bytes);
    bytes.extend_from_slice(suffix);
    match room {
        Some(at) => Served::object(bytes, at),
        None => Served::plain(bytes),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn custom_object_is_stored_without_revision() {
        let types = TypeTable::default();
        for (stored, served) in [
            (
                r#"{"apiVersion":"a.io/v1","kind":"A","metadata":{"name":"a","uid":"u"}}"#,
                r#"{"apiVersion":"a.io/v1","kind":"A","metadata":{"name":"a","resourceVersion":"","uid":"u"}}"#,
            ),
            (
                r#"{"apiVersion":"a.io/v1","kind":"A","metadata":{"name":"a"},"spec":{"resourceVersion":""}}"#,
                r#"{"apiVersion":"a.io/v1","kind":"A","metadata":{"name":"a","resourceVersion":""},"spec":{"resourceVersion":""}}"#,
            ),
            (
                r#"{"apiVersion":"a.io/v1","kind":"A","metadata":{}}"#,
                r#"{"apiVersion":"a.io/v1","kind":"A","metadata":{"resourceVersion":""}}"#,
            ),
        ] {
            let stored = format!("{stored}\n");
            let decoded = decode(&types, stored.as_bytes()).unwrap();
            assert_eq!(decoded.bytes(), served);
            assert_eq!(encode(&decoded), stored.as_bytes());
        }
    }

    #[test]
    fn cbor_is_read_as_json_is() {
        let text = r#"{"apiVersion":"a.io/v1","kind":"A","metadata":{"name":"a"}}"#;
        let mut stored = Vec::new();
        cbor::write(&json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap(), &mut stored);
        let decoded = |stored: &[u8]| decode(&TypeTable::default(), stored).unwrap().bytes().to_vec();
        assert_eq!(decoded(&stored), decoded(text.as_bytes()));
    }

    #[test]
    fn object_without_kind_is_rejected() {
        let error = |text: &str| decode(&TypeTable::default(), text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error(r#"{"apiVersion":"a.io/v1"}"#), "Object 'Kind' is missing");
        assert_eq!(error(r#"{"kind":"A"}"#), "Object 'apiVersion' is missing");
        assert!(!error("{").is_empty());
    }
}
