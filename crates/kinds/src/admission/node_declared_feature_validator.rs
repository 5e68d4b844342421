use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Field, Operation, Refusal, WriteContext};
use holdfast_value::Value;

use super::PodUpdate;
use crate::features::Feature;
use crate::validation::resources::quantity;
use crate::validation::same;

/// What a change of a running Pod needs of its node, the node declares:
/// <https://kubernetes.io/docs/concepts/scheduling-eviction/node-declared-features/>.
pub(super) struct NodeDeclaredFeatureValidator;

/// The features that a change may need, in the order of their names. The others that nodes declare are for the scheduler.
const FEATURES: [(&str, Needs); 3] = [
    ("GuaranteedQoSPodCPUResize", resizes_processors_of_guaranteed),
    ("InPlacePodLevelResourcesVerticalScaling", resizes_whole_pod),
    ("InPlacePodVerticalScalingInitContainers", resizes_init_containers),
];

/// Whether the change from one Pod to another needs a feature.
type Needs = fn(old: &Field<'_, '_>, new: &Field<'_, '_>) -> bool;

impl AdmissionPlugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Update])
    }

    fn gate(&self) -> Option<&'static str> {
        Some(Feature::NodeDeclaredFeatures.name())
    }

    fn interests(&self) -> &[Interest] {
        const {
            &[Interest {
                subresources: &["", "resize"],
                ..Interest::in_objects("", "pods", &[Operation::Update])
            }]
        }
    }

    fn validate(&self, context: &WriteContext<'_>, object: Option<&Value>, old: Option<&Value>) -> Result<(), Refusal> {
        let Some(update) = PodUpdate::of(object, old) else {
            return Ok(());
        };
        let (before, after) = (Field::root(update.old), Field::root(update.pod));
        let needed = FEATURES.iter().filter(|(_, needs)| needs(&before, &after));
        let needed: Vec<&str> = needed.map(|(feature, _)| *feature).collect();
        if needed.is_empty() {
            return Ok(());
        }
        let node = update.node(context)?;
        let declared = Field::placed(node.at(&["status", "declaredFeatures"]), "");
        let declares = |feature: &&str| declared.items().any(|one| one.text() == *feature);
        let missing: Vec<&str> = needed.into_iter().filter(|feature| !declares(feature)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Refusal::forbidden(format!(
            "pod update requires features {} which are not available on node {:?}",
            missing.join(", "),
            update.node
        )))
    }
}

/// Containers of the same place in a list, before and after.
fn pairs<'v>(
    old: &Field<'v, '_>,
    new: &Field<'v, '_>,
    list: &str,
) -> impl Iterator<Item = (&'v Value, &'v Value)> + use<'v> {
    let slice = |pod: &Field<'v, '_>| {
        let containers = pod.value().and_then(|pod| pod.at(&["spec", list]));
        containers
            .and_then(Value::as_list)
            .into_iter()
            .flat_map(|list| list.iter())
    };
    slice(old).zip(slice(new))
}

fn resizes_processors_of_guaranteed(old: &Field<'_, '_>, new: &Field<'_, '_>) -> bool {
    if old.child("status").child("qosClass").text() != "Guaranteed" {
        return false;
    }
    let requested = |container: &Value| {
        let amount = container.at(&["resources", "requests", "cpu"]);
        quantity(&Field::placed(amount, ""))
    };
    pairs(old, new, "containers").any(|(old, new)| requested(old) != requested(new))
}

fn resizes_whole_pod(old: &Field<'_, '_>, new: &Field<'_, '_>) -> bool {
    let resources = |pod: &Field<'_, '_>| pod.child("spec").child("resources").value().cloned();
    !same(resources(old).as_ref(), resources(new).as_ref())
}

/// Those that run beside the containers count as containers.
fn resizes_init_containers(old: &Field<'_, '_>, new: &Field<'_, '_>) -> bool {
    let mut pairs = pairs(old, new, "initContainers");
    pairs.any(|(old, new)| {
        old.str_at(&["restartPolicy"]) != Some("Always") && !same(old.get("resources"), new.get("resources"))
    })
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: one, resources: {requests: {cpu: 9, \
                       memory: 1}}, initContainers: [{name: i, image: i, resources: {requests: {cpu: 3}}}], containers: [{name: c, \
                       image: i, resources: {requests: {cpu: 1}}}]}, status: {qosClass: Guaranteed}}";

    fn resized(features: &str, from: &str, to: &str) -> Result<(), String> {
        let node = format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: one}}, status: {{declaredFeatures: [{features}]}}}}"
        );
        let harness = Harness::new().with(&node);
        let new = POD.replace(from, to);
        harness.admit_update("NodeDeclaredFeatureValidator", Some("resize"), POD, &new)
    }

    #[test]
    fn a_running_pod_changes_as_far_as_its_node_declares() {
        for (from, to, feature) in [
            ("cpu: 1", "cpu: 2", "GuaranteedQoSPodCPUResize"),
            ("memory: 1", "memory: 2", "InPlacePodLevelResourcesVerticalScaling"),
            ("cpu: 3", "cpu: 4", "InPlacePodVerticalScalingInitContainers"),
        ] {
            assert_eq!(
                resized("Other", from, to).unwrap_err(),
                format!("pod update requires features {feature} which are not available on node \"one\"")
            );
            assert_eq!(resized(feature, from, to), Ok(()));
        }
        assert_eq!(resized("", "cpu: 1", "cpu: 1000m"), Ok(()));
        assert_eq!(
            resized("", "cpu: ", "cpu: 1").unwrap_err(),
            "pod update requires features GuaranteedQoSPodCPUResize, InPlacePodLevelResourcesVerticalScaling, \
             InPlacePodVerticalScalingInitContainers which are not available on node \"one\""
        );
    }
}
