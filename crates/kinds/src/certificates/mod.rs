//! Kinds of the API group `certificates.k8s.io`.

mod armor;
mod certificatesigningrequest;
mod clustertrustbundle;
mod der;
pub mod pem;
mod podcertificaterequest;
mod signers;

pub(crate) use pem::key_pair_error;
pub use signers::may_use_signer;

use holdfast_kind_tables::Kind;

use crate::config::Config;

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "certificatesigningrequests" => certificatesigningrequest::declare(config),
        "clustertrustbundles" => clustertrustbundle::declare(config),
        "podcertificaterequests" => podcertificaterequest::declare(),
        _ => return None,
    })
}
