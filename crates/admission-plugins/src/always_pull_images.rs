use std::collections::BTreeSet;

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::{Field, FieldError};
use holdfast_value::Value;

use holdfast_kinds::defaults::change_items;
use holdfast_kinds::pod_spec::CONTAINERS;

/// Plugin that makes nodes pull images at every start of a container, so that no user runs an image without the right
/// to pull it.
pub(super) struct AlwaysPullImages;

const ALWAYS: &str = "Always";
const POLICY: &str = "imagePullPolicy";

impl AdmissionPlugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        "AlwaysPullImages"
    }

    fn calls(&self) -> Calls {
        Calls::both(&[Operation::Create, Operation::Update])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_written("", "pods")] }
    }

    /// upstream: plugin/pkg/admission/alwayspullimages#AlwaysPullImages.Admit
    fn mutate(
        &self,
        _context: &WriteContext<'_>,
        object: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object.filter(|pod| has_new_image(pod, old)) else {
            return Ok(());
        };
        let Some(spec) = pod.at_mut(&["spec"]) else {
            return Ok(());
        };
        for list in CONTAINERS {
            let pulls_otherwise = |container: &Value| container.str_at(&[POLICY]) != Some(ALWAYS);
            change_items(spec, list, pulls_otherwise, |container| {
                container.set_at(&[POLICY], ALWAYS.into());
            });
        }
        let is_image = |volume: &Value| volume.get("image").is_some_and(|image| !image.is_null());
        change_items(spec, "volumes", is_image, |volume| {
            volume.set_at(&["image", "pullPolicy"], ALWAYS.into());
        });
        Ok(())
    }

    /// Validates the pull policies again, since webhooks may have changed them.
    ///
    /// upstream: plugin/pkg/admission/alwayspullimages#AlwaysPullImages.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(pod) = object.filter(|pod| has_new_image(pod, old)) else {
            return Ok(());
        };
        let errors = errors(&Field::root(pod).child("spec"));
        if errors.is_empty() {
            return Ok(());
        }
        let said: BTreeSet<String> = errors
            .iter()
            .map(|message| format!("pods {:?} is forbidden: {message}", context.name))
            .collect();
        // The reference aggregates its errors, and an aggregate has no status.
        Err(Rejection::Failed(match said.len() {
            1 => said.into_iter().collect(),
            _ => format!("[{}]", said.into_iter().collect::<Vec<_>>().join(", ")),
        }))
    }
}

fn errors(spec: &Field<'_, '_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in CONTAINERS {
        for container in spec.child(list).items() {
            let policy = container.child(POLICY);
            if policy.text() != ALWAYS {
                errors.push(policy.not_supported(&[ALWAYS]));
            }
        }
    }
    for volume in spec.child("volumes").items() {
        let image = volume.child("image");
        let policy = image.child("pullPolicy");
        if image.is_set() && policy.text() != ALWAYS {
            errors.push(policy.not_supported(&[ALWAYS]));
        }
    }
    errors
}

/// Returns true if a Pod is new, or has a container with an image that none had before.
fn has_new_image(pod: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else {
        return true;
    };
    let before = images(old);
    !images(pod).is_subset(&before)
}

fn images(pod: &Value) -> BTreeSet<&str> {
    let list = |name: &str| pod.at(&["spec", name]).and_then(Value::as_list);
    let containers = CONTAINERS.into_iter().filter_map(list).flat_map(|list| list.iter());
    containers
        .map(|container| container.str_at(&["image"]).unwrap_or_default())
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::harness::{Harness, at};

    const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {initContainers: [{name: i, image: 'a:1'}], \
                       containers: [{name: c, image: 'b:1', imagePullPolicy: Never}], volumes: [{name: v, image: {reference: \
                       r}}, {name: w, emptyDir: {}}]}}";
    const PLUGIN: &str = "AlwaysPullImages";

    #[test]
    fn every_image_is_pulled() {
        let pod = Harness::new().admit(PLUGIN, POD).unwrap();
        for place in [
            "spec.initContainers.0.imagePullPolicy",
            "spec.containers.0.imagePullPolicy",
            "spec.volumes.0.image.pullPolicy",
        ] {
            assert_eq!(at(&pod, place), "\"Always\"", "{place}");
        }
        assert_eq!(at(&pod, "spec.volumes.1.image"), "nothing");
    }

    #[test]
    fn a_pod_with_the_same_images_stays_as_it_is() {
        let harness = Harness::new();
        let other = POD.replace("b:1", "a:1");
        assert_eq!(harness.admit_update(PLUGIN, None, POD, &other), Ok(()));
        assert_eq!(
            at(
                &harness.change(PLUGIN, POD, &other).unwrap(),
                "spec.containers.0.imagePullPolicy"
            ),
            "\"Never\""
        );
        let newer = POD.replace("b:1", "b:2");
        assert_eq!(
            at(
                &harness.change(PLUGIN, POD, &newer).unwrap(),
                "spec.containers.0.imagePullPolicy"
            ),
            "\"Always\""
        );
    }

    #[test]
    fn changed_pull_policy_is_rejected() {
        let harness = Harness::new();
        let newer = POD
            .replace("b:1", "b:2")
            .replace("image: 'a:1'", "image: 'a:1', imagePullPolicy: Always")
            .replace("reference: r", "reference: r, pullPolicy: Always");
        let one = "pods \"p\" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: \"Never\": supported values: \
                   \"Always\"";
        assert_eq!(
            harness.admit_update(PLUGIN, None, POD, &newer).unwrap_err(),
            format!("Failed({one:?})")
        );
        let both = newer.replace("pullPolicy: Always}}", "pullPolicy: Never}}");
        let other = one.replace("containers[0].imagePullPolicy", "volumes[0].image.pullPolicy");
        assert_eq!(
            harness.admit_update(PLUGIN, None, POD, &both).unwrap_err(),
            format!("Failed({:?})", format!("[{one}, {other}]"))
        );
    }
}
