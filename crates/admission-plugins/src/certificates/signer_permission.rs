use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_kinds::may_use_signer;
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::same;
use holdfast_value::Value;

use super::{GROUP, REQUESTS, signer};

/// Plugin that requires a permission on the signer of a request to change a part of the request.
pub(crate) struct SignerPermission {
    name: &'static str,
    interests: &'static [Interest],
    /// Permission on the signer.
    verb: &'static str,
    /// Returns true if the change of an object needs the permission.
    concerns: fn(&Value, &Value) -> bool,
}

impl SignerPermission {
    /// Returns the plugin that requires `approve` to approve or deny a request.
    ///
    /// upstream: plugin/pkg/admission/certificates/approval#Plugin.Validate
    pub(crate) const APPROVAL: Self = Self {
        name: "CertificateApproval",
        interests: &[interest_in(&["approval"])],
        verb: "approve",
        concerns: |_, _| true,
    };

    /// Returns the plugin that requires `sign` to issue a certificate or to change the status of a request.
    ///
    /// upstream: plugin/pkg/admission/certificates/signing#Plugin.Validate
    pub(crate) const SIGNING: Self = Self {
        name: "CertificateSigning",
        interests: &[interest_in(&["status"])],
        verb: "sign",
        concerns: |object, old| {
            let is_changed = |field: &str| {
                let path = ["status", field];
                !same(object.at(&path), old.at(&path))
            };
            is_changed("certificate") || is_changed("conditions")
        },
    };
}

const fn interest_in(subresources: &'static [&'static str]) -> Interest {
    Interest {
        group: GROUP,
        resource: REQUESTS,
        subresources,
        operations: &[Operation::Update],
    }
}

impl AdmissionPlugin for SignerPermission {
    fn name(&self) -> &'static str {
        self.name
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Update])
    }

    fn interests(&self) -> &[Interest] {
        self.interests
    }

    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let (Some(object), Some(old)) = (object, old) else {
            return Ok(());
        };
        // The signer of the existing request counts, not that of the update.
        let (signer, verb) = (signer(old), self.verb);
        if !(self.concerns)(object, old) || may_use_signer(context, verb, signer) {
            return Ok(());
        }
        Err(Rejection::forbidden(format!(
            "user not permitted to {verb} requests with signerName {signer:?}"
        )))
    }
}
