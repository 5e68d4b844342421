//! The kinds of the group `rbac.authorization.k8s.io`: <https://kubernetes.io/docs/reference/access-authn-authz/rbac/>.

mod binding;
mod role;

use std::sync::Arc;

use holdfast_resource::{Scope, Strategy};

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    Some(match resource {
        "clusterrolebindings" => Arc::new(binding::Binding { scope: Scope::Cluster }),
        "clusterroles" => Arc::new(role::Role { scope: Scope::Cluster }),
        "rolebindings" => Arc::new(binding::Binding {
            scope: Scope::Namespaced,
        }),
        "roles" => Arc::new(role::Role {
            scope: Scope::Namespaced,
        }),
        _ => return None,
    })
}
