//! The kinds of the group `resource.k8s.io`: devices that Pods claim
//! (<https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>).

mod admin_access;
mod allocation;
mod device;
mod deviceclass;
mod names;
mod request_policy;
mod requests;
mod resourceclaim;
mod resourceclaimtemplate;
mod resourceslice;
mod selectors;

use std::sync::Arc;

use holdfast_resource::Strategy;

pub(crate) use names::validate_driver as validate_driver_name;

use crate::config::Config;

/// What a taint does with claims that do not tolerate it.
const TAINT_EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// The strategy of a kind of the group that has one.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    Some(match resource {
        "deviceclasses" => Arc::new(deviceclass::DeviceClass),
        "resourceclaims" => Arc::new(resourceclaim::ResourceClaim),
        "resourceclaimtemplates" => Arc::new(resourceclaimtemplate::ResourceClaimTemplate),
        "resourceslices" => Arc::new(resourceslice::ResourceSlice),
        _ => return None,
    })
}
