//! Kinds of the API group `scheduling.k8s.io`.

mod podgroup;
mod priorityclass;

use holdfast_kind_tables::Kind;
use holdfast_schema::metadata::new_object;
use holdfast_value::Value;

use crate::config::Config;
use crate::kind::kind;

/// Names, values and descriptions of the priority classes that always exist.
pub const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// Returns the system's classes as objects.
fn system_classes() -> impl Iterator<Item = Value> {
    SYSTEM_CLASSES.iter().map(|(name, value, description)| {
        let mut class = new_object("scheduling.k8s.io/v1", "PriorityClass", "", name);
        class.set_at(&["description"], (*description).into());
        class.set_at(&["preemptionPolicy"], "PreemptLowerPriority".into());
        class.set_at(&["value"], Value::Int(*value));
        class
    })
}

/// Returns the kind of the group with this plural resource name, with its capabilities.
pub(crate) fn kind_of(plural: &str, _config: &Config) -> Option<Kind> {
    Some(match plural {
        "priorityclasses" => priorityclass::declare(),
        "podgroups" => podgroup::declare(),
        "workloads" => kind(podgroup::Workload).done(),
        _ => return None,
    })
}
