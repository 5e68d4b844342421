//! The kinds of the group `storage.k8s.io`.

mod csidriver;
mod csinode;
mod csistoragecapacity;
mod storageclass;
mod volumeattachment;
mod volumeattributesclass;

use crate::config::Config;
use crate::kind::{Kind, kind};

/// The kinds of the group, each with its capabilities, by the plural names of their resources.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "csidrivers" => kind(csidriver::CsiDriver).done(),
        "csinodes" => kind(csinode::CsiNode).done(),
        "csistoragecapacities" => kind(csistoragecapacity::CsiStorageCapacity).done(),
        "storageclasses" => kind(storageclass::StorageClass).cells(storageclass::CELLS).done(),
        "volumeattachments" => kind(volumeattachment::VolumeAttachment).done(),
        "volumeattributesclasses" => kind(volumeattributesclass::VolumeAttributesClass).done(),
        _ => return None,
    })
}
