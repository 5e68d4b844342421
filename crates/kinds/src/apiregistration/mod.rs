//! Kinds of the API group `apiregistration.k8s.io`.

mod apiservice;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "apiservices" => apiservice::declare(config),
        _ => return None,
    })
}
