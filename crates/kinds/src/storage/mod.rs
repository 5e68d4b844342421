//! Kinds of the API group `storage.k8s.io`.

mod csidriver;
mod csinode;
mod csistoragecapacity;
mod storageclass;
mod volumeattachment;
mod volumeattributesclass;

use crate::config::Config;
use crate::kind::kind;
use crate::versions::Versions;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order, of_core, with_status};
use holdfast_resource::UpdateOrder;

/// API versions of VolumeAttributesClasses.
const ATTRIBUTES_CLASSES: Versions = Versions::alike(&["storage.k8s.io/v1", "storage.k8s.io/v1beta1"]);

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "csidrivers" => kind(csidriver::CsiDriver {
            features: config.features,
        })
        .metadata_checks(of_core(0, 1))
        .done(),
        "csinodes" => kind(csinode::CsiNode)
            .metadata_checks(with_status(of_core(1, 0), 1, 0))
            .done(),
        "csistoragecapacities" => kind(csistoragecapacity::CsiStorageCapacity)
            .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
            .done(),
        "storageclasses" => kind(storageclass::StorageClass)
            .cells(storageclass::CELLS)
            .metadata_checks(in_order(UpdateOrder::ObjectFirst, COMMON_CHECKS))
            .done(),
        "volumeattachments" => kind(volumeattachment::VolumeAttachment)
            .empty_status()
            .metadata_checks(with_status(of_core(1, 0), 1, 0))
            .done(),
        "volumeattributesclasses" => kind(volumeattributesclass::VolumeAttributesClass)
            .converts_by(config, "storage.k8s.io", ATTRIBUTES_CLASSES)
            .metadata_checks(in_order(UpdateOrder::ChangesFirst, COMMON_CHECKS))
            .done(),
        _ => return None,
    })
}
