use holdfast_resource::{AdmissionPlugin, Field, Refusal, Resource, WriteContext};
use holdfast_value::Value;

use super::creates;

/// Volumes, claims and their classes stay until nobody uses them.
pub(super) struct StorageObjectInUseProtection;

const FINALIZERS: [(&str, &str, &str); 3] = [
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    (
        "storage.k8s.io",
        "volumeattributesclasses",
        "kubernetes.io/vac-protection",
    ),
];

impl AdmissionPlugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn mutate(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let of = FINALIZERS
            .iter()
            .find(|(group, plural, _)| creates(context, resource, group, plural));
        let (Some((_, _, finalizer)), Some(object)) = (of, object) else {
            return Ok(());
        };
        let root = Field::root(object);
        let mut finalizers = root.child("metadata").child("finalizers").slice().to_vec();
        if !finalizers.iter().any(|known| known.as_str() == Some(finalizer)) {
            finalizers.push((*finalizer).into());
            object.set_at(&["metadata", "finalizers"], finalizers.into());
        }
        Ok(())
    }
}
