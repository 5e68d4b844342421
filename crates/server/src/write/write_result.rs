//! Result of a write.

use std::sync::Arc;

use holdfast_value::Value;
use holdfast_writes::{Staged, Target, Write};

use super::commit::{NewVersion, encode};
use crate::http::ApiError;
use crate::objects::{self, Entry};
use crate::write::Context;

/// Result of a write.
pub(crate) struct WriteResult {
    /// Object for the response.
    pub(crate) object: WrittenObject,
    /// True if the object is new.
    pub(crate) created: bool,
    /// True if the object is gone.
    pub(crate) removed: bool,
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
    /// Returns the result of a write that found nothing to change in `entry`.
    pub(super) fn unchanged(entry: &Arc<Entry>, warnings: Vec<String>) -> Self {
        Self {
            object: WrittenObject::Stored(Arc::clone(entry), None),
            created: false,
            removed: false,
            warnings,
        }
    }

    /// Returns the result of a dry run.
    ///
    /// # Errors
    /// If the object could not be stored.
    pub(super) fn of_dry_run(
        context: &Context,
        target: &Target,
        staged: Staged,
        entry: Option<&Arc<Entry>>,
        max_bytes: usize,
    ) -> Result<Self, ApiError> {
        let removed = staged.write == Write::Delete;
        if !removed {
            let name = staged.object.str_at(&["metadata", "name"]).unwrap_or_default();
            let next = NewVersion {
                key: &target.key(name),
                resource: &target.resource,
                object: &staged.object,
                raw_form: staged.raw_form,
                live: entry,
                max_bytes,
            };
            encode(context, &next)?;
        }
        Ok(Self {
            object: WrittenObject::Tree(staged.object),
            created: entry.is_none(),
            removed,
            warnings: staged.warnings,
        })
    }
}
