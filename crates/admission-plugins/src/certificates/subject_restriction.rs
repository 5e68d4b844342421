use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_authorization::MASTERS;
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use super::{GROUP, REQUESTS, signer};
use holdfast_kinds::pem;

/// Plugin that rejects requests to the signer of client certificates for the group `system:masters`.
pub(crate) struct CertificateSubjectRestriction;

const OF_CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

impl AdmissionPlugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create])
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_new(GROUP, REQUESTS)] }
    }

    /// upstream: plugin/pkg/admission/certificates/subjectrestriction#Plugin.Validate
    fn validate(
        &self,
        _context: &WriteContext<'_>,
        object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(request) = object.filter(|request| signer(request) == OF_CLIENTS) else {
            return Ok(());
        };
        let text = request.str_at(&["spec", "request"]).unwrap_or_default();
        let groups =
            pem::organizations(text).map_err(|why| Rejection::forbidden(format!("failed to parse CSR: {why}")))?;
        if groups.iter().any(|group| group == MASTERS) {
            let why = format!("use of {OF_CLIENTS} signer with {MASTERS} group is not allowed");
            return Err(Rejection::forbidden(why));
        }
        Ok(())
    }
}
