//! Result of a return to an earlier state, and the reasons why it fails.

use crate::error::CommitError;
use crate::key::{Key, Revision};

/// Result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Revision at which the state was as before.
    pub revision: Revision,
    /// Number of keys that exist again.
    pub created: usize,
    /// Number of keys with another value.
    pub updated: usize,
    /// Number of keys that were removed.
    pub deleted: usize,
}

/// Reason why a state cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Other servers write to the same storage.
    #[error("only an embedded store can be restored")]
    Shared,
    /// The value of a key cannot be transformed, so that it cannot be written again.
    #[error("the value of {0} cannot be read")]
    Unreadable(Key),
    /// The store rejected a change.
    #[error(transparent)]
    Commit(#[from] CommitError),
}
