//! Controls that the restricted level adds to the baseline, one function for each.

use std::collections::BTreeSet;

use holdfast_schema::Field;

use super::checks::{Checked, Violation, adds_others, named, of_containers, plural, quoted, seccomp, violation};

/// upstream: k8s.io/pod-security-admission/policy#allowPrivilegeEscalation_1_8
pub(super) fn privilege_escalation(checked: &Checked<'_>) -> Option<Violation> {
    if checked.is_for_windows() {
        return None;
    }
    let names = checked.containers(&|_, security| {
        let escalation = security.child("allowPrivilegeEscalation");
        !escalation.is_set() || escalation.is_true()
    });
    of_containers(
        "allowPrivilegeEscalation != false",
        &names,
        "must set securityContext.allowPrivilegeEscalation=false",
    )
}

/// upstream: k8s.io/pod-security-admission/policy#capabilitiesRestricted_1_22
pub(super) fn dropped_capabilities(checked: &Checked<'_>) -> Option<Violation> {
    if checked.is_for_windows() {
        return None;
    }
    let keeping = checked.containers(&|_, security| {
        let capabilities = security.child("capabilities");
        !capabilities.child("drop").items().any(|one| one.text() == "ALL")
    });
    let mut violations = Vec::new();
    if !keeping.is_empty() {
        violations.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            named("container", &keeping)
        ));
    }
    violations.extend(adds_others(checked, &["NET_BIND_SERVICE"]));
    if violations.is_empty() {
        return None;
    }
    violation("unrestricted capabilities", violations.join("; "))
}

/// upstream: k8s.io/pod-security-admission/policy#restrictedVolumes_1_0
pub(super) fn volume_types(checked: &Checked<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let (mut names, mut types) = (Vec::new(), BTreeSet::new());
    for volume in checked.spec.child("volumes").items() {
        let source = volume.value().and_then(|volume| volume.as_map()).and_then(|volume| {
            let mut members = volume.iter();
            members.find(|(name, value)| name.as_str() != "name" && !value.is_null())
        });
        let volume_type = source.map_or("unknown", |(name, _)| name.as_str());
        if !ALLOWED.contains(&volume_type) {
            names.push(volume.child("name").text().to_owned());
            types.insert(volume_type.to_owned());
        }
    }
    if names.is_empty() {
        return None;
    }
    let uses = if names.len() == 1 { "uses" } else { "use" };
    violation(
        "restricted volume types",
        format!(
            "{} {uses} restricted volume {} {}",
            named("volume", &names),
            plural("type", types.len()),
            quoted(&types)
        ),
    )
}

/// upstream: k8s.io/pod-security-admission/policy#runAsNonRoot1_0
pub(super) fn run_as_non_root(checked: &Checked<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if checked.has_own_users() {
        return None;
    }
    let as_root = |security: &Field<'_, '_>| {
        let setting = security.child("runAsNonRoot");
        setting.is_set() && !setting.is_true()
    };
    if let Some(setters) = checked.setters(&as_root) {
        return violation(
            REASON,
            format!("{setters} must not set securityContext.runAsNonRoot=false"),
        );
    }
    if checked.spec.child("securityContext").child("runAsNonRoot").is_true() {
        return None;
    }
    let names = checked.containers(&|_, security| !security.child("runAsNonRoot").is_set());
    let found = of_containers(REASON, &names, "must set securityContext.runAsNonRoot=true")?;
    violation(REASON, format!("pod or {}", found.detail))
}

pub(super) fn run_as_user(checked: &Checked<'_>) -> Option<Violation> {
    if checked.has_own_users() {
        return None;
    }
    let setters = checked.setters(&|security| security.child("runAsUser").number() == Some(0))?;
    violation("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}

/// upstream: k8s.io/pod-security-admission/policy#seccompProfileRestricted_1_19
pub(super) fn seccomp_required(checked: &Checked<'_>) -> Option<Violation> {
    if checked.is_for_windows() {
        return None;
    }
    if let Some(found) = seccomp(checked) {
        return Some(found);
    }
    if checked.spec.child("securityContext").child("seccompProfile").is_set() {
        return None;
    }
    let names = checked.containers(&|_, security| !security.child("seccompProfile").is_set());
    let found = of_containers(
        "seccompProfile",
        &names,
        "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
    )?;
    violation(found.reason, format!("pod or {}", found.detail))
}

/// upstream: k8s.io/pod-security-admission/policy#procMount_1_0
pub(super) fn proc_mount_unmasked(checked: &Checked<'_>) -> Option<Violation> {
    let odd = |security: &Field<'_, '_>| {
        let mount = security.child("procMount");
        mount.is_set() && mount.text() != "Default"
    };
    let mut types = BTreeSet::new();
    checked.each_container(&mut |_, security| {
        if odd(security) {
            types.insert(security.child("procMount").text().to_owned());
        }
    });
    let names = checked.containers(&|_, security| odd(security));
    of_containers(
        "procMount",
        &names,
        &format!("must not set securityContext.procMount to {}", quoted(&types)),
    )
}
