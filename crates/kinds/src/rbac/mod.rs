//! The kinds of the group `rbac.authorization.k8s.io`: <https://kubernetes.io/docs/reference/access-authn-authz/rbac/>.
//!
//! Roles and bindings feed a [`Policy`](holdfast_authorization::rbac::Policy), which is the authorizer of the mode `RBAC`, and refuse to grant what their writer
//! does not hold.

mod binding;
mod bootstrap;
mod escalation;
mod role;

use std::sync::Arc;

use holdfast_resource::{Scope, Strategy};

use crate::config::Config;

const GROUP: &str = "rbac.authorization.k8s.io";

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, config: &Config) -> Option<Arc<dyn Strategy>> {
    let policy = || Arc::clone(&config.policy);
    let binding = |scope| {
        Arc::new(binding::Binding {
            scope,
            policy: policy(),
        })
    };
    let role = |scope| {
        Arc::new(role::Role {
            scope,
            policy: policy(),
        })
    };
    Some(match resource {
        "clusterrolebindings" => binding(Scope::Cluster),
        "clusterroles" => role(Scope::Cluster),
        "rolebindings" => binding(Scope::Namespaced),
        "roles" => role(Scope::Namespaced),
        _ => return None,
    })
}

/// The namespace and name of an object; the namespace is empty where it is in none.
fn place(object: &holdfast_value::Value) -> (&str, &str) {
    let text = |field| object.str_at(&["metadata", field]).unwrap_or_default();
    (text("namespace"), text("name"))
}
