//! Kinds of the API group `networking.k8s.io`.

mod at_rest;
mod ingress;
mod ingressclass;
mod ipaddress;
mod networkpolicy;
mod servicecidr;

use holdfast_kind_tables::Kind;

use crate::config::Config;
use crate::versions::Versions;

const GROUP: &str = "networking.k8s.io";

/// API versions of IPAddresses and ServiceCIDRs.
const VERSIONS: Versions = Versions::alike(&["networking.k8s.io/v1", "networking.k8s.io/v1beta1"]);

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "ingresses" => ingress::declare(config),
        "ingressclasses" => ingressclass::declare(),
        "ipaddresses" => ipaddress::declare(config),
        "networkpolicies" => networkpolicy::declare(config),
        "servicecidrs" => servicecidr::declare(config),
        _ => return None,
    })
}
