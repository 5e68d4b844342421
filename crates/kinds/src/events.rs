//! Kinds of the group `events.k8s.io`.

use holdfast_kind_tables::Kind;

use crate::config::Config;
use crate::core::event;

/// Returns the kind of the group with this plural name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    (plural == "events").then(|| event::events(true))
}
