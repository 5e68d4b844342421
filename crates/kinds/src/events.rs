//! The kinds of the group `events.k8s.io`.

use crate::config::Config;
use crate::core::event;
use crate::kind::Kind;

/// The kinds of the group, each with its capabilities, by the plural names of their resources.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    (plural == "events").then(|| event::events(true))
}
