//! The kinds of the core group.

mod componentstatus;
mod configmap;
mod endpoints;
pub(crate) mod event;
mod limitrange;
mod namespace;
mod node;
mod persistentvolume;
pub(crate) mod persistentvolumeclaim;
mod pod;
pub(crate) mod pod_spec;
mod podtemplate;
mod replicationcontroller;
mod resourcequota;
mod secret;
mod service;
mod serviceaccount;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, config: &Config) -> Option<Arc<dyn Strategy>> {
    let config = || config.clone();
    Some(match resource {
        "componentstatuses" => Arc::new(componentstatus::ComponentStatus),
        "configmaps" => Arc::new(configmap::ConfigMap),
        "endpoints" => Arc::new(endpoints::Endpoints),
        "events" => Arc::new(event::Event { of_own_group: false }),
        "limitranges" => Arc::new(limitrange::LimitRange),
        "namespaces" => Arc::new(namespace::Namespace),
        "nodes" => Arc::new(node::Node),
        "persistentvolumeclaims" => Arc::new(persistentvolumeclaim::PersistentVolumeClaim),
        "persistentvolumes" => Arc::new(persistentvolume::PersistentVolume),
        "pods" => Arc::new(pod::Pod { config: config() }),
        "podtemplates" => Arc::new(podtemplate::PodTemplate { config: config() }),
        "replicationcontrollers" => Arc::new(replicationcontroller::ReplicationController { config: config() }),
        "resourcequotas" => Arc::new(resourcequota::ResourceQuota),
        "secrets" => Arc::new(secret::Secret),
        "serviceaccounts" => Arc::new(serviceaccount::ServiceAccount),
        "services" => Arc::new(service::Service::new(&config())),
        _ => return None,
    })
}
