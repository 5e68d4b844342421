//! Options of an apply.

use holdfast_merge::{Path, PathText};

/// Options of an apply that decide about fields of other managers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// True if the applier becomes the owner of all conflicting fields.
    pub force: bool,
    /// Fields and subtrees of which the applier becomes the owner although they conflict.
    pub force_fields: Vec<PathText>,
    /// Fields and subtrees that the apply removes from the object.
    pub unset: Vec<PathText>,
    /// True if conflicts contain the owners and values of their fields.
    pub conflict_details: bool,
    /// True if the configuration may have several items with the same key in an associative list.
    pub allow_duplicates: bool,
}

impl ApplyOptions {
    /// Creates options that force everything or nothing.
    pub fn from_force(force: bool) -> Self {
        Self {
            force,
            ..Self::default()
        }
    }

    /// True if the options are only those of the reference.
    pub fn is_plain(&self) -> bool {
        self.force_fields.is_empty() && self.unset.is_empty() && !self.conflict_details && !self.allow_duplicates
    }

    /// True if the applier becomes the owner of `path` although it conflicts.
    pub(crate) fn forces(&self, path: &Path) -> bool {
        self.force || self.force_fields.iter().any(|forced| forced.covers(path))
    }
}
