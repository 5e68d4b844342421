//! The kinds of the group `coordination.k8s.io`.

mod lease;
mod leasecandidate;

use crate::config::Config;
use crate::kind::{Kind, kind};
use crate::metadata_checks::of_apimachinery;
use crate::versions::Versions;
use holdfast_resource::metadata::formats::config_key;

/// The versions of LeaseCandidates.
const CANDIDATES: Versions = Versions::alike(&["coordination.k8s.io/v1beta1", "coordination.k8s.io/v1alpha2"]);

/// The kinds of the group, each with its capabilities, by the plural names of their resources.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "leases" => kind(lease::Lease).metadata_checks(of_apimachinery(0, 1)).done(),
        "leasecandidates" => kind(leasecandidate::LeaseCandidate)
            .named_by(|_, name| config_key(name))
            .metadata_checks(of_apimachinery(0, 1))
            .converts_by(config, "coordination.k8s.io", CANDIDATES)
            .done(),
        _ => return None,
    })
}
