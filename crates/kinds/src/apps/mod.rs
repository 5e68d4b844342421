//! Kinds of the API group `apps`.

mod at_rest;
mod controllerrevision;
mod daemonset;
mod deployment;
pub(crate) mod replicaset;
mod statefulset;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "controllerrevisions" => controllerrevision::declare(),
        "daemonsets" => daemonset::declare(config),
        "deployments" => deployment::declare(config),
        "replicasets" => replicaset::declare(config),
        "statefulsets" => statefulset::declare(config),
        _ => return None,
    })
}
