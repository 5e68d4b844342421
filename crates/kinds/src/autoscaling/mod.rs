//! Kinds of the API group `autoscaling`.

mod horizontalpodautoscaler;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::of_core;
use holdfast_resource::RowRules;

use crate::config::Config;
use crate::kind::kind;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "horizontalpodautoscalers" => kind(horizontalpodautoscaler::HorizontalPodAutoscaler {
            features: config.features,
        })
        .converts()
        .cells(horizontalpodautoscaler::CELLS)
        .read_by(horizontalpodautoscaler::from_rest)
        .rows(RowRules {
            of_stored_version: true,
            ..RowRules::default()
        })
        .empty_status()
        .keeps_reset_fields_at_creation()
        .metadata_checks(of_core(0, 1))
        .done(),
        _ => return None,
    })
}
