//! Defaults of a pod specification that depend on other fields.

use holdfast_schema::Field;
use holdfast_value::{Map, Value};

use super::image;
use crate::defaults::{change_items, set_missing};
use crate::pod_resources::of_containers;
use crate::validation::resources::is_of_pods;

/// Lists of containers in a pod specification.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Sets the defaults of a Pod: those of its specification, and those that templates do not get.
///
/// upstream: pkg/apis/core/v1#SetDefaults_Pod
pub(crate) fn default_pod(pod: &mut Value) {
    let Some(spec) = pod.as_map_mut().and_then(|pod| pod.get_mut("spec")) else {
        return;
    };
    default_pod_spec(spec);
    if spec.get("enableServiceLinks").is_none() {
        spec.set_at(&["enableServiceLinks"], true.into());
    }
    let host_network = spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or_default();
    for list in &CONTAINERS[..2] {
        change_items(spec, list, lacks_requests, requests_from_limits);
        if host_network {
            change_items(spec, list, |container| container.get("ports").is_some(), host_ports);
        }
    }
    if spec.get("resources").is_some_and(|resources| !resources.is_null()) {
        default_pod_resources(spec);
    }
}

/// Completes pod-level resources that are partly set.
///
/// upstream: pkg/apis/core/v1#defaultHugePagePodLimits
/// upstream: pkg/apis/core/v1#defaultPodRequests
fn default_pod_resources(spec: &mut Value) {
    let resources = spec.get("resources").and_then(Value::as_map);
    let part = |name: &str| {
        let list = resources.and_then(|resources| resources.get(name));
        list.and_then(Value::as_map).cloned().unwrap_or_default()
    };
    let (mut limits, mut requests) = (part("limits"), part("requests"));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    let of_containers = |part| of_containers(&Field::root(spec), part);
    let is_huge = |name: &str| name.starts_with("hugepages-");
    for (name, sum) in of_containers("limits") {
        if is_huge(&name) && !limits.contains_key(name.as_str()) && !requests.contains_key(name.as_str()) {
            limits.insert(name, sum.to_string());
        }
    }
    // A Pod without pod-level limits gets no further requests from its containers.
    let requested = match limits.is_empty() {
        true => Vec::new(),
        false => of_containers("requests").into_iter().collect(),
    };
    for (name, sum) in requested {
        if is_of_pods(&name) && !is_huge(&name) && !requests.contains_key(name.as_str()) {
            requests.insert(name, sum.to_string());
        }
    }
    for (name, limit) in &limits {
        if is_of_pods(name) && !requests.contains_key(name) {
            requests.insert(name.clone(), limit.clone());
        }
    }
    for (name, list) in [("limits", limits), ("requests", requests)] {
        if !list.is_empty() {
            spec.set_at(&["resources", name], list.into());
        }
    }
}

/// Sets the defaults of the pod template at `path`.
///
/// upstream: pkg/apis/core/v1#SetDefaults_PodSpec
pub(crate) fn default_template(object: &mut Value, path: &[&str]) {
    if let Some(spec) = object
        .at_mut(path)
        .and_then(Value::as_map_mut)
        .and_then(|template| template.get_mut("spec"))
    {
        default_pod_spec(spec);
    }
}

/// Sets the defaults of a pod specification.
///
/// upstream: pkg/apis/core/v1#SetDefaults_PodSpec
fn default_pod_spec(spec: &mut Value) {
    mirror_service_account(spec);
    for list in CONTAINERS {
        let lacks_policy = |container: &Value| container.get("imagePullPolicy").is_none();
        change_items(spec, list, lacks_policy, |container| {
            pull_policy(container, "image", "imagePullPolicy")
        });
    }
    change_items(spec, "volumes", has_no_source, |volume| {
        set_missing(volume, "emptyDir", Value::empty_map);
    });
    let lacks_policy = |volume: &Value| {
        volume
            .get("image")
            .is_some_and(|image| image.get("pullPolicy").is_none())
    };
    change_items(spec, "volumes", lacks_policy, |volume| {
        if let Some(image) = volume.as_map_mut().and_then(|volume| volume.get_mut("image")) {
            pull_policy(image, "reference", "pullPolicy");
        }
    });
}

/// Keeps the deprecated name of the service account equal to the current one.
fn mirror_service_account(spec: &mut Value) {
    let text = |key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default();
    let (old, new) = (text("serviceAccount"), text("serviceAccountName"));
    let name = if new.is_empty() { old } else { new };
    if name.is_empty() || old == new {
        return;
    }
    let name = Value::from(name);
    for key in ["serviceAccount", "serviceAccountName"] {
        spec.set_at(&[key], name.clone());
    }
}

fn has_no_source(volume: &Value) -> bool {
    volume
        .as_map()
        .is_some_and(|volume| volume.iter().all(|(key, _)| key == "name"))
}

fn pull_policy(container: &mut Value, field: &str, policy: &str) {
    let always = container
        .get(field)
        .and_then(Value::as_str)
        .is_some_and(image::is_latest);
    set_missing(container, policy, || {
        if always { "Always" } else { "IfNotPresent" }.into()
    });
}

fn lacks_requests(container: &Value) -> bool {
    let limits = container.at(&["resources", "limits"]).and_then(Value::as_map);
    let requests = container.at(&["resources", "requests"]);
    limits.is_some_and(|limits| {
        let requested = |name: &str| requests.is_some_and(|requests| requests.get(name).is_some());
        limits.iter().any(|(name, _)| !requested(name))
    })
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container.at(&["resources", "limits"]).and_then(Value::as_map).cloned() else {
        return;
    };
    let mut requests = container
        .at(&["resources", "requests"])
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    for (name, limit) in &limits {
        if !requests.contains_key(name) {
            requests.insert(name.clone(), limit.clone());
        }
    }
    container.set_at(&["resources", "requests"], Value::Map(requests));
}

fn host_ports(container: &mut Value) {
    let unset = |port: &Map| port.get("hostPort").and_then(Value::as_i64).unwrap_or_default() == 0;
    let lacks = |port: &Value| port.as_map().is_some_and(unset);
    change_items(container, "ports", lacks, |port| {
        if let Some(number) = port.get("containerPort").cloned() {
            port.set_at(&["hostPort"], number);
        }
    });
}
