//! The kinds of the group `storage.k8s.io`.

mod csidriver;
mod csinode;
mod csistoragecapacity;
mod storageclass;
mod volumeattachment;
mod volumeattributesclass;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// What the kind behind a resource of this group does beyond the generic behaviour.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    Some(match resource {
        "csidrivers" => Arc::new(csidriver::CsiDriver),
        "csinodes" => Arc::new(csinode::CsiNode),
        "csistoragecapacities" => Arc::new(csistoragecapacity::CsiStorageCapacity),
        "storageclasses" => Arc::new(storageclass::StorageClass),
        "volumeattachments" => Arc::new(volumeattachment::VolumeAttachment),
        "volumeattributesclasses" => Arc::new(volumeattributesclass::VolumeAttributesClass),
        _ => return None,
    })
}
