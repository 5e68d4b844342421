use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use super::{GROUP, REQUESTS, check_signer};
use holdfast_schema::same;

/// Plugin that requires `sign` on the signer to issue a certificate or to change the status of a request.
pub(crate) struct CertificateSigning;

impl AdmissionPlugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Update])
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                group: GROUP,
                resource: REQUESTS,
                subresources: &["status"],
                operations: &[Operation::Update],
            }]
        }
    }

    /// upstream: plugin/pkg/admission/certificates/signing#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let (Some(object), Some(old)) = (object, old) else {
            return Ok(());
        };
        let kept = |field: &str| {
            let path = ["status", field];
            same(object.at(&path), old.at(&path))
        };
        if kept("certificate") && kept("conditions") {
            return Ok(());
        }
        check_signer(context, "sign", old)
    }
}
