//! Transactions: the write requests to a store.

use std::sync::Arc;

use crate::entry::{Entry, Indexer, Value};
use crate::error::CommitError;
use crate::key::{Key, Revision};

/// Maximum number of operations of a transaction, and of guards.
pub const MAX_OPS: usize = 1024;
/// Maximum length of a key in bytes.
pub const MAX_KEY: usize = 4096;
/// Maximum length of a value in bytes: kube-apiserver's limit on a request, plus room for defaulted fields.
pub const MAX_VALUE: usize = 16 << 20;

/// A condition: the key was last modified at this revision; 0 means that it is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Key to check.
    pub key: Key,
    /// Its expected modification revision, or 0.
    pub expected: Revision,
}

impl Guard {
    /// Checks that the key is as expected; `entry` is its current entry.
    ///
    /// # Errors
    /// [`CommitError::GuardFailed`]
    pub(crate) fn check<X: Indexer>(&self, entry: Option<&Arc<Entry<X>>>) -> Result<(), CommitError> {
        let current = entry.map_or(0, |entry| entry.mod_revision());
        if current == self.expected {
            return Ok(());
        }
        Err(CommitError::GuardFailed {
            key: self.key.clone(),
            expected: self.expected,
            current,
        })
    }
}

/// A change.
pub enum Op<X: Indexer> {
    /// Creates or replaces the value of a key.
    Put {
        /// Key to write.
        key: Key,
        /// Value without its revision.
        value: Value,
        /// The value's index, if the writer has it.
        index: Option<X::Index>,
    },
    /// Removes a key; removing an absent one changes nothing.
    Delete {
        /// Key to remove.
        key: Key,
        /// Object in the delete event; `None` for the previous value. In both cases it gets the revision of the delete.
        last: Option<Value>,
    },
}

impl<X: Indexer> Op<X> {
    /// Returns the key that is changed.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key, .. } => key,
        }
    }

    fn value(&self) -> Option<&Value> {
        match self {
            Self::Put { value, .. } => Some(value),
            Self::Delete { last, .. } => last.as_ref(),
        }
    }
}

/// Revisions of the changes of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revisions {
    /// All changes have one revision.
    #[default]
    Shared,
    /// Each change has its own revision, in the order of the operations, if the engine can do this: the embedded store
    /// can, etcd has one revision for a transaction. Nobody sees a state between two of them, except by a read at its
    /// exact revision.
    Consecutive,
}

/// Conditions and changes: if all guards hold, all changes happen together, otherwise none.
pub struct Transaction<X: Indexer> {
    /// Guards; all must hold.
    pub guards: Vec<Guard>,
    /// Operations in the order of execution; no key twice.
    pub ops: Vec<Op<X>>,
    /// Revisions of the changes.
    pub revisions: Revisions,
}

impl<X: Indexer> Default for Transaction<X> {
    fn default() -> Self {
        Self {
            guards: Vec::new(),
            ops: Vec::new(),
            revisions: Revisions::Shared,
        }
    }
}

impl<X: Indexer> Transaction<X> {
    /// Creates an empty transaction.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives each change its own revision, if the engine can do this.
    pub fn with_consecutive_revisions(mut self) -> Self {
        self.revisions = Revisions::Consecutive;
        self
    }

    /// Adds the condition that `key` was last modified at `expected`; 0 means that it is absent.
    pub fn guard(mut self, key: impl Into<Key>, expected: Revision) -> Self {
        self.guards.push(Guard {
            key: key.into(),
            expected,
        });
        self
    }

    /// Adds a write.
    pub fn put(mut self, key: impl Into<Key>, value: Value) -> Self {
        self.ops.push(Op::Put {
            key: key.into(),
            value,
            index: None,
        });
        self
    }

    /// Adds a write whose index is known.
    pub fn put_indexed(mut self, key: impl Into<Key>, value: Value, index: X::Index) -> Self {
        self.ops.push(Op::Put {
            key: key.into(),
            value,
            index: Some(index),
        });
        self
    }

    /// Adds a removal whose event shows the previous value.
    pub fn delete(mut self, key: impl Into<Key>) -> Self {
        self.ops.push(Op::Delete {
            key: key.into(),
            last: None,
        });
        self
    }

    /// Adds a removal whose event contains `last`.
    pub fn delete_as(mut self, key: impl Into<Key>, last: Value) -> Self {
        self.ops.push(Op::Delete {
            key: key.into(),
            last: Some(last),
        });
        self
    }

    /// Rejects transactions that no engine accepts: too many or too large operations, an offset beyond its value, a
    /// repeated key.
    #[expect(clippy::indexing_slicing, reason = "windows of two")]
    pub(crate) fn check(&self) -> Result<(), CommitError> {
        if self.ops.len() > MAX_OPS || self.guards.len() > MAX_OPS {
            return Err(CommitError::Invalid("too many operations in one transaction"));
        }
        for key in self
            .ops
            .iter()
            .map(Op::key)
            .chain(self.guards.iter().map(|guard| &guard.key))
        {
            if key.is_empty() || key.len() > MAX_KEY {
                return Err(CommitError::Invalid("a key is empty or too long"));
            }
        }
        for value in self.ops.iter().filter_map(Op::value) {
            if value.bytes().len() > MAX_VALUE {
                return Err(CommitError::TooLarge {
                    bytes: value.bytes().len(),
                    limit: MAX_VALUE,
                });
            }
            if !value.is_consistent() {
                return Err(CommitError::Invalid("the place of the revision lies outside the value"));
            }
        }
        if self.ops.len() > 1 {
            let mut keys: Vec<&Key> = self.ops.iter().map(Op::key).collect();
            keys.sort_unstable();
            if keys.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(CommitError::Invalid("a key is changed twice in one transaction"));
            }
        }
        Ok(())
    }

    /// Returns the approximate number of bytes to write.
    pub(crate) fn weight(&self) -> usize {
        self.ops
            .iter()
            .map(|op| 64 + op.key().len() + op.value().map_or(0, |value| value.bytes().len()))
            .sum()
    }
}

/// A transaction that was committed and is durable.
#[derive(Debug)]
pub struct Committed<X: Indexer> {
    /// Revision of its last change; if it changed nothing, the revision at which its guards held.
    pub revision: Revision,
    /// Version that each operation created: the written entry, or for a delete the object in its event (`None` if the
    /// key was absent).
    pub entries: Vec<Option<Arc<Entry<X>>>>,
}
