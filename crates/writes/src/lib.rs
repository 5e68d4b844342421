#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! The way from a decoded object to a staged write, one for all kinds.
//!
//! Next object → reset what this write does not touch → types and defaults → ownership → storage version → mutating
//! admission → preparation → validation → validating admission. A [`Stage`] is one run of that over one state of the other
//! objects; what it comes to is [`Staged`]: nothing to do, an object to put, or one to delete. Who decodes bodies, commits
//! what is staged and answers clients is the server.
//!
//! What a run needs of the outside comes in by an [`Environment`]: other objects by a `Lookup`, webhooks by [`Callers`].
//!
//! Invariant: nothing here knows HTTP or the store. A run waits for webhooks alone, and only where there are any. What is
//! refused is an [`Error`]; its `Status` is made by the server.

mod admission;
mod answer;
mod call;
mod change;
mod connect;
mod create;
mod delete;
mod deletion;
mod environment;
mod error;
pub mod metadata;
mod options;
mod policies;
pub mod scale;
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
pub use environment::{
    Callers, ConditionOwner, Ending, Environment, Identifiers, Unanswered, WebhookAnswer, WebhookCall,
};
pub use error::{Error, ErrorKind};
pub use options::{DeleteOptions, FieldValidation, PropagationPolicy, WriteOptions, dry_run, named};
pub use stage::{Stage, check_has_no_version, check_namespace, check_place};
pub use staged::{Live, Staged, Write};
pub use stated::{INTERNAL, Known, Stated};
pub use target::{Target, TargetBody, WriteRequest, Writer};
pub use tracking::{FieldManagers, manager_name, update_as};
