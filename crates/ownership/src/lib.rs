#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! `metadata.managedFields` of an object: who owns which field.
//!
//! A [`FieldManager`] does for one kind at one address what kube-apiserver does: [`FieldManager::apply`] merges the
//! configuration of an applier and says who stands in the way, [`FieldManager::update`] records who changed what by any
//! other write. [`ScaleOwnership`] carries entries between an object and its Scale, [`keep_times`] takes back times that
//! nothing else has changed with, [`blame`] lists for each field of an object who owns it.
//!
//! Invariant: nothing here knows a kind, and nothing fails on what stands in `managedFields`: an update passes over what it
//! cannot read, an apply is refused.

mod blame;
mod cap;
mod entry;
mod error;
mod field_manager;
mod last_applied;
mod managed;
mod manager_name;
mod scale;
mod times;
mod timestamp;
mod versions;

pub use blame::{Blame, Owner, blame};
pub use entry::{DecodeError, Operation};
pub use error::{ApplyError, Conflict, Conflicts};
pub use field_manager::{Applied, FieldManager, FieldManagerBuilder};
pub use last_applied::LAST_APPLIED;
pub use managed::check as check_managed_fields;
pub use manager_name::manager_name;
pub use scale::ScaleOwnership;
pub use times::{Comparison, keep_times};
pub use versions::{OneVersion, Versions};
