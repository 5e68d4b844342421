//! With which rights a Pod and its containers run.

use holdfast_resource::Field;

use super::containers::PodParts;
use crate::validation::{Errors, numbers, optional_one_of};

/// Checks the security context of a Pod and what of the host it shares.
pub(super) fn validate_pod_security(spec: &Field<'_, '_>, errors: &mut Errors) {
    let context = spec.child("securityContext");
    for part in ["fsGroup", "runAsUser", "runAsGroup"] {
        numbers::id(&context.child(part), errors);
    }
    for group in context.child("supplementalGroups").items() {
        numbers::id(&group, errors);
    }
    let shared = spec.child("shareProcessNamespace");
    if shared.is_true() && spec.child("hostPID").is_true() {
        errors.push(shared.invalid("ShareProcessNamespace and HostPID cannot both be enabled."));
    }
    if !shares_users(spec) {
        // Two of the fields are named as in the reference's own types.
        for (part, shown) in [
            ("hostNetwork", "hostNetwork"),
            ("hostPID", "HostPID"),
            ("hostIPC", "HostIPC"),
        ] {
            if spec.child(part).is_true() {
                errors.push(spec.child(shown).forbidden("when `hostUsers` is false"));
            }
        }
    }
    validate_sysctls(&context.child("sysctls"), errors);
    optional_one_of(
        &context.child("fsGroupChangePolicy"),
        &["Always", "OnRootMismatch"],
        errors,
    );
    validate_profiles(&context, errors);
    optional_one_of(&context.child("supplementalGroupsPolicy"), &["Merge", "Strict"], errors);
}

/// Whether the users in containers are those of the host.
pub(super) fn shares_users(spec: &Field<'_, '_>) -> bool {
    let host_users = spec.child("hostUsers");
    !host_users.is_set() || host_users.is_true()
}

/// Checks the security context of a container.
pub(super) fn validate_container_security(context: &Field<'_, '_>, pod: &PodParts<'_, '_>, errors: &mut Errors) {
    let privileged = context.child("privileged");
    if privileged.is_true() && !pod.rules.allow_privileged {
        errors.push(privileged.forbidden("disallowed by cluster policy"));
    }
    numbers::id(&context.child("runAsUser"), errors);
    numbers::id(&context.child("runAsGroup"), errors);
    let escalation = context.child("allowPrivilegeEscalation");
    if escalation.is_set() && !escalation.is_true() {
        if privileged.is_true() {
            errors.push(context.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
        }
        let capabilities = context.child("capabilities");
        if capabilities
            .child("add")
            .items()
            .any(|name| name.text() == "CAP_SYS_ADMIN")
        {
            errors.push(
                context.invalid("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"),
            );
        }
    }
    let mount = context.child("procMount");
    optional_one_of(&mount, &["Default", "Unmasked"], errors);
    if pod.host_users && mount.text() == "Unmasked" {
        errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    validate_profiles(context, errors);
}

fn validate_profiles(context: &Field<'_, '_>, errors: &mut Errors) {
    for part in ["seccompProfile", "appArmorProfile"] {
        let profile = context.child(part);
        if !profile.is_set() {
            continue;
        }
        let (sort, local) = (profile.child("type"), profile.child("localhostProfile"));
        match sort.text() {
            "" => errors.push(sort.required("type is required when seccompProfile is set")),
            "Localhost" if local.text().is_empty() => {
                errors.push(local.required(format!("must be set when {} type is Localhost", title(part))));
            }
            "Localhost" => {
                if part == "seccompProfile" {
                    crate::validation::paths::descending(&local, errors);
                }
            }
            "RuntimeDefault" | "Unconfined" => {
                if local.is_set() {
                    let only = format!("can only be set when {} type is Localhost", title(part));
                    errors.push(local.invalid(only));
                }
            }
            _ => errors.push(sort.not_supported(&["Localhost", "RuntimeDefault", "Unconfined"])),
        }
    }
}

fn title(part: &str) -> &'static str {
    match part {
        "seccompProfile" => "seccomp",
        _ => "AppArmor",
    }
}

const SYSCTL_LENGTH: usize = 253;

fn validate_sysctls(sysctls: &Field<'_, '_>, errors: &mut Errors) {
    let mut names = std::collections::HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.child("name");
        let text = name.text();
        if text.is_empty() {
            errors.push(name.required(""));
        } else if text.len() > SYSCTL_LENGTH || !is_sysctl(text) {
            errors.push(name.invalid(SYSCTL));
        } else if !names.insert(text.replace('/', ".")) {
            errors.push(name.duplicate());
        }
    }
}

const SYSCTL: &str = "must have at most 253 characters and match regex \
     ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

fn is_sysctl(text: &str) -> bool {
    text.split(['.', '/']).all(|part| {
        let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        ends(part.bytes().next()) && ends(part.bytes().last()) && part.bytes().all(inner)
    })
}
