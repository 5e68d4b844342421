//! Role-based access control: <https://kubernetes.io/docs/reference/access-authn-authz/rbac/>.
//!
//! Roles and bindings feed a [`RuleIndex`], which is the authorizer of the mode `RBAC`. [`rule`] reads and compares
//! rules.

pub mod rule;
mod rule_index;

pub use rule_index::RuleIndex;
