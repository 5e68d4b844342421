//! Resizing: a running Pod gets different amounts of cpu and memory.

use holdfast_kind_tables::features::{Feature, Features};
use holdfast_schema::Field;
use holdfast_value::Value;

use super::qos;
use super::update::{is_mirror, of_object};
use crate::defaults::put_at;
use crate::validation::{Errors, same};

/// Container fields that a write to `resize` may change.
const RESIZED: [&str; 2] = ["resources", "resizePolicy"];
const LISTS: [&str; 2] = ["initContainers", "containers"];

/// Keeps only the resources of the Pod and of its containers from a write to `resize`. If the containers differ, they
/// stay as sent, so that validation rejects them.
///
/// upstream: pkg/registry/core/pod#dropNonResizeUpdates
pub(super) fn only_resources(object: &mut Value, old: &Value) {
    let containers = |pod: &Value, list: &str| -> Vec<Value> {
        let found = pod.at(&["spec", list]).and_then(Value::as_list);
        found.map(|found| found.to_vec()).unwrap_or_default()
    };
    if LISTS
        .iter()
        .any(|list| containers(object, list).len() != containers(old, list).len())
    {
        return;
    }
    let wanted = object.clone();
    *object = old.clone();
    for part in ["resourceVersion", "managedFields"] {
        if let (Some(value), Some(metadata)) = (wanted.at(&["metadata", part]), object.at_mut(&["metadata"])) {
            metadata.set_at(&[part], value.clone());
        }
    }
    let Some(spec) = object.at_mut(&["spec"]) else { return };
    put_at(spec, &["resources"], wanted.at(&["spec", "resources"]).cloned());
    for list in LISTS {
        let (requested, there) = (containers(&wanted, list), containers(old, list));
        let is_renamed = |(requested, there): (&Value, &Value)| requested.get("name") != there.get("name");
        let merged = if requested.iter().zip(&there).any(is_renamed) {
            requested
        } else {
            requested
                .iter()
                .zip(there)
                .map(|(requested, there)| resized(requested, there))
                .collect()
        };
        put_at(spec, &[list], (!merged.is_empty()).then(|| Value::from(merged)));
    }
}

/// Returns the stored container with the resizable fields of the requested one.
fn resized(requested: &Value, mut there: Value) -> Value {
    for part in RESIZED {
        put_at(&mut there, &[part], requested.get(part).cloned());
    }
    there
}

/// Validates the resize of a Pod.
///
/// upstream: pkg/apis/core/validation#ValidatePodResize
pub(super) fn validate_resize(new: &Field<'_, '_>, old: &Field<'_, '_>, features: Features, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    if is_mirror(old) {
        *errors = vec![of_object("static pods cannot be resized")];
        return;
    }
    if old_spec.child("os").child("name").text() == "windows" {
        *errors = vec![of_object("windows pods cannot be resized")];
        return;
    }
    let status = old.child("status");
    let before = status.child("qosClass").text();
    if !before.is_empty() && qos::class(&spec) != before {
        errors.push(spec.invalid_as(before, "Pod QOS Class may not change as a result of resizing"));
    }
    if !validate_same_containers(&spec, &old_spec, errors) {
        return;
    }
    if !node_resizes(&status) {
        errors.push(spec.forbidden("Pod running on node without support for resize"));
    }
    validate_pod_level(&spec, &old_spec, errors);
    let of_all = features.has(Feature::InPlacePodVerticalScalingInitContainers);
    for list in LISTS {
        let (containers, others) = (spec.child(list), old_spec.child(list));
        for (container, before) in containers.items().zip(others.items()) {
            if list == "initContainers" && !of_all && !is_sidecar(&before) {
                continue;
            }
            validate_kept(
                &container.child("resources"),
                &before.child("resources"),
                "resource",
                errors,
            );
        }
    }
    let (containers, others) = (spec.child("containers"), old_spec.child("containers"));
    for (container, before) in containers.items().zip(others.items()) {
        if !changes_amounts_alone(&container, &before) {
            errors.push(spec.forbidden("only cpu and memory resources are mutable"));
        }
    }
    let (containers, others) = (spec.child("initContainers"), old_spec.child("initContainers"));
    for (container, before) in containers.items().zip(others.items()) {
        validate_init_container(&container, &before, &spec, of_all, errors);
    }
}

/// Returns true if, among the resizable fields, only amounts of cpu and memory change.
fn changes_amounts_alone(container: &Field<'_, '_>, before: &Field<'_, '_>) -> bool {
    let [policy, old_policy] = [container, before].map(|container| container.child("resizePolicy").value());
    same(policy, old_policy) && only_processors_and_memory(&container.child("resources"), &before.child("resources"))
}

fn is_sidecar(container: &Field<'_, '_>) -> bool {
    container.child("restartPolicy").text() == "Always"
}

/// Validates the resize of an init container. One that is not a sidecar may only be resized if its feature gate is
/// enabled and if the resize does not need a restart.
///
/// upstream: pkg/apis/core/validation#ValidatePodResize
fn validate_init_container(
    container: &Field<'_, '_>,
    before: &Field<'_, '_>,
    spec: &Field<'_, '_>,
    of_all: bool,
    errors: &mut Errors,
) {
    let changed = RESIZED
        .iter()
        .any(|part| !same(container.child(part).value(), before.child(part).value()));
    if !of_all && !is_sidecar(container) {
        if changed {
            errors.push(spec.forbidden("resources for non-sidecar init containers are immutable"));
        }
        return;
    }
    if !changes_amounts_alone(container, before) {
        errors.push(container.forbidden("only cpu and memory resources for init or sidecar containers are mutable"));
    }
    if changed && !is_sidecar(container) {
        let policies = container.child("resizePolicy");
        let restarts = policies
            .items()
            .filter(|policy| policy.child("restartPolicy").text() == "RestartContainer");
        for _ in restarts {
            errors.push(
                container.forbidden(
                    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized",
                ),
            );
        }
    }
}

/// Validates that the containers are the same, in the same order. Returns true if the other checks should run.
///
/// upstream: pkg/apis/core/validation#validatePodResizeContainerOrdering
fn validate_same_containers(spec: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) -> bool {
    let before = errors.len();
    for list in ["containers", "initContainers"] {
        let (containers, others) = (spec.child(list), old.child(list));
        if containers.len() != others.len() {
            errors.push(containers.forbidden(format!("{list} may not be added or removed on resize")));
            continue;
        }
        for (container, other) in containers.items().zip(others.items()) {
            let name = container.child("name");
            if name.text() != other.child("name").text() {
                errors.push(name.forbidden(format!("{list} may not be renamed or reordered on resize")));
            }
        }
    }
    errors.len() == before
}

/// Returns true if, judging by the status of the Pod, its node supports resizing.
fn node_resizes(status: &Field<'_, '_>) -> bool {
    let statuses = status.child("containerStatuses");
    let running = statuses
        .slice()
        .iter()
        .find(|status| status.at(&["state", "running"]).is_some());
    running.is_none_or(|status| status.get("resources").is_some())
}

/// Validates that of the pod-level resources only amounts of cpu and memory change.
///
/// upstream: pkg/apis/core/validation#validatePodLevelResourcesResize
fn validate_pod_level(spec: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (resources, before) = (spec.child("resources"), old.child("resources"));
    if !before.is_set() {
        return;
    }
    if !resources.is_set() {
        errors.push(resources.forbidden("pod-level resources cannot be removed"));
        return;
    }
    validate_kept(&resources, &before, "pod-level resource", errors);
    if !only_processors_and_memory(&resources, &before) {
        errors.push(spec.forbidden("only cpu and memory resources are mutable at pod-level"));
    }
}

/// Validates that no request and no limit is removed, whatever its amount.
///
/// upstream: pkg/apis/core/validation#validateContainerResize
fn validate_kept(resources: &Field<'_, '_>, before: &Field<'_, '_>, what: &str, errors: &mut Errors) {
    for part in ["requests", "limits"] {
        let (list, old) = (resources.child(part), before.child(part));
        if old.entries().any(|(name, _)| !list.entry(name).is_set()) {
            errors.push(list.forbidden(format!("{what} {part} cannot be removed")));
        }
    }
}

/// Returns true if only amounts of cpu and memory differ.
fn only_processors_and_memory(resources: &Field<'_, '_>, before: &Field<'_, '_>) -> bool {
    let others = |resources: &Field<'_, '_>| {
        let mut left = resources.value().cloned().unwrap_or_default();
        for part in ["requests", "limits"] {
            for name in ["cpu", "memory"] {
                left.remove_at(&[part, name]);
            }
            if left
                .get(part)
                .and_then(Value::as_map)
                .is_some_and(|rest| rest.is_empty())
            {
                left.remove_at(&[part]);
            }
        }
        left
    };
    same(Some(&others(resources)), Some(&others(before)))
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    fn pod(resources: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{containers: [{{name: c, image: i, resources: \
             {{{resources}}}}}]}}, status: {{qosClass: Burstable}}}}"
        )
    }

    fn errors(before: &str, after: &str) -> Vec<String> {
        Harness::new().subresource_errors(Some("resize"), &pod(before), &pod(after))
    }

    #[test]
    fn a_resize_changes_amounts_of_processors_and_memory_alone() {
        assert!(errors("requests: {cpu: 1}", "requests: {cpu: 2}").is_empty());
        assert_eq!(
            errors("requests: {cpu: 1}", "requests: {cpu: 1, ephemeral-storage: 1Gi}"),
            ["spec: Forbidden: only cpu and memory resources are mutable"]
        );
        let policy = "requests: {cpu: 1}}, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}], securityContext: {";
        assert_eq!(
            errors("requests: {cpu: 1}", policy),
            ["spec: Forbidden: only cpu and memory resources are mutable"]
        );
        assert_eq!(
            errors(
                "requests: {cpu: 1}",
                "requests: {cpu: 1}}}, {name: d, image: i, resources: {requests: {cpu: 1}"
            ),
            ["spec.containers: Forbidden: containers may not be added or removed on resize"]
        );
        assert_eq!(
            errors("requests: {cpu: 1, memory: 1Gi}", "requests: {cpu: 1}"),
            ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]
        );
        assert_eq!(
            errors(
                "requests: {cpu: 1}",
                "requests: {cpu: 1, memory: 1}, limits: {cpu: 1, memory: 1}"
            ),
            ["spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"]
        );
    }
}
