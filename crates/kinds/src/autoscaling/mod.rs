//! Kinds of the API group `autoscaling`.

mod horizontalpodautoscaler;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "horizontalpodautoscalers" => horizontalpodautoscaler::declare(config),
        _ => return None,
    })
}
