//! The kinds of the core group.

mod componentstatus;
mod configmap;
pub(crate) mod endpoints;
pub(crate) mod event;
mod limitrange;
mod namespace;
mod node;
pub(crate) mod persistentvolume;
pub(crate) mod persistentvolumeclaim;
mod pod;
pub(crate) mod pod_spec;
mod podtemplate;
mod replicationcontroller;
mod resourcequota;
mod secret;
mod service;
mod serviceaccount;
mod token_request;
pub(crate) mod volume_sources;

use std::sync::Arc;

use holdfast_resource::{ConnectParameter, GroupResource, ParameterForm, Strategy};
use holdfast_value::SmolStr;

use crate::config::Config;

/// A resource of this group, or a subresource as messages name it.
const fn of_core(resource: &'static str) -> GroupResource {
    GroupResource {
        group: SmolStr::new_static(""),
        resource: SmolStr::new_static(resource),
    }
}

/// The scheme, the name and the port of what a proxy leads to: `https:web:443`, `web:443` or `web`.
fn proxied_name(text: &str) -> (&str, &str, &str) {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [scheme, name, port] => (scheme, name, port),
        [name, port] => ("", name, port),
        _ => ("", text, ""),
    }
}

/// What requests through a proxy may ask for.
const fn proxy_parameters(description: &'static str) -> [ConnectParameter; 1] {
    [ConnectParameter::new("path", ParameterForm::Path, description)]
}

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, config: &Config) -> Option<Arc<dyn Strategy>> {
    let config = || config.clone();
    Some(match resource {
        "bindings" => Arc::new(pod::Bindings),
        "componentstatuses" => Arc::new(componentstatus::ComponentStatus),
        "configmaps" => Arc::new(configmap::ConfigMap),
        "endpoints" => Arc::new(endpoints::Endpoints {
            server: config().server(),
        }),
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
