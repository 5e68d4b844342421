//! Invariants for the JSON of any object, shared by the tests and the fuzz target.

use holdfast_proto::Messages;
use holdfast_schema::types::{OWNED_FIELDS, TypeId};
use holdfast_value::{Limits, json};

/// Encodes the JSON `text` of an object by way of a record. If it has one, the bytes must be those of its tree. Returns
/// true if it has a record.
pub(crate) fn text(messages: &Messages, of: TypeId, text: &[u8]) -> bool {
    let mut written = Vec::new();
    if messages.encode_text(of, text, &mut written).is_none() {
        assert!(written.is_empty());
        return false;
    }
    let tree = json::parse_deferring(text, &Limits::TRUSTED, OWNED_FIELDS);
    let mut expected = Vec::new();
    let outcome = tree.map(|tree| messages.encode(of, &tree, &mut expected));
    assert_eq!(outcome, Ok(Ok(())), "{}", text.escape_ascii());
    assert!(written == expected, "{}", text.escape_ascii());
    true
}
