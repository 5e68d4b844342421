//! The kinds of the group `certificates.k8s.io`.

mod certificatesigningrequest;
pub(crate) mod pem;

pub(crate) use certificatesigningrequest::validate_signer_name;
pub(crate) use pem::key_pair_fault;

use crate::config::Config;
use crate::kind::{Kind, kind};
use crate::metadata_checks::{MOST, with_status};

/// The kinds of the group, each with its capabilities, by the plural names of their resources.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "certificatesigningrequests" => kind(certificatesigningrequest::CertificateSigningRequest)
            .keeps_reset_fields_at_creation()
            .cells(certificatesigningrequest::CELLS)
            .unowned_fields(&[("status", "status.conditions")])
            .empty_status()
            .metadata_checks(with_status(MOST, 1, 1))
            .done(),
        _ => return None,
    })
}
