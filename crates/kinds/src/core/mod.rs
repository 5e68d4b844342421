//! The kinds of the core group.

mod componentstatus;
mod configmap;
pub(crate) mod endpoints;
pub(crate) mod event;
mod kubelet;
mod limitrange;
mod namespace;
mod node;
pub(crate) mod persistentvolume;
pub(crate) mod persistentvolumeclaim;
mod pod;
mod podtemplate;
mod replicationcontroller;
mod resourcequota;
mod secret;
mod service;
mod serviceaccount;
mod token_request;

pub use pod::qos_class;

use holdfast_kind_tables::Kind;
use holdfast_resource::{ConnectParameter, ParameterForm};
use holdfast_schema::GroupResource;
use holdfast_value::SmolStr;

use crate::config::Config;
use crate::kind;

/// Returns a resource of this group, or a subresource as messages name it.
const fn of_core(resource: &'static str) -> GroupResource {
    GroupResource {
        group: SmolStr::new_static(""),
        resource: SmolStr::new_static(resource),
    }
}

/// Returns the query parameters of proxy requests.
const fn proxy_parameters(description: &'static str) -> [ConnectParameter; 1] {
    [ConnectParameter::new("path", ParameterForm::Path, description)]
}

/// Returns the kind of the group with this plural name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "bindings" => kind::generic().action("", pod::Binding).done(),
        "componentstatuses" => componentstatus::declare(),
        "configmaps" => configmap::declare(),
        "endpoints" => endpoints::declare(config),
        "events" => event::events(false),
        "limitranges" => limitrange::declare(),
        "namespaces" => namespace::declare(),
        "nodes" => node::declare(config),
        "persistentvolumeclaims" => persistentvolumeclaim::declare(config),
        "persistentvolumes" => persistentvolume::declare(config),
        "pods" => pod::declare(config),
        "podtemplates" => podtemplate::declare(config),
        "replicationcontrollers" => replicationcontroller::declare(config),
        "resourcequotas" => resourcequota::declare(),
        "secrets" => secret::declare(),
        "serviceaccounts" => serviceaccount::declare(config),
        "services" => service::declare(config),
        _ => return None,
    })
}
