//! Admission of CertificateSigningRequests and trust bundles: permissions to approve and sign, and forbidden subjects
//! (<https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#authorization>).

mod approval;
mod signing;
mod subject_restriction;
mod trust_bundles;

use holdfast_kinds::may_use_signer;
use holdfast_resource::{Rejection, WriteContext};
use holdfast_value::Value;

pub(crate) use approval::CertificateApproval;
pub(crate) use signing::CertificateSigning;
pub(crate) use subject_restriction::CertificateSubjectRestriction;
pub(crate) use trust_bundles::ClusterTrustBundleAttest;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";

fn signer(request: &Value) -> &str {
    request.str_at(&["spec", "signerName"]).unwrap_or_default()
}

/// Rejects a user without the permission `verb` for the signer of a request, by its name or for all of its domain.
///
/// upstream: plugin/pkg/admission/certificates/approval#Plugin.Validate
/// upstream: plugin/pkg/admission/certificates/signing#Plugin.Validate
fn check_signer(context: &WriteContext<'_>, verb: &str, request: &Value) -> Result<(), Rejection> {
    let signer = signer(request);
    if may_use_signer(context, verb, signer) {
        return Ok(());
    }
    Err(Rejection::forbidden(format!(
        "user not permitted to {verb} requests with signerName {signer:?}"
    )))
}
