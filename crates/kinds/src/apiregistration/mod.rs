//! The kinds of the group `apiregistration.k8s.io`.

mod apiservice;

use crate::config::Config;
use crate::kind::{Kind, kind};
use crate::metadata_checks::of_apimachinery;

/// The kinds of the group, each with its capabilities, by the plural names of their resources.
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
