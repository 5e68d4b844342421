//! The kinds of the group `apps`.

mod controllerrevision;
mod daemonset;
mod deployment;
pub(crate) mod replicaset;
mod statefulset;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, config: &Config) -> Option<Arc<dyn Strategy>> {
    let config = || config.clone();
    Some(match resource {
        "controllerrevisions" => Arc::new(controllerrevision::ControllerRevision),
        "daemonsets" => Arc::new(daemonset::DaemonSet { config: config() }),
        "deployments" => Arc::new(deployment::Deployment { config: config() }),
        "replicasets" => Arc::new(replicaset::ReplicaSet { config: config() }),
        "statefulsets" => Arc::new(statefulset::StatefulSet { config: config() }),
        _ => return None,
    })
}
