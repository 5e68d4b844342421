//! Admission of CertificateSigningRequests and trust bundles: permissions to approve and sign, and forbidden subjects
//! (<https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#authorization>).

mod signer_permission;
mod subject_restriction;
mod trust_bundles;

use holdfast_value::Value;

pub(crate) use signer_permission::SignerPermission;
pub(crate) use subject_restriction::CertificateSubjectRestriction;
pub(crate) use trust_bundles::ClusterTrustBundleAttest;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";

fn signer(request: &Value) -> &str {
    request.str_at(&["spec", "signerName"]).unwrap_or_default()
}
