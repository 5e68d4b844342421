//! The kinds of the group `coordination.k8s.io`.

mod lease;

use crate::config::Config;
use crate::kind::{Kind, kind};
use crate::metadata_checks::of_apimachinery;

/// The kinds of the group, each with its capabilities, by the plural names of their resources.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "leases" => {
            let features = config.features;
            kind(lease::Lease { features })
                .metadata_checks(of_apimachinery(0, 1))
                .done()
        }
        _ => return None,
    })
}
