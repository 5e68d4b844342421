//! The kinds of the group `discovery.k8s.io`.

pub(crate) mod endpointslice;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, config: &Config) -> Option<Arc<dyn Strategy>> {
    match resource {
        "endpointslices" => Some(Arc::new(endpointslice::EndpointSlice {
            server: config.server(),
        })),
        _ => None,
    }
}
