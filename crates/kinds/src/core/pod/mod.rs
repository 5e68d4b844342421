//! Pods: <https://kubernetes.io/docs/concepts/workloads/pods/>.

mod qos;
mod status;
mod update;

use std::time::SystemTime;

use holdfast_resource::{Field, FieldError, Refusal, Strategy, WriteContext};
use holdfast_value::{Map, Value};

use super::pod_spec::{PodRules, default_pod, pod_spec_warnings, validate_pod_spec};
use crate::config::Config;
use crate::defaults::is_zero;
use crate::time::time_text;
use crate::validation::{Errors, same};

/// What only Pods do.
pub(crate) struct Pod {
    pub(crate) config: Config,
}

impl Strategy for Pod {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        default_pod(object);
    }

    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Refusal> {
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
        status.insert("qosClass", qos::class(&Field::root(object).child("spec")));
        if !is_zero(object.at(&["spec", "schedulingGates"])) {
            status.insert("conditions", Value::from(vec![gated_condition(context.now)]));
        }
        object.set_at(&["status"], status.into());
        update::match_label_keys(object);
        Ok(())
    }

    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Refusal> {
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
            }
            Some("ephemeralcontainers") => update::only_ephemeral_containers(object, old),
            Some("resize") => update::only_resources(object, old),
            Some(_) => {}
        }
        Ok(())
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        self.validate_all(object, &mut errors);
        let root = Field::root(object);
        let spec = root.child("spec");
        let ephemeral = spec.child("ephemeralContainers");
        if !ephemeral.is_empty() {
            errors.push(ephemeral.forbidden("cannot be set on create"));
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        match context.subresource {
            Some("status") => {
                status::validate_status_update(&Field::root(object), &Field::root(old), &mut errors);
                return errors;
            }
            Some("ephemeralcontainers") => {
                self.validate_all(object, &mut errors);
                update::validate_ephemeral_update(&Field::root(object), &Field::root(old), &mut errors);
            }
            Some("resize") => {
                self.validate_all(object, &mut errors);
                update::validate_resize(&Field::root(object), &Field::root(old), &mut errors);
            }
            _ => {
                self.validate_all(object, &mut errors);
                update::validate_update(object, old, &mut errors);
            }
        }
        errors
    }

    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        if context.subresource.is_some() || old.is_some_and(|old| same(object.get("spec"), old.get("spec"))) {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        if old.is_none() {
            crate::workload::name_warnings(context, "the Pod's hostname", &mut warnings);
        }
        let root = Field::root(object);
        pod_spec_warnings(&root.child("metadata"), &root.child("spec"), &mut warnings);
        warnings
    }

    /// Only a Pod that a node may be running needs time to end.
    fn grace_period(&self, object: &Value, requested: Option<i64>) -> i64 {
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
}

impl Pod {
    fn validate_all(&self, object: &Value, errors: &mut Errors) {
        let rules = PodRules {
            allow_privileged: self.config.allow_privileged,
            is_pod: true,
        };
        validate_pod_spec(&Field::root(object).child("spec"), rules, errors);
    }
}

/// What is said of a Pod that no scheduler may look at yet.
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
