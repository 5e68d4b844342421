//! Warnings about pod specifications that are accepted but probably not intended.

use std::collections::HashMap;

use holdfast_schema::metadata::formats::label_value;
use holdfast_schema::{Fact, Field, Parts};
use holdfast_value::{SeenValues, Value};

use super::annotations::{APP_ARMOR, SECCOMP, SECCOMP_OF_CONTAINER, app_armor_field};
use super::{CONTAINERS, overlapping_paths};
use crate::validation::addresses::address_warning;
use crate::validation::resources;

/// Resources in bytes.
const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];
/// Number of warnings at which ports are no longer compared: a response holds fewer.
const MOST_OF_PORTS: usize = 500;

/// Deprecated labels of nodes and the text of their warning.
///
/// upstream: pkg/api/node#deprecatedNodeLabels
const DEPRECATED_NODE_LABELS: [(&str, &str); 8] = [
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    (
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
];

/// Annotations of Pods that fields have replaced.
const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Returns the text of the warning if a label of nodes is deprecated.
pub(crate) fn deprecated_node_label(label: &str) -> Option<&'static str> {
    let (_, text) = DEPRECATED_NODE_LABELS
        .iter()
        .find(|(deprecated, _)| *deprecated == label)?;
    Some(text)
}

/// Returns the warnings about the pod template of a workload at `path`, if it is new or changed.
///
/// upstream: pkg/api/pod#GetWarningsForPodTemplate
pub(crate) fn template_warnings(parts: &Parts<'_>, object: &Value, path: &[&str]) -> Vec<String> {
    with_field(&Field::root(object), path, |template| {
        let mut warnings = Vec::new();
        if !parts.knows(Fact::Harmless, template) {
            let (metadata, spec) = (template.child("metadata"), template.child("spec"));
            pod_spec_warnings(&metadata, &spec, true, &mut warnings);
            if warnings.is_empty() {
                parts.found(Fact::Harmless, template);
            }
        }
        warnings
    })
}

/// Calls `of` with the field at `path` and returns its result.
fn with_field<T>(field: &Field<'_, '_>, path: &[&str], of: impl FnOnce(&Field<'_, '_>) -> T) -> T {
    match path.split_first() {
        Some((name, path)) => with_field(&field.child(name), path, of),
        None => of(field),
    }
}

/// Returns warnings about a pod specification and its metadata. A new Pod gets warnings about AppArmor annotations when
/// fields are set from them.
///
/// upstream: pkg/api/pod#warningsForPodSpecAndMeta
pub(crate) fn pod_spec_warnings(
    metadata: &Field<'_, '_>,
    spec: &Field<'_, '_>,
    is_template: bool,
    warnings: &mut Vec<String>,
) {
    for (label, selected) in spec.child("nodeSelector").entries() {
        if let Some(text) = deprecated_node_label(label) {
            warnings.push(format!("{}: {text}", selected.path()));
        }
    }
    node_affinity(spec, warnings);
    topology_spread(spec, warnings);
    for (annotation, text) in DEPRECATED_ANNOTATIONS {
        let annotations = metadata.child("annotations");
        let entry = annotations.entry(annotation);
        if entry.is_set() {
            warnings.push(format!("{}: {text}", entry.path()));
        }
    }
    volumes(spec, warnings);
    overlapping_paths::warnings(&spec.child("volumes"), warnings);
    duplicates(&spec.child("hostAliases"), "ip", warnings);
    let secrets = spec.child("imagePullSecrets");
    duplicates(&secrets, "name", warnings);
    unnamed(&secrets, warnings);
    let overhead = spec.child("overhead");
    for name in BYTES {
        resources::fractional_bytes(&overhead, name, warnings);
    }
    containers(&metadata.child("annotations"), spec, is_template, warnings);
    port_warnings(spec, warnings);
    port_name_warnings(spec, warnings);
    let grace = spec.child("terminationGracePeriodSeconds");
    if grace.number().is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            grace.path()
        ));
    }
    pod_affinity(spec, warnings);
    let dns = spec.child("dnsConfig");
    warnings.extend(
        dns.child("nameservers")
            .items()
            .filter_map(|server| address_warning(&server)),
    );
    for host in spec.child("hostAliases").items() {
        warnings.extend(address_warning(&host.child("ip")));
    }
}

fn topology_spread(spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
    for constraint in spec.child("topologySpreadConstraints").items() {
        let key = constraint.child("topologyKey");
        if let Some(text) = deprecated_node_label(key.text()) {
            warnings.push(format!("{}: {} is {text}", key.path(), key.text()));
        }
        let selector = constraint.child("labelSelector");
        if !selector.is_set() {
            warnings.push(format!(
                "{}: a null labelSelector results in matching no pod",
                selector.path()
            ));
        }
    }
}

/// Adds warnings about the containers, and about annotations that replace their security context or that of the Pod.
fn containers(annotations: &Field<'_, '_>, spec: &Field<'_, '_>, is_template: bool, warnings: &mut Vec<String>) {
    let is_annotated = annotations.is_set();
    let security = spec.child("securityContext");
    if !security.child("seccompProfile").is_set() {
        seccomp_annotation(annotations, SECCOMP, warnings);
    }
    let of_pod = security.child("appArmorProfile");
    for list in CONTAINERS {
        for container in spec.child(list).items() {
            let name = container.child("name");
            let security = container.child("securityContext");
            if is_annotated && !security.child("seccompProfile").is_set() {
                let of_container = format!("{SECCOMP_OF_CONTAINER}{}", name.text());
                seccomp_annotation(annotations, &of_container, warnings);
            }
            if is_template && is_annotated && !security.child("appArmorProfile").is_set() {
                app_armor_annotation(annotations, name.text(), of_pod.value(), warnings);
            }
            container_warnings(&container, warnings);
        }
    }
}

/// upstream: pkg/api/pod#warningsForPodSpecAndMeta
fn seccomp_annotation(annotations: &Field<'_, '_>, key: &str, warnings: &mut Vec<String>) {
    let entry = annotations.entry(key);
    if entry.is_set() {
        let place = entry.path();
        warnings.push(format!(
            "{place}: non-functional in v1.27+; use the \"seccompProfile\" field instead"
        ));
    }
}

fn app_armor_annotation(
    annotations: &Field<'_, '_>,
    container: &str,
    of_pod: Option<&Value>,
    warnings: &mut Vec<String>,
) {
    let key = format!("{APP_ARMOR}{container}");
    let entry = annotations.entry(&key);
    if entry.is_set() && (of_pod.is_none() || of_pod != app_armor_field(entry.text()).as_ref()) {
        let place = entry.path();
        warnings.push(format!(
            "{place}: deprecated since v1.30; use the \"appArmorProfile\" field instead"
        ));
    }
}

fn node_affinity(spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let affinity = spec.child("affinity");
    let node = affinity.child("nodeAffinity");
    node_selector_warnings(&node.child("requiredDuringSchedulingIgnoredDuringExecution"), warnings);
    for preferred in node.child("preferredDuringSchedulingIgnoredDuringExecution").items() {
        let term = preferred.child("preference");
        for expression in term.child("matchExpressions").items() {
            deprecated_key(&expression, warnings);
            for value in expression.child("values").items() {
                for error in label_value(value.text()) {
                    warnings.push(format!("{}: {} is invalid, {error}", value.path(), value.text()));
                }
            }
        }
    }
}

/// Adds warnings about a node selector.
///
/// upstream: pkg/api/node#GetWarningsForNodeSelectorTerm
pub(crate) fn node_selector_warnings(selector: &Field<'_, '_>, warnings: &mut Vec<String>) {
    for term in selector.child("nodeSelectorTerms").items() {
        for expression in term.child("matchExpressions").items() {
            deprecated_key(&expression, warnings);
        }
    }
}

/// Warns of deprecated node labels in a label selector.
///
/// upstream: pkg/api/node#GetWarningsForNodeSelector
pub(crate) fn node_label_selector_warnings(selector: &Field<'_, '_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for expression in selector.child("matchExpressions").items() {
        deprecated_key(&expression, &mut warnings);
    }
    let labels = selector.child("matchLabels");
    for (label, _) in labels.entries() {
        if let Some(text) = deprecated_node_label(label) {
            warnings.push(format!("{}: {text}", labels.path().child(label)));
        }
    }
    warnings
}

fn deprecated_key(expression: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let key = expression.child("key");
    if let Some(text) = deprecated_node_label(key.text()) {
        warnings.push(format!("{}: {} is {text}", key.path(), key.text()));
    }
}

fn volumes(spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
    const REMOVED: [(&str, &str); 7] = [
        ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
        ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
        ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
        ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ];
    const LATER: [(&str, &str); 2] = [
        ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let warn = |volume: &Field<'_, '_>, sources: &[(&str, &str)], warnings: &mut Vec<String>| {
        for (source, text) in sources {
            // One of them is reported by its Go name.
            let shown = if *source == "storageos" { "storageOS" } else { source };
            if volume.child(source).is_set() {
                warnings.push(format!("{}: {text}", volume.child(shown).path()));
            }
        }
    };
    for volume in spec.child("volumes").items() {
        warn(&volume, &REMOVED, warnings);
        let ephemeral = volume.child("ephemeral");
        let template = ephemeral.child("volumeClaimTemplate");
        resources::fractional_claim(&template.child("spec"), warnings);
        warn(&volume, &LATER, warnings);
    }
}

fn duplicates(items: &Field<'_, '_>, key: &str, warnings: &mut Vec<String>) {
    let mut seen = SeenValues::new();
    for item in items.items() {
        let text = item.child(key);
        if !seen.insert(text.text()) {
            warnings.push(format!("{}: duplicate {key} \"{}\"", text.path(), text.text()));
        }
    }
}

fn unnamed(items: &Field<'_, '_>, warnings: &mut Vec<String>) {
    for item in items.items() {
        let name = item.child("name");
        if name.text().is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", name.path()));
        }
    }
}

/// upstream: pkg/api/pod#warningsForPodSpecAndMeta
fn container_warnings(container: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let parts = container.child("resources");
    for name in BYTES {
        for list in ["limits", "requests"] {
            resources::fractional_bytes(&parts.child(list), name, warnings);
        }
    }
    let mut names = SeenValues::new();
    for variable in container.child("env").items() {
        let name = variable.child("name").text();
        if !names.insert(name) {
            // Redefining in terms of the earlier definition is deliberate, such as PATH=/opt:$(PATH).
            let (value, reference) = (variable.child("value"), format!("$({name})"));
            let extends = value.text() != reference && value.text().contains(&reference);
            if variable.child("valueFrom").is_set() || !extends {
                warnings.push(format!(
                    "{}: hides previous definition of \"{name}\", which may be dropped when using apply",
                    variable.path()
                ));
            }
        }
    }
}

/// Adds warnings about suspicious ports among those of all containers.
///
/// upstream: pkg/api/pod#warningsForPodSpecAndMeta
fn port_warnings(spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let mut taken: HashMap<(i64, &str), TakenPorts<'_>> = HashMap::new();
    for list in CONTAINERS {
        for (of, container) in spec.child(list).items().enumerate() {
            for (at, port) in container.child("ports").items().enumerate() {
                let place = PortPlace { list, of, at };
                let on_host = HostPort {
                    ip: port.child("hostIP").text(),
                    port: port.child("hostPort").number().unwrap_or_default(),
                };
                if !on_host.ip.is_empty() && on_host.port == 0 {
                    warnings.push(ip_without_port(&port));
                }
                let number = port.child("containerPort").number().unwrap_or_default();
                let others = taken.entry((number, port.child("protocol").text())).or_default();
                others.warn(on_host, place, spec, warnings);
            }
        }
    }
}

/// Position of a port in a specification. Its path is only formatted if there is a warning.
#[derive(Clone, Copy)]
struct PortPlace {
    list: &'static str,
    /// Index of the container in the list.
    of: usize,
    /// Index of the port in the container.
    at: usize,
}

impl PortPlace {
    fn path(self, spec: &Field<'_, '_>) -> String {
        let Self { list, of, at } = self;
        format!("{}[{of}].ports[{at}]", spec.child(list).path())
    }
}

/// Host address and host port of a container port.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct HostPort<'v> {
    ip: &'v str,
    port: i64,
}

/// Earlier ports with the same number and protocol, with their host ports.
#[derive(Default)]
struct TakenPorts<'v> {
    places: Vec<(HostPort<'v>, PortPlace)>,
}

impl<'v> TakenPorts<'v> {
    /// Maximum number of earlier ports to compare with, since clients choose the length of the list.
    const COMPARED: usize = 100;

    /// upstream: pkg/api/pod#warningsForPodSpecAndMeta
    fn warn(&mut self, on_host: HostPort<'v>, place: PortPlace, spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
        for (other, before) in &self.places {
            if warnings.len() >= MOST_OF_PORTS {
                return;
            }
            let how = if *other == on_host {
                "duplicate"
            } else if on_host.port == 0 || other.port == 0 {
                "overlapping"
            } else if on_host.port == other.port && on_host.ip.is_empty() != other.ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            let (place, before) = (place.path(spec), before.path(spec));
            warnings.push(format!("{place}: {how} port definition with {before}"));
        }
        if self.places.len() < Self::COMPARED {
            self.places.push((on_host, place));
        }
    }
}

fn ip_without_port(port: &Field<'_, '_>) -> String {
    format!(
        "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{}}}",
        port.path(),
        port.child("name").text(),
        port.child("containerPort").number().unwrap_or_default(),
        port.child("protocol").text(),
        port.child("hostIP").text()
    )
}

/// Adds warnings about ports with the same name.
///
/// upstream: pkg/api/pod#warningsForPodSpecAndMeta
fn port_name_warnings(spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let mut names: HashMap<&str, PortPlace> = HashMap::new();
    for list in CONTAINERS {
        for (of, container) in spec.child(list).items().enumerate() {
            for (at, port) in container.child("ports").items().enumerate() {
                let place = PortPlace { list, of, at };
                let name = port.child("name").text();
                if name.is_empty() {
                    continue;
                }
                match names.get(name) {
                    Some(first) => {
                        let (place, first) = (place.path(spec), first.path(spec));
                        warnings.push(format!(
                            "{place}: duplicate port name \"{name}\" with {first}, services and probes that select ports by name \
                             will use {first}"
                        ));
                    }
                    None => drop(names.insert(name, place)),
                }
            }
        }
    }
}

fn pod_affinity(spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let affinity = spec.child("affinity");
    for part in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.child(part);
        for term in pods.child("requiredDuringSchedulingIgnoredDuringExecution").items() {
            missing_selector(&term, warnings);
        }
        for preferred in pods.child("preferredDuringSchedulingIgnoredDuringExecution").items() {
            missing_selector(&preferred.child("podAffinityTerm"), warnings);
        }
    }
}

fn missing_selector(term: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let selector = term.child("labelSelector");
    if !selector.is_set() {
        warnings.push(format!(
            "{}: a null labelSelector results in matching no pod",
            selector.path()
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    #[test]
    fn ports_are_compared_across_containers() {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {initContainers: [{name: i, image: i, ports: \
                   [{name: a, containerPort: 80}]}], containers: [{name: c, image: i, ports: [{name: a, containerPort: 80}, \
                   {name: b, containerPort: 80, hostPort: 8}, {containerPort: 81, hostPort: 9}, {containerPort: 81, hostPort: 9, \
                   hostIP: 10.0.0.1}, {containerPort: 7, hostIP: 10.0.0.1}]}]}}";
        let port = |at: usize| format!("spec.containers[0].ports[{at}]");
        let init = "spec.initContainers[0].ports[0]";
        assert_eq!(
            Harness::new().warnings(pod),
            [
                format!("{}: duplicate port definition with {init}", port(0)),
                format!("{}: overlapping port definition with {init}", port(1)),
                format!("{}: overlapping port definition with {}", port(1), port(0)),
                format!("{}: dangerously ambiguous port definition with {}", port(3), port(2)),
                format!(
                    "{}: hostIP set without hostPort: {{Name: HostPort:0 ContainerPort:7 Protocol:TCP HostIP:10.0.0.1}}",
                    port(4)
                ),
                format!(
                    "{}: duplicate port name \"a\" with {init}, services and probes that select ports by name will use {init}",
                    port(0)
                ),
            ]
        );
    }

    #[test]
    fn old_annotations_amounts_and_addresses_are_warned_of() {
        let spec = "containers: [{name: c, image: i, env: [{name: A, value: b}, {name: A, value: \"$(A)\"}, {name: A, value: \
                    \"x$(A)\"}]}], hostAliases: [{ip: \"2001:DB8::1\"}], dnsConfig: {nameservers: [\"2001:DB8::2\"]}, volumes: \
                    [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: \
                    {storage: \"1.5\"}}}}}}]";
        let metadata = "annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined, \
                        container.seccomp.security.alpha.kubernetes.io/c: unconfined, \
                        container.apparmor.security.beta.kubernetes.io/c: unconfined}";
        let template = format!(
            "{{apiVersion: v1, kind: PodTemplate, metadata: {{name: p}}, template: {{metadata: {{{metadata}}}, spec: \
             {{{spec}}}}}}}"
        );
        assert_eq!(
            Harness::new().warnings(&template),
            [
                "template.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value \
                 \"1500m\" is invalid, must be an integer",
                "template.metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \
                 \"seccompProfile\" field instead",
                "template.metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use \
                 the \"seccompProfile\" field instead",
                "template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use \
                 the \"appArmorProfile\" field instead",
                "template.spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
                "template.spec.dnsConfig.nameservers[0]: IPv6 address \"2001:DB8::2\" should be in RFC 5952 canonical format \
                 (\"2001:db8::2\")",
                "template.spec.hostAliases[0].ip: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format \
                 (\"2001:db8::1\")",
            ]
        );
    }

    #[test]
    fn warnings_name_the_field_that_repeats() {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}], hostAliases: [{ip: \
                   10.0.0.1}, {ip: 10.0.0.1}], imagePullSecrets: [{name: s}, {name: s}, {}]}}";
        assert_eq!(
            Harness::new().warnings(pod),
            [
                "spec.hostAliases[1].ip: duplicate ip \"10.0.0.1\"",
                "spec.imagePullSecrets[1].name: duplicate name \"s\"",
                "spec.imagePullSecrets[2].name: invalid empty name \"\"",
            ]
        );
    }
}
