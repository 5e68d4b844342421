//! Enforcement of the Pod Security Standard of a namespace:
//! <https://kubernetes.io/docs/concepts/security/pod-security-admission/>.

mod checks;
mod policy;
mod restricted;
mod settings;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use holdfast_admission::{AdmissionPlugin, Calls, Interest};
use holdfast_resource::{Operation, Rejection, WriteContext};
use holdfast_schema::{Aggregate, Field, FieldError};
use holdfast_value::Value;

use self::checks::{Checked, Violation};
use self::policy::{Level, Mode, OPEN, Policy, Standard};
pub use self::settings::PodSecuritySettings;
use crate::common::group_resource;
use holdfast_kinds::counters::Counters;

/// Plugin that rejects Pods that violate the standard of their namespace, and warns about Pods and templates.
pub(super) struct PodSecurity {
    pub(super) counters: Counters,
    pub(super) settings: PodSecuritySettings,
}

/// Maximum number of Pods that are checked when a namespace begins to enforce a stricter standard.
const PODS_LOOKED_AT: usize = 3000;

const WRITTEN: &[Operation] = &[Operation::Create, Operation::Update];

/// Namespaces, Pods, and all kinds that have templates.
const INTERESTS: [Interest; 2] = [
    Interest::in_all_objects(WRITTEN),
    Interest {
        subresources: &["ephemeralcontainers", "resize"],
        ..Interest::in_objects("", "pods", WRITTEN)
    },
];

impl AdmissionPlugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn calls(&self) -> Calls {
        Calls::validating(&[Operation::Create, Operation::Update])
    }

    fn interests(&self) -> &[Interest] {
        &INTERESTS
    }

    /// upstream: plugin/pkg/admission/security/podsecurity#Plugin.Validate
    fn validate(
        &self,
        context: &WriteContext<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let Some(object) = object else {
            return Ok(());
        };
        let named = (context.resource.group.as_str(), context.resource.plural.as_str());
        match named {
            ("", "namespaces") => self.check_namespace(context, object, old),
            ("", "pods") => self.check_pod(context, object, old),
            _ => {
                let path = context.resource.capabilities.pod_template;
                if let Some(template) = path.and_then(|path| object.at(path)) {
                    self.warn_of_template(context, template);
                }
                Ok(())
            }
        }
    }
}

/// Audit annotations of a pod: the standard that its namespace enforces, the violations of the audited standard, and
/// the errors in the labels of the namespace.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";
const ERROR: &str = "pod-security.kubernetes.io/error";
/// Audit annotation of an exempt Pod or template, with the reason.
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";

fn would_violate(standard: Standard, found: &[Violation]) -> String {
    format!(
        "would violate PodSecurity \"{standard}\": {}",
        checks::violations_text(found)
    )
}

fn violations(pod: &Value, standard: Standard) -> Vec<Violation> {
    let root = Field::root(pod);
    checks::violations(&Checked {
        metadata: root.child("metadata"),
        spec: root.child("spec"),
        standard,
    })
}

impl PodSecurity {
    /// Returns the policy of the namespace of the write, and the errors in its labels.
    fn policy(&self, context: &WriteContext<'_>) -> Option<(Policy, Vec<FieldError>)> {
        let namespaces = group_resource("", "namespaces");
        let namespace = context.lookup.get(&namespaces, "", context.namespace)?;
        Some(Policy::of_namespace(&namespace, self.settings.defaults))
    }

    /// Returns true if the namespace or the requester is exempt, and counts that.
    fn exempts_request(&self, context: &WriteContext<'_>) -> bool {
        let reason = if self.settings.exempts_namespace(context.namespace) {
            "namespace"
        } else if self.settings.exempts_user(&context.user.name) {
            "user"
        } else {
            return false;
        };
        self.count_exemption(context, reason);
        true
    }

    /// Returns true if the runtime class of a Pod is exempt, and counts that.
    fn exempts_pod(&self, context: &WriteContext<'_>, pod: &Value) -> bool {
        let is_exempt = self.settings.exempts_runtime_class(pod);
        if is_exempt {
            self.count_exemption(context, "runtimeClass");
        }
        is_exempt
    }

    fn count_exemption(&self, context: &WriteContext<'_>, reason: &str) {
        self.counters
            .pod_security_exemptions
            .increment(&request_labels(context));
        context.annotate(EXEMPT, || reason.to_owned());
    }

    /// upstream: k8s.io/pod-security-admission/admission#Admission.ValidatePod
    fn check_pod(&self, context: &WriteContext<'_>, pod: &Value, old: Option<&Value>) -> Result<(), Rejection> {
        if self.exempts_request(context) {
            return Ok(());
        }
        let Some((policy, errors)) = self.policy(context) else {
            return Ok(());
        };
        if policy.is_open() && errors.is_empty() {
            self.count(context, policy.enforce, Mode::Enforce, true);
            context.annotate(ENFORCED, || OPEN.to_string());
            return Ok(());
        }
        if old.is_some_and(|old| !matters(pod, old)) {
            return Ok(());
        }
        if self.exempts_pod(context, pod) {
            return Ok(());
        }
        context.annotate(ENFORCED, || policy.enforce.to_string());
        let found = violations(pod, policy.enforce);
        self.count(context, policy.enforce, Mode::Enforce, found.is_empty());
        self.audit(context, pod, policy.audit, &errors);
        if !found.is_empty() {
            return Err(Rejection::forbidden(format!(
                "violates PodSecurity \"{}\": {}",
                policy.enforce,
                checks::violations_text(&found)
            )));
        }
        self.warn(context, pod, policy.warn);
        Ok(())
    }

    /// upstream: k8s.io/pod-security-admission/admission#Admission.ValidatePodController
    fn warn_of_template(&self, context: &WriteContext<'_>, template: &Value) {
        if context.subresource.is_some() || self.exempts_request(context) {
            return;
        }
        let Some((policy, errors)) = self.policy(context) else {
            return;
        };
        let is_open = policy.warn.level == Level::Privileged && policy.audit.level == Level::Privileged;
        if (is_open && errors.is_empty()) || self.exempts_pod(context, template) {
            return;
        }
        self.audit(context, template, policy.audit, &errors);
        self.warn(context, template, policy.warn);
    }

    /// Records in the audit log the violations of the audited standard by a pod, and the errors in the labels that
    /// state it.
    fn audit(&self, context: &WriteContext<'_>, pod: &Value, standard: Standard, errors: &[FieldError]) {
        if !errors.is_empty() {
            let [operation, resource, subresource] = request_labels(context);
            let values = ["false", operation, resource, subresource];
            self.counters.pod_security_errors.increment(&values);
            context.annotate(ERROR, || format!("Failed to parse policy: {}", Aggregate(errors)));
        }
        let found = violations(pod, standard);
        if !found.is_empty() {
            self.count(context, standard, Mode::Audit, false);
            context.annotate(VIOLATIONS, || would_violate(standard, &found));
        }
    }

    /// upstream: k8s.io/pod-security-admission/admission#Admission.EvaluatePod
    fn warn(&self, context: &WriteContext<'_>, pod: &Value, standard: Standard) {
        let found = violations(pod, standard);
        if !found.is_empty() {
            self.count(context, standard, Mode::Warn, false);
            context.warn(would_violate(standard, &found));
        }
    }

    /// Counts an evaluation. Like the reference, callers count audit and warn evaluations only on violations.
    fn count(&self, context: &WriteContext<'_>, standard: Standard, mode: Mode, allowed: bool) {
        // The lowest level is the same in all versions.
        let minor = standard.version.0.filter(|_| standard.level != Level::Privileged);
        let version = match minor {
            None => "latest".to_owned(),
            Some(minor) if minor > LATEST_MINOR => "future".to_owned(),
            Some(minor) => format!("v1.{minor}"),
        };
        let mode = mode.name();
        let decision = if allowed { "allow" } else { "deny" };
        let [operation, resource, subresource] = request_labels(context);
        let level = standard.level.name();
        let values = [decision, level, &version, mode, operation, resource, subresource];
        self.counters.pod_security_evaluations.increment(&values);
    }
}

/// Minor version of the newest standards.
const LATEST_MINOR: u32 = 36;

/// Returns the labels that all metrics of the plugin have: operation, resource and subresource.
fn request_labels<'c>(context: &'c WriteContext<'_>) -> [&'c str; 3] {
    let operation = match context.operation {
        Operation::Create => "create",
        _ => "update",
    };
    let resource = match (context.resource.group.as_str(), context.resource.plural.as_str()) {
        ("", "pods") => "pod",
        _ => "controller",
    };
    [operation, resource, context.subresource.unwrap_or_default()]
}

/// Returns true if an update changes checked fields: images, the number of containers, seccomp annotations.
fn matters(pod: &Value, old: &Value) -> bool {
    const SECCOMP: [&str; 2] = [
        "seccomp.security.alpha.kubernetes.io/pod",
        "container.seccomp.security.alpha.kubernetes.io/",
    ];
    let (pod, old) = (Field::root(pod), Field::root(old));
    let images = |pod: &Field<'_, '_>| {
        let mut images = Vec::new();
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            for container in pod.child("spec").child(list).items() {
                let (name, image) = (container.child("name"), container.child("image"));
                images.push((list, name.text().to_owned(), image.text().to_owned()));
            }
        }
        images
    };
    let annotations = |pod: &Field<'_, '_>| {
        let mut found = BTreeMap::new();
        for (key, value) in pod.child("metadata").child("annotations").entries() {
            if SECCOMP.iter().any(|prefix| key.starts_with(prefix)) {
                found.insert(key.to_owned(), value.text().to_owned());
            }
        }
        found
    };
    images(&pod) != images(&old) || annotations(&pod) != annotations(&old)
}

impl PodSecurity {
    /// upstream: k8s.io/pod-security-admission/admission#Admission.ValidateNamespace
    fn check_namespace(
        &self,
        context: &WriteContext<'_>,
        namespace: &Value,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let policy_of = |namespace: &Value| Policy::of_namespace(namespace, self.settings.defaults);
        let (policy, errors) = policy_of(namespace);
        let before = old.map(policy_of);
        let known = before.as_ref().is_some_and(|(_, before)| {
            let texts =
                |errors: &[holdfast_schema::FieldError]| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
            texts(before) == texts(&errors)
        });
        if !errors.is_empty() && !known {
            return Err(Rejection::Invalid(errors));
        }
        let is_exempt = self.settings.exempts_namespace(context.name);
        let Some((before, _)) = before.filter(|_| context.operation == Operation::Update) else {
            if is_exempt {
                self.warn_of_exemption(context, namespace, policy);
            }
            return Ok(());
        };
        let (now, was) = (policy.enforce, before.enforce);
        let relaxed = now.version == was.version && now.level <= was.level;
        if now.level != Level::Privileged && !relaxed {
            match is_exempt {
                true => self.warn_of_exemption(context, namespace, policy),
                false => self.warn_of_pods(context, now),
            }
        }
        Ok(())
    }

    /// Warns that the labels of an exempt namespace have no effect.
    ///
    /// upstream: k8s.io/pod-security-admission/admission#Admission.exemptNamespaceWarning
    fn warn_of_exemption(&self, context: &WriteContext<'_>, namespace: &Value, policy: Policy) {
        if policy.is_open() || policy == self.settings.defaults {
            return;
        }
        let labels = namespace.at(&["metadata", "labels"]);
        let is_set = |mode: Mode| {
            ["", "-version"].iter().any(|part| {
                let label = format!("pod-security.kubernetes.io/{}{part}", mode.name());
                labels.is_some_and(|labels| labels.get(&label).is_some())
            })
        };
        let standards = [
            (Mode::Enforce, policy.enforce),
            (Mode::Audit, policy.audit),
            (Mode::Warn, policy.warn),
        ];
        let modes: Vec<String> = standards
            .into_iter()
            .filter(|(mode, standard)| standard.level != Level::Privileged && is_set(*mode))
            .map(|(mode, standard)| format!("{}={standard}", mode.name()))
            .collect();
        context.warn(format!(
            "namespace {:?} is exempt from Pod Security, and the policy ({}) will be ignored",
            context.name,
            modes.join(", ")
        ));
    }

    /// Warns about the Pods of a namespace that violate the level that it begins to enforce.
    ///
    /// upstream: k8s.io/pod-security-admission/admission#Admission.EvaluatePodsInNamespace
    fn warn_of_pods(&self, context: &WriteContext<'_>, standard: Standard) {
        // Each violation with the number of its Pods, and the first of them by name.
        let mut found: BTreeMap<String, (usize, String)> = BTreeMap::new();
        let (mut looked_at, mut all) = (0, 0);
        context
            .lookup
            .list(&group_resource("", "pods"), context.name, &mut |pod| {
                all += 1;
                if looked_at == PODS_LOOKED_AT {
                    return ControlFlow::Continue(());
                }
                looked_at += 1;
                if self.settings.exempts_runtime_class(pod) {
                    return ControlFlow::Continue(());
                }
                let violations = violations(pod, standard);
                if !violations.is_empty() {
                    let reasons: Vec<&str> = violations.iter().map(|violation| violation.reason).collect();
                    let name = pod.str_at(&["metadata", "name"]).unwrap_or_default();
                    let entry = found.entry(reasons.join(", ")).or_insert_with(|| (0, name.to_owned()));
                    entry.0 += 1;
                }
                ControlFlow::Continue(())
            });
        if looked_at < all {
            context.warn(format!(
                "new PodSecurity enforce level only checked against the first {looked_at} of {all} existing pods"
            ));
        }
        if found.is_empty() {
            return;
        }
        context.warn(format!(
            "existing pods in namespace {:?} violate the new PodSecurity enforce level \"{standard}\"",
            context.name
        ));
        let mut texts: Vec<String> = found
            .into_iter()
            .map(|(reasons, (count, name))| match count {
                1 => format!("{name}: {reasons}"),
                2 => format!("{name} (and 1 other pod): {reasons}"),
                _ => format!("{name} (and {} other pods): {reasons}", count - 1),
            })
            .collect();
        texts.sort();
        for text in texts {
            context.warn(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::harness::Harness;
    use crate::harness::PluginSettings;

    const PLUGIN: &str = "PodSecurity";

    fn namespace(labels: &str) -> String {
        let labels = labels
            .split_whitespace()
            .map(|label| format!("pod-security.kubernetes.io/{}", label.replace('=', ": ")))
            .collect::<Vec<_>>()
            .join(", ");
        format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: default, labels: {{{labels}}}}}}}")
    }

    fn pod(spec: &str, container: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{{spec} containers: [{{name: c, image: i, \
             {container}}}]}}}}"
        )
    }

    fn rejection(labels: &str, spec: &str, container: &str) -> String {
        let harness = Harness::new().with(&namespace(labels));
        harness.admit(PLUGIN, &pod(spec, container)).map(|_| ()).unwrap_err()
    }

    #[test]
    fn evaluations_are_counted_as_in_the_reference() {
        let counted = |labels: &str, writes: &dyn Fn(&Harness)| {
            let settings = PluginSettings::default();
            let family = Arc::clone(&settings.counters.pod_security_evaluations);
            let harness = Harness::new().with_plugins(settings).with(&namespace(labels));
            writes(&harness);
            let counted = family.counts().into_iter().filter(|(_, count)| *count > 0);
            counted
                .map(|(values, count)| format!("{} {count}", values.join(" ")))
                .collect::<Vec<_>>()
        };
        let make = |harness: &Harness| drop(harness.admit(PLUGIN, &pod("hostPID: true,", "")));
        assert_eq!(counted("", &make), ["allow privileged latest enforce create pod  1"]);
        assert_eq!(
            counted(
                "enforce=baseline enforce-version=v1.30 audit=baseline warn=baseline",
                &make
            ),
            [
                "deny baseline latest audit create pod  1",
                "deny baseline v1.30 enforce create pod  1",
            ],
            "a rejected Pod gets no warning"
        );
        assert_eq!(
            counted(
                "enforce=privileged enforce-version=v1.99 warn=restricted warn-version=v1.99",
                &make
            ),
            [
                "allow privileged latest enforce create pod  1",
                "deny restricted future warn create pod  1",
            ]
        );
        let deployment =
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {hostPID: true}}}}";
        assert_eq!(
            counted("enforce=baseline", &|harness| drop(harness.admit(PLUGIN, deployment))),
            ["deny baseline latest warn create controller  1"]
        );
    }

    #[test]
    fn baseline_reports_all_that_it_forbids_in_one_order() {
        let messages = rejection(
            "enforce=baseline enforce-version=v1.30",
            "hostPID: true, hostIPC: true, volumes: [{name: v, hostPath: {path: /}}], securityContext: {sysctls: [{name: \
             kernel.msgmax, value: '1'}, {name: net.ipv4.tcp_rmem, value: '1'}], seccompProfile: {type: Unconfined}},",
            "ports: [{containerPort: 80, hostPort: 80}], securityContext: {capabilities: {add: [NET_ADMIN, CHOWN]}, \
             seLinuxOptions: {type: x, user: u}}",
        );
        assert_eq!(
            messages,
            "violates PodSecurity \"baseline:v1.30\": non-default capabilities (container \"c\" must not include \
             \"NET_ADMIN\" in securityContext.capabilities.add), host namespaces (hostPID=true, hostIPC=true), hostPath \
             volumes (volume \"v\"), hostPort (container \"c\" uses hostPort 80), seLinuxOptions (container \"c\" set \
             forbidden securityContext.seLinuxOptions: type \"x\"; user may not be set), seccompProfile (pod must not set \
             securityContext.seccompProfile.type to \"Unconfined\"), forbidden sysctls (kernel.msgmax, net.ipv4.tcp_rmem)"
        );
    }

    #[test]
    fn restricted_demands_what_a_pod_does_not_state() {
        assert_eq!(
            rejection(
                "enforce=restricted",
                "volumes: [{name: v, nfs: {server: s, path: /}}],",
                ""
            ),
            "violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"c\" must set \
             securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set \
             securityContext.capabilities.drop=[\"ALL\"]), restricted volume types (volume \"v\" uses restricted volume type \
             \"nfs\"), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), \
             seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
             \"Localhost\")"
        );
        let enough = "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true, \
                      seccompProfile: {type: RuntimeDefault}}";
        let harness = Harness::new().with(&namespace("enforce=restricted"));
        assert!(harness.admit(PLUGIN, &pod("", enough)).is_ok());
        assert!(
            rejection("enforce=restricted", "securityContext: {runAsUser: 0},", enough)
                .ends_with(": runAsUser=0 (pod must not set runAsUser=0)")
        );
    }

    #[test]
    fn forbidden_settings_depend_on_version() {
        let probe = "livenessProbe: {httpGet: {port: 80, host: h}}";
        let harness = |version| Harness::new().with(&namespace(&format!("enforce=baseline enforce-version={version}")));
        assert!(harness("v1.33").admit(PLUGIN, &pod("", probe)).is_ok());
        assert!(harness("v1.34").admit(PLUGIN, &pod("", probe)).is_err());
        let sysctl = "securityContext: {sysctls: [{name: net.ipv4.tcp_rmem, value: '1'}]},";
        assert!(harness("v1.31").admit(PLUGIN, &pod(sysctl, "")).is_err());
        assert!(harness("v1.32").admit(PLUGIN, &pod(sysctl, "")).is_ok());
    }

    #[test]
    fn templates_are_warned_of_and_never_rejected() {
        let job = "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {hostNetwork: true, \
                   containers: [{name: c, image: i}]}}}}";
        // A namespace also warns about the enforced standard unless its labels set another one for warnings.
        for (labels, warned) in [
            ("enforce=baseline enforce-version=v1.29", true),
            ("warn=baseline warn-version=v1.29", true),
            ("enforce=baseline warn=privileged", false),
            ("audit=baseline", false),
        ] {
            let harness = Harness::new().with(&namespace(labels));
            let messages = harness.admission_warnings(PLUGIN, job);
            let wanted = "would violate PodSecurity \"baseline:v1.29\": host namespaces (hostNetwork=true)";
            assert_eq!(messages, if warned { vec![wanted] } else { Vec::new() }, "{labels}");
        }
    }

    #[test]
    fn labels_of_namespaces_are_checked() {
        let messages = Harness::new()
            .admit(PLUGIN, &namespace("enforce=strict warn-version=1.x"))
            .unwrap_err();
        assert!(
            messages.contains("must be one of privileged, baseline, restricted"),
            "{messages}"
        );
        assert!(
            messages.contains("must be \\\"latest\\\" or \\\"v1.x\\\""),
            "{messages}"
        );
        assert!(Harness::new().admit(PLUGIN, &namespace("enforce=baseline")).is_ok());
    }

    #[test]
    fn a_namespace_that_enforces_more_gets_warnings_of_its_pods() {
        let harness = Harness::new()
            .with(&pod("hostNetwork: true,", ""))
            .with(&pod("hostNetwork: true,", "").replace("name: p}", "name: q}"));
        let messages = harness.update_admission_warnings(PLUGIN, &namespace(""), &namespace("enforce=baseline"));
        assert_eq!(
            messages,
            [
                "existing pods in namespace \"default\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "p (and 1 other pod): host namespaces"
            ]
        );
        assert!(
            harness
                .update_admission_warnings(PLUGIN, &namespace("enforce=baseline"), &namespace("enforce=baseline"))
                .is_empty()
        );
    }
}
