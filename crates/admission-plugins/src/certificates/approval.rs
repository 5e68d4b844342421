use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use super::{GROUP, REQUESTS, check_signer};

/// Plugin that requires `approve` on the signer to approve or deny a request.
pub(crate) struct CertificateApproval;

impl AdmissionPlugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Update])
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                group: GROUP,
                resource: REQUESTS,
                subresources: &["approval"],
                operations: &[Operation::Update],
            }]
        }
    }

    /// upstream: plugin/pkg/admission/certificates/approval#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        _object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        // The signer of the existing request counts, not that of the update.
        old.map_or(Ok(()), |old| check_signer(context, "approve", old))
    }
}
