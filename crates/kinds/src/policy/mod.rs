//! Kinds of the API group `policy`.

mod at_rest;
mod poddisruptionbudget;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{at_creation, of_apimachinery, with_status};
use holdfast_resource::CreationChecks;

use crate::config::Config;
use crate::kind::kind;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "poddisruptionbudgets" => kind(poddisruptionbudget::PodDisruptionBudget)
            .read_by(at_rest::poddisruptionbudget)
            .empty_status()
            .metadata_checks(at_creation(
                with_status(of_apimachinery(0, 0), 0, 0),
                CreationChecks::Last,
            ))
            .done(),
        _ => return None,
    })
}
