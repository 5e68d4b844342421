//! Role-based access control: <https://kubernetes.io/docs/reference/access-authn-authz/rbac/>.
//!
//! Roles and bindings feed a [`Policy`], which is the authorizer of the mode `RBAC`. [`rule`] reads and compares rules.

mod policy;
pub mod rule;

pub use policy::Policy;
