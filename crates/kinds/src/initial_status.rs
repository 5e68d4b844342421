//! The status of new objects whose writers have no say in it.

use holdfast_value::{Map, Value};

/// What the zero value of a status holds.
enum Zero {
    Number,
    False,
    Null,
    Struct,
}

/// A group, a plural, and the fields that an empty status shows.
type Row = (&'static str, &'static str, &'static [(&'static str, Zero)]);

/// Resources whose new objects have an empty status.
const CLEARED: [Row; 19] = [
    ("", "replicationcontrollers", &[("replicas", Zero::Number)]),
    ("", "resourcequotas", &[]),
    ("", "services", &[("loadBalancer", Zero::Struct)]),
    (
        "apps",
        "daemonsets",
        &[
            ("currentNumberScheduled", Zero::Number),
            ("desiredNumberScheduled", Zero::Number),
            ("numberMisscheduled", Zero::Number),
            ("numberReady", Zero::Number),
        ],
    ),
    ("apps", "deployments", &[]),
    ("apps", "replicasets", &[("replicas", Zero::Number)]),
    (
        "apps",
        "statefulsets",
        &[("availableReplicas", Zero::Number), ("replicas", Zero::Number)],
    ),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        &[("currentMetrics", Zero::Null), ("desiredReplicas", Zero::Number)],
    ),
    ("batch", "cronjobs", &[]),
    ("batch", "jobs", &[]),
    ("certificates.k8s.io", "certificatesigningrequests", &[]),
    ("flowcontrol.apiserver.k8s.io", "flowschemas", &[]),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", &[]),
    ("networking.k8s.io", "ingresses", &[("loadBalancer", Zero::Struct)]),
    ("networking.k8s.io", "servicecidrs", &[]),
    (
        "policy",
        "poddisruptionbudgets",
        &[
            ("currentHealthy", Zero::Number),
            ("desiredHealthy", Zero::Number),
            ("disruptionsAllowed", Zero::Number),
            ("expectedPods", Zero::Number),
        ],
    ),
    ("resource.k8s.io", "resourceclaims", &[]),
    ("storage.k8s.io", "volumeattachments", &[("attached", Zero::False)]),
    ("apiregistration.k8s.io", "apiservices", &[]),
];

/// The status of a new object of a resource; `None` where its writer or its strategy decides.
pub(crate) fn initial_status(group: &str, plural: &str) -> Option<Value> {
    let (.., fields) = CLEARED.iter().find(|(of, name, _)| *of == group && *name == plural)?;
    let zero = |zero: &Zero| match zero {
        Zero::Number => Value::Int(0),
        Zero::False => Value::Bool(false),
        Zero::Null => Value::Null,
        Zero::Struct => Value::empty_map(),
    };
    let status: Map = fields.iter().map(|(name, of)| ((*name).into(), zero(of))).collect();
    Some(status.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use holdfast_resource::GroupVersionKind;
    use holdfast_resource::schema::Shape;

    use crate::{Config, registry, tables};

    #[test]
    fn an_initial_status_is_the_zero_value_of_its_type() {
        let types = tables::types().unwrap();
        for resource in registry(&Config::default()).unwrap().resources() {
            let Some(status) = &resource.rules.initial_status else {
                continue;
            };
            let kind = GroupVersionKind {
                group_version: resource.versions[0].group_version.clone(),
                kind: resource.kind.clone(),
            };
            let of = types.get(types.id_of_kind(&kind).unwrap());
            let Shape::Ref(of) = of.field("status").unwrap().shape else {
                unreachable!()
            };
            assert_eq!(*status, types.get(of).zero(), "{}", resource.plural);
        }
    }
}
