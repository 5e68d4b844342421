//! The specification of a Pod, as Pods hold it and as the templates of workloads hold it: its conditional defaults, its
//! checks by topic, and what clients are warned of.

mod affinity;
mod containers;
mod defaults;
mod env;
mod networking;
mod probes;
mod scheduling;
mod security;
mod template;
mod volumes;
mod warnings;

pub(crate) use containers::validate_container_updates;
pub(crate) use defaults::{default_pod, default_template};
pub(crate) use scheduling::{validate_node_selector, validate_taint_effect, validate_tolerations};
pub(crate) use template::{Template, validate_template, validate_template_of_replicas};
pub(crate) use volumes::{validate_host_path, validate_nfs};
pub(crate) use warnings::{pod_spec_warnings, template_warnings};

use holdfast_resource::Field;
use holdfast_resource::metadata::formats::{dns_label, dns_subdomain};
use holdfast_resource::metadata::labels::validate_labels;

use crate::validation::{Errors, numbers, one_of, optional_one_of, optional_text};

/// What the checks of a pod specification depend on beside the specification.
#[derive(Clone, Copy)]
pub(crate) struct PodRules {
    /// Whether containers may be privileged: the server's `--allow-privileged`.
    pub(crate) allow_privileged: bool,
    /// Whether this is a Pod rather than a template of Pods.
    pub(crate) is_pod: bool,
}

/// Checks the specification of a Pod or of a template of Pods.
pub(crate) fn validate_pod_spec(spec: &Field<'_, '_>, rules: PodRules, errors: &mut Errors) {
    let volumes = volumes::validate_volumes(&spec.child("volumes"), errors);
    let pod = containers::PodParts {
        volumes: &volumes,
        rules,
        restart_policy: spec.child("restartPolicy").text(),
    };
    containers::validate_all(spec, &pod, errors);
    networking::validate_host_ports(spec, errors);
    optional_one_of(&spec.child("restartPolicy"), &["Always", "OnFailure", "Never"], errors);
    networking::validate_dns_policy(&spec.child("dnsPolicy"), errors);
    validate_labels(&spec.child("nodeSelector"), errors);
    security::validate_pod_security(spec, errors);
    affinity::validate_affinity(&spec.child("affinity"), errors);
    networking::validate_dns_config(spec, errors);
    scheduling::validate_gates(spec, errors);
    scheduling::validate_spread_constraints(&spec.child("topologySpreadConstraints"), errors);
    optional_text(&spec.child("serviceAccountName"), dns_subdomain, errors);
    optional_text(&spec.child("nodeName"), dns_subdomain, errors);
    numbers::within(&spec.child("activeDeadlineSeconds"), 1, i64::from(i32::MAX), errors);
    optional_text(&spec.child("hostname"), dns_label, errors);
    optional_text(&spec.child("subdomain"), dns_label, errors);
    validate_tolerations(&spec.child("tolerations"), errors);
    networking::validate_host_aliases(&spec.child("hostAliases"), errors);
    optional_text(&spec.child("priorityClassName"), dns_subdomain, errors);
    optional_text(&spec.child("runtimeClassName"), dns_subdomain, errors);
    let preemption = spec.child("preemptionPolicy");
    if preemption.is_set() {
        one_of(&preemption, &["Never", "PreemptLowerPriority"], errors);
    }
    crate::validation::resources::validate_overhead(&spec.child("overhead"), errors);
    let os = spec.child("os");
    if os.is_set() {
        let name = os.child("name");
        match name.text() {
            "" => errors.push(name.required("cannot be empty")),
            "linux" | "windows" => {}
            odd => errors.push(holdfast_resource::FieldError::not_supported(
                &os.path(),
                odd,
                &["linux", "windows"],
            )),
        }
    }
}
