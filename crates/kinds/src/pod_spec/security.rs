//! Security contexts of Pods and containers, and host namespaces that a Pod uses.

use std::collections::HashSet;

use holdfast_schema::{Check, Field, Part};

use super::containers::{PodParts, visit_containers};
use super::windows::validate_options;
use crate::validation::paths::descending;
use crate::validation::{Errors, set_one_of};

/// Validates the security context of a Pod.
///
/// upstream: pkg/apis/core/validation#validatePodSpecSecurityContext
pub(super) fn validate_pod_security<'v>(spec: &Part<'v, '_>, pod: &PodParts<'_, 'v>, check: &mut Check<'_>) {
    let Some(context) = check.child(spec, "securityContext") else {
        return;
    };
    for part in ["fsGroup", "runAsUser", "runAsGroup", "supplementalGroups"] {
        check.field(&context, part, pod);
    }
    let shared = spec.child("shareProcessNamespace");
    if shared.is_true() && spec.child("hostPID").is_true() {
        // The reference has the fields of host namespaces in the security context.
        let place = context.child("shareProcessNamespace");
        let message = "ShareProcessNamespace and HostPID cannot both be enabled";
        check.errors.push(place.invalid_as(true, message));
    }
    validate_sysctls(spec, &context.child("sysctls"), &mut check.errors);
    check.field(&context, "fsGroupChangePolicy", pod);
    validate_seccomp(&context.child("seccompProfile"), &mut check.errors);
    validate_options(&context.child("windowsOptions"), &mut check.errors);
    validate_app_armor(&context.child("appArmorProfile"), &mut check.errors);
    check.field(&context, "supplementalGroupsPolicy", pod);
    let changes = if pod.rules.labels_mounts {
        &["MountOption", "Recursive"][..]
    } else {
        &["Recursive"]
    };
    set_one_of(&context.child("seLinuxChangePolicy"), changes, &mut check.errors);
}

/// Validates user namespaces. Two of the fields have the names of the reference's internal types.
///
/// upstream: pkg/apis/core/validation#validateHostUsers
pub(super) fn validate_host_users(spec: &Field<'_, '_>, allows_network: bool, errors: &mut Errors) {
    if shares_users(spec) {
        return;
    }
    for (part, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.child(part).is_true() && !(allows_network && part == "hostNetwork") {
            errors.push(spec.child(shown).forbidden("when `hostUsers` is false"));
        }
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.child(list).items() {
            let devices = container.child("volumeDevices");
            if !devices.is_empty() {
                errors.push(devices.forbidden("when `hostUsers` is false"));
            }
        }
    }
}

/// Returns true if containers use the host's user namespace.
pub(super) fn shares_users(spec: &Field<'_, '_>) -> bool {
    let host_users = spec.child("hostUsers");
    !host_users.is_set() || host_users.is_true()
}

/// Validates the security context of a container.
///
/// upstream: pkg/apis/core/validation#ValidateSecurityContext
pub(super) fn validate_container_security<'v>(container: &Part<'v, '_>, pod: &PodParts<'_, 'v>, check: &mut Check<'_>) {
    let context = check.child(container, "securityContext");
    let Some(context) = context.filter(|context| context.is_set()) else {
        return;
    };
    let privileged = context.child("privileged");
    if privileged.is_true() && !pod.rules.allow_privileged {
        check.errors.push(privileged.forbidden("disallowed by cluster policy"));
    }
    for part in ["runAsUser", "runAsGroup", "procMount"] {
        check.field(&context, part, pod);
    }
    let errors = &mut check.errors;
    let mount = context.child("procMount");
    if pod.host_users && mount.text() == "Unmasked" {
        errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    validate_seccomp(&context.child("seccompProfile"), errors);
    let escalation = context.child("allowPrivilegeEscalation");
    if escalation.is_set() && !escalation.is_true() {
        validate_no_escalation(&context, errors);
    }
    validate_options(&context.child("windowsOptions"), errors);
    validate_app_armor(&context.child("appArmorProfile"), errors);
}

/// upstream: pkg/apis/core/validation#ValidateSecurityContext
fn validate_no_escalation(context: &Field<'_, '_>, errors: &mut Errors) {
    if context.child("privileged").is_true() {
        errors.push(context.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
    }
    let capabilities = context.child("capabilities");
    for name in capabilities.child("add").items() {
        if name.text() == "CAP_SYS_ADMIN" {
            errors.push(
                context.invalid("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"),
            );
        }
    }
}

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// Validates a seccomp profile.
///
/// upstream: pkg/apis/core/validation#validateSeccompProfileField
fn validate_seccomp(profile: &Field<'_, '_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (type_field, local) = (profile.child("type"), profile.child("localhostProfile"));
    match type_field.text() {
        "" => errors.push(type_field.required("type is required when seccompProfile is set")),
        known if PROFILES.contains(&known) => {}
        _ => errors.push(type_field.not_supported(&PROFILES)),
    }
    if type_field.text() == "Localhost" {
        if local.is_set() {
            descending(&local, errors);
        } else {
            errors.push(local.required("must be set when seccomp type is Localhost"));
        }
    } else if local.is_set() {
        // The reference prints the whole profile.
        let shown = profile.value().cloned().unwrap_or_default();
        errors.push(local.invalid_as(shown, "can only be set when seccomp type is Localhost"));
    }
}

const APP_ARMOR_PATH: usize = 4095;

/// Validates an AppArmor profile.
///
/// upstream: pkg/apis/core/validation#ValidateAppArmorProfileField
pub(super) fn validate_app_armor(profile: &Field<'_, '_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (type_field, local) = (profile.child("type"), profile.child("localhostProfile"));
    match type_field.text() {
        "Localhost" if !local.is_set() => {
            errors.push(local.required("must be set when AppArmor type is Localhost"));
        }
        "Localhost" => {
            let trimmed = local.text().trim();
            if trimmed != local.text() {
                errors.push(local.invalid("must not be padded with whitespace"));
            } else if trimmed.is_empty() {
                errors.push(local.required("must be set when AppArmor type is Localhost"));
            }
            if local.text().len() > APP_ARMOR_PATH {
                errors.push(local.too_long(APP_ARMOR_PATH));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.is_set() {
                errors.push(local.invalid("can only be set when AppArmor type is Localhost"));
            }
        }
        "" => errors.push(type_field.required("type is required when appArmorProfile is set")),
        _ => errors.push(type_field.not_supported(&PROFILES)),
    }
}

const SYSCTL_LENGTH: usize = 253;

const SYSCTL: &str = "must have at most 253 characters and match regex \
     ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Validates the sysctls of a Pod.
///
/// upstream: pkg/apis/core/validation#validateSysctls
fn validate_sysctls(spec: &Field<'_, '_>, sysctls: &Field<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.child("name");
        let text = name.text();
        if text.is_empty() {
            errors.push(name.required(""));
        } else if text.len() > SYSCTL_LENGTH || !is_sysctl(text) {
            errors.push(name.invalid(SYSCTL));
        } else if names.contains(text) {
            errors.push(name.duplicate());
        }
        let dotted = text.replace('/', ".");
        if spec.child("hostNetwork").is_true() && dotted.starts_with("net.") {
            errors.push(name.invalid("may not be specified when 'hostNetwork' is true"));
        } else if spec.child("hostIPC").is_true() && is_of_ipc(&dotted) {
            errors.push(name.invalid("may not be specified when 'hostIPC' is true"));
        }
        names.insert(text);
    }
}

/// Returns true if a sysctl belongs to the IPC namespace.
fn is_of_ipc(name: &str) -> bool {
    name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."]
            .iter()
            .any(|start| name.starts_with(start))
}

fn is_sysctl(text: &str) -> bool {
    text.split(['.', '/']).all(|part| {
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        ends(part.bytes().next()) && ends(part.bytes().last()) && part.bytes().all(inner)
    })
}

/// Reports fields that the operating system of a Pod rules out.
///
/// upstream: pkg/apis/core/validation#validateOS
/// upstream: pkg/apis/core/validation#validateLinux
/// upstream: pkg/apis/core/validation#validateWindows
pub(super) fn validate_operating_system(spec: &Field<'_, '_>, errors: &mut Errors) {
    let os = spec.child("os");
    if !os.is_set() {
        return;
    }
    let name = os.child("name");
    match name.text() {
        "" => errors.push(name.required("")),
        "linux" => validate_linux(spec, errors),
        "windows" => validate_windows(spec, errors),
        odd => errors.push(holdfast_schema::FieldError::not_supported(
            &os.path(),
            odd,
            &["linux", "windows"],
        )),
    }
}

/// upstream: pkg/apis/core/validation#validateLinux
fn validate_linux(spec: &Field<'_, '_>, errors: &mut Errors) {
    let forbid = |context: &Field<'_, '_>, errors: &mut Errors| {
        let options = context.child("windowsOptions");
        if options.is_set() {
            errors.push(options.forbidden("windows options cannot be set for a linux pod"));
        }
    };
    forbid(&spec.child("securityContext"), errors);
    visit_containers(spec, &mut |container| {
        forbid(&container.child("securityContext"), errors)
    });
}

/// Fields of a Pod that do not apply to Windows, in the order of the reference; true if a field is in the security
/// context.
const NOT_ON_WINDOWS: [(&str, bool); 15] = [
    ("appArmorProfile", true),
    ("seLinuxOptions", true),
    ("hostUsers", false),
    ("hostPID", false),
    ("hostIPC", false),
    ("seccompProfile", true),
    ("fsGroup", true),
    ("fsGroupChangePolicy", true),
    ("sysctls", true),
    ("shareProcessNamespace", false),
    ("runAsUser", true),
    ("runAsGroup", true),
    ("supplementalGroups", true),
    ("supplementalGroupsPolicy", true),
    ("seLinuxChangePolicy", true),
];

/// Fields of a container's security context that do not apply to Windows.
const NOT_IN_WINDOWS_CONTAINERS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// upstream: pkg/apis/core/validation#validateWindows
fn validate_windows(spec: &Field<'_, '_>, errors: &mut Errors) {
    const WHY: &str = "cannot be set for a windows pod";
    let context = spec.child("securityContext");
    for (part, within) in NOT_ON_WINDOWS {
        let field = if within { context.child(part) } else { spec.child(part) };
        let set = match part {
            "hostPID" | "hostIPC" => field.is_true(),
            "sysctls" | "supplementalGroups" => !field.is_empty(),
            _ => field.is_set(),
        };
        if set {
            errors.push(field.forbidden(WHY));
        }
    }
    visit_containers(spec, &mut |container| {
        let context = container.child("securityContext");
        for part in NOT_IN_WINDOWS_CONTAINERS {
            let field = context.child(part);
            if field.is_set() {
                errors.push(field.forbidden(WHY));
            }
        }
    });
}
