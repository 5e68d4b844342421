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
    /// Returns the result of a write that found nothing to change in the `stored` object.
    pub(super) fn unchanged(stored: &Arc<Entry>, warnings: Vec<String>) -> Self {
        Self {
            object: WrittenObject::Stored(Arc::clone(stored), None),
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
        updated: Staged,
        existing: Option<&Arc<Entry>>,
        max_bytes: usize,
    ) -> Result<Self, ApiError> {
        let removed = updated.write == Write::Delete;
        if !removed {
            let name = updated.object.str_at(&["metadata", "name"]).unwrap_or_default();
            let new_version = NewVersion {
                key: &target.key(name),
                resource: &target.resource,
                object: &updated.object,
                raw_form: updated.raw_form,
                existing,
                max_bytes,
            };
            encode(context, &new_version)?;
        }
        Ok(Self {
            object: WrittenObject::Tree(updated.object),
            created: existing.is_none(),
            removed,
            warnings: updated.warnings,
        })
    }
}
