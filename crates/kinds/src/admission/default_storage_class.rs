use holdfast_resource::{AdmissionPlugin, Refusal, Resource, WriteContext};
use holdfast_value::Value;

use super::{creates, default_class};

/// A claim that names no class gets the default one, if there is one.
pub(super) struct DefaultStorageClass;

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// Named the class before there was a field for it.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

impl AdmissionPlugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn mutate(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let Some(claim) = object.filter(|_| creates(context, resource, "", "persistentvolumeclaims")) else {
            return Ok(());
        };
        let named = claim
            .at(&["spec", "storageClassName"])
            .is_some_and(|name| !name.is_null());
        if named || claim.at(&["metadata", "annotations", OLD_CLASS]).is_some() {
            return Ok(());
        }
        let class = default_class(context, "storage.k8s.io", "storageclasses", DEFAULT);
        if let Some(name) = class.as_ref().and_then(|class| class.at(&["metadata", "name"])) {
            claim.set_at(&["spec", "storageClassName"], name.clone());
        }
        Ok(())
    }
}
