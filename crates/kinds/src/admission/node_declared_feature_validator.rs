use holdfast_admission::{AdmissionPlugin, Interest};
use holdfast_resource::{Field, Operation, Refusal, Resource, WriteContext};
use holdfast_value::Value;

use super::group_resource;
use crate::pod_resources::of_pod;
use crate::quota::Amounts;
use crate::validation::resources::quantity;
use crate::validation::same;

/// A Pod is resized only on a node that is there, runs Linux, and has as much to give.
pub(super) struct NodeDeclaredFeatureValidator;

impl AdmissionPlugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                subresources: &["resize"],
                ..Interest::in_objects("", "pods", &[Operation::Update])
            }]
        }
    }

    fn validate(
        &self,
        context: &WriteContext<'_>,
        _resource: &Resource,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        let (Some(pod), Some(old)) = (object, old) else {
            return Ok(());
        };
        let name = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
        if name.is_empty() || same(pod.get("spec"), old.get("spec")) {
            return Ok(());
        }
        let Some(node) = context.lookup.get(&group_resource("", "nodes"), "", name) else {
            return Err(Refusal::forbidden(format!("node {name:?} not found")));
        };
        let system = node.str_at(&["metadata", "labels", "kubernetes.io/os"]);
        if let Some(system) = system.filter(|system| *system != "linux") {
            return Err(Refusal::forbidden(format!(
                "pod resize is only supported on linux nodes, node {name:?} is {system:?}"
            )));
        }
        within_allocatable(&of_pod(&Field::root(pod).child("spec"), "requests"), &node)
    }
}

/// Whether a node has as much of processors and memory as a Pod asks for.
fn within_allocatable(requests: &Amounts, node: &Value) -> Result<(), Refusal> {
    let mut faults = Vec::new();
    for (name, thousandths) in [("cpu", true), ("memory", false)] {
        let Some(asked) = requests.get(name) else {
            continue;
        };
        let has = quantity(&Field::placed(node.at(&["status", "allocatable", name]), ""));
        if has.is_none_or(|has| *asked > has) {
            let has = has.map_or(0, |has| if thousandths { has.thousandths() } else { has.units() });
            let asked = if thousandths {
                asked.thousandths()
            } else {
                asked.units()
            };
            faults.push(format!("{name}, requested: {asked}, allocatable: {has}"));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(Refusal::forbidden(format!(
        "node didn't have enough allocatable resources: {}",
        faults.join("; ")
    )))
}
