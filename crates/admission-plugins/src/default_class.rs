use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use crate::common::default_class;

/// Plugin that assigns the default class, if there is one, to an object that names none.
pub(super) struct DefaultClass {
    /// Name of the plugin.
    name: &'static str,
    /// Objects that have a class.
    objects: [Interest; 1],
    /// Field of `spec` that names the class.
    field: &'static str,
    /// Annotation that named the class before the field existed.
    old_annotation: &'static str,
    /// Group and plural name of the classes.
    classes: (&'static str, &'static str),
    /// Annotation that marks a class as the default.
    default_annotation: &'static str,
}

/// Plugin that assigns the default storage class to claims.
pub(super) const STORAGE: DefaultClass = DefaultClass {
    name: "DefaultStorageClass",
    objects: [Interest::in_new("", "persistentvolumeclaims")],
    field: "storageClassName",
    old_annotation: "volume.beta.kubernetes.io/storage-class",
    classes: ("storage.k8s.io", "storageclasses"),
    default_annotation: "storageclass.kubernetes.io/is-default-class",
};

/// Plugin that assigns the default ingress class to Ingresses.
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

    /// upstream: plugin/pkg/admission/storage/storageclass/setdefault#claimDefaulterPlugin.Admit
    /// upstream: plugin/pkg/admission/network/defaultingressclass#classDefaulterPlugin.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
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
