use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::Value;

use crate::common::PodUpdate;
use holdfast_kind_tables::features::Feature;
use holdfast_schema::same;

/// Plugin that rejects an update of a running Pod if the update needs a feature that the Pod's node does not declare:
/// <https://kubernetes.io/docs/concepts/scheduling-eviction/node-declared-features/>.
pub(super) struct NodeDeclaredFeatureValidator;

/// Node features that an update may need, sorted by name.
///
/// Kubelets of 1.36 also declare ExtendWebSocketsToKubelet, RestartAllContainersOnContainerExits and
/// UserNamespacesHostNetworkSupport, which no update needs: only the scheduler and the kubelet's clients read them.
///
/// upstream: k8s.io/component-helpers/nodedeclaredfeatures/features#AllFeatures
const UPDATE_FEATURES: [NodeFeature; 2] = [
    NodeFeature {
        name: "InPlacePodLevelResourcesVerticalScaling",
        is_needed: resizes_pod_level_resources,
    },
    NodeFeature {
        name: "InPlacePodVerticalScalingInitContainers",
        is_needed: resizes_init_containers,
    },
];

/// Node feature with its rule for updates (`InferForUpdate`).
struct NodeFeature {
    name: &'static str,
    /// Returns true if the update from `old` to `new` needs the feature.
    is_needed: fn(old: &Field<'_, '_>, new: &Field<'_, '_>) -> bool,
}

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

    /// upstream: plugin/pkg/admission/nodedeclaredfeatures#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(update) = PodUpdate::new(object, old) else {
            return Ok(());
        };
        // The reference compares generations, which change only with the spec.
        if same(update.old.get("spec"), update.pod.get("spec")) {
            return Ok(());
        }
        let (before, after) = (Field::root(update.old), Field::root(update.pod));
        let needed: Vec<&str> = UPDATE_FEATURES
            .iter()
            .filter(|feature| (feature.is_needed)(&before, &after))
            .map(|feature| feature.name)
            .collect();
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
        Err(Rejection::forbidden(format!(
            "pod update requires features {} which are not available on node {:?}",
            missing.join(", "),
            update.node
        )))
    }
}

/// Pairs the old and the new container at each index of a list.
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

fn resizes_pod_level_resources(old: &Field<'_, '_>, new: &Field<'_, '_>) -> bool {
    let resources = |pod: &Field<'_, '_>| pod.child("spec").child("resources").value().cloned();
    !same(resources(old).as_ref(), resources(new).as_ref())
}

/// Returns true if an init container that is not a sidecar is resized.
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
    fn resize_on_node_without_feature_is_forbidden() {
        for (from, to, feature) in [
            ("memory: 1", "memory: 2", "InPlacePodLevelResourcesVerticalScaling"),
            ("cpu: 3", "cpu: 4", "InPlacePodVerticalScalingInitContainers"),
        ] {
            assert_eq!(
                resized("Other", from, to).unwrap_err(),
                format!("pod update requires features {feature} which are not available on node \"one\"")
            );
            assert_eq!(resized(feature, from, to), Ok(()));
        }
        assert_eq!(
            resized("", "cpu: ", "cpu: 1").unwrap_err(),
            "pod update requires features InPlacePodLevelResourcesVerticalScaling, \
             InPlacePodVerticalScalingInitContainers which are not available on node \"one\""
        );
    }

    #[test]
    fn cpu_resize_of_guaranteed_pod_needs_no_feature() {
        assert_eq!(resized("", "cpu: 1", "cpu: 2"), Ok(()));
        let kubelet = "ExtendWebSocketsToKubelet, InPlacePodLevelResourcesVerticalScaling, \
                       InPlacePodVerticalScalingInitContainers, RestartAllContainersOnContainerExits";
        assert_eq!(resized(kubelet, "cpu: ", "cpu: 1"), Ok(()));
    }

    #[test]
    fn sidecar_resize_needs_no_feature() {
        let pod = POD.replace("{name: i, image: i,", "{name: i, image: i, restartPolicy: Always,");
        let new = pod.replace("cpu: 3", "cpu: 4");
        let harness = Harness::new().with("{apiVersion: v1, kind: Node, metadata: {name: one}}");
        assert_eq!(
            harness.admit_update("NodeDeclaredFeatureValidator", Some("resize"), &pod, &new),
            Ok(())
        );
    }
}
