//! Kinds of the API group `discovery.k8s.io`.

mod at_rest;
pub(crate) mod endpointslice;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;

use crate::config::Config;
use crate::kind::kind;
use crate::validation::addresses::Reading;

/// Returns the kind of the group with this plural resource name, with its capabilities.
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
