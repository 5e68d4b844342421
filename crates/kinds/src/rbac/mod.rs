//! Kinds of the API group `rbac.authorization.k8s.io`: <https://kubernetes.io/docs/reference/access-authn-authz/rbac/>.
//!
//! Roles and bindings feed a [`RuleIndex`](holdfast_authorization::rbac::RuleIndex), the authorizer of the mode `RBAC`.
//! Their strategies deny grants of permissions that the writer does not hold.

mod binding;
mod bootstrap;
mod escalation;
mod role;

pub use bootstrap::node_rules;
pub use escalation::changes_ownership_alone;

use std::sync::Arc;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order};
use holdfast_resource::Scope;
use holdfast_schema::UpdateOrder;
use holdfast_schema::metadata::formats::{Messages, path_segment};

use crate::config::Config;
use crate::kind::kind;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    let policy = || Arc::clone(&config.policy);
    let binding = |scope| {
        let policy = policy();
        let binding = kind(binding::Binding { scope, policy })
            .named_by(name_errors)
            .initial_objects()
            .followed();
        binding
            .cells(binding::CELLS)
            .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
            .done()
    };
    let role = |scope| {
        let (policy, features) = (policy(), config.features);
        let role = kind(role::Role {
            scope,
            policy,
            features,
        })
        .named_by(name_errors)
        .initial_objects()
        .followed();
        role.metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
            .done()
    };
    Some(match plural {
        "clusterrolebindings" => binding(Scope::Cluster),
        "clusterroles" => role(Scope::Cluster),
        "rolebindings" => binding(Scope::Namespaced),
        "roles" => role(Scope::Namespaced),
        _ => return None,
    })
}

/// Validates a name. The prefix of a generated name follows the same rule.
///
/// upstream: pkg/apis/rbac/validation#ValidateRBACName
fn name_errors(_object: &holdfast_value::Value, name: &str) -> Messages {
    path_segment(name)
}

/// Returns namespace and name of an object. The namespace is empty for a cluster-scoped one.
fn place(object: &holdfast_value::Value) -> (&str, &str) {
    let text = |field| object.str_at(&["metadata", field]).unwrap_or_default();
    (text("namespace"), text("name"))
}
