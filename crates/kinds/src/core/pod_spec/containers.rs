//! Containers: what ordinary, init and ephemeral ones share, and what each may not have.

use std::collections::HashSet;

use holdfast_resource::Field;
use holdfast_resource::metadata::formats::dns_label;

use super::volumes::Volumes;
use super::{PodRules, env, probes, security, volumes};
use crate::validation::ports::{PROTOCOLS, port_name, port_number};
use crate::validation::{Errors, one_of, report, required_text, resources};

/// What the checks of a container need to know of its Pod.
pub(super) struct PodParts<'a, 'v> {
    pub(super) volumes: &'a Volumes<'v>,
    pub(super) rules: PodRules,
    /// Whether its users are those of the host.
    pub(super) host_users: bool,
    pub(super) restart_policy: &'v str,
}

/// Checks all containers of a pod specification.
pub(super) fn validate_all<'v>(spec: &Field<'v, '_>, pod: &PodParts<'_, 'v>, errors: &mut Errors) {
    let mut names = HashSet::new();
    validate_ordinary(&spec.child("containers"), pod, &mut names, errors);
    validate_init(&spec.child("initContainers"), pod, &mut names, errors);
    validate_ephemeral(spec, pod, &mut names, errors);
}

fn validate_ordinary<'v>(
    containers: &Field<'v, '_>,
    pod: &PodParts<'_, 'v>,
    names: &mut HashSet<&'v str>,
    errors: &mut Errors,
) {
    if containers.is_empty() {
        errors.push(containers.required(""));
        return;
    }
    for container in containers.items() {
        validate_container(&container, pod, errors);
        let name = container.child("name");
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        probes::validate_lifecycle(&container.child("lifecycle"), errors);
        probes::validate_liveness(&container.child("livenessProbe"), errors);
        probes::validate_readiness(&container.child("readinessProbe"), errors);
        probes::validate_liveness(&container.child("startupProbe"), errors);
        validate_restart_policy(&container, errors);
    }
    validate_host_port_conflicts(containers, errors);
}

fn validate_init<'v>(
    containers: &Field<'v, '_>,
    pod: &PodParts<'_, 'v>,
    names: &mut HashSet<&'v str>,
    errors: &mut Errors,
) {
    for container in containers.items() {
        validate_container(&container, pod, errors);
        let always = container.child("restartPolicy").text() == "Always";
        let name = container.child("name");
        if !name.text().is_empty() && !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        let parts = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
        if always {
            probes::validate_lifecycle(&container.child("lifecycle"), errors);
            probes::validate_liveness(&container.child("livenessProbe"), errors);
            probes::validate_readiness(&container.child("readinessProbe"), errors);
            probes::validate_liveness(&container.child("startupProbe"), errors);
        } else {
            for part in parts {
                let field = container.child(part);
                if field.is_set() {
                    errors.push(field.forbidden("may not be set for init containers without restartPolicy=Always"));
                }
            }
        }
        validate_restart_policy(&container, errors);
    }
}

/// What ephemeral containers may not have.
const NOT_EPHEMERAL: [&str; 8] = [
    "ports",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "resources",
    "resizePolicy",
    "lifecycle",
    "restartPolicy",
];

fn validate_ephemeral<'v>(
    spec: &Field<'v, '_>,
    pod: &PodParts<'_, 'v>,
    names: &mut HashSet<&'v str>,
    errors: &mut Errors,
) {
    let others: HashSet<&str> = names.clone();
    for container in spec.child("ephemeralContainers").items() {
        validate_container(&container, pod, errors);
        let name = container.child("name");
        if !name.text().is_empty() && !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        let target = container.child("targetContainerName");
        if !target.text().is_empty() && !others.contains(target.text()) {
            errors.push(target.not_found());
        }
        for part in NOT_EPHEMERAL {
            let field = container.child(part);
            let set = if part == "restartPolicy" {
                field.is_set()
            } else {
                !field.is_empty()
            };
            if set {
                errors.push(field.forbidden("cannot be set for an Ephemeral Container"));
            }
        }
    }
}

/// The checks that containers of all sorts share.
fn validate_container(container: &Field<'_, '_>, pod: &PodParts<'_, '_>, errors: &mut Errors) {
    required_text(&container.child("name"), dns_label, errors);
    let image = container.child("image");
    if image.text().is_empty() || pod.rules.is_pod && image.text().trim().is_empty() {
        errors.push(image.required(""));
    } else if pod.rules.is_pod && image.text().trim() != image.text() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
    one_of(
        &container.child("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
        errors,
    );
    validate_ports(&container.child("ports"), errors);
    env::validate_env(&container.child("env"), errors);
    env::validate_env_from(&container.child("envFrom"), errors);
    volumes::validate_mounts(container, pod.volumes, errors);
    volumes::validate_devices(container, pod.volumes, errors);
    one_of(
        &container.child("imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        errors,
    );
    resources::validate_container_resources(&container.child("resources"), errors);
    validate_resize_policy(&container.child("resizePolicy"), pod.restart_policy, errors);
    security::validate_container_security(&container.child("securityContext"), pod, errors);
}

fn validate_ports(ports: &Field<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.child("name");
        if !name.text().is_empty() {
            let faults = port_name(name.text());
            if faults.is_empty() && !names.insert(name.text()) {
                errors.push(name.duplicate());
            }
            report(&name, faults, errors);
        }
        let number = port.child("containerPort");
        match number.number() {
            None | Some(0) => errors.push(number.required("")),
            Some(_) => port_number(&number, errors),
        }
        let host_port = port.child("hostPort");
        if host_port.number().unwrap_or_default() != 0 {
            port_number(&host_port, errors);
        }
        one_of(&port.child("protocol"), &PROTOCOLS, errors);
    }
}

/// No two containers take the same port of the host.
fn validate_host_port_conflicts(containers: &Field<'_, '_>, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for container in containers.items() {
        for port in container.child("ports").items() {
            let host_port = port.child("hostPort");
            let Some(number) = host_port.number().filter(|number| *number != 0) else {
                continue;
            };
            let (protocol, address) = (port.child("protocol").text(), port.child("hostIP").text());
            if !taken.insert((protocol, address, number)) {
                let text = format!("{protocol}/{address}/{number}");
                errors.push(holdfast_resource::FieldError::duplicate(&host_port.path(), text));
            }
        }
    }
}

fn validate_restart_policy(container: &Field<'_, '_>, errors: &mut Errors) {
    let policy = container.child("restartPolicy");
    if policy.is_set() {
        one_of(&policy, &["Always", "Never", "OnFailure"], errors);
    }
}

fn validate_resize_policy(policies: &Field<'_, '_>, pod_restart_policy: &str, errors: &mut Errors) {
    let mut names = HashSet::new();
    for policy in policies.items() {
        let (name, restart) = (policy.child("resourceName"), policy.child("restartPolicy"));
        if !names.insert(name.text()) {
            errors.push(holdfast_resource::FieldError::duplicate(&policy.path(), name.text()));
        }
        one_of(&name, &["cpu", "memory"], errors);
        one_of(&restart, &["NotRequired", "RestartContainer"], errors);
        if pod_restart_policy == "Never" && restart.text() != "NotRequired" {
            errors.push(restart.invalid_text("must be 'NotRequired' when `restartPolicy` is 'Never'"));
        }
    }
}

/// Checks that an update of a Pod neither adds nor removes containers and leaves each an image. Says whether the rest of
/// the update is worth a look.
pub(crate) fn validate_container_updates(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) -> bool {
    if new.len() != old.len() {
        errors.push(new.forbidden("pod updates may not add or remove containers"));
        return false;
    }
    for container in new.items() {
        let image = container.child("image");
        if image.text().trim().is_empty() {
            errors.push(image.required(""));
        }
    }
    true
}
