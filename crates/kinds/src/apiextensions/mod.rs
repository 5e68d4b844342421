//! The kinds of the group `apiextensions.k8s.io`.

mod custom_resource;
mod customresourcedefinition;
mod define;
mod validation;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    match resource {
        "customresourcedefinitions" => Some(Arc::new(customresourcedefinition::CustomResourceDefinition)),
        _ => None,
    }
}
