//! The kinds of the group `node.k8s.io`.

mod runtimeclass;

use crate::config::Config;
use crate::kind::{Kind, kind};
use crate::metadata_checks::of_apimachinery;

/// The kinds of the group, each with its capabilities, by the plural names of their resources.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "runtimeclasses" => kind(runtimeclass::RuntimeClass)
            .metadata_checks(of_apimachinery(1, 1))
            .done(),
        _ => return None,
    })
}
