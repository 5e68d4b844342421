//! Restriction of kubelets to writes that concern their own node
//! (<https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction>).

mod certificates;
mod nodes;
mod pods;
mod tokens;

use holdfast_admission::timings::operation_name;
use holdfast_admission::{AdmissionPlugin, Calls};
use holdfast_authorization::node::node_of;
use holdfast_gotext::quote::quote;
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use crate::common::group_resource;
use holdfast_kind_tables::features::Features;

/// Plugin that restricts nodes to their own object, the Pods that run on them, and related objects.
pub(super) struct NodeRestriction {
    pub(super) features: Features,
}

impl AdmissionPlugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn calls(&self) -> Calls {
        Calls::admitting(&[Operation::Create, Operation::Update, Operation::Delete])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    /// upstream: plugin/pkg/admission/noderestriction#Plugin.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(name) = node_of(context.user) else {
            return Ok(());
        };
        if name.is_empty() {
            return reject(format!(
                "could not determine node from user {}",
                quote(&context.user.name)
            ));
        }
        let write = Write {
            name,
            context,
            object: object.as_deref(),
            old,
            features: self.features,
        };
        match (context.resource.group.as_str(), context.resource.plural.as_str()) {
            ("", "pods") => write.admit_pod(),
            ("", "nodes") => write.admit_node(),
            ("", "persistentvolumeclaims") => write.admit_claim(),
            ("", "serviceaccounts") => write.admit_token(),
            ("coordination.k8s.io", "leases") => write.admit_lease(),
            ("storage.k8s.io", "csinodes") => write.admit_csi_node(),
            ("resource.k8s.io", "resourceslices") => write.admit_slice(),
            ("certificates.k8s.io", "certificatesigningrequests") => write.admit_signing_request(),
            ("certificates.k8s.io", "podcertificaterequests") => write.admit_pod_certificate(),
            _ => Ok(()),
        }
    }
}

/// Write by the kubelet of the node `name`.
struct Write<'a> {
    name: &'a str,
    context: &'a WriteContext<'a>,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
    features: Features,
}

impl Write<'_> {
    /// Returns the name of the node as error messages quote it.
    fn node(&self) -> String {
        quote(self.name)
    }

    fn subresource(&self) -> &str {
        self.context.subresource.unwrap_or_default()
    }

    fn operation(&self) -> &'static str {
        operation_name(self.context.operation)
    }

    /// Returns the name of the object, empty if it is not generated yet.
    fn object_name(&self) -> &str {
        match self.context.operation {
            Operation::Create => text(self.object, &["metadata", "name"]),
            _ => self.context.name,
        }
    }

    /// Returns another object.
    fn find(
        &self,
        resource: &'static str,
        kind: &'static str,
        namespace: &str,
        name: &str,
    ) -> Result<Value, Rejection> {
        let found = self.context.lookup.get(&group_resource("", resource), namespace, name);
        // The reference names the kind, not the resource.
        found.ok_or_else(|| Rejection::NotFound {
            resource: group_resource("", kind),
            name: name.to_owned(),
        })
    }

    fn pod(&self, name: &str) -> Result<Value, Rejection> {
        self.find("pods", "pod", self.context.namespace, name)
    }
}

fn reject(why: impl Into<String>) -> Result<(), Rejection> {
    Err(Rejection::forbidden(why))
}

fn text<'v>(object: Option<&'v Value>, path: &[&str]) -> &'v str {
    object.and_then(|object| object.str_at(path)).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod testing {
    use crate::harness::Harness;

    pub(super) const PLUGIN: &str = "NodeRestriction";

    /// Returns a harness that writes as the kubelet of the node `n1`.
    pub(super) fn harness() -> Harness {
        by_node(Harness::new())
    }

    pub(super) fn by_node(harness: Harness) -> Harness {
        harness.written_by("system:node:n1", &["system:nodes"])
    }

    pub(super) fn create(harness: &Harness, text: &str) -> Result<(), String> {
        harness.admit(PLUGIN, text).map(drop)
    }

    pub(super) fn update(harness: &Harness, subresource: Option<&str>, old: &str, new: &str) -> Result<(), String> {
        harness.admit_change(PLUGIN, subresource, old, new)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::testing::{PLUGIN, create};
    use crate::harness::Harness;

    const NODE: &str = "{apiVersion: v1, kind: Node, metadata: {name: other}}";

    #[test]
    fn agents_of_nodes_alone_are_restricted() {
        let admit = |user: &str, groups: &[&str]| create(&Harness::new().written_by(user, groups), NODE);
        assert_eq!(admit("alice", &["system:nodes"]), Ok(()));
        assert_eq!(admit("system:node:n1", &[]), Ok(()));
        assert_eq!(
            admit("system:node:n1", &["system:nodes"]).unwrap_err(),
            "node \"n1\" is not allowed to modify node \"other\""
        );
        assert_eq!(
            admit("system:node:", &["system:nodes"]).unwrap_err(),
            "could not determine node from user \"system:node:\""
        );
        let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}";
        assert!(super::testing::harness().admit(PLUGIN, config).is_ok());
    }
}
