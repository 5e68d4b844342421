//! Containers: rules shared by ordinary, init and ephemeral containers, and fields that each must not set.

use holdfast_schema::{Check, Field, FieldError, Part};
use holdfast_value::SeenValues;

use super::stop_signal::validate_stop_signal;
use super::volumes::Volumes;
use super::{PodRules, probes};
use crate::validation::ports::port_name;
use crate::validation::resources::ClaimNames;
use crate::validation::{Errors, one_of, report};

/// Parts of a Pod that the validation of its containers reads.
pub(super) struct PodParts<'a, 'v> {
    pub(super) volumes: &'a Volumes<'v>,
    pub(super) claims: &'a ClaimNames<'v>,
    pub(super) rules: PodRules<'a>,
    /// True if it uses the host's user namespace.
    pub(super) host_users: bool,
    pub(super) restart_policy: &'v str,
    /// Termination grace period in seconds.
    pub(super) grace: Option<i64>,
    /// Operating system in `spec.os`.
    pub(super) operating_system: Option<&'v str>,
}

/// Calls `with` for each container, in the order of the reference: init containers first.
pub(super) fn visit_containers(spec: &Field<'_, '_>, with: &mut dyn FnMut(&Field<'_, '_>)) {
    for list in super::CONTAINERS {
        for container in spec.child(list).items() {
            with(&container);
        }
    }
}

/// Validates all containers of a pod specification.
///
/// upstream: pkg/apis/core/validation#ValidatePodSpec
pub(super) fn validate_all<'v>(spec: &Part<'v, '_>, pod: &PodParts<'_, 'v>, check: &mut Check<'_>) {
    validate_ordinary(spec, pod, check);
    let mut names: SeenValues<&'v str> = container_names(&spec.child("containers")).collect();
    validate_init(spec, pod, &mut names, check);
    for name in container_names(&spec.child("initContainers")) {
        names.insert(name);
    }
    validate_ephemeral(spec, pod, &mut names, check);
}

fn container_names<'v>(containers: &Field<'v, '_>) -> impl Iterator<Item = &'v str> {
    let containers = containers.slice().iter();
    containers.map(|container| container.str_at(&["name"]).unwrap_or_default())
}

/// Validates the ordinary containers of a Pod.
///
/// upstream: pkg/apis/core/validation#validateContainers
fn validate_ordinary<'v>(spec: &Part<'v, '_>, pod: &PodParts<'_, 'v>, check: &mut Check<'_>) {
    let containers = spec.child("containers");
    if containers.is_empty() {
        check.errors.push(containers.required(""));
        return;
    }
    let mut names = SeenValues::new();
    for container in check.items(spec, "containers", &containers) {
        check.values(&container, pod);
        let name = container.child("name");
        if !names.insert(name.text()) {
            check.errors.push(name.duplicate());
        }
        validate_running(&container, pod, check);
        validate_restart_policy(&container, pod, check);
    }
    validate_host_port_conflicts(containers.items(), &mut check.errors);
}

/// Validates the lifecycle and the probes of a container that keeps running.
///
/// upstream: pkg/apis/core/validation#validateContainers
fn validate_running<'v>(container: &Part<'v, '_>, pod: &PodParts<'_, 'v>, check: &mut Check<'_>) {
    check.field(container, "lifecycle", pod);
    validate_stop_signal(container, pod.operating_system, &mut check.errors);
    check.field(container, "livenessProbe", pod);
    probes::validate_success_threshold(&container.child("livenessProbe"), &mut check.errors);
    check.field(container, "readinessProbe", pod);
    probes::validate_readiness(&container.child("readinessProbe"), &mut check.errors);
    check.field(container, "startupProbe", pod);
    probes::validate_success_threshold(&container.child("startupProbe"), &mut check.errors);
}

/// Validates the init containers of a Pod.
///
/// upstream: pkg/apis/core/validation#validateInitContainers
fn validate_init<'v>(
    spec: &Part<'v, '_>,
    pod: &PodParts<'_, 'v>,
    names: &mut SeenValues<&'v str>,
    check: &mut Check<'_>,
) {
    let containers = spec.child("initContainers");
    for container in check.items(spec, "initContainers", &containers) {
        check.values(&container, pod);
        if container.child("restartPolicy").is_set() {
            validate_restart_policy(&container, pod, check);
        } else {
            // `validateInitContainerRestartPolicy`: rules are not validated if there is no policy.
            require_restart_policy(&container, check);
        }
        let always = container.child("restartPolicy").text() == "Always";
        let name = container.child("name");
        if names.contains(&name.text()) {
            check.errors.push(name.duplicate());
        } else if !name.text().is_empty() {
            names.insert(name.text());
        }
        let path = container.path();
        let alone = Field::placed(container.value(), path.as_str());
        validate_host_port_conflicts(std::iter::once(alone), &mut check.errors);
        if always {
            validate_running(&container, pod, check);
            continue;
        }
        for part in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let field = container.child(part);
            if field.is_set() {
                let message = "may not be set for init containers without restartPolicy=Always";
                check.errors.push(field.forbidden(message));
            }
        }
    }
}

/// Fields that ephemeral containers must not set, in the order of the reference's fields.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Validates the ephemeral containers of a Pod.
///
/// upstream: pkg/apis/core/validation#validateEphemeralContainers
fn validate_ephemeral<'v>(
    spec: &Part<'v, '_>,
    pod: &PodParts<'_, 'v>,
    names: &mut SeenValues<&'v str>,
    check: &mut Check<'_>,
) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let others = names.clone();
    let containers = spec.child("ephemeralContainers");
    for container in check.items(spec, "ephemeralContainers", &containers) {
        check.values(&container, pod);
        let errors = &mut check.errors;
        validate_image_of_pod(&container, errors);
        let name = container.child("name");
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        let target = container.child("targetContainerName");
        if !target.text().is_empty() && !others.contains(&target.text()) {
            errors.push(target.not_found());
        }
        for part in NOT_EPHEMERAL {
            let field = container.child(part);
            let set = match part {
                "ports" | "resources" | "resizePolicy" | "restartPolicyRules" => !field.is_empty(),
                _ => field.is_set(),
            };
            if set {
                errors.push(field.forbidden(WHY));
            }
        }
        for mount in container.child("volumeMounts").items() {
            for part in ["subPath", "subPathExpr"] {
                let field = mount.child(part);
                if !field.text().is_empty() {
                    errors.push(field.forbidden(WHY));
                }
            }
        }
    }
}

/// Validates what templates may contain and Pods must not.
///
/// upstream: pkg/apis/core/validation#validateContainerOnlyForPod
pub(super) fn validate_image_of_pod(container: &Field<'_, '_>, errors: &mut Errors) {
    let image = container.child("image");
    if image.text().trim() != image.text() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

/// Validates the ports of a container.
///
/// upstream: pkg/apis/core/validation#validateContainerPorts
pub(super) fn validate_ports<'v>(container: &Part<'v, '_>, pod: &PodParts<'_, 'v>, check: &mut Check<'_>) {
    let ports = container.child("ports");
    let mut names = SeenValues::new();
    for port in check.items(container, "ports", &ports) {
        let name = port.child("name");
        if !name.text().is_empty() {
            let messages = port_name(name.text());
            if messages.is_empty() && !names.insert(name.text()) {
                check.errors.push(name.duplicate());
            }
            report(&name, messages, &mut check.errors);
        }
        check.values(&port, pod);
    }
}

/// Validates that no two containers use the same host port.
///
/// upstream: pkg/apis/core/validation#checkHostPortConflicts
fn validate_host_port_conflicts<'v: 'p, 'p>(containers: impl Iterator<Item = Field<'v, 'p>>, errors: &mut Errors) {
    let mut taken = SeenValues::new();
    for container in containers {
        for port in container.child("ports").items() {
            let host_port = port.child("hostPort");
            let Some(number) = host_port.number().filter(|number| *number != 0) else {
                continue;
            };
            let (protocol, address) = (port.child("protocol").text(), port.child("hostIP").text());
            if !taken.insert((protocol, address, number)) {
                let text = format!("{protocol}/{address}/{number}");
                errors.push(FieldError::duplicate(&host_port.path(), text));
            }
        }
    }
}

/// Validates the restart policy and the restart rules of a container.
///
/// upstream: pkg/apis/core/validation#validateContainerRestartPolicy
fn validate_restart_policy<'v>(container: &Part<'v, '_>, pod: &PodParts<'_, 'v>, check: &mut Check<'_>) {
    check.field(container, "restartPolicy", pod);
    let rules = container.child("restartPolicyRules");
    require_restart_policy(container, check);
    check.field(container, "restartPolicyRules", pod);
    if pod.rules.restarts_all {
        return;
    }
    for rule in rules.items() {
        let action = rule.child("action");
        if action.text() == super::RESTART_ALL {
            check.errors.push(action.not_supported(&["Restart"]));
        }
    }
}

fn require_restart_policy<'v>(container: &Part<'v, '_>, check: &mut Check<'_>) {
    let policy = container.child("restartPolicy");
    if !policy.is_set() && !container.child("restartPolicyRules").is_empty() {
        let message = "must specify restartPolicy when restart rules are used";
        check.errors.push(policy.required(message));
    }
}

/// Validates a resize policy. The reference reports all errors at the list, except a duplicate resource.
///
/// upstream: pkg/apis/core/validation#validateResizePolicy
pub(super) fn validate_resize_policy(policies: &Field<'_, '_>, pod_restart_policy: &str, errors: &mut Errors) {
    let mut names = SeenValues::new();
    for policy in policies.items() {
        let (name, restart) = (policy.child("resourceName"), policy.child("restartPolicy"));
        if !names.insert(name.text()) {
            errors.push(FieldError::duplicate(&policy.path(), name.text()));
        }
        let place = policies.path();
        let (name, restart) = (
            Field::placed(name.value(), place.as_str()),
            Field::placed(restart.value(), place.as_str()),
        );
        one_of(&name, &["cpu", "memory"], errors);
        one_of(&restart, &["NotRequired", "RestartContainer"], errors);
        if pod_restart_policy == "Never" && restart.text() != "NotRequired" {
            errors.push(restart.invalid_text("must be 'NotRequired' when pod `restartPolicy` is 'Never'"));
        }
    }
}

/// Validates that an update of a Pod neither adds nor removes containers and that each keeps an image. Returns true if
/// the other checks of the update should run.
///
/// upstream: pkg/apis/core/validation#ValidateContainerUpdates
pub(crate) fn validate_container_updates(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) -> bool {
    if new.len() != old.len() {
        errors.push(new.forbidden("pod updates may not add or remove containers"));
        return false;
    }
    for container in new.items() {
        let image = container.child("image");
        if image.text().is_empty() {
            errors.push(image.required(""));
        }
        validate_image_of_pod(&container, errors);
    }
    true
}
