//! Kinds of the API group `policy`.

mod at_rest;
mod poddisruptionbudget;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "poddisruptionbudgets" => poddisruptionbudget::declare(),
        _ => return None,
    })
}
