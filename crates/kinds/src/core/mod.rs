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
mod podtemplate;
mod replicationcontroller;
mod resourcequota;
mod secret;
mod service;
mod serviceaccount;
mod token_request;

pub use pod::qos_class;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::Feature;
use holdfast_kind_tables::metadata_checks::{self, COMMON_CHECKS, generating_any_name, in_order};
use holdfast_resource::{
    ConnectParameter, DeletionRules, GroupResource, NameRule, ParameterForm, RowRules, SelectorWords, UpdateOrder,
};
use holdfast_value::SmolStr;

use crate::config::Config;
use crate::kind::{self, kind};
use crate::quota;
use crate::validation::addresses::Reading;
use crate::workload::TemplateWarnings;

/// Returns a resource of this group, or a subresource as messages name it.
const fn of_core(resource: &'static str) -> GroupResource {
    GroupResource {
        group: SmolStr::new_static(""),
        resource: SmolStr::new_static(resource),
    }
}

/// Returns the scheme, the name and the port of a proxy target: `https:web:443`, `web:443` or `web`.
fn proxied_name(text: &str) -> (&str, &str, &str) {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [scheme, name, port] => (scheme, name, port),
        [name, port] => ("", name, port),
        _ => ("", text, ""),
    }
}

/// Returns the query parameters of proxy requests.
const fn proxy_parameters(description: &'static str) -> [ConnectParameter; 1] {
    [ConnectParameter::new("path", ParameterForm::Path, description)]
}

/// Returns the kind of the group with this plural name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    let (features, reading) = (config.features, Reading::of(config.features));
    let config = || config.clone();
    Some(match plural {
        "bindings" => kind::generic().action("", pod::Binding).done(),
        "componentstatuses" => kind::generic()
            .computed(componentstatus::ComponentStatus)
            .cells(componentstatus::CELLS)
            .deprecated("v1 ComponentStatus is deprecated in v1.19+")
            .selector_words(SelectorWords::Plain)
            .done(),
        "configmaps" => kind(configmap::ConfigMap)
            .counted_by_plural()
            .metadata_checks(in_order(UpdateOrder::ChangesFirst, COMMON_CHECKS))
            .done(),
        "endpoints" => {
            let server = config().server();
            kind(endpoints::Endpoints {
                server,
                first: config().first_endpoints,
                reading,
            })
            .initial_objects()
            .cells(endpoints::CELLS)
            .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            .done()
        }
        "events" => event::events(false),
        "limitranges" => kind(limitrange::LimitRange)
            .metadata_checks(metadata_checks::of_core(1, 0))
            .done(),
        "namespaces" => kind(namespace::Namespace)
            .holds_namespaces()
            .initial_objects()
            .deletion(DeletionRules {
                held: Some(namespace::holds_deletion),
                checks_preconditions: true,
                ..DeletionRules::default()
            })
            .metadata_checks(in_order(UpdateOrder::WholeFirst, COMMON_CHECKS))
            .done(),
        "nodes" => kind(node::Node { reading })
            .connects("proxy", node::Proxy)
            .cells(node::CELLS)
            .ends_tokens("node", "node")
            .keeps_reset_fields_at_creation()
            .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
            .done(),
        "persistentvolumeclaims" => kind(persistentvolumeclaim::PersistentVolumeClaim { features })
            .kept_by(persistentvolumeclaim::to_rest)
            .cells(persistentvolumeclaim::CELLS)
            .counted_by_plural()
            .takes_of_quotas(quota::Claims)
            .done(),
        "persistentvolumes" => kind(persistentvolume::PersistentVolume { features })
            .cells(persistentvolume::CELLS)
            .metadata_checks(metadata_checks::of_core(1, 0))
            .done(),
        "pods" => kind(pod::Pod { config: config() })
            .connects_each(pod::of_pod(features).map(|of| (of.name, of)))
            .cells(pod::CELLS)
            .part(&["spec"])
            .ends_tokens("pod", "pod")
            .action("binding", pod::Binding)
            .action("eviction", pod::Eviction)
            .deletion(DeletionRules {
                grace_period: Some(pod::grace_period),
                ..DeletionRules::default()
            })
            .rows(RowRules {
                conditions: Some(pod::ROW_CONDITIONS),
                ..RowRules::default()
            })
            .counted_by_plural()
            .takes_of_quotas(quota::Pods)
            .done(),
        "podtemplates" => kind(podtemplate::PodTemplate { config: config() })
            .pod_template(&["template"], TemplateWarnings::Own)
            .metadata_checks(metadata_checks::of_core(0, 1))
            .done(),
        "replicationcontrollers" => kind(replicationcontroller::ReplicationController { config: config() })
            .counted_by_plural()
            .pod_template(&["spec", "template"], TemplateWarnings::Own)
            .empty_status()
            .metadata_checks(generating_any_name(metadata_checks::of_core(0, 1)))
            .done(),
        "resourcequotas" => kind(resourcequota::ResourceQuota)
            .cells(resourcequota::CELLS)
            .counted_by_plural()
            .empty_status()
            .metadata_checks(metadata_checks::of_core(0, 1))
            .done(),
        "secrets" => kind(secret::Secret)
            .counted_by_plural()
            .metadata_checks(in_order(UpdateOrder::ChangesFirst, COMMON_CHECKS))
            .ends_tokens("secret", "secret")
            .done(),
        "serviceaccounts" => kind(serviceaccount::ServiceAccount)
            .review("token", token_request::TokenRequest { features })
            .ends_tokens("serviceaccount", "service account")
            .done(),
        "services" => kind(service::Service::new(&config()))
            .names((!features.has(Feature::RelaxedServiceNameValidation)).then_some(NameRule::Label1035))
            .initial_objects()
            .followed()
            .read_by(service::from_rest)
            .kept_by(service::to_rest)
            .hides(service::HIDDEN_POLICY)
            .claims()
            .connects("proxy", service::Proxy)
            .cells(service::CELLS)
            .counted_by_plural()
            .takes_of_quotas(quota::Services)
            .empty_status()
            .metadata_checks(metadata_checks::of_core(0, 1))
            .done(),
        _ => return None,
    })
}
