use holdfast_admission::Interest;
use holdfast_admission::{AdmissionPlugin, Calls};
use holdfast_resource::quota::Amounts;
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::Value;

use crate::common::PodUpdate;
use holdfast_kinds::pod_resources::of_pod;
use holdfast_resource::quota::quantity;
use holdfast_schema::same;

/// Plugin that rejects the resize of a Pod unless its node exists, runs Linux, and has enough allocatable resources.
pub(super) struct PodResizeValidator;

impl AdmissionPlugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Update])
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                subresources: &["resize"],
                ..Interest::in_objects("", "pods", &[Operation::Update])
            }]
        }
    }

    /// upstream: plugin/pkg/admission/podresize#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(update) = PodUpdate::new(object, old) else {
            return Ok(());
        };
        let PodUpdate { pod, node: name, .. } = update;
        if same(pod.get("spec"), update.old.get("spec")) {
            return Ok(());
        }
        let node = update.node(context)?;
        let system = node.str_at(&["metadata", "labels", "kubernetes.io/os"]);
        if let Some(system) = system.filter(|system| *system != "linux") {
            return Err(rejected(
                "UnsupportedPlatform",
                format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}"),
            ));
        }
        within_allocatable(&of_pod(&Field::root(pod).child("spec"), "requests"), &node)
    }
}

/// Returns an error with a cause that only has a reason.
fn rejected(reason: &str, message: String) -> Rejection {
    Rejection::Forbidden {
        message,
        causes: vec![(reason.to_owned(), String::new(), String::new())],
    }
}

/// Checks that the allocatable cpu and memory of a node cover the requests of a Pod.
///
/// upstream: plugin/pkg/admission/podresize#validateRequestsWithinAllocatable
fn within_allocatable(requests: &Amounts, node: &Value) -> Result<(), Rejection> {
    let mut errors = Vec::new();
    for (name, thousandths) in [("cpu", true), ("memory", false)] {
        let Some(requested) = requests.get(name) else {
            continue;
        };
        let has = quantity(&Field::placed(node.at(&["status", "allocatable", name]), ""));
        if has.is_none_or(|has| *requested > has) {
            let has = has.map_or(0, |has| if thousandths { has.thousandths() } else { has.units() });
            let requested = if thousandths {
                requested.thousandths()
            } else {
                requested.units()
            };
            errors.push(format!("{name}, requested: {requested}, allocatable: {has}"));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(rejected(
        "NodeCapacity",
        format!("node didn't have enough allocatable resources: {}", errors.join("; ")),
    ))
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: one, containers: [{name: c, image: \
                       i, resources: {requests: {cpu: 1}}}]}}";

    fn resized(node: &str) -> Result<(), String> {
        let harness = Harness::new().with(node);
        let new = POD.replace("cpu: 1", "cpu: 2");
        harness.admit_update("PodResizeValidator", Some("resize"), POD, &new)
    }

    #[test]
    fn a_pod_grows_within_its_node_alone() {
        let node = "{apiVersion: v1, kind: Node, metadata: {name: one}, status: {allocatable: {cpu: 2}}}";
        assert_eq!(resized(node), Ok(()));
        assert_eq!(
            resized(&node.replace("cpu: 2", "cpu: 1500m")).unwrap_err(),
            "node didn't have enough allocatable resources: cpu, requested: 2000, allocatable: 1500 (NodeCapacity)"
        );
        assert_eq!(
            resized(&node.replace("name: one", "name: one, labels: {kubernetes.io/os: windows}")).unwrap_err(),
            "pod resize is only supported on linux nodes, node \"one\" is \"windows\" (UnsupportedPlatform)"
        );
        assert_eq!(
            resized(&node.replace("one", "two")).unwrap_err(),
            "node \"one\" not found"
        );
    }
}
