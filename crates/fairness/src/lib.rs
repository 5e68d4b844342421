#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests measure the time of the system")
)]
#![warn(clippy::indexing_slicing)]
//! API Priority and Fairness: decides which requests execute now, which wait, and which are rejected
//! (<https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>, KEP 1040).
//!
//! A [`Fairness`] holds the current configuration. [`Fairness::classify`] finds the flow schema of a request;
//! [`Schema::start`] occupies seats of its priority level, enqueues the request, or rejects it. An [`Execution`] is an
//! executing request; its seats are released when it is dropped. A [`Waiting`] is a request in a queue; it leaves the
//! queue when it is dropped.
//!
//! Each level has a [`Mutex`](parking_lot::Mutex) that is held for some hundred instructions. A request that finds
//! seats locks it twice, allocates nothing and starts no task.
//!
//! Invariant: this crate does no I/O, reads no clock of its own and knows nothing of HTTP. The [`Clock`] is an
//! argument.

mod allocation;
mod classify;
mod configuration;
mod dropped;
mod fairness;
mod integrator;
mod level;
mod queues;
mod shuffle;
mod statistics;
#[cfg(test)]
mod tests;
mod time;
mod watches;
mod work;

pub use configuration::{Distinguisher, LevelSpec, Limiting, Queuing, SchemaSpec};
pub use fairness::{Fairness, LevelDump};
pub use level::{Arrival, Execution, Paused, Schema, Start, Waiting};
pub use queues::{QueueDump, Reason, RequestDump};
pub use statistics::{Dispatched, FlowStatistics, Histogram, LevelStatistics, Phase, Statistics};
pub use time::{Clock, Moment};
pub use watches::{WatchKey, WatchRegistration, Watches};
pub use work::{ListEstimate, ListQuery, ObjectStatistics, SeatSeconds, WorkEstimate, list_seats, mutating_work};
