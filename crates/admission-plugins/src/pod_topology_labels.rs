use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_value::Value;

use crate::common::group_resource;

use holdfast_kind_tables::features::Feature;

/// Plugin that copies topology labels of the node to Pods that are created on a node or bound to one:
/// <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#podtopologylabels>. A binding gets
/// the labels and passes them to its Pod.
pub(super) struct PodTopologyLabels;

/// Topology labels of nodes.
const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Returns the topology labels of a node with their values; empty if the node does not exist.
fn topology_of(context: &WriteContext<'_>, node: &str) -> Vec<(&'static str, Value)> {
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

    fn calls(&self) -> Calls {
        Calls::admitting(&[Operation::Create])
    }

    fn gate(&self) -> Option<&'static str> {
        Some(Feature::PodTopologyLabelsAdmission.name())
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                subresources: &["", "binding"],
                ..Interest::in_new("", "pods")
            }]
        }
    }

    /// upstream: plugin/pkg/admission/podtopologylabels#Plugin.Admit
    fn mutate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&mut Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(object) = object else {
            return Ok(());
        };
        let node = match context.subresource {
            None => object.str_at(&["spec", "nodeName"]),
            Some(_) => object
                .str_at(&["target", "name"])
                .filter(|_| object.str_at(&["target", "kind"]) == Some("Node")),
        };
        let Some(node) = node.filter(|node| !node.is_empty()) else {
            return Ok(());
        };
        for (label, value) in topology_of(context, node) {
            object.set_at(&["metadata", "labels", label], value);
        }
        Ok(())
    }
}
