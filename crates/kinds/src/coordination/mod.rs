//! Kinds of the API group `coordination.k8s.io`.

mod lease;
mod leasecandidate;

use crate::config::Config;
use crate::kind::kind;
use crate::versions::Versions;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_apimachinery;
use holdfast_resource::metadata::formats::config_key;

/// API versions of LeaseCandidates.
const CANDIDATES: Versions = Versions::alike(&["coordination.k8s.io/v1beta1", "coordination.k8s.io/v1alpha2"]);

/// Returns the kind of the group with this plural resource name, with its capabilities.
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
