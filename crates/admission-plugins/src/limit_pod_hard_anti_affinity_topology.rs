use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::Field;
use holdfast_value::Value;

/// Plugin that rejects required Pod anti-affinity with a topology other than the node.
pub(super) struct LimitPodHardAntiAffinityTopology;

const HOST: &str = "kubernetes.io/hostname";

impl AdmissionPlugin for LimitPodHardAntiAffinityTopology {
    fn name(&self) -> &'static str {
        "LimitPodHardAntiAffinityTopology"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create, Operation::Update])
    }

    fn on_by_default(&self) -> bool {
        false
    }

    fn interests(&self) -> &[Interest] {
        const { &[Interest::in_written("", "pods")] }
    }

    /// upstream: plugin/pkg/admission/antiaffinity#Plugin.Validate
    fn validate(
        &self,
        _context: &WriteContext<'_>,
        object: Option<&Value>,
        _old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let required = object.and_then(|pod| {
            pod.at(&[
                "spec",
                "affinity",
                "podAntiAffinity",
                "requiredDuringSchedulingIgnoredDuringExecution",
            ])
        });
        let terms = Field::placed(required, "");
        for term in terms.items() {
            let key = term.child("topologyKey").text();
            if key != HOST {
                return Err(Rejection::forbidden(format!(
                    "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOST} is allowed"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn pods_keep_others_off_their_node_alone() {
        let admit = |kind: &str, key: &str| {
            let pod = format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: i}}], affinity: \
                 {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: kubernetes.io/hostname}}, \
                 {{topologyKey: {key}}}]}}}}}}}}"
            );
            Harness::new().admit("LimitPodHardAntiAffinityTopology", &pod)
        };
        assert_eq!(
            admit("podAntiAffinity", "zone").unwrap_err(),
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is \
             allowed"
        );
        assert!(admit("podAntiAffinity", "kubernetes.io/hostname").is_ok());
        assert!(admit("podAffinity", "zone").is_ok());
    }
}
