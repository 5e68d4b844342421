//! Changes that must be written together with a transaction.

use crate::entry::Indexer;
use crate::state::Snapshot;
use crate::transaction::Transaction;

/// Interface by which the user of the store adds changes to each transaction.
///
/// The default methods add none.
pub trait Completion: Indexer {
    /// Adds to a transaction the changes that must be written together with it, based on `state`. Usually none.
    /// `is_shared` is true if others write to the same storage.
    fn complete(&self, transaction: Transaction<Self>, state: &Snapshot<Self>, is_shared: bool) -> Transaction<Self> {
        let _ = (state, is_shared);
        transaction
    }

    /// Returns true if the object at `key` has claims that are written together with it in every storage.
    fn has_claims(&self, key: &[u8]) -> bool {
        let _ = key;
        false
    }
}

/// A store without claims.
impl Completion for () {}
