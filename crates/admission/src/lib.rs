#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Admission: what may change or refuse a write after its writer was authorized
//! (<https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>).
//!
//! Plugins are compiled in: each is an [`AdmissionPlugin`], and the [`AdmissionChain`] calls those that a write concerns.
//! [`policies`] and [`webhooks`] are objects of the API: this crate compiles them, says which of them a write concerns, what
//! they are shown of it, and what their answers mean.
//!
//! Invariant: nothing here does I/O. The server calls webhooks and reports refusals to clients.

mod chain;
mod origin;
mod plugin;
pub mod policies;
pub mod timings;
pub mod webhooks;

pub use chain::{AdmissionChain, DynamicPlugin};
pub use origin::Origin;
pub use plugin::{AdmissionPlugin, Calls, Consultation, Interest, Reservation};
