#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Authorization of requests (<https://kubernetes.io/docs/reference/access-authn-authz/authorization/>).
//!
//! An [`Authorizer`] decides on the [`Attributes`] of a request; a [`Chain`] calls several in order. [`rbac`] is the
//! authorizer of the mode `RBAC`, [`node`] the one of the mode `Node`, [`abac`] the one of the mode `ABAC`. An authorizer that
//! needs another server returns a [`Verdict`] that waits; all others decide at once.
//!
//! Invariant: this crate does no I/O, and knows neither HTTP nor the served kinds.

pub mod abac;
mod attributes;
mod authorizer;
mod chain;
pub mod node;
pub mod rbac;
mod service_account;

pub use attributes::{
    AUTHENTICATED, AccessTarget, Attributes, FieldRequirement, MASTERS, NODE_NAME, OwnedAttributes, ResourceTarget,
    UNAUTHENTICATED, User,
};
pub use authorizer::{AlwaysAllow, AlwaysDeny, Authorization, Authorizer, Decision, Pending, Rule, UserRules, Verdict};
pub use chain::{Chain, Masters};
pub use service_account::{service_account_groups, service_account_of, service_account_user};
