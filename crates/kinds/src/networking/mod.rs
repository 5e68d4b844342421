//! The kinds of the group `networking.k8s.io`.

mod ingress;
mod ingressclass;
mod ipaddress;
mod networkpolicy;
mod servicecidr;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, config: &Config) -> Option<Arc<dyn Strategy>> {
    Some(match resource {
        "ingresses" => Arc::new(ingress::Ingress),
        "ingressclasses" => Arc::new(ingressclass::IngressClass),
        "ipaddresses" => Arc::new(ipaddress::IpAddress {
            first: config.service_cidr.nth(1),
        }),
        "networkpolicies" => Arc::new(networkpolicy::NetworkPolicy),
        "servicecidrs" => Arc::new(servicecidr::ServiceCidr {
            first: config.service_cidr,
        }),
        _ => return None,
    })
}
