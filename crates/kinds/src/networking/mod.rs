//! Kinds of the API group `networking.k8s.io`.

mod at_rest;
mod ingress;
mod ingressclass;
mod ipaddress;
mod networkpolicy;
mod servicecidr;

use crate::config::Config;
use crate::kind::kind;
use crate::validation::addresses::Reading;
use crate::versions::Versions;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::Feature;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order, of_core};
use holdfast_resource::UpdateOrder;

const GROUP: &str = "networking.k8s.io";

/// API versions of IPAddresses and ServiceCIDRs.
const VERSIONS: Versions = Versions::alike(&["networking.k8s.io/v1", "networking.k8s.io/v1beta1"]);

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    let (block, reading) = (config.service_cidr, Reading::of(config.features));
    Some(match plural {
        "ingresses" => kind(ingress::Ingress { reading })
            .cells(ingress::CELLS)
            .read_by(at_rest::ingress)
            .empty_status()
            .done(),
        "ingressclasses" => kind(ingressclass::IngressClass)
            .cells(ingressclass::CELLS)
            .metadata_checks(in_order(UpdateOrder::ChangesFirst, COMMON_CHECKS))
            .done(),
        "ipaddresses" => kind(ipaddress::IpAddress { first: block.nth(1) })
            .initial_objects()
            .named_by(ipaddress::name_faults)
            .cells(ipaddress::CELLS)
            .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
            .converts_by(config, GROUP, VERSIONS)
            .done(),
        "networkpolicies" => kind(networkpolicy::NetworkPolicy { reading })
            .metadata_checks(of_core(0, 1))
            .done(),
        "servicecidrs" => {
            let wipes_status = config.features.has(Feature::ServiceCIDRStatusFieldWiping);
            let cidrs = kind(servicecidr::ServiceCidr {
                default_blocks: config.service_cidrs().collect(),
                wipes_status,
            });
            let cidrs = match wipes_status {
                true => cidrs.empty_status(),
                false => cidrs.writes_status(),
            };
            cidrs
                .initial_objects()
                .metadata_checks(of_core(0, 1))
                .converts_by(config, GROUP, VERSIONS)
                .done()
        }
        _ => return None,
    })
}
