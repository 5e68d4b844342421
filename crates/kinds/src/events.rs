//! The kinds of the group `events.k8s.io`.

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;
use crate::core::event::Event;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    match resource {
        "events" => Some(Arc::new(Event { of_own_group: true })),
        _ => None,
    }
}
