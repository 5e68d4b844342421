#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Write pipeline from a decoded object to a staged write, the same for all kinds.
//!
//! Updated object → reset of fields that this write does not change → types and defaults → ownership → storage
//! version → mutating admission → preparation → validation → validating admission. A [`Stage`] is one run of the
//! pipeline over one state of the other objects. Its result is [`Staged`]: nothing to do, an object to put, or one to
//! delete. The server decodes bodies, commits staged writes and responds to clients.
//!
//! A run accesses the outside only through an [`Environment`]: other objects through a `Lookup`, webhooks through
//! [`Callers`]. The environment records each [`Read`], so that the server knows when a run would have the same result
//! again.
//!
//! Invariant: nothing here depends on HTTP or the store. A run only waits for webhooks, and only if there are any. A
//! rejection is an [`Error`]; the server creates its `Status`.

mod admission;
mod answer;
mod attributes;
mod call;
mod change;
mod connect;
mod create;
mod delete;
mod deletion;
mod environment;
mod error;
mod field_managers;
mod finish_update;
mod identifiers;
pub mod metadata;
mod options;
mod policies;
mod reads;
pub mod scale;
mod scale_update;
mod stage;
mod staged;
mod stated;
mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod tracking;
pub mod typed;
mod update;
mod webhook_answers;
mod webhook_versions;
mod webhooks;

pub use call::{AfterCommit, Call};
pub use change::{Change, Patch};
pub use deletion::is_marked_first;
pub use environment::{Callers, ConditionOwner, Ending, Environment, Services, Unanswered, WebhookAnswer, WebhookCall};
pub use error::{Error, ErrorKind};
pub use field_managers::FieldManagers;
pub use holdfast_merge::PathText;
pub use holdfast_ownership::{
    ApplyOptions, Collision, Conflict, ConflictDetails, Conflicts, DuplicateItems, FieldChange, FieldOwners, Operation,
    Owner, Path, PathElement, given_up_fields,
};
pub use identifiers::Identifiers;
pub use options::{DeleteOptions, FieldValidation, PropagationPolicy, WriteOptions, dry_run, named};
pub use reads::{Read, ReadObserver, RunInput};
pub use stage::{Stage, check_has_no_version, check_namespace, check_place};
pub use staged::{Staged, StoredObject, Write};
pub use stated::{INTERNAL, RegisteredType, Stated};
pub use target::{Target, TargetBody, WriteRequest, Writer};
pub use tracking::{manager_name, update_as};
