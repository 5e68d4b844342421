//! The kinds of the group `certificates.k8s.io`.

mod certificatesigningrequest;
pub(crate) mod pem;

pub(crate) use certificatesigningrequest::validate_signer_name;
pub(crate) use pem::key_pair_fault;

use std::sync::Arc;

use holdfast_resource::Strategy;

use crate::config::Config;

/// The strategy of a kind of the group that has one.
pub(crate) fn strategy(resource: &str, _config: &Config) -> Option<Arc<dyn Strategy>> {
    match resource {
        "certificatesigningrequests" => Some(Arc::new(certificatesigningrequest::CertificateSigningRequest)),
        _ => None,
    }
}
