//! Fields of pod specifications behind feature gates: the reference drops them while their gates are off. Objects that have
//! them already keep them.

use holdfast_value::Value;

use crate::defaults::change_items;
use crate::features::{Feature, Features};

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Drops the fields of a pod specification whose features are off, unless `old` uses them: `DropDisabledPodFields`.
pub(crate) fn drop_disabled(features: Features, spec: &mut Value, old: Option<&Value>) {
    let used = |feature, by: &dyn Fn(&Value) -> bool| features.has(feature) || old.is_some_and(by);
    if !used(Feature::ContainerStopSignals, &|old| {
        any_container(old, has_stop_signal)
    }) {
        for list in CONTAINERS {
            change_items(spec, list, has_stop_signal, drop_stop_signal);
        }
    }
    for (feature, source) in [
        (Feature::ClusterTrustBundleProjection, "clusterTrustBundle"),
        (Feature::PodCertificateRequest, "podCertificate"),
    ] {
        if !used(feature, &|old| projects(old, source)) {
            drop_projection(spec, source);
        }
    }
    if !used(Feature::GenericWorkload, &|old| old.get("schedulingGroup").is_some()) {
        spec.remove_at(&["schedulingGroup"]);
    }
}

fn items<'v>(value: &'v Value, list: &str) -> &'v [Value] {
    value.get(list).and_then(Value::as_list).map_or(&[], |list| list)
}

fn any_container(spec: &Value, has: fn(&Value) -> bool) -> bool {
    CONTAINERS.iter().any(|list| items(spec, list).iter().any(has))
}

fn has_stop_signal(container: &Value) -> bool {
    container.at(&["lifecycle", "stopSignal"]).is_some()
}

fn drop_stop_signal(container: &mut Value) {
    container.remove_at(&["lifecycle", "stopSignal"]);
    if container
        .get("lifecycle")
        .and_then(Value::as_map)
        .is_some_and(|lifecycle| lifecycle.is_empty())
    {
        container.remove_at(&["lifecycle"]);
    }
}

fn has_projection(volume: &Value, source: &str) -> bool {
    let projected = volume.get("projected");
    projected.is_some_and(|projected| items(projected, "sources").iter().any(|one| one.get(source).is_some()))
}

fn projects(spec: &Value, source: &str) -> bool {
    items(spec, "volumes")
        .iter()
        .any(|volume| has_projection(volume, source))
}

fn drop_projection(spec: &mut Value, source: &str) {
    change_items(
        spec,
        "volumes",
        |volume| has_projection(volume, source),
        |volume| {
            if let Some(projected) = volume.at_mut(&["projected"]) {
                change_items(
                    projected,
                    "sources",
                    |one| one.get(source).is_some(),
                    |one| {
                        one.remove_at(&[source]);
                    },
                );
            }
        },
    );
}
