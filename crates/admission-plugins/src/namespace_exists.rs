use holdfast_admission::{AdmissionPlugin, Calls};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use crate::common::group_resource;

/// Plugin that rejects writes in a namespace that does not exist.
pub(super) struct NamespaceExists;

impl AdmissionPlugin for NamespaceExists {
    fn name(&self) -> &'static str {
        "NamespaceExists"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create, Operation::Update, Operation::Delete])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    /// upstream: plugin/pkg/admission/namespace/exists#Exists.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        _object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        if context.namespace.is_empty() || !context.resource.namespaced() {
            return Ok(());
        }
        let namespaces = group_resource("", "namespaces");
        match context.lookup.get(&namespaces, "", context.namespace) {
            Some(_) => Ok(()),
            None => Err(Rejection::NotFound {
                resource: namespaces,
                name: context.namespace.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn objects_need_a_namespace_that_is_there() {
        const CONFIG: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}}";
        const NODE: &str = "{apiVersion: v1, kind: Node, metadata: {name: one}}";
        const PLUGIN: &str = "NamespaceExists";
        let harness = Harness::new();
        assert!(harness.admit(PLUGIN, CONFIG).unwrap_err().contains("NotFound"));
        let changed = harness.admit_update(PLUGIN, None, CONFIG, CONFIG);
        assert!(changed.unwrap_err().contains("NotFound"));
        assert!(harness.admit(PLUGIN, NODE).is_ok());
        let there = harness.with("{apiVersion: v1, kind: Namespace, metadata: {name: default}}");
        assert!(there.admit(PLUGIN, CONFIG).is_ok());
    }
}
