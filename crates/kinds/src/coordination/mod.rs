//! The kinds of the group `coordination.k8s.io`.

mod lease;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    match resource {
        "leases" => Some(Arc::new(lease::Lease)),
        _ => None,
    }
}
