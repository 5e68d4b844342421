#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests measure the time of the system")
)]
#![warn(clippy::indexing_slicing)]
//! Audit log (<https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/>).
//!
//! A [`Policy`] determines the [`Level`] at which a request is audited. A [`Recorder`] collects information about the
//! request and emits an event at each [`Stage`]. A [`Sink`] writes events to a log file ([`sink::log`]) and sends them
//! to a webhook ([`sink::webhook`]).
//!
//! An event is encoded as JSON once, directly into bytes. Bounded queues are between requests and backends: one thread
//! writes the log file, one task sends to the webhook. In the mode `batch` no request waits for either.
//!
//! Invariant: this crate knows neither HTTP servers nor kinds. The webhook client is an implementation of [`Post`].

mod event;
mod legacy;
mod level;
mod policy;
mod reading;
mod recorder;
pub mod sink;

pub use event::{Event, EventHead, ObjectReference, ResponseStatus};
pub use level::{Level, Stage, Stages};
pub use policy::{Decision, GroupResources, Policy, Rule};
pub use reading::PolicyError;
pub use recorder::{Auditor, Layer, ObjectNames, Recorder};
pub use sink::webhook::Post;
pub use sink::{Mode, Observer, Receipt, Sink};
