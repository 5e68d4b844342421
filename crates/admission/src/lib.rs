#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Admission: plugins that may change or reject a write after authorization
//! (<https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>).
//!
//! Plugins are compiled in: each is an [`AdmissionPlugin`], and the [`AdmissionChain`] calls those that a write
//! concerns. [`policies`] and [`webhooks`] are objects of the API: this crate compiles them, selects those that match a
//! write, encodes the write for them, and interprets their responses.
//!
//! Invariant: nothing here does I/O. The server calls webhooks and reports rejections to clients.

mod chain;
mod origin;
mod plugin;
pub mod policies;
pub mod timings;
pub mod webhooks;

pub use chain::{AdmissionChain, DynamicPlugin};
pub use origin::Origin;
pub use plugin::{AdmissionPlugin, Calls, Consultation, Interest, Reservation};
