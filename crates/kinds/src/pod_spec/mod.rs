//! Specification of a Pod, in Pods and in the templates of workloads: its conditional defaults, its validation by
//! topic, and its warnings.

mod affinity;
mod annotations;
mod containers;
mod defaults;
mod env;
mod image;
mod networking;
mod overlapping_paths;
mod probes;
mod references;
mod scheduling;
mod security;
mod stop_signal;
mod template;
mod volumes;
mod warnings;
mod windows;

pub use annotations::MIRROR;
pub(crate) use annotations::{
    app_armor_fields, validate_annotation_changes, validate_pod_annotations, validate_profile_annotations,
};
pub(crate) use containers::validate_container_updates;
pub(crate) use defaults::{default_pod, default_template};
pub use references::{names_config_map, names_secret};
pub use scheduling::validate_tolerations;
pub(crate) use scheduling::{validate_node_selector, validate_taint_effect};
pub(crate) use template::{
    Template, validate_restarting, validate_selected, validate_template, validate_template_metadata,
    validate_template_of_replicas,
};
pub(crate) use warnings::{
    deprecated_node_label, node_label_selector_warnings, node_selector_warnings, pod_spec_warnings, template_warnings,
};

use holdfast_kind_tables::features::{Feature, Features};
use holdfast_resource::table::items;
use holdfast_schema::metadata::labels::validate_label_name;
use holdfast_schema::{Check, Field, Part, Rules};
use holdfast_value::Value;

use crate::config::PodSettings;
use crate::rules::PodRule;
use crate::validation::Errors;

/// Lists of containers, in the order in which the reference visits them.
pub const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
use crate::validation::addresses::Reading;
use crate::validation::paths::no_back_steps;
use crate::validation::ports::port_number_or_name;
use crate::validation::resources::{
    ClaimNames, validate_container_resources, validate_overhead, validate_pod_resources,
};
use scheduling::validate_node_selector_term;

/// Inputs of the validation of a pod specification other than the specification.
#[derive(Clone, Copy)]
pub(crate) struct PodRules<'a> {
    /// True if containers may be privileged.
    pub(crate) allow_privileged: bool,
    /// Name of the Pod; `None` for a pod template.
    pub(crate) name: Option<&'a str>,
    /// True if SELinux labels may be set with mount options.
    pub(crate) labels_mounts: bool,
    /// True if tolerations may compare numbers.
    pub(crate) compares: bool,
    /// True if a user namespace may be combined with the host network.
    pub(crate) own_users_on_host: bool,
    /// True if a container may restart all others.
    pub(crate) restarts_all: bool,
    /// Strictness of address parsing.
    pub(crate) reading: Reading,
}

impl<'a> PodRules<'a> {
    /// Returns the rules for a Pod of that name, or for a template. Values of the existing specification, `old`, stay
    /// allowed without their feature.
    pub(crate) fn new(settings: PodSettings, name: Option<&'a str>, old: Option<&Value>) -> Self {
        let allows = |feature, is_used: fn(&Value) -> bool| settings.features.has(feature) || old.is_some_and(is_used);
        Self {
            allow_privileged: settings.allow_privileged,
            name,
            reading: Reading::for_features(settings.features),
            labels_mounts: allows(Feature::SELinuxMount, |old| {
                old.at(&["securityContext", "seLinuxChangePolicy"]).is_some()
            }),
            compares: tolerations_compare(settings.features, old),
            own_users_on_host: allows(Feature::UserNamespacesHostNetworkSupport, |old| {
                let is = |name, wanted| old.get(name).and_then(Value::as_bool) == Some(wanted);
                is("hostNetwork", true) && is("hostUsers", false)
            }),
            restarts_all: allows(Feature::RestartAllContainersOnContainerExits, |old| {
                let restarts = |rule: &Value| rule.str_at(&["action"]) == Some(RESTART_ALL);
                let any = |one: &Value| items(one, &["restartPolicyRules"]).iter().any(restarts);
                ["containers", "initContainers"]
                    .iter()
                    .any(|list| items(old, &[list]).iter().any(any))
            }),
        }
    }
}

/// Returns true if tolerations may compare numbers in a specification that replaces `old`.
pub(crate) fn tolerations_compare(features: Features, old: Option<&Value>) -> bool {
    let compares = |one: &Value| matches!(one.str_at(&["operator"]), Some("Lt" | "Gt"));
    features.has(Feature::TaintTolerationComparisonOperators)
        || old.is_some_and(|old| items(old, &["tolerations"]).iter().any(compares))
}

/// Action that restarts all containers of a Pod.
const RESTART_ALL: &str = "RestartAllContainers";

/// Validates the specification of a Pod or of a pod template.
///
/// upstream: pkg/apis/core/validation#ValidatePodSpec
pub(crate) fn validate_pod_spec(spec: &Part<'_, '_>, rules: PodRules<'_>, check: &mut Check<'_>) {
    let volumes = volumes::validate_volumes(spec, rules.name.unwrap_or_default(), check);
    let claims = spec.child("resourceClaims");
    scheduling::validate_resource_claims(&claims, &mut check.errors);
    let claims = ClaimNames::from_field(&claims);
    let operating_system = spec.child("os");
    let pod = containers::PodParts {
        volumes: &volumes,
        claims: &claims,
        rules,
        host_users: security::shares_users(spec),
        restart_policy: spec.child("restartPolicy").text(),
        grace: spec.child("terminationGracePeriodSeconds").number(),
        operating_system: operating_system.is_set().then(|| operating_system.child("name").text()),
    };
    check.values(spec, &pod);
}

/// Checks of a pod specification that the reference makes in code.
impl<'v> Rules<'v> for containers::PodParts<'_, 'v> {
    type Rule = PodRule;

    fn rule(&self, rule: PodRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            PodRule::Containers => containers::validate_all(part, self, check),
            PodRule::Security => security::validate_pod_security(part, self, check),
            PodRule::Scheduling => {
                scheduling::validate_gates(part, errors);
                scheduling::validate_spread_constraints(part, check);
            }
            PodRule::Ports => containers::validate_ports(part, self, check),
            PodRule::Env => {
                let env = part.child("env");
                env::validate_env(part, self, check);
                env::validate_env_files(&env, self.volumes, &mut check.errors);
                env::validate_env_from(&part.child("envFrom"), &mut check.errors);
            }
            PodRule::Mounts => {
                volumes::validate_mounts(part, self.volumes, check);
                volumes::validate_devices(part, self.volumes, &mut check.errors);
            }
            PodRule::ContainerResources => {
                validate_container_resources(&part.child("resources"), self.claims, errors);
                containers::validate_resize_policy(&part.child("resizePolicy"), self.restart_policy, errors);
            }
            PodRule::ContainerSecurity => security::validate_container_security(part, self, check),
            PodRule::Resources => {
                validate_pod_resources(part, self.claims, errors);
                networking::validate_host_ports(part, self.rules.name.is_some(), errors);
            }
            PodRule::DnsConfig => networking::validate_dns_config(part, self.rules.reading, errors),
            PodRule::Host => {
                windows::validate_host_processes(part, self.rules, errors);
                security::validate_host_users(part, self.rules.own_users_on_host, errors);
            }
            PodRule::HostNames => {
                networking::validate_hostname_override(part, errors);
                validate_tolerations(&part.child("tolerations"), self.rules.compares, errors);
                networking::validate_host_aliases(&part.child("hostAliases"), self.rules.reading, errors);
            }
            PodRule::Overhead => validate_overhead(&part.child("overhead"), errors),
            PodRule::OperatingSystem => {
                security::validate_operating_system(part, errors);
                scheduling::validate_group(&part.child("schedulingGroup"), errors);
            }
            PodRule::Port => port_number_or_name(&part.child("port"), errors),
            PodRule::Headers => probes::validate_headers(part, errors),
            PodRule::Sleep => probes::validate_sleep(part, self.grace, errors),
            PodRule::BackSteps => no_back_steps(&part.child("path"), errors),
            PodRule::Required => affinity::validate_required(part, errors),
            PodRule::Preference => validate_node_selector_term(&part.child("preference"), false, errors),
            PodRule::Namespaces => affinity::validate_namespaces(part, errors),
            PodRule::TopologyKey => validate_label_name(&part.child("topologyKey"), errors),
        }
    }
}

/// Validates what is allowed in a template but not in a Pod.
///
/// upstream: pkg/apis/core/validation#validatePodMetadataAndSpec
pub(crate) fn validate_only_for_pod(spec: &Field<'_, '_>, errors: &mut Errors) {
    if spec.child("serviceAccountName").text().is_empty() {
        for volume in spec.child("volumes").items() {
            let projected = volume.child("projected");
            for source in projected.child("sources").items() {
                let token = source.child("serviceAccountToken");
                if token.is_set() {
                    errors.push(token.forbidden("must not be specified when serviceAccountName is not set"));
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for container in spec.child(list).items() {
            containers::validate_image_of_pod(&container, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::Harness;

    /// Returns the errors of a Pod whose only container, or whose spec, is extended by these lines of YAML.
    fn of_container(parts: &str) -> Vec<String> {
        errors_of_spec(&format!("containers: [{{name: c, image: i, {parts}}}]"))
    }

    fn errors_of_spec(spec: &str) -> Vec<String> {
        Harness::new().errors(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{{spec}}}}}"
        ))
    }

    #[test]
    fn containers_have_names_and_images() {
        assert_eq!(errors_of_spec("containers: []"), ["spec.containers: Required value"]);
        assert_eq!(
            errors_of_spec("containers: [{name: a}]"),
            ["spec.containers[0].image: Required value"]
        );
        assert_eq!(
            errors_of_spec("containers: [{name: a, image: i}, {name: a, image: i}]"),
            [r#"spec.containers[1].name: Duplicate value: "a""#]
        );
        assert_eq!(
            errors_of_spec("containers: [{name: a, image: i}], initContainers: [{name: a, image: i}]"),
            [r#"spec.initContainers[0].name: Duplicate value: "a""#]
        );
    }

    #[test]
    fn variables_have_one_source() {
        assert_eq!(
            of_container("env: [{name: A=B}]"),
            [
                r#"spec.containers[0].env[0].name: Invalid value: "A=B": a valid environment variable name must consist only of printable ASCII characters other than '='"#
            ]
        );
        assert_eq!(
            of_container("env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"),
            [
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"
            ]
        );
        assert_eq!(
            of_container("env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nope}}}]"),
            [
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.nope\": error converting \
              fieldPath: field label not supported: spec.nope"
            ]
        );
        assert!(
            of_container("env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a/b']\"}}}]").is_empty()
        );
    }

    #[test]
    fn pod_level_requests_are_completed_only_with_limits() {
        let pod = |resources: &str| {
            let text = format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, spec: {{resources: {{{resources}}}, containers: [{{name: c, image: i, \
                 resources: {{requests: {{cpu: 1, memory: 1Gi}}}}}}]}}}}"
            );
            (Harness::new().create(&text), Harness::new().errors(&text))
        };
        let (made, errors) = pod("requests: {cpu: 2}");
        assert_eq!(
            made.at(&["spec", "resources"]).unwrap().to_string(),
            r#"{"requests":{"cpu":"2"}}"#
        );
        assert_eq!(errors, Vec::<String>::new());
        let (made, _) = pod("limits: {cpu: 2}");
        assert_eq!(
            made.at(&["spec", "resources", "requests"]).unwrap().to_string(),
            r#"{"cpu":"1","memory":"1Gi"}"#
        );
    }

    #[test]
    fn requests_stay_within_limits() {
        assert_eq!(
            of_container("resources: {requests: {cpu: 2}, limits: {cpu: 1000m}}"),
            [
                "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"
            ]
        );
        assert_eq!(
            of_container("resources: {requests: {example.com/g: 1}, limits: {example.com/g: 2}}"),
            ["spec.containers[0].resources.requests: Invalid value: \"1\": must be equal to example.com/g limit of 2"]
        );
        assert_eq!(
            of_container("resources: {limits: {example.com/g: 1500m}}"),
            [
                "spec.containers[0].resources.limits[example.com/g]: Invalid value: \"1500m\": must be an integer",
                "spec.containers[0].resources.requests[example.com/g]: Invalid value: \"1500m\": must be an integer",
            ]
        );
    }

    #[test]
    fn probes_have_one_handler_and_liveness_one_success() {
        assert_eq!(
            of_container("livenessProbe: {periodSeconds: 1}"),
            ["spec.containers[0].livenessProbe: Required value: must specify a handler type"]
        );
        assert_eq!(
            of_container("livenessProbe: {httpGet: {port: 0}, successThreshold: 2}"),
            [
                "spec.containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ]
        );
        assert_eq!(
            of_container("readinessProbe: {exec: {command: [a]}, tcpSocket: {port: 1}}"),
            ["spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"]
        );
    }

    #[test]
    fn volumes_have_one_source_and_mounts_a_volume() {
        let container = "containers: [{name: c, image: i}]";
        assert_eq!(
            errors_of_spec(&format!(
                "{container}, volumes: [{{name: v, emptyDir: {{}}, secret: {{secretName: s}}}}]"
            )),
            ["spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"]
        );
        assert_eq!(
            errors_of_spec(&format!(
                "{container}, volumes: [{{name: v, configMap: {{name: c, items: [{{key: k, path: ../x}}]}}}}]"
            )),
            [r#"spec.volumes[0].configMap.items[0].path: Invalid value: "../x": must not contain '..'"#]
        );
        assert_eq!(
            of_container("volumeMounts: [{name: nope, mountPath: /a}]"),
            [r#"spec.containers[0].volumeMounts[0].name: Not found: "nope""#]
        );
        assert!(
            errors_of_spec(
                "volumes: [{name: v}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /a}]}]"
            )
            .is_empty()
        );
    }

    #[test]
    fn claims_made_for_a_pod_have_labels_and_annotations_alone() {
        let claim = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}";
        let errors = |metadata: &str| {
            let template = format!("{{metadata: {{{metadata}}}, {claim}}}");
            errors_of_spec(&format!(
                "containers: [{{name: c, image: i}}], volumes: [{{name: v, ephemeral: {{volumeClaimTemplate: {template}}}}}]"
            ))
        };
        assert_eq!(errors("labels: {a: b}, annotations: {a: b}"), Vec::<String>::new());
        let place = "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata";
        assert_eq!(
            errors("annotations: {x/: v}, name: o, uid: u, finalizers: [a/b]"),
            [
                format!("{place}.annotations: Invalid value: \"x/\": name part must be non-empty"),
                format!(
                    "{place}.annotations: Invalid value: \"x/\": name part must consist of alphanumeric characters, '-', '_' or \
                     '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
                     regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                ),
                format!("{place}.name: Forbidden: cannot be set"),
                format!("{place}.uID: Forbidden: cannot be set"),
                format!("{place}.finalizers: Forbidden: cannot be set"),
            ]
        );
    }

    #[test]
    fn ports_are_numbers_with_names() {
        assert_eq!(
            of_container("ports: [{containerPort: 70000, protocol: X}]"),
            [
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                r#"spec.containers[0].ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP""#,
            ]
        );
    }

    #[test]
    fn privileged_containers_need_the_servers_leave() {
        assert_eq!(
            of_container("securityContext: {privileged: true}"),
            ["spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"]
        );
    }

    #[test]
    fn user_namespace_allows_unmasked_proc_but_no_host_namespace() {
        assert_eq!(
            of_container("securityContext: {procMount: Unmasked}"),
            [
                "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use \
                 `Unmasked`"
            ]
        );
        let own = "hostUsers: false, containers: [{name: c, image: i, securityContext: {procMount: Unmasked}}]";
        assert!(errors_of_spec(own).is_empty());
        assert_eq!(
            errors_of_spec(&format!("{own}, hostPID: true")),
            ["spec.HostPID: Forbidden: when `hostUsers` is false"]
        );
    }

    #[test]
    fn scheduling_is_checked_by_the_words_of_the_reference() {
        let container = "containers: [{name: c, image: i}]";
        assert_eq!(
            errors_of_spec(&format!(
                "{container}, tolerations: [{{key: a, operator: Exists, value: x}}]"
            )),
            ["spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'"]
        );
        assert_eq!(
            errors_of_spec(&format!(
                "{container}, topologySpreadConstraints: [{{maxSkew: 0, topologyKey: k, whenUnsatisfiable: Odd}}]"
            )),
            [
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                r#"spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Odd": supported values: "DoNotSchedule", "ScheduleAnyway""#,
            ]
        );
        assert_eq!(
            errors_of_spec(&format!("{container}, dnsPolicy: None")),
            ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]
        );
    }
}
