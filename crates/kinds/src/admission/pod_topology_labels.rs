use holdfast_admission::{AdmissionPlugin, Interest};
use holdfast_resource::{Refusal, Resource, WriteContext};
use holdfast_value::Value;

use super::group_resource;

/// Pods that are made on a node take on where it stands:
/// <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#podtopologylabels>. Those that a binding
/// puts there get the same from the binding.
pub(super) struct PodTopologyLabels;

/// The labels of nodes that say where they stand.
const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Where a node stands: labels with their values; none where there is no such node.
pub(crate) fn topology_of(context: &WriteContext<'_>, node: &str) -> Vec<(&'static str, Value)> {
    let Some(node) = context.lookup.get(&group_resource("", "nodes"), "", node) else {
        return Vec::new();
    };
    let label = |label: &'static str| Some((label, node.at(&["metadata", "labels", label])?.clone()));
    LABELS.into_iter().filter_map(label).collect()
}

impl AdmissionPlugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_new("", "pods")] }
    }

    fn mutate(
        &self,
        context: &WriteContext<'_>,
        _resource: &Resource,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let Some(pod) = object else {
            return Ok(());
        };
        let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
        if node.is_empty() {
            return Ok(());
        }
        for (label, value) in topology_of(context, node) {
            pod.set_at(&["metadata", "labels", label], value);
        }
        Ok(())
    }
}
