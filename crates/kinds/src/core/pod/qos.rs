//! Quality of service classes of Pods: <https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/>.

use holdfast_schema::Field;

use crate::validation::resources::quantity;

const COUNTED: [&str; 2] = ["cpu", "memory"];

/// Returns the quality of service class of a pod specification.
pub fn class(spec: &Field<'_, '_>) -> &'static str {
    let whole = spec.child("resources");
    if ["limits", "requests"].iter().any(|part| !whole.child(part).is_empty()) {
        let (any, guaranteed) = rate(&whole);
        return name(any, guaranteed);
    }
    let (mut any, mut guaranteed) = (false, true);
    for list in ["containers", "initContainers"] {
        for container in spec.child(list).items() {
            let (some, full) = rate(&container.child("resources"));
            any |= some;
            guaranteed &= full;
        }
    }
    name(any, guaranteed)
}

fn name(any: bool, guaranteed: bool) -> &'static str {
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Returns two flags: any counted resource is requested, and limits guarantee all of them.
fn rate(resources: &Field<'_, '_>) -> (bool, bool) {
    let (limits, requests) = (resources.child("limits"), resources.child("requests"));
    let amount = |list: &Field<'_, '_>, name: &str| quantity(&list.entry(name)).filter(|amount| amount.is_positive());
    let any = COUNTED
        .iter()
        .any(|name| amount(&limits, name).is_some() || amount(&requests, name).is_some());
    let full = COUNTED.iter().all(|name| {
        let limit = amount(&limits, name);
        limit.is_some() && amount(&requests, name).is_none_or(|request| Some(request) == limit)
    });
    (any, full)
}
