//! Warnings about pod specifications that are accepted but unlikely to do what their writers want.

use std::collections::{HashMap, HashSet};

use holdfast_resource::Field;
use holdfast_value::{Seen, Value};

use super::overlapping_paths;
use crate::validation::resources;

/// Labels of nodes that have a newer name: label, since when, what to use instead.
const DEPRECATED_NODE_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "v1.17",
        "topology.kubernetes.io/region",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "v1.17",
        "topology.kubernetes.io/zone",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "v1.17",
        "node.kubernetes.io/instance-type",
    ),
];

/// Annotations of Pods that fields have replaced.
const DEPRECATED_ANNOTATIONS: [(&str, &str); 4] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "seccomp.security.alpha.kubernetes.io/pod",
        "non-functional in v1.27+; use the \"seccompProfile\" field instead",
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

/// The text that deprecates a label of nodes, if it is deprecated.
pub(crate) fn deprecated_node_label(label: &str) -> Option<String> {
    let (_, since, instead) = DEPRECATED_NODE_LABELS.iter().find(|(old, ..)| *old == label)?;
    Some(format!("deprecated since {since}; use \"{instead}\" instead"))
}

/// What is to be said of the template at `path` of a workload, if it is new or changed.
pub(crate) fn template_warnings(object: &Value, path: &[&str]) -> Vec<String> {
    let place = path.join(".");
    let template = Field::placed(object.at(path), &place);
    let mut warnings = Vec::new();
    pod_spec_warnings(&template.child("metadata"), &template.child("spec"), &mut warnings);
    warnings
}

/// What is to be said of a pod specification and the metadata beside it.
pub(crate) fn pod_spec_warnings(metadata: &Field<'_, '_>, spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
    for (label, selected) in spec.child("nodeSelector").entries() {
        if let Some(text) = deprecated_node_label(label) {
            warnings.push(format!("{}: {text}", selected.path()));
        }
    }
    node_affinity(spec, warnings);
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
    for (annotation, text) in DEPRECATED_ANNOTATIONS {
        let entry = metadata.child("annotations");
        let entry = entry.entry(annotation);
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
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.child(list).items() {
            container_warnings(&container, warnings);
        }
    }
    let overhead = spec.child("overhead");
    resources::fractional_bytes(&overhead, warnings);
    let grace = spec.child("terminationGracePeriodSeconds");
    if grace.number().is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            grace.path()
        ));
    }
    pod_affinity(spec, warnings);
}

fn node_affinity(spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let affinity = spec.child("affinity");
    let node = affinity.child("nodeAffinity");
    node_selector_warnings(&node.child("requiredDuringSchedulingIgnoredDuringExecution"), warnings);
    for preferred in node.child("preferredDuringSchedulingIgnoredDuringExecution").items() {
        deprecated_keys(&preferred.child("preference"), warnings);
    }
}

/// What is to be said of a selector of nodes.
pub(crate) fn node_selector_warnings(selector: &Field<'_, '_>, warnings: &mut Vec<String>) {
    for term in selector.child("nodeSelectorTerms").items() {
        deprecated_keys(&term, warnings);
    }
}

fn deprecated_keys(term: &Field<'_, '_>, warnings: &mut Vec<String>) {
    for expression in term.child("matchExpressions").items() {
        let key = expression.child("key");
        if let Some(text) = deprecated_node_label(key.text()) {
            warnings.push(format!("{}: {} is {text}", key.path(), key.text()));
        }
    }
}

fn volumes(spec: &Field<'_, '_>, warnings: &mut Vec<String>) {
    const REMOVED: [(&str, &str); 5] = [
        ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
        ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
        ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ];
    const LATER: [(&str, &str); 4] = [
        ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    for volume in spec.child("volumes").items() {
        for (source, text) in REMOVED.iter().chain(&LATER) {
            // One of them is shown by its name in Go.
            let shown = if *source == "storageos" { "storageOS" } else { source };
            if volume.child(source).is_set() {
                warnings.push(format!("{}: {text}", volume.child(shown).path()));
            }
        }
    }
}

fn duplicates(items: &Field<'_, '_>, key: &str, warnings: &mut Vec<String>) {
    let mut seen = Seen::new();
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

fn container_warnings(container: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let parts = container.child("resources");
    for list in ["limits", "requests"] {
        resources::fractional_bytes(&parts.child(list), warnings);
    }
    let mut names = Seen::new();
    for variable in container.child("env").items() {
        let name = variable.child("name").text();
        if !names.insert(name) {
            // Redefining in terms of the earlier definition is deliberate, such as PATH=/opt:$(PATH).
            let refers = variable.child("value").text().contains(&format!("$({name})"));
            if !refers {
                warnings.push(format!(
                    "{}: hides previous definition of \"{name}\", which may be dropped when using apply",
                    variable.path()
                ));
            }
        }
    }
    let list = container.child("ports");
    if list.len() > 1 {
        port_warnings(&list, warnings);
    }
}

fn port_warnings(list: &Field<'_, '_>, warnings: &mut Vec<String>) {
    let mut ports = HashSet::new();
    let mut first_of = HashMap::new();
    for port in list.items() {
        let (number, protocol) = (port.child("containerPort").number(), port.child("protocol").text());
        let on_host = (port.child("hostIP").text(), port.child("hostPort").number());
        let earlier = *first_of.entry((number, protocol)).or_insert(port);
        if !ports.insert((number, protocol, on_host)) {
            let (place, earlier) = (port.path(), earlier.path());
            warnings.push(format!("{place}: duplicate port definition with {earlier}"));
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
