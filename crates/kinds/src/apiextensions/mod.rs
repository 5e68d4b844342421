//! Kinds of the API group `apiextensions.k8s.io`.

mod at_rest;
mod custom_resource;
mod customresourcedefinition;
mod define;
mod validation;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "customresourcedefinitions" => customresourcedefinition::declare(config),
        _ => return None,
    })
}
