//! Kinds of the API group `apiregistration.k8s.io`.

mod apiservice;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_apimachinery;

use crate::config::Config;
use crate::kind::kind;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "apiservices" => kind(apiservice::ApiService::new(config))
            .initial_objects()
            .cells(apiservice::CELLS)
            .named_by(apiservice::name_faults)
            .empty_status()
            .metadata_checks(of_apimachinery(1, 1))
            .done(),
        _ => return None,
    })
}
