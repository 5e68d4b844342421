//! Kinds of the group `events.k8s.io`.

use crate::config::Config;
use crate::core::event;
use crate::kind::Kind;

/// Returns the kind of the group with this plural name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    (plural == "events").then(|| event::events(true))
}
