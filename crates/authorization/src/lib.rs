#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! Authorization: who asks, what for, and whether they may
//! (<https://kubernetes.io/docs/reference/access-authn-authz/authorization/>).
//!
//! An [`Authorizer`] judges the [`Attributes`] of a request; a [`Chain`] asks several in turn. [`rbac`] is the authorizer
//! of the mode `RBAC`.
//!
//! Invariant: nothing here does I/O, and nothing knows of HTTP or of the kinds that are served.

mod attributes;
mod authorizer;
mod chain;
pub mod rbac;
mod service_account;

pub use attributes::{
    AUTHENTICATED, AccessTarget, Attributes, MASTERS, NODE_NAME, ResourceTarget, UNAUTHENTICATED, User,
};
pub use authorizer::{AlwaysAllow, AlwaysDeny, Authorization, Authorizer, Decision, Rule, UserRules};
pub use chain::{Chain, Masters};
pub use service_account::{service_account_groups, service_account_of, service_account_user};
