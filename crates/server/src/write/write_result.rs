//! Result of a write.

use std::sync::Arc;

use holdfast_value::Value;
use holdfast_writes::{Staged, Write};

use crate::objects::{self, Entry};

/// Result of a write.
pub(crate) struct WriteResult {
    /// Object for the response.
    pub(crate) object: WrittenObject,
    /// True if the object is new.
    pub(crate) created: bool,
    /// True if the object is gone.
    pub(crate) removed: bool,
    /// True if the write found nothing to change.
    pub(crate) unchanged: bool,
    /// Warnings for the client.
    pub(crate) warnings: Vec<String>,
}

/// An object after a write.
pub(crate) enum WrittenObject {
    /// The stored entry, and its tree without the resource version unless the tree is cached elsewhere.
    Stored(Arc<Entry>, Option<Value>),
    /// A tree in its storage version, if nothing was stored or the object is gone.
    Tree(Value),
}

impl WrittenObject {
    /// Returns the tree, in the storage version.
    pub(crate) fn tree(&self) -> Value {
        match self {
            Self::Stored(entry, _) => objects::tree(entry),
            Self::Tree(tree) => tree.clone(),
        }
    }
}

impl WriteResult {
    /// Returns the result of a write that found nothing to change in the `stored` object.
    pub(super) fn unchanged(stored: &Arc<Entry>, warnings: Vec<String>) -> Self {
        Self {
            object: WrittenObject::Stored(Arc::clone(stored), None),
            created: false,
            removed: false,
            unchanged: true,
            warnings,
        }
    }

    /// Returns the result of a check that an object does not exist.
    pub(super) fn without_object() -> Self {
        Self {
            object: WrittenObject::Tree(Value::Null),
            created: false,
            removed: false,
            unchanged: true,
            warnings: Vec::new(),
        }
    }

    /// Returns the result of a dry run. Its object may be too large to be stored: the reference does not ask etcd either.
    pub(super) fn of_dry_run(staged: Staged, created: bool) -> Self {
        Self {
            created,
            removed: staged.write == Write::Delete,
            unchanged: staged.write == Write::Unchanged,
            object: WrittenObject::Tree(staged.object),
            warnings: staged.warnings,
        }
    }
}
