#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Field ownership: `metadata.managedFields` of an object.
//!
//! A [`FieldManager`] implements kube-apiserver's behaviour for one kind and subresource: [`FieldManager::apply`]
//! merges the configuration of an applier and reports conflicts, [`FieldManager::update`] records the owners of fields
//! that other writes changed. [`ScaleOwnership`] transfers entries between an object and its Scale, [`keep_times`]
//! restores the times of a write that changed nothing else, and [`blame`] lists the owners of each field of an object.
//!
//! Invariant: this crate knows no kind, and no content of `managedFields` makes it fail unexpectedly: an update ignores
//! entries that it cannot read, an apply is rejected.

mod blame;
mod cap;
mod conflict_views;
mod duplicates;
mod entry;
mod error;
mod field_changes;
mod field_manager;
mod field_owners;
mod last_applied;
mod lookup;
mod managed;
mod manager_name;
mod options;
mod scale;
mod times;
mod timestamp;
mod unset;
mod versions;

pub use blame::{Blame, Owner, blame};
pub use entry::{DecodeError, Operation};
pub use error::{ApplyError, Collision, Conflict, ConflictDetails, Conflicts, DuplicateItems};
pub use field_changes::{FieldChange, changed_fields, given_up_fields};
pub use field_manager::{Applied, FieldManager, FieldManagerBuilder};
pub use field_owners::FieldOwners;
pub use holdfast_merge::{Path, PathElement, PathText, PathTextError};
pub use last_applied::LAST_APPLIED;
pub use managed::check as check_managed_fields;
pub use manager_name::manager_name;
pub use options::ApplyOptions;
pub use scale::ScaleOwnership;
pub use times::{Comparison, keep_times};
pub use versions::{OneVersion, Versions};
