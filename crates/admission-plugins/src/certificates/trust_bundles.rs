use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use super::{GROUP, signer};
use holdfast_kind_tables::features::Feature;
use holdfast_kinds::{changes_ownership_alone, may_use_signer};

/// Plugin that requires `attest` on the signer to write a trust bundle of that signer.
pub(crate) struct ClusterTrustBundleAttest;

impl AdmissionPlugin for ClusterTrustBundleAttest {
    fn name(&self) -> &'static str {
        "ClusterTrustBundleAttest"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create, Operation::Update])
    }

    fn gate(&self) -> Option<&'static str> {
        Some(Feature::ClusterTrustBundle.name())
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                subresources: Interest::EVERYTHING.subresources,
                ..Interest::in_written(GROUP, "clustertrustbundles")
            }]
        }
    }

    /// upstream: plugin/pkg/admission/certificates/ctbattest#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(bundle) = object.filter(|bundle| !signer(bundle).is_empty()) else {
            return Ok(());
        };
        if old.is_some_and(|old| changes_ownership_alone(bundle, old)) {
            return Ok(());
        }
        let signer = signer(bundle);
        match may_use_signer(context, "attest", signer) {
            true => Ok(()),
            false => Err(Rejection::forbidden(format!(
                "user not permitted to attest for signerName {signer:?}"
            ))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::harness::Harness;

    fn bundle(signer: &str, rest: &str) -> String {
        format!(
            "{{apiVersion: certificates.k8s.io/v1beta1, kind: ClusterTrustBundle, metadata: {{name: bundle{rest}}}, spec: \
             {{signerName: '{signer}', trustBundle: t}}}}"
        )
    }

    fn harness(rights: &[&str]) -> Harness {
        let harness = Harness::serving("certificates.k8s.io/v1beta1=true", "ClusterTrustBundle=true");
        harness.allowing(rights)
    }

    #[test]
    fn trust_bundle_of_signer_requires_attest() {
        const PLUGIN: &str = "ClusterTrustBundleAttest";
        let (named, unnamed) = (bundle("a.io/b", ""), bundle("", ""));
        let rejected = "user not permitted to attest for signerName \"a.io/b\"";
        assert_eq!(harness(&[]).admit(PLUGIN, &named).unwrap_err(), rejected);
        assert!(harness(&[]).admit(PLUGIN, &unnamed).is_ok());
        assert!(harness(&["attest signers/"]).admit(PLUGIN, &named).is_ok());
        let update = |old: &str, new: &str| harness(&[]).admit_update(PLUGIN, None, old, new);
        assert_eq!(update(&unnamed, &named).unwrap_err(), rejected);
        assert_eq!(update(&named, &bundle("a.io/b", ", finalizers: [a.io/b]")), Ok(()));
        assert_eq!(
            update(&named, &bundle("a.io/b", ", labels: {a: b}")).unwrap_err(),
            rejected
        );
    }
}
