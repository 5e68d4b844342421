use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Refusal, WriteContext};
use holdfast_value::Value;

use super::default_class;

/// An object that names no class gets the default one, if there is one.
pub(super) struct DefaultClass {
    /// The name of the plugin.
    name: &'static str,
    /// Which objects have a class.
    objects: [Interest; 1],
    /// The field of `spec` that names it.
    field: &'static str,
    /// The annotation that named it before there was a field for it.
    old_annotation: &'static str,
    /// The classes: their group and plural name.
    classes: (&'static str, &'static str),
    /// The annotation that makes a class the default one.
    default_annotation: &'static str,
}

/// Claims get a storage class.
pub(super) const STORAGE: DefaultClass = DefaultClass {
    name: "DefaultStorageClass",
    objects: [Interest::in_new("", "persistentvolumeclaims")],
    field: "storageClassName",
    old_annotation: "volume.beta.kubernetes.io/storage-class",
    classes: ("storage.k8s.io", "storageclasses"),
    default_annotation: "storageclass.kubernetes.io/is-default-class",
};

/// Ingresses get an ingress class.
pub(super) const INGRESS: DefaultClass = DefaultClass {
    name: "DefaultIngressClass",
    objects: [Interest::in_new("networking.k8s.io", "ingresses")],
    field: "ingressClassName",
    old_annotation: "kubernetes.io/ingress.class",
    classes: ("networking.k8s.io", "ingressclasses"),
    default_annotation: "ingressclass.kubernetes.io/is-default-class",
};

impl AdmissionPlugin for DefaultClass {
    fn name(&self) -> &'static str {
        self.name
    }

    fn calls(&self) -> Calls {
        Calls::admitting(&[Operation::Create])
    }

    fn interests(&self) -> &[Interest] {
        &self.objects
    }

    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let Some(object) = object else {
            return Ok(());
        };
        let named = object.at(&["spec", self.field]).is_some_and(|name| !name.is_null());
        if named || object.at(&["metadata", "annotations", self.old_annotation]).is_some() {
            return Ok(());
        }
        let (group, plural) = self.classes;
        let class = default_class(context, group, plural, self.default_annotation);
        if let Some(name) = class.as_ref().and_then(|class| class.at(&["metadata", "name"])) {
            object.set_at(&["spec", self.field], name.clone());
        }
        Ok(())
    }
}
