//! Deployments: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/>.

use holdfast_resource::{Field, FieldError, Strategy, WriteContext};
use holdfast_value::Value;

use crate::config::Config;
use crate::core::pod_spec::{Template, default_template};
use crate::defaults::set_missing_at;
use crate::validation::{Errors, numbers};
use crate::workload::{
    SelectorRules, at_most_count, immutable_selector, validate_counts, validate_selector_and_template,
    workload_warnings,
};

/// What only Deployments do.
pub(crate) struct Deployment {
    pub(crate) config: Config,
}

impl Strategy for Deployment {
    fn default_fields(&self, _version: &str, object: &mut Value) {
        default_template(object, &["spec", "template"]);
        if object.str_at(&["spec", "strategy", "type"]) == Some("RollingUpdate") {
            set_missing_at(object, &["spec", "strategy"], "rollingUpdate", Value::empty_map);
            for part in ["maxSurge", "maxUnavailable"] {
                set_missing_at(object, &["spec", "strategy", "rollingUpdate"], part, || "25%".into());
            }
        }
    }

    fn validate(&self, _context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let mut errors = Errors::new();
        self.validate_spec(&Field::root(object).child("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (object, old) = (Field::root(object), Field::root(old));
        let mut errors = Errors::new();
        if context.subresource == Some("status") {
            validate_status(&object.child("status"), &old.child("status"), &mut errors);
            return errors;
        }
        let spec = object.child("spec");
        self.validate_spec(&spec, &mut errors);
        immutable_selector(&spec, &old.child("spec"), &mut errors);
        errors
    }

    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        workload_warnings(context, object, old, &["spec", "template"], true)
    }
}

impl Deployment {
    fn validate_spec(&self, spec: &Field<'_, '_>, errors: &mut Errors) {
        numbers::not_negative(&spec.child("replicas"), errors);
        let rules = SelectorRules {
            required: true,
            empty: "empty selector is invalid for deployment",
            malformed: "invalid label selector",
            template: Template {
                workload: "ReplicaSet",
                allow_privileged: self.config.allow_privileged,
            },
        };
        validate_selector_and_template(spec, &rules, errors);
        validate_strategy(&spec.child("strategy"), errors);
        let ready = spec.child("minReadySeconds");
        numbers::not_negative(&ready, errors);
        numbers::not_negative(&spec.child("revisionHistoryLimit"), errors);
        let deadline = spec.child("progressDeadlineSeconds");
        numbers::not_negative(&deadline, errors);
        if deadline
            .number()
            .is_some_and(|seconds| seconds <= ready.number().unwrap_or_default())
        {
            errors.push(deadline.invalid("must be greater than minReadySeconds"));
        }
    }
}

fn validate_strategy(strategy: &Field<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                errors.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
            }
        }
        "RollingUpdate" => {
            if rolling.is_set() {
                validate_rolling_update(&rolling, errors);
            } else {
                errors.push(rolling.required("this should be defaulted and never be nil"));
            }
        }
        // The reference reports the strategy rather than its type.
        odd => errors.push(FieldError::not_supported(
            &strategy.path(),
            odd,
            &["Recreate", "RollingUpdate"],
        )),
    }
}

fn validate_rolling_update(rolling: &Field<'_, '_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.child("maxUnavailable"), rolling.child("maxSurge"));
    numbers::number_or_percent(&unavailable, errors);
    numbers::number_or_percent(&surge, errors);
    if numbers::count(&unavailable) == 0 && numbers::count(&surge) == 0 {
        errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    numbers::at_most_all(&unavailable, errors);
}

const COUNTS: [&str; 8] = [
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
];

fn validate_status(status: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    validate_counts(status, &COUNTS, errors);
    let of_all = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    at_most_count(status, &of_all, "replicas", "status.replicas", errors);
    at_most_count(status, &["availableReplicas"], "readyReplicas", "readyReplicas", errors);
    let collisions = status.child("collisionCount");
    if let Some(before) = old.child("collisionCount").number()
        && collisions.number().unwrap_or_default() < before
    {
        errors.push(collisions.invalid("cannot be decremented"));
    }
}
