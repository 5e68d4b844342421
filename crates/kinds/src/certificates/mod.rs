//! Kinds of the API group `certificates.k8s.io`.

mod armor;
mod certificatesigningrequest;
mod clustertrustbundle;
mod der;
pub mod pem;
mod podcertificaterequest;
mod signers;

pub(crate) use pem::key_pair_fault;
pub use signers::may_use_signer;

use crate::config::Config;
use crate::kind::kind;
use crate::versions::Versions;
use holdfast_kind_tables::Kind;
use holdfast_kind_tables::metadata_checks::{COMMON_CHECKS, in_order, with_status};
use holdfast_resource::UpdateOrder;

/// API versions of ClusterTrustBundles.
const BUNDLES: Versions = Versions::alike(&["certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1"]);

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, config: &Config) -> Option<Kind> {
    Some(match plural {
        "certificatesigningrequests" => kind(certificatesigningrequest::CertificateSigningRequest {
            counters: config.counters.clone(),
        })
        .keeps_reset_fields_at_creation()
        .cells(certificatesigningrequest::CELLS)
        .unowned_fields(&[("status", "status.conditions")])
        .empty_status()
        .metadata_checks(in_order(UpdateOrder::ObjectFirst, with_status(COMMON_CHECKS, 1, 1)))
        .done(),
        "clustertrustbundles" => kind(clustertrustbundle::ClusterTrustBundle)
            .named_by(clustertrustbundle::name_faults)
            .converts_by(config, "certificates.k8s.io", BUNDLES)
            .done(),
        "podcertificaterequests" => kind(podcertificaterequest::PodCertificateRequest)
            .cells(podcertificaterequest::CELLS)
            .empty_status()
            .done(),
        _ => return None,
    })
}
