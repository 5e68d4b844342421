//! Kinds of the API group `node.k8s.io`.

mod runtimeclass;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "runtimeclasses" => runtimeclass::declare(),
        _ => return None,
    })
}
