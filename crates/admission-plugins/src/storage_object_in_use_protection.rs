use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use crate::common::add_finalizer;

/// Plugin that adds the finalizers that keep volumes, claims and their classes while they are in use.
pub(super) struct StorageObjectInUseProtection;

const FINALIZERS: [(&str, &str); 3] = [
    ("persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("persistentvolumes", "kubernetes.io/pv-protection"),
    ("volumeattributesclasses", "kubernetes.io/vac-protection"),
];

impl AdmissionPlugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn calls(&self) -> Calls {
        Calls::admitting(&[Operation::Create])
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[
                Interest::in_new("", "persistentvolumeclaims"),
                Interest::in_new("", "persistentvolumes"),
                Interest::in_new("storage.k8s.io", "volumeattributesclasses"),
            ]
        }
    }

    /// upstream: plugin/pkg/admission/storage/storageobjectinuseprotection#storageProtectionPlugin.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let protection = FINALIZERS.iter().find(|(plural, _)| context.resource.plural == *plural);
        let (Some((_, finalizer)), Some(object)) = (protection, object) else {
            return Ok(());
        };
        add_finalizer(object, finalizer);
        Ok(())
    }
}
