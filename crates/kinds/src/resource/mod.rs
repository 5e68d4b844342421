//! Kinds of the API group `resource.k8s.io`: devices that Pods claim
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>).

mod admin_access;
mod allocation;
mod at_rest;
mod device;
mod deviceclass;
mod devicetaintrule;
mod names;
mod request_policy;
mod requests;
mod resourceclaim;
mod resourceclaimtemplate;
mod resourcepoolstatusrequest;
mod resourceslice;
mod selectors;
mod status_rights;
mod versions;

use holdfast_kind_tables::Kind;

use crate::config::Config;

const GROUP: &str = "resource.k8s.io";

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "deviceclasses" => deviceclass::declare(config),
        "resourceclaims" => resourceclaim::declare(config),
        "resourceclaimtemplates" => resourceclaimtemplate::declare(config),
        "resourceslices" => resourceslice::declare(config),
        "devicetaintrules" => devicetaintrule::declare(config),
        "resourcepoolstatusrequests" => resourcepoolstatusrequest::declare(),
        _ => return None,
    })
}
