//! Kinds of the API group `storage.k8s.io`.

mod csidriver;
mod csinode;
mod csistoragecapacity;
mod storageclass;
mod volumeattachment;
mod volumeattributesclass;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "csidrivers" => csidriver::declare(config),
        "csinodes" => csinode::declare(),
        "csistoragecapacities" => csistoragecapacity::declare(),
        "storageclasses" => storageclass::declare(),
        "volumeattachments" => volumeattachment::declare(),
        "volumeattributesclasses" => volumeattributesclass::declare(config),
        _ => return None,
    })
}
