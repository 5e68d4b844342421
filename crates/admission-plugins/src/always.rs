//! Plugins with the same decision for every write.

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_authorization::User;
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

/// Plugin that admits every write.
pub(super) struct AlwaysAdmit;

impl AdmissionPlugin for AlwaysAdmit {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }

    fn calls(&self) -> Calls {
        Calls::ALL
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        &[]
    }
}

/// Plugin that rejects every write except the server's own, which the server needs to start.
pub(super) struct AlwaysDeny;

impl AdmissionPlugin for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    fn calls(&self) -> Calls {
        Calls::ALL
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                operations: &[
                    Operation::Create,
                    Operation::Update,
                    Operation::Delete,
                    Operation::Connect,
                ],
                ..Interest::EVERYTHING
            }]
        }
    }

    /// upstream: plugin/pkg/admission/deny#alwaysDeny.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        _object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        match context.user.name == User::server().name {
            true => Ok(()),
            false => Err(Rejection::forbidden("admission control is denying all modifications")),
        }
    }

    /// upstream: plugin/pkg/admission/deny#alwaysDeny.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        _object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        self.mutate(context, None, old)
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const CONFIG: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}";

    #[test]
    fn everything_is_admitted_or_rejected() {
        let harness = Harness::new();
        assert!(harness.admit("AlwaysAdmit", CONFIG).is_ok());
        let rejected = "admission control is denying all modifications";
        assert_eq!(harness.admit("AlwaysDeny", CONFIG).unwrap_err(), rejected);
        let updated = harness.admit_update("AlwaysDeny", Some("status"), CONFIG, CONFIG);
        assert_eq!(updated.unwrap_err(), rejected);
        let server = Harness::new().written_by("system:apiserver", &[]);
        assert!(server.admit("AlwaysDeny", CONFIG).is_ok());
    }
}
