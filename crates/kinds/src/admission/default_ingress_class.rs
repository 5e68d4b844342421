use holdfast_resource::{AdmissionPlugin, Refusal, Resource, WriteContext};
use holdfast_value::Value;

use super::{creates, default_class};

/// An Ingress that names no class gets the default one, if there is one.
pub(super) struct DefaultIngressClass;

const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// Named the class before there was a field for it.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";
const GROUP: &str = "networking.k8s.io";

impl AdmissionPlugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn mutate(
        &self,
        context: &WriteContext<'_>,
        resource: &Resource,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let Some(ingress) = object.filter(|_| creates(context, resource, GROUP, "ingresses")) else {
            return Ok(());
        };
        let named = ingress
            .at(&["spec", "ingressClassName"])
            .is_some_and(|name| !name.is_null());
        if named || ingress.at(&["metadata", "annotations", OLD_CLASS]).is_some() {
            return Ok(());
        }
        let class = default_class(context, GROUP, "ingressclasses", DEFAULT);
        if let Some(name) = class.as_ref().and_then(|class| class.at(&["metadata", "name"])) {
            ingress.set_at(&["spec", "ingressClassName"], name.clone());
        }
        Ok(())
    }
}
