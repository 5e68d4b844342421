//! Invariants for any bytes, shared by the tests and the fuzz target.

use holdfast_proto::{Envelope, Messages};
use holdfast_schema::types::{self, TypeId};
use holdfast_value::{Limits, Value};

/// Limits that the bytes of a test can reach.
const LIMITS: Limits = Limits {
    max_bytes: 64 << 10,
    max_depth: 64,
    max_nodes: 20_000,
};

/// Reads `bytes` as a message of the type. If that succeeds, the value must survive a round trip.
pub(crate) fn message(messages: &Messages, of: TypeId, bytes: &[u8]) {
    // Bytes that are not an envelope must only give an error.
    let _ = Envelope::read(bytes);
    let Ok(value) = messages.decode(of, bytes, &LIMITS) else {
        return;
    };
    assert!(value.depth() <= LIMITS.max_depth);
    assert!(nodes_in(&value) <= LIMITS.max_nodes);
    let mut written = Vec::new();
    let outcome = messages.encode(of, &value, &mut written);
    assert_eq!(outcome, Ok(()), "{value}");
    let again = messages.decode(of, &written, &Limits::TRUSTED);
    assert_eq!(again.as_ref(), Ok(&value));
    // `Provenance::from_message` relies on this.
    let typed = types::decode(messages.types(), of, &value).unwrap();
    assert_eq!(typed.value, value);
    assert!(
        typed.unknown.is_empty() && typed.floats.is_empty() && typed.empties.is_empty(),
        "{value}"
    );
}

/// Counts the values in the tree, without those that types fill in themselves.
fn nodes_in(value: &Value) -> usize {
    match value {
        Value::List(items) => items.iter().map(nodes_in).sum(),
        Value::Map(entries) => entries.len(),
        _ => 0,
    }
}
