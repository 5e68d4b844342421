//! Kinds of the API group `node.k8s.io`.

mod runtimeclass;

use crate::config::Config;
use crate::kind::kind;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{in_order, of_apimachinery};
use holdfast_resource::UpdateOrder;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "runtimeclasses" => kind(runtimeclass::RuntimeClass)
            .metadata_checks(in_order(UpdateOrder::ObjectFirst, of_apimachinery(1, 1)))
            .done(),
        _ => return None,
    })
}
