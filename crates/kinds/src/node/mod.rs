//! The kinds of the group `node.k8s.io`.

mod runtimeclass;

use crate::config::Config;
use crate::kind::{Kind, kind};
use crate::metadata_checks::{in_order, of_apimachinery};
use holdfast_resource::UpdateOrder;

/// The kinds of the group, each with its capabilities, by the plural names of their resources.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "runtimeclasses" => kind(runtimeclass::RuntimeClass)
            .metadata_checks(in_order(UpdateOrder::ObjectFirst, of_apimachinery(1, 1)))
            .done(),
        _ => return None,
    })
}
