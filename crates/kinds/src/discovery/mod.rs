//! The kinds of the group `discovery.k8s.io`.

mod at_rest;
pub(crate) mod endpointslice;

use crate::config::Config;
use crate::kind::{Kind, kind};
use crate::metadata_checks::of_core;
use crate::validation::addresses::Reading;

/// The kinds of the group, each with its capabilities, by the plural names of their resources.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    let server = config.server();
    Some(match plural {
        "endpointslices" => kind(endpointslice::EndpointSlice {
            server,
            first: config.first_endpoints,
            reading: Reading::of(config.features),
        })
        .initial_objects()
        .cells(endpointslice::CELLS)
        .read_by(at_rest::endpointslice)
        .metadata_checks(of_core(1, 0))
        .counts_dropped_fields()
        .done(),
        _ => return None,
    })
}
