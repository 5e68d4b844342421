//! Containers: what ordinary, init and ephemeral ones share, and what each may not have.

use std::collections::HashSet;

use holdfast_resource::metadata::formats::dns_label;
use holdfast_resource::{Field, FieldError};

use super::volumes::Volumes;
use super::{PodRules, env, probes, security, volumes};
use crate::validation::ports::{PROTOCOLS, port_name, port_number};
use crate::validation::resources::{ClaimNames, validate_container_resources};
use crate::validation::{Errors, one_of, report, required_text, set_one_of};

/// What the checks of a container need to know of its Pod.
pub(super) struct PodParts<'a, 'v> {
    pub(super) volumes: &'a Volumes<'v>,
    pub(super) claims: &'a ClaimNames<'v>,
    pub(super) rules: PodRules<'a>,
    /// Whether its users are those of the host.
    pub(super) host_users: bool,
    pub(super) restart_policy: &'v str,
    /// How long it has to end.
    pub(super) grace: Option<i64>,
}

/// Calls `with` for each container, in the order of the reference: init containers first.
pub(super) fn visit_containers(spec: &Field<'_, '_>, with: &mut dyn FnMut(&Field<'_, '_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.child(list).items() {
            with(&container);
        }
    }
}

/// Checks all containers of a pod specification.
pub(super) fn validate_all<'v>(spec: &Field<'v, '_>, pod: &PodParts<'_, 'v>, errors: &mut Errors) {
    validate_ordinary(&spec.child("containers"), pod, errors);
    let mut names: HashSet<&'v str> = names(&spec.child("containers"));
    validate_init(&spec.child("initContainers"), pod, &mut names, errors);
    names.extend(self::names(&spec.child("initContainers")));
    validate_ephemeral(spec, pod, &mut names, errors);
}

fn names<'v>(containers: &Field<'v, '_>) -> HashSet<&'v str> {
    let named = containers.slice().iter();
    named
        .map(|container| container.str_at(&["name"]).unwrap_or_default())
        .collect()
}

/// `validateContainers`
fn validate_ordinary<'v>(containers: &Field<'v, '_>, pod: &PodParts<'_, 'v>, errors: &mut Errors) {
    if containers.is_empty() {
        errors.push(containers.required(""));
        return;
    }
    let mut names = HashSet::new();
    for container in containers.items() {
        validate_container(&container, pod, errors);
        let name = container.child("name");
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        validate_running(&container, pod, errors);
        validate_restart_policy(&container, errors);
    }
    validate_host_port_conflicts(containers.items(), errors);
}

/// The lifecycle and the probes of a container that keeps running.
fn validate_running(container: &Field<'_, '_>, pod: &PodParts<'_, '_>, errors: &mut Errors) {
    probes::validate_lifecycle(&container.child("lifecycle"), pod.grace, errors);
    probes::validate_liveness(&container.child("livenessProbe"), errors);
    probes::validate_readiness(&container.child("readinessProbe"), errors);
    probes::validate_liveness(&container.child("startupProbe"), errors);
}

/// `validateInitContainers`
fn validate_init<'v>(
    containers: &Field<'v, '_>,
    pod: &PodParts<'_, 'v>,
    names: &mut HashSet<&'v str>,
    errors: &mut Errors,
) {
    for container in containers.items() {
        validate_container(&container, pod, errors);
        validate_restart_policy(&container, errors);
        let always = container.child("restartPolicy").text() == "Always";
        let name = container.child("name");
        if names.contains(name.text()) {
            errors.push(name.duplicate());
        } else if !name.text().is_empty() {
            names.insert(name.text());
        }
        let alone = container.path();
        let alone = Field::placed(container.value(), alone.as_str());
        validate_host_port_conflicts(std::iter::once(alone), errors);
        if always {
            validate_running(&container, pod, errors);
            continue;
        }
        for part in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let field = container.child(part);
            if field.is_set() {
                errors.push(field.forbidden("may not be set for init containers without restartPolicy=Always"));
            }
        }
    }
}

/// What ephemeral containers may not have, in the order of the reference's fields.
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

/// `validateEphemeralContainers`
fn validate_ephemeral<'v>(
    spec: &Field<'v, '_>,
    pod: &PodParts<'_, 'v>,
    names: &mut HashSet<&'v str>,
    errors: &mut Errors,
) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let others: HashSet<&str> = names.clone();
    for container in spec.child("ephemeralContainers").items() {
        validate_container(&container, pod, errors);
        validate_image_of_pod(&container, errors);
        let name = container.child("name");
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        let target = container.child("targetContainerName");
        if !target.text().is_empty() && !others.contains(target.text()) {
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

/// `validateContainerCommon`
fn validate_container(container: &Field<'_, '_>, pod: &PodParts<'_, '_>, errors: &mut Errors) {
    required_text(&container.child("name"), dns_label, errors);
    let image = container.child("image");
    if image.text().is_empty() {
        errors.push(image.required(""));
    }
    one_of(
        &container.child("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
        errors,
    );
    validate_ports(&container.child("ports"), errors);
    env::validate_env(&container.child("env"), errors);
    env::validate_env_files(&container.child("env"), pod.volumes, errors);
    env::validate_env_from(&container.child("envFrom"), errors);
    volumes::validate_mounts(container, pod.volumes, errors);
    volumes::validate_devices(container, pod.volumes, errors);
    one_of(
        &container.child("imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        errors,
    );
    validate_container_resources(&container.child("resources"), pod.claims, errors);
    validate_resize_policy(&container.child("resizePolicy"), pod.restart_policy, errors);
    security::validate_container_security(&container.child("securityContext"), pod, errors);
}

/// `validateContainerOnlyForPod`: what templates may have and Pods may not.
pub(super) fn validate_image_of_pod(container: &Field<'_, '_>, errors: &mut Errors) {
    let image = container.child("image");
    if image.text().trim() != image.text() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

/// `validateContainerPorts`
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

/// `checkHostPortConflicts`: no two of the containers take the same port of the host.
fn validate_host_port_conflicts<'v: 'p, 'p>(containers: impl Iterator<Item = Field<'v, 'p>>, errors: &mut Errors) {
    let mut taken = HashSet::new();
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

const ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const RULES: usize = 20;
const EXIT_CODES: usize = 255;

/// `validateContainerRestartPolicy`
fn validate_restart_policy(container: &Field<'_, '_>, errors: &mut Errors) {
    let (policy, rules) = (container.child("restartPolicy"), container.child("restartPolicyRules"));
    set_one_of(&policy, &["Always", "Never", "OnFailure"], errors);
    if !policy.is_set() && !rules.is_empty() {
        errors.push(policy.required("must specify restartPolicy when restart rules are used"));
    }
    if rules.len() > RULES {
        errors.push(rules.too_many(RULES));
    }
    for rule in rules.items() {
        let action = rule.child("action");
        if !ACTIONS.contains(&action.text()) {
            errors.push(action.not_supported(&ACTIONS));
        }
        let codes = rule.child("exitCodes");
        if !codes.is_set() {
            errors.push(codes.required("must be specified"));
            continue;
        }
        let operator = codes.child("operator");
        if !matches!(operator.text(), "In" | "NotIn") {
            errors.push(operator.not_supported(&["In", "NotIn"]));
        }
        let values = codes.child("values");
        if values.len() > EXIT_CODES {
            errors.push(values.too_many(EXIT_CODES));
        }
    }
}

/// `validateResizePolicy`; the reference reports all but a repeated resource at the list.
fn validate_resize_policy(policies: &Field<'_, '_>, pod_restart_policy: &str, errors: &mut Errors) {
    let mut names = HashSet::new();
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

/// `ValidateContainerUpdates`: an update of a Pod neither adds nor removes containers and leaves each an image. Says whether
/// the rest of the update is worth a look.
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
