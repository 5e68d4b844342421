//! Checks of the Pod Security Standards: <https://kubernetes.io/docs/concepts/security/pod-security-standards/>.
//!
//! Each control is one function; [`BASELINE`] and [`RESTRICTED`] list the versions since which it applies.

use std::collections::BTreeSet;

use holdfast_schema::Field;

use super::policy::{Level, Standard};
use super::restricted;
use holdfast_kinds::pod_spec::CONTAINERS;

/// Violation of a control, with the offending parts.
pub(super) struct Violation {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

/// Input of the checks: the metadata and the specification of a Pod or of a template.
pub(super) struct Checked<'f> {
    pub(super) metadata: Field<'f, 'f>,
    pub(super) spec: Field<'f, 'f>,
    pub(super) standard: Standard,
}

type Check = fn(&Checked<'_>) -> Option<Violation>;

/// Controls of the baseline level: the minor version since which a control applies, and the version since which the
/// restricted level replaces it, if it does. Violations are reported in this order.
const BASELINE: [(u32, Option<u32>, Check); 12] = [
    (0, None, app_armor),
    (0, Some(22), added_capabilities),
    (0, None, host_namespaces),
    (0, Some(0), host_path_volumes),
    (0, None, host_ports),
    (34, None, host_probes),
    (0, None, privileged),
    (0, Some(35), proc_mount),
    (0, None, se_linux),
    (0, Some(19), seccomp),
    (0, None, sysctls),
    (0, None, windows_host_process),
];

/// Controls that the restricted level adds.
const RESTRICTED: [(u32, Check); 7] = [
    (8, restricted::privilege_escalation),
    (22, restricted::dropped_capabilities),
    (35, restricted::proc_mount_unmasked),
    (0, restricted::volume_types),
    (0, restricted::run_as_non_root),
    (23, restricted::run_as_user),
    (19, restricted::seccomp_required),
];

/// Returns all violations, in order.
pub(super) fn violations(checked: &Checked<'_>) -> Vec<Violation> {
    let standard = checked.standard;
    if standard.level == Level::Privileged {
        return Vec::new();
    }
    let restricted = standard.level == Level::Restricted;
    let replaced = |by: Option<u32>| restricted && by.is_some_and(|by| standard.is_since(by));
    let baseline = BASELINE
        .iter()
        .filter(|(since, by, _)| standard.is_since(*since) && !replaced(*by))
        .filter_map(|(_, _, check)| check(checked));
    let added = RESTRICTED
        .iter()
        .filter(|(since, _)| restricted && standard.is_since(*since))
        .filter_map(|(_, check)| check(checked));
    baseline.chain(added).collect()
}

/// Returns the violations in one line.
pub(super) fn violations_text(violations: &[Violation]) -> String {
    let texts = violations.iter().map(|violation| match violation.detail.as_str() {
        "" => violation.reason.to_owned(),
        detail => format!("{} ({detail})", violation.reason),
    });
    texts.collect::<Vec<_>>().join(", ")
}

impl Checked<'_> {
    /// Calls `visit` for each container of any type with its security context.
    pub(super) fn each_container(&self, visit: &mut dyn FnMut(&Field<'_, '_>, &Field<'_, '_>)) {
        for list in CONTAINERS {
            for container in self.spec.child(list).items() {
                visit(&container, &container.child("securityContext"));
            }
        }
    }

    /// Returns the names of the containers with a violation.
    pub(super) fn containers(&self, error: &dyn Fn(&Field<'_, '_>, &Field<'_, '_>) -> bool) -> Vec<String> {
        let mut names = Vec::new();
        self.each_container(&mut |container, security| {
            if error(container, security) {
                names.push(container.child("name").text().to_owned());
            }
        });
        names
    }

    /// Returns a description of the violators among the Pod and its containers, or `None` if there is none.
    pub(super) fn setters(&self, error: &dyn Fn(&Field<'_, '_>) -> bool) -> Option<String> {
        let mut setters = Vec::new();
        if error(&self.spec.child("securityContext")) {
            setters.push("pod".to_owned());
        }
        let containers = self.containers(&|_, security| error(security));
        if !containers.is_empty() {
            setters.push(named("container", &containers));
        }
        (!setters.is_empty()).then(|| setters.join(" and "))
    }

    /// Returns true if the Pod is for Windows, which does not have the isolation features of Linux.
    pub(super) fn is_for_windows(&self) -> bool {
        self.standard.is_since(25) && self.spec.child("os").child("name").text() == "windows"
    }

    /// Returns true if the Pod has its own user namespace.
    pub(super) fn has_own_users(&self) -> bool {
        let host_users = self.spec.child("hostUsers");
        self.standard.is_since(35) && host_users.is_set() && !host_users.is_true()
    }
}

pub(super) fn plural(word: &str, count: usize) -> String {
    if count == 1 {
        word.to_owned()
    } else {
        format!("{word}s")
    }
}

pub(super) fn quoted<'t>(texts: impl IntoIterator<Item = &'t String>) -> String {
    texts
        .into_iter()
        .map(|text| format!("{text:?}"))
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn named(word: &str, names: &[String]) -> String {
    format!("{} {}", plural(word, names.len()), quoted(names))
}

pub(super) fn violation(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

/// Returns the violation of the named containers, if there are any.
pub(super) fn of_containers(reason: &'static str, names: &[String], what: &str) -> Option<Violation> {
    if names.is_empty() {
        return None;
    }
    violation(reason, format!("{} {what}", named("container", names)))
}

/// upstream: k8s.io/pod-security-admission/policy#appArmorProfile_1_0
fn app_armor(checked: &Checked<'_>) -> Option<Violation> {
    const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
    let mut types = BTreeSet::new();
    let mut errors = Vec::new();
    let odd = |security: &Field<'_, '_>| {
        let profile = security.child("appArmorProfile");
        profile.is_set() && !matches!(profile.child("type").text(), "RuntimeDefault" | "Localhost")
    };
    let mut note = |security: &Field<'_, '_>| {
        if odd(security) {
            types.insert(security.child("appArmorProfile").child("type").text().to_owned());
        }
    };
    note(&checked.spec.child("securityContext"));
    checked.each_container(&mut |_, security| note(security));
    if let Some(setters) = checked.setters(&odd) {
        errors.push(format!(
            "{setters} must not set AppArmor profile type to {}",
            quoted(&types)
        ));
    }
    let annotations = checked.metadata.child("annotations");
    let mut annotated: Vec<String> = annotations
        .entries()
        .filter(|(key, value)| {
            let profile = value.text();
            let allowed = profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/");
            key.starts_with(ANNOTATION) && !allowed
        })
        .map(|(key, value)| format!("{key}={:?}", value.text()))
        .collect();
    annotated.sort();
    if !annotated.is_empty() {
        errors.push(format!(
            "{} {}",
            plural("annotation", annotated.len()),
            annotated.join(", ")
        ));
    }
    let reason = match errors.len() + annotated.len().saturating_sub(1) {
        0 => return None,
        1 => "forbidden AppArmor profile",
        _ => "forbidden AppArmor profiles",
    };
    violation(reason, errors.join("; "))
}

/// Returns the description of containers that add capabilities other than the allowed ones.
pub(super) fn adds_others(checked: &Checked<'_>, allowed: &[&str]) -> Option<String> {
    let mut others = BTreeSet::new();
    let names = checked.containers(&|_, security| {
        let capabilities = security.child("capabilities");
        capabilities
            .child("add")
            .items()
            .any(|one| !allowed.contains(&one.text()))
    });
    checked.each_container(&mut |_, security| {
        for one in security.child("capabilities").child("add").items() {
            if !allowed.contains(&one.text()) {
                others.insert(one.text().to_owned());
            }
        }
    });
    (!names.is_empty()).then(|| {
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            named("container", &names),
            quoted(&others)
        )
    })
}

fn added_capabilities(checked: &Checked<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    violation("non-default capabilities", adds_others(checked, &ALLOWED)?)
}

fn host_namespaces(checked: &Checked<'_>) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|name| checked.spec.child(name).is_true())
        .map(|name| format!("{name}=true"))
        .collect();
    if shared.is_empty() {
        return None;
    }
    violation("host namespaces", shared.join(", "))
}

fn host_path_volumes(checked: &Checked<'_>) -> Option<Violation> {
    let volumes = checked.spec.child("volumes");
    let names: Vec<String> = volumes
        .items()
        .filter(|volume| volume.child("hostPath").is_set())
        .map(|volume| volume.child("name").text().to_owned())
        .collect();
    if names.is_empty() {
        return None;
    }
    violation("hostPath volumes", named("volume", &names))
}

fn host_ports(checked: &Checked<'_>) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let number = |port: &Field<'_, '_>| port.child("hostPort").number().filter(|number| *number != 0);
    checked.each_container(&mut |container, _| {
        for port in container.child("ports").items() {
            ports.extend(number(&port).map(|number| number.to_string()));
        }
    });
    let names =
        checked.containers(&|container, _| container.child("ports").items().any(|port| number(&port).is_some()));
    let uses = if names.len() == 1 { "uses" } else { "use" };
    let list: Vec<String> = ports.into_iter().collect();
    of_containers(
        "hostPort",
        &names,
        &format!("{uses} {} {}", plural("hostPort", list.len()), list.join(", ")),
    )
}

/// upstream: k8s.io/pod-security-admission/policy#hostProbesAndHostLifecycleV1Dot34
fn host_probes(checked: &Checked<'_>) -> Option<Violation> {
    fn hosts(container: &Field<'_, '_>) -> BTreeSet<String> {
        let lifecycle = container.child("lifecycle");
        let handlers = [
            container.child("livenessProbe"),
            container.child("readinessProbe"),
            container.child("startupProbe"),
            lifecycle.child("postStart"),
            lifecycle.child("preStop"),
        ];
        let mut hosts = BTreeSet::new();
        for handler in &handlers {
            for action in ["httpGet", "tcpSocket"] {
                hosts.insert(handler.child(action).child("host").text().to_owned());
            }
        }
        hosts.remove("");
        hosts
    }
    let mut all = BTreeSet::new();
    checked.each_container(&mut |container, _| all.extend(hosts(container)));
    let mut names = checked.containers(&|container, _| !hosts(container).is_empty());
    names.sort();
    let uses = if names.len() == 1 { "uses" } else { "use" };
    let hosts = plural("probe or lifecycle host", all.len());
    of_containers(
        "probe or lifecycle host",
        &names,
        &format!("{uses} {hosts} {}", quoted(&all)),
    )
}

/// upstream: k8s.io/pod-security-admission/policy#privileged_1_0
fn privileged(checked: &Checked<'_>) -> Option<Violation> {
    let names = checked.containers(&|_, security| security.child("privileged").is_true());
    of_containers("privileged", &names, "must not set securityContext.privileged=true")
}

fn proc_mount(checked: &Checked<'_>) -> Option<Violation> {
    if checked.has_own_users() {
        return None;
    }
    restricted::proc_mount_unmasked(checked)
}

/// upstream: k8s.io/pod-security-admission/policy#seLinuxOptions
fn se_linux(checked: &Checked<'_>) -> Option<Violation> {
    let newer = checked.standard.is_since(31);
    let odd_type = |options: &Field<'_, '_>| {
        let text = options.child("type").text();
        let known = matches!(text, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || newer && text == "container_engine_t";
        (!known).then(|| text.to_owned())
    };
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut note = |security: &Field<'_, '_>| {
        let options = security.child("seLinuxOptions");
        types.extend(odd_type(&options));
        user |= !options.child("user").text().is_empty();
        role |= !options.child("role").text().is_empty();
    };
    note(&checked.spec.child("securityContext"));
    checked.each_container(&mut |_, security| note(security));
    let setters = checked.setters(&|security| {
        let options = security.child("seLinuxOptions");
        let named = |field| !options.child(field).text().is_empty();
        odd_type(&options).is_some() || named("user") || named("role")
    })?;
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural("type", types.len()), quoted(&types)));
    }
    for (set, text) in [(user, "user may not be set"), (role, "role may not be set")] {
        if set {
            data.push(text.to_owned());
        }
    }
    violation(
        "seLinuxOptions",
        format!(
            "{setters} set forbidden securityContext.seLinuxOptions: {}",
            data.join("; ")
        ),
    )
}

/// Returns the type of a seccomp profile that is set but not allowed.
fn odd_seccomp(security: &Field<'_, '_>) -> Option<String> {
    let profile = security.child("seccompProfile");
    let text = profile.child("type").text();
    (profile.is_set() && !matches!(text, "RuntimeDefault" | "Localhost")).then(|| text.to_owned())
}

pub(super) fn seccomp(checked: &Checked<'_>) -> Option<Violation> {
    if !checked.standard.is_since(19) {
        return seccomp_annotations(checked);
    }
    let mut types = BTreeSet::new();
    types.extend(odd_seccomp(&checked.spec.child("securityContext")));
    checked.each_container(&mut |_, security| types.extend(odd_seccomp(security)));
    let setters = checked.setters(&|security| odd_seccomp(security).is_some())?;
    violation(
        "seccompProfile",
        format!(
            "{setters} must not set securityContext.seccompProfile.type to {}",
            quoted(&types)
        ),
    )
}

fn seccomp_annotations(checked: &Checked<'_>) -> Option<Violation> {
    let annotations = checked.metadata.child("annotations");
    let mut keys = vec!["seccomp.security.alpha.kubernetes.io/pod".to_owned()];
    checked.each_container(&mut |container, _| {
        keys.push(format!(
            "container.seccomp.security.alpha.kubernetes.io/{}",
            container.child("name").text()
        ));
    });
    let errors: BTreeSet<String> = keys
        .iter()
        .filter_map(|key| {
            let profile = annotations.entry(key).value()?.as_str()?;
            let allowed = matches!(profile, "runtime/default" | "docker/default") || profile.starts_with("localhost/");
            (!allowed).then(|| format!("{key}={profile:?}"))
        })
        .collect();
    if errors.is_empty() {
        return None;
    }
    let annotation = plural("annotation", errors.len());
    let list = errors.into_iter().collect::<Vec<_>>().join(", ");
    violation("seccompProfile", format!("forbidden {annotation} {list}"))
}

/// upstream: k8s.io/pod-security-admission/policy#sysctls
fn sysctls(checked: &Checked<'_>) -> Option<Violation> {
    /// Safe sysctls, each with the minor version since which it is safe.
    const SAFE: [(&str, u32); 12] = [
        ("kernel.shm_rmid_forced", 0),
        ("net.ipv4.ip_local_port_range", 0),
        ("net.ipv4.tcp_syncookies", 0),
        ("net.ipv4.ping_group_range", 0),
        ("net.ipv4.ip_unprivileged_port_start", 0),
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_keepalive_time", 29),
        ("net.ipv4.tcp_fin_timeout", 29),
        ("net.ipv4.tcp_keepalive_intvl", 29),
        ("net.ipv4.tcp_keepalive_probes", 29),
        ("net.ipv4.tcp_rmem", 32),
        ("net.ipv4.tcp_wmem", 32),
    ];
    let safe = |name: &str| {
        SAFE.iter()
            .any(|(known, since)| *known == name && checked.standard.is_since(*since))
    };
    let security = checked.spec.child("securityContext");
    let names: Vec<&str> = security
        .child("sysctls")
        .items()
        .map(|sysctl| sysctl.child("name").text())
        .filter(|name| !safe(name))
        .collect();
    if names.is_empty() {
        return None;
    }
    violation("forbidden sysctls", names.join(", "))
}

/// upstream: k8s.io/pod-security-admission/policy#windowsHostProcess_1_0
fn windows_host_process(checked: &Checked<'_>) -> Option<Violation> {
    let setters = checked.setters(&|security| security.child("windowsOptions").child("hostProcess").is_true())?;
    violation(
        "hostProcess",
        format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}
