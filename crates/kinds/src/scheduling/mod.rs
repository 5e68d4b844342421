//! The kinds of the group `scheduling.k8s.io`.

mod priorityclass;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    match resource {
        "priorityclasses" => Some(Arc::new(priorityclass::PriorityClass)),
        _ => None,
    }
}
