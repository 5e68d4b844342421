//! Kinds of the API group `discovery.k8s.io`.

mod at_rest;
pub(crate) mod endpointslice;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "endpointslices" => endpointslice::declare(config),
        _ => return None,
    })
}
