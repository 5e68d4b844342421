//! What objects hold that no other may hold, written together with them where several servers share a store.

use holdfast_resource::{Claim, Registry};
use holdfast_store::{Op, Transaction};
use holdfast_value::{Limits, json};

use super::{Objects, Snapshot, readable};
use crate::runtime::{Clock as _, SystemClock};

/// The transaction with the claims of the objects that it writes. Where another server was faster, a guard fails, and the write
/// is done anew from what is there by then.
pub(super) fn complete(
    registry: &Registry,
    mut transaction: Transaction<Objects>,
    state: &Snapshot,
) -> Transaction<Objects> {
    let read = |key: &str| readable(state.get(key.as_bytes())?);
    let mut claims = Vec::new();
    for op in &transaction.ops {
        let around = registry.stored_around(op.key()).iter();
        let Some(kind) = around
            .filter_map(|resource| resource.capabilities.claims.as_ref())
            .next()
        else {
            continue;
        };
        let old = state.get(op.key()).and_then(|entry| readable(entry));
        let new = match op {
            Op::Put { value, .. } => json::parse(value.bytes(), &Limits::TRUSTED).ok(),
            Op::Delete { .. } => None,
        };
        claims.extend(kind.beside(old.as_ref(), new.as_ref(), &read, SystemClock.now()));
    }
    for Claim { key, object, is_new } in claims {
        let there = state.get(key.as_bytes()).filter(|_| !is_new);
        transaction = transaction.guard(key.as_str(), there.map_or(0, |entry| entry.mod_revision()));
        transaction = match object {
            Some(object) => transaction.put(key.as_str(), value_of(object)),
            None => transaction.delete(key.as_str()),
        };
    }
    transaction
}

/// The value of an object whose resource version is an empty text.
fn value_of(object: String) -> holdfast_store::Value {
    const ROOM: &str = "\"resourceVersion\":\"";
    let at = object.find(ROOM).and_then(|at| u32::try_from(at + ROOM.len()).ok());
    match at {
        Some(at) => holdfast_store::Value::object(object.into_bytes(), at),
        None => holdfast_store::Value::plain(object.into_bytes()),
    }
}
