//! Kinds of the API group `batch`.

mod cronjob;
mod job;
mod schedule;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "cronjobs" => cronjob::declare(config),
        "jobs" => job::declare(config),
        _ => return None,
    })
}
