use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::Value;

use crate::common::group_resource;
use holdfast_resource::quota::quantity;

/// Plugin that rejects the expansion of a bound claim unless its class allows it.
pub(super) struct PersistentVolumeClaimResize;

impl AdmissionPlugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Update])
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_objects("", "persistentvolumeclaims", &[Operation::Update])] }
    }

    /// upstream: plugin/pkg/admission/storage/persistentvolume/resize#persistentVolumeClaimResize.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let (Some(claim), Some(old)) = (object, old) else {
            return Ok(());
        };
        let request = |claim: &Value| {
            quantity(&Field::placed(
                claim.at(&["spec", "resources", "requests", "storage"]),
                "",
            ))
        };
        let grows = matches!((request(claim), request(old)), (Some(now), Some(before)) if now > before);
        if !grows {
            return Ok(());
        }
        if old.str_at(&["status", "phase"]) != Some("Bound") {
            return Err(Rejection::forbidden(
                "Only bound persistent volume claims can be expanded",
            ));
        }
        let class = claim.str_at(&["spec", "storageClassName"]).unwrap_or_default();
        let class = context
            .lookup
            .get(&group_resource("storage.k8s.io", "storageclasses"), "", class);
        if class.is_some_and(|class| Field::root(&class).child("allowVolumeExpansion").is_true()) {
            return Ok(());
        }
        Err(Rejection::forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ))
    }
}
