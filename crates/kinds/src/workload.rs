//! Rules that workloads share: a selector, a pod template that it selects, and replica counts.

use std::sync::Arc;

use holdfast_resource::{Rejection, Strategy, WriteContext};
use holdfast_schema::metadata::formats::dns_label;
use holdfast_schema::metadata::labels::{LabelSelector, invalid_selector, validate_label_selector};
use holdfast_schema::{AnyChanges, AnyRules, Check, Field, FieldError, Part};
use holdfast_value::Value;

use crate::config::PodSettings;
use crate::pod_spec::{Template, default_template, template_warnings, validate_template_of_replicas};
use crate::validation::Errors;

/// Rules for the selector and the template of a workload.
pub(crate) struct SelectorRules<'a> {
    /// Message for a selector that selects everything.
    pub(crate) empty: &'a str,
    /// Message for an invalid selector.
    pub(crate) malformed: &'a str,
    /// Rules for the template.
    pub(crate) template: Template<'a>,
}

impl SelectorRules<'_> {
    /// Returns the rules of ReplicaSets and Deployments. The reference's messages name deployments for both.
    pub(crate) fn for_replica_sets(settings: PodSettings) -> Self {
        Self {
            empty: "empty selector is invalid for deployment",
            malformed: "invalid label selector",
            template: Template {
                workload: "ReplicaSet",
                settings,
            },
        }
    }
}

/// Returns the error for an unknown type of rollout strategy. The reference prints the whole strategy with its Go
/// names.
pub(crate) fn unsupported_strategy(strategy: &Field<'_, '_>, types: &[&str]) -> FieldError {
    let rolling = strategy.child("rollingUpdate");
    let part = |name: &str| rolling.child(name).value().cloned().unwrap_or(Value::Int(0));
    let shown = if rolling.is_set() {
        let (unavailable, surge) = (part("maxUnavailable"), part("maxSurge"));
        format!(r#"{{"MaxUnavailable":{unavailable},"MaxSurge":{surge}}}"#)
    } else {
        "null".to_owned()
    };
    let named = Value::from(strategy.child("type").text());
    let shown = format!(r#"{{"Type":{named},"RollingUpdate":{shown}}}"#);
    FieldError::not_supported_text(&strategy.path(), &shown, types)
}

/// Validates `selector` and `template` of a workload's spec.
///
/// upstream: pkg/apis/apps/validation#ValidateDeploymentSpec
/// upstream: pkg/apis/apps/validation#ValidateReplicaSetSpec
pub(crate) fn validate_selector_and_template(spec: &Part<'_, '_>, rules: &SelectorRules<'_>, check: &mut Check<'_>) {
    let selector = spec.child("selector");
    validate_selector(&selector, rules.empty, &mut check.errors);
    match (LabelSelector::read(&selector), check.child(spec, "template")) {
        (Some(read), Some(template)) => validate_template_of_replicas(&template, &read, &rules.template, check),
        _ => check.errors.push(invalid_selector(&selector, rules.malformed)),
    }
}

/// Validates a selector that is required and must not select everything, for which `empty` is the message.
///
/// upstream: k8s.io/apimachinery/pkg/apis/meta/v1/validation#ValidateLabelSelector
pub(crate) fn validate_selector(selector: &Field<'_, '_>, empty: &str, errors: &mut Errors) {
    if !selector.is_set() {
        errors.push(selector.required(""));
        return;
    }
    validate_label_selector(selector, errors);
    if selects_everything(selector) {
        errors.push(invalid_selector(selector, empty));
    }
}

/// Returns true if a selector exists and has no requirements.
pub(crate) fn selects_everything(selector: &Field<'_, '_>) -> bool {
    selector.is_set() && selector.child("matchLabels").is_empty() && selector.child("matchExpressions").is_empty()
}

/// Reports each of `names` that is greater than the count `most`, which the message calls `of`.
pub(crate) fn at_most_count(status: &Field<'_, '_>, names: &[&str], most: &str, of: &str, errors: &mut Errors) {
    let most = status.child(most).number().unwrap_or_default();
    for name in names {
        let count = status.child(name);
        let number = count.number().unwrap_or_default();
        if number > most {
            errors.push(count.invalid_as(number, format!("cannot be greater than {of}")));
        }
    }
}

/// Validates that the replica counts in the status of ReplicaSets and ReplicationControllers are consistent.
///
/// upstream: pkg/apis/apps/validation#ValidateReplicaSetStatus
/// upstream: pkg/apis/core/validation#ValidateReplicationControllerStatus
pub(crate) fn validate_replica_bounds(status: &Field<'_, '_>, errors: &mut Errors) {
    let of_all = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    at_most_count(status, &of_all, "replicas", "status.replicas", errors);
    at_most_count(status, &["availableReplicas"], "readyReplicas", "readyReplicas", errors);
}

/// Reports a collision count below the `old` one, since tried names stay tried.
pub(crate) fn collisions_only_grow(status: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let collisions = status.child("collisionCount");
    if let Some(before) = old.child("collisionCount").number()
        && collisions.number().unwrap_or_default() < before
    {
        errors.push(collisions.invalid_number("cannot be decremented"));
    }
}

/// Adds warnings about the name of a workload if its Pods use the name.
///
/// upstream: pkg/registry/apps/deployment#deploymentStrategy.WarningsOnCreate
/// upstream: pkg/registry/apps/replicaset#rsStrategy.WarningsOnCreate
pub(crate) fn name_warnings(context: &WriteContext<'_>, subject: &str, warnings: &mut Vec<String>) {
    let messages = dns_label(context.name);
    if !messages.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {subject}, which can result in surprising behavior; a DNS label is recommended: \
             [{}]",
            messages.join(" ")
        ));
    }
}

/// Returns true for a write to the status of a workload. A write to the Scale is one to the workload itself.
pub(crate) fn is_status_write(context: &WriteContext<'_>) -> bool {
    context.subresource.is_some_and(|subresource| subresource != "scale")
}

/// Returns true if a write of a workload warns about its specification: it creates the workload or changes its
/// generation.
///
/// upstream: pkg/registry/apps/deployment#deploymentStrategy.WarningsOnUpdate
pub(crate) fn warns_of_spec(context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> bool {
    let generation = |object: &Value| object.at(&["metadata", "generation"]).cloned();
    !is_status_write(context) && !old.is_some_and(|old| generation(object) == generation(old))
}

/// Returns the warnings about a workload: about its name when it is created, and about its pod template.
///
/// upstream: pkg/registry/apps/deployment#deploymentStrategy.WarningsOnCreate
/// upstream: pkg/registry/apps/deployment#deploymentStrategy.WarningsOnUpdate
pub(crate) fn workload_warnings(
    context: &WriteContext<'_>,
    object: &Value,
    old: Option<&Value>,
    template: &[&str],
    names_pods: bool,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if warns_of_spec(context, object, old) {
        if names_pods && old.is_none() {
            name_warnings(context, "Pod names and hostnames", &mut warnings);
        }
        warnings.extend(template_warnings(&context.parts, object, template));
    }
    warnings
}

/// Warnings about a pod template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateWarnings {
    /// Warnings of workloads; `names_pods` is true if Pods use the name of the workload.
    OfWorkload { names_pods: bool },
    /// Warnings of the kind itself.
    Own,
}

/// Strategy of a kind with a pod template, whose defaults are set before those of the kind.
pub(crate) struct WithPodTemplate<S: ?Sized> {
    pub(crate) kind: Arc<S>,
    /// Path of the template.
    pub(crate) path: &'static [&'static str],
    pub(crate) warnings: TemplateWarnings,
}

impl<S: Strategy + ?Sized> Strategy for WithPodTemplate<S> {
    fn default_fields(&self, version: &str, object: &mut Value) {
        default_template(object, self.path);
        self.kind.default_fields(version, object);
    }

    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) -> Result<(), Rejection> {
        self.kind.prepare_for_create(context, object)
    }

    fn authorize_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Result<(), Rejection> {
        self.kind.authorize_update(context, object, old)
    }

    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) -> Result<(), Rejection> {
        self.kind.prepare_for_update(context, object, old)
    }

    fn prepare_for_delete(&self, context: &WriteContext<'_>, object: &mut Value) {
        self.kind.prepare_for_delete(context, object);
    }

    fn rules<'v>(&self) -> &dyn AnyRules<'v> {
        self.kind.rules()
    }

    fn changes<'v>(&self) -> &dyn AnyChanges<'v> {
        self.kind.changes()
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        self.kind.validate(context, object)
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        self.kind.validate_update(context, object, old)
    }

    /// upstream: pkg/registry/apps/deployment#deploymentStrategy.WarningsOnCreate
    /// upstream: pkg/registry/apps/deployment#deploymentStrategy.WarningsOnUpdate
    fn warnings(&self, context: &WriteContext<'_>, object: &Value, old: Option<&Value>) -> Vec<String> {
        match self.warnings {
            TemplateWarnings::OfWorkload { names_pods } => {
                workload_warnings(context, object, old, self.path, names_pods)
            }
            TemplateWarnings::Own => self.kind.warnings(context, object, old),
        }
    }
}
