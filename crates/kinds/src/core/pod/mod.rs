//! Pods: <https://kubernetes.io/docs/concepts/workloads/pods/>.

mod binding;
mod cells;
mod connect;
mod eviction;
mod qos;
mod resize;
mod status;
mod update;

use std::time::SystemTime;

use holdfast_kind_tables::Kind;
use holdfast_kind_tables::features::{Feature, Features};
use holdfast_resource::{DeletionRules, Rejection, RowConditions, RowRules, Strategy, WriteContext};
use holdfast_schema::{Field, FieldError};
use holdfast_value::{Map, Value};

pub(super) use binding::Binding;
pub(super) use cells::CELLS;
pub(super) use connect::of_pod;
pub(super) use eviction::Eviction;
pub use qos::class as qos_class;

use crate::config::Config;
use crate::defaults::is_zero;
use crate::kind::kind;
use crate::pod_spec::{
    PodRules, app_armor_fields, default_pod, pod_spec_warnings, validate_annotation_changes, validate_only_for_pod,
    validate_pod_annotations, validate_pod_spec, validate_profile_annotations,
};
use crate::quota;
use crate::time::time_text;
use crate::validation::Errors;

/// Rules of Pods only.
pub(crate) struct Pod {
    pub(crate) config: Config,
}

/// Makes `podIP` equal to the first of `podIPs`, as the reference's conversion does. If both are set and differ, only
/// `podIP` is kept.
fn match_addresses(status: &mut Value) {
    let first = match status.get("podIPs").and_then(Value::as_list).map(|list| &list[..]) {
        Some([first, ..]) => Some(first.str_at(&["ip"]).unwrap_or_default().to_owned()),
        _ => None,
    };
    let address = status.str_at(&["podIP"]).unwrap_or_default().to_owned();
    match first {
        Some(first) if address.is_empty() && !first.is_empty() => status.set_at(&["podIP"], first.into()),
        first if !address.is_empty() && first.as_deref() != Some(address.as_str()) => {
            let mut one = Map::new();
            one.insert("ip", address);
            status.set_at(&["podIPs"], vec![Value::from(one)].into());
        }
        _ => {}
    }
}

/// Returns the kind with its capabilities.
pub(super) fn declare(config: &Config) -> Kind {
    kind(Pod { config: config.clone() })
        .connects_each(of_pod(config).map(|of| (of.name, of)))
        .cells(CELLS)
        .part(&["spec"])
        .ends_tokens("pod", "pod")
        .action("binding", Binding)
        .action("eviction", Eviction)
        .deletion(DeletionRules {
            grace_period: Some(grace_period),
            ..DeletionRules::default()
        })
        .rows(RowRules {
            conditions: Some(ROW_CONDITIONS),
            ..RowRules::default()
        })
        .counted_by_plural()
        .takes_of_quotas(quota::Pods)
        .done()
}

impl Strategy for Pod {
    /// upstream: pkg/apis/core/v1#SetDefaults_Pod
    /// upstream: pkg/apis/core/v1#SetDefaults_PodSpec
    fn default_fields(&self, _version: &str, object: &mut Value) {
        default_pod(object);
        if let Some(status) = object.at_mut(&["status"]) {
            match_addresses(status);
        }
    }

    /// upstream: pkg/registry/core/pod#podStrategy.PrepareForCreate
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        let grace = ["spec", "terminationGracePeriodSeconds"];
        if object
            .at(&grace)
            .and_then(Value::as_i64)
            .is_some_and(|seconds| seconds < 0)
        {
            object.set_at(&grace, 1.into());
        }
        let mut status = Map::new();
        status.insert("phase", "Pending");
        // `GetPodQOS`: an existing class stays.
        let given = object.at(&["status", "qosClass"]).filter(|class| !is_zero(Some(class)));
        let class = given
            .cloned()
            .unwrap_or_else(|| qos::class(&Field::root(object).child("spec")).into());
        status.insert("qosClass", class);
        if !is_zero(object.at(&["spec", "schedulingGates"])) {
            status.insert("conditions", Value::from(vec![gated_condition(context.now())]));
        }
        object.set_at(&["status"], status.into());
        let merges = self
            .config
            .features
            .has(Feature::MatchLabelKeysInPodTopologySpreadSelectorMerge);
        update::match_label_keys(object, merges);
        for warning in app_armor_fields(object) {
            context.warn(warning);
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/pod#podStrategy.PrepareForUpdate
    /// upstream: pkg/registry/core/pod#podEphemeralContainersStrategy.PrepareForUpdate
    /// upstream: pkg/registry/core/pod#podResizeStrategy.PrepareForUpdate
    /// upstream: pkg/registry/core/pod#podStatusStrategy.PrepareForUpdate
    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        match context.subresource {
            None => {
                if let Some(status) = old.get("status")
                    && object.get("status") != Some(status)
                {
                    object.set_at(&["status"], status.clone());
                }
            }
            Some("status") => {
                if is_zero(object.at(&["status", "qosClass"]))
                    && let Some(class) = old.at(&["status", "qosClass"])
                {
                    object.set_at(&["status", "qosClass"], class.clone());
                }
                status::keep_observed_generations(object, old);
            }
            Some("ephemeralcontainers") => update::only_ephemeral_containers(object, old),
            Some("resize") => resize::only_resources(object, old),
            Some(_) => {}
        }
        Ok(())
    }

    /// upstream: pkg/registry/core/pod#podStrategy.Validate
    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = self.validate_all(context, object, None);
        let root = Field::root(object);
        let spec = root.child("spec");
        let ephemeral = spec.child("ephemeralContainers");
        if !ephemeral.is_empty() {
            errors.push(ephemeral.forbidden("cannot be set on create"));
        }
        let node = spec.child("nodeName");
        if !node.text().is_empty() && !spec.child("schedulingGates").is_empty() {
            errors.push(node.forbidden("cannot be set until all schedulingGates have been cleared"));
        }
        let metadata = root.child("metadata");
        validate_profile_annotations(&metadata.child("annotations"), &spec, &mut errors);
        if update::is_mirror(&root) && !spec.child("resourceClaims").is_empty() {
            errors.push(update::of_object("static pods do not support resource claims"));
        }
        errors
    }

    /// upstream: pkg/registry/core/pod#podStrategy.ValidateUpdate
    /// upstream: pkg/registry/core/pod#podEphemeralContainersStrategy.ValidateUpdate
    /// upstream: pkg/registry/core/pod#podResizeStrategy.ValidateUpdate
    /// upstream: pkg/registry/core/pod#podStatusStrategy.ValidateUpdate
    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        if context.subresource == Some("status") {
            return status::validate_status_update(context, self.config.features, object, old);
        }
        let mut errors = self.validate_all(context, object, Some(old));
        match context.subresource {
            Some("ephemeralcontainers") => {
                validate_annotations_update(object, old, self.config.features, &mut errors);
                update::validate_ephemeral_update(&Field::root(object), &Field::root(old), &mut errors);
            }
            Some("resize") => {
                resize::validate_resize(
                    &Field::root(object),
                    &Field::root(old),
                    self.config.features,
                    &mut errors,
                );
            }
            _ => {
                validate_annotations_update(object, old, self.config.features, &mut errors);
                update::validate_update(object, old, self.config.features, &mut errors);
            }
        }
        errors
    }

    /// upstream: pkg/registry/core/pod#podStrategy.WarningsOnCreate
    /// upstream: pkg/registry/core/pod#podStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        if let (Some("status"), Some(old)) = (context.subresource, old) {
            return status::status_warnings(&Field::root(object), &Field::root(old));
        }
        if old.is_some() {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        crate::workload::name_warnings(context, "the Pod's hostname", &mut warnings);
        let root = Field::root(object);
        pod_spec_warnings(&root.child("metadata"), &root.child("spec"), false, &mut warnings);
        warnings
    }
}

/// Conditions of the table row of a Pod that has ended.
pub(super) const ROW_CONDITIONS: RowConditions = RowConditions {
    of: row_conditions,
    read: &["status", "phase"],
};

/// upstream: pkg/printers/internalversion#podSuccessConditions
fn row_conditions(pod: &Value) -> Option<Value> {
    let phase = pod.str_at(&["status", "phase"])?;
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    let mut condition = Value::empty_map();
    for (field, text) in [
        ("type", "Completed"),
        ("status", "True"),
        ("reason", phase),
        ("message", message),
    ] {
        condition.set_at(&[field], text.into());
    }
    Some(vec![condition].into())
}

/// Returns the grace period in seconds: 0 for a Pod that no node can be running.
pub(super) fn grace_period(object: &Value, requested: Option<i64>) -> i64 {
    let on_node = !is_zero(object.at(&["spec", "nodeName"]));
    let over = matches!(object.str_at(&["status", "phase"]), Some("Failed" | "Succeeded"));
    if !on_node || over {
        return 0;
    }
    let own = object
        .at(&["spec", "terminationGracePeriodSeconds"])
        .and_then(Value::as_i64);
    let seconds = requested.or(own).unwrap_or_default();
    if seconds < 0 { 1 } else { seconds }
}

impl Pod {
    /// upstream: pkg/apis/core/validation#ValidatePodCreate
    fn validate_all(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Errors {
        let mut check = context.new_check();
        let Some(root) = check.root(object) else {
            return check.errors;
        };
        let Some(spec) = check.child(&root, "spec") else {
            return check.errors;
        };
        let metadata = root.child("metadata");
        validate_pod_annotations(
            &metadata.child("annotations"),
            &spec,
            self.config.features,
            &mut check.errors,
        );
        let name = metadata.child("name");
        let old_spec = old.and_then(|old| old.get("spec"));
        // Values that `old` has stay allowed, and the name does not change.
        check.independent_part(&spec, |check| {
            let rules = PodRules::new(self.config.pods(), Some(name.text()), old_spec);
            validate_pod_spec(&spec, rules, check);
            validate_only_for_pod(&spec, &mut check.errors);
        });
        check.errors
    }
}

/// Validates the annotations that have a meaning for Pods, and changes of them.
///
/// upstream: pkg/apis/core/validation#ValidatePodSpecificAnnotationUpdates
fn validate_annotations_update(object: &Value, old: &Value, features: Features, errors: &mut Errors) {
    let (root, old) = (Field::root(object), Field::root(old));
    let (metadata, before) = (root.child("metadata"), old.child("metadata"));
    let annotations = metadata.child("annotations");
    validate_annotation_changes(&annotations, &before.child("annotations"), errors);
    validate_pod_annotations(&annotations, &root.child("spec"), features, errors);
}

/// Returns the condition of a Pod with scheduling gates.
///
/// upstream: pkg/registry/core/pod#applySchedulingGatedCondition
fn gated_condition(now: SystemTime) -> Value {
    let texts = [
        ("type", "PodScheduled"),
        ("status", "False"),
        ("reason", "SchedulingGated"),
        ("message", "Scheduling is blocked due to non-empty scheduling gates"),
    ];
    let mut condition: Map = texts
        .iter()
        .map(|(key, text)| ((*key).into(), Value::from(*text)))
        .collect();
    condition.insert("lastProbeTime", Value::Null);
    condition.insert("lastTransitionTime", time_text(now));
    condition.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Harness, at};

    const WORKER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  containers: [{name: main, image: busybox:1}]
";

    #[test]
    fn an_address_is_the_first_of_all_addresses() {
        for (sent, matched) in [
            (
                r#"{"podIP":"10.0.0.1"}"#,
                r#"{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}"#,
            ),
            (
                r#"{"podIPs":[{"ip":"10.0.0.1"},{"ip":"fd::1"}]}"#,
                r#"{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"},{"ip":"fd::1"}]}"#,
            ),
            (
                r#"{"podIP":"10.0.0.2","podIPs":[{"ip":"10.0.0.1"}]}"#,
                r#"{"podIP":"10.0.0.2","podIPs":[{"ip":"10.0.0.2"}]}"#,
            ),
            (r#"{"podIPs":[{}]}"#, r#"{"podIPs":[{}]}"#),
            ("{}", "{}"),
        ] {
            let limits = holdfast_value::Limits::TRUSTED;
            let mut status = holdfast_value::json::parse(sent.as_bytes(), &limits).unwrap();
            match_addresses(&mut status);
            assert_eq!(holdfast_value::json::to_string(&status), matched);
        }
    }

    #[test]
    fn a_new_pod_is_pending_whatever_its_writer_says() {
        let created = Harness::new().create(&format!("{WORKER}status: {{phase: Running}}\n"));
        assert_eq!(at(&created, "status"), r#"{"phase":"Pending","qosClass":"BestEffort"}"#);
        assert_eq!(at(&created, "spec.enableServiceLinks"), "true");
        let classed = Harness::new().create(&format!("{WORKER}status: {{phase: Running, qosClass: Burstable}}\n"));
        assert_eq!(at(&classed, "status"), r#"{"phase":"Pending","qosClass":"Burstable"}"#);
    }

    #[test]
    fn rules_of_an_init_container_need_a_policy() {
        let rules = "restartPolicyRules: [{action: Odd}]";
        let pod = format!("{WORKER}  initContainers: [{{name: i, image: i, {rules}}}]\n");
        assert_eq!(
            Harness::new().errors(&pod),
            [
                "spec.initContainers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used"
            ]
        );
    }

    #[test]
    fn files_of_variables_are_in_volumes_with_names_of_volumes() {
        let env = "env: [{name: A, valueFrom: {fileKeyRef: {key: a, path: p, volumeName: a/b}}}]";
        let errors = Harness::new().errors(&WORKER.replace("busybox:1", &format!("busybox:1, {env}")));
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors[0].contains("fileKeyRef.volumeName: Invalid value"), "{errors:?}");
    }

    #[test]
    fn limits_are_requested_and_decide_the_quality_of_service() {
        let limited = WORKER.replace("busybox:1", "busybox:1, resources: {limits: {cpu: 1, memory: 1Gi}}");
        let created = Harness::new().create(&limited);
        assert_eq!(
            at(&created, "spec.containers.0.resources.requests"),
            r#"{"cpu":"1","memory":"1Gi"}"#
        );
        assert_eq!(at(&created, "status.qosClass"), r#""Guaranteed""#);
        let partly = WORKER.replace("busybox:1", "busybox:1, resources: {requests: {cpu: 1}}");
        assert_eq!(at(&Harness::new().create(&partly), "status.qosClass"), r#""Burstable""#);
    }

    #[test]
    fn generations_that_a_status_was_of_stay() {
        let parse = |text: &str| {
            let limits = holdfast_value::Limits::TRUSTED;
            holdfast_value::json::parse(text.as_bytes(), &limits).unwrap()
        };
        let old = r#"{"status":{"observedGeneration":2,"conditions":[{"type":"A","observedGeneration":1}]}}"#;
        let mut new = parse(r#"{"status":{"conditions":[{"type":"B"},{"type":"A"},{"type":"A"}]}}"#);
        super::status::keep_observed_generations(&mut new, &parse(old));
        assert_eq!(
            at(&new, "status"),
            r#"{"conditions":[{"type":"B"},{"observedGeneration":1,"type":"A"},{"type":"A"}],"observedGeneration":2}"#
        );
    }

    #[test]
    fn few_fields_of_a_pod_may_change() {
        let harness = Harness::new();
        assert!(
            harness
                .update_errors(WORKER, &WORKER.replace("busybox:1", "busybox:2"))
                .is_empty()
        );
        assert!(
            harness
                .update_errors(WORKER, &format!("{WORKER}  activeDeadlineSeconds: 5\n"))
                .is_empty()
        );
        let renamed = harness.update_errors(WORKER, &format!("{WORKER}  hostname: other\n"));
        assert!(renamed[0].starts_with("spec: Forbidden: pod updates may not change fields other than"));
        let more = WORKER.replace("busybox:1}", "busybox:1}, {name: b, image: b}");
        assert_eq!(
            harness.update_errors(WORKER, &more),
            ["spec.containers: Forbidden: pod updates may not add or remove containers"]
        );
    }

    #[test]
    fn tolerations_may_only_be_added() {
        let harness = Harness::new();
        let with = |list: &str| format!("{WORKER}  tolerations: {list}\n");
        let old = with("[{key: a, operator: Exists}]");
        assert!(
            harness
                .update_errors(&old, &with("[{key: a, operator: Exists}, {key: b, operator: Exists}]"))
                .is_empty()
        );
        assert_eq!(
            harness.update_errors(&old, &with("[{key: b, operator: Exists}]")),
            ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
        );
    }

    #[test]
    fn a_gated_pod_says_why_it_is_not_scheduled() {
        let created = Harness::new().create(&format!("{WORKER}  schedulingGates: [{{name: example.com/g}}]\n"));
        assert_eq!(at(&created, "status.conditions.0.reason"), r#""SchedulingGated""#);
        assert_eq!(
            at(&created, "status.conditions.0.lastTransitionTime"),
            r#""2001-09-09T01:46:40Z""#
        );
    }

    #[test]
    fn only_pods_on_nodes_take_time_to_end() {
        let mut pod = Harness::new().create(WORKER);
        assert_eq!(grace_period(&pod, Some(9)), 0);
        pod.set_at(&["spec", "nodeName"], "n".into());
        assert_eq!(grace_period(&pod, None), 30);
        assert_eq!(grace_period(&pod, Some(-5)), 1);
        pod.set_at(&["status", "phase"], "Failed".into());
        assert_eq!(grace_period(&pod, Some(9)), 0);
    }
}
