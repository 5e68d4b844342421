//! Kinds of the API group `coordination.k8s.io`.

mod lease;
mod leasecandidate;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "leases" => lease::declare(),
        "leasecandidates" => leasecandidate::declare(config),
        _ => return None,
    })
}
