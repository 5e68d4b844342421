//! Pod templates of workloads.

use holdfast_kind_tables::features::Features;
use holdfast_schema::metadata::labels::{LabelSelector, validate_labels};
use holdfast_schema::metadata::validate_annotations;
use holdfast_schema::{Check, Field, Part};

use holdfast_value::Value;

use super::annotations::{validate_pod_annotations, validate_profile_annotations};
use super::{PodRules, validate_pod_spec};
use crate::config::PodSettings;
use crate::validation::Errors;

/// Requirements of a workload for its pod template.
pub(crate) struct Template<'a> {
    /// Name that the reference uses for the workload, which allows no `activeDeadlineSeconds`.
    pub(crate) workload: &'a str,
    /// Settings of the server.
    pub(crate) settings: PodSettings,
}

/// Validates a template of Pods that always restart and that `selector` must match.
///
/// upstream: pkg/apis/apps/validation#ValidatePodTemplateSpecForReplicaSet
/// upstream: pkg/apis/core/validation#ValidatePodTemplateSpecForRC
pub(crate) fn validate_template_of_replicas(
    template: &Part<'_, '_>,
    selector: &LabelSelector<'_>,
    of: &Template<'_>,
    check: &mut Check<'_>,
) {
    validate_selected(template, selector, &mut check.errors);
    validate_template(template, of.settings, check);
    validate_restarting(template, of.workload, &mut check.errors);
}

/// Reports a template whose labels `selector` does not match.
///
/// upstream: pkg/apis/apps/validation#ValidatePodTemplateSpecForReplicaSet
/// upstream: pkg/apis/core/validation#ValidatePodTemplateSpecForRC
pub(crate) fn validate_selected(template: &Field<'_, '_>, selector: &LabelSelector<'_>, errors: &mut Errors) {
    let metadata = template.child("metadata");
    let labels = metadata.child("labels");
    if !selector.matches(&labels) {
        errors.push(labels.invalid("`selector` does not match template `labels`"));
    }
}

/// Validates that the Pods of a template always restart and have no deadline.
///
/// upstream: pkg/apis/core/validation#ValidatePodTemplateSpecForRC
pub(crate) fn validate_restarting(template: &Field<'_, '_>, workload: &str, errors: &mut Errors) {
    let spec = template.child("spec");
    let restart_policy = spec.child("restartPolicy");
    if restart_policy.text() != "Always" {
        errors.push(restart_policy.not_supported(&["Always"]));
    }
    let deadline = spec.child("activeDeadlineSeconds");
    if deadline.is_set() {
        errors.push(deadline.forbidden(format!("activeDeadlineSeconds in {workload} is not Supported")));
    }
}

/// Validates labels and annotations of a template.
///
/// upstream: pkg/apis/core/validation#ValidatePodTemplateSpec
pub(crate) fn validate_template_metadata(template: &Field<'_, '_>, features: Features, errors: &mut Errors) {
    let metadata = template.child("metadata");
    // The reference omits `metadata` from these paths.
    let (labels, annotations) = (metadata.child("labels"), metadata.child("annotations"));
    validate_labels(&template.child("labels").in_place(labels.value()), errors);
    let own = template.child("annotations");
    let placed = own.in_place(annotations.value());
    if let Some(map) = annotations.value().and_then(Value::as_map) {
        validate_annotations(&placed.path(), map, errors);
    }
    validate_pod_annotations(&placed, &template.child("spec"), features, errors);
}

/// Validates a pod template independently of its workload.
///
/// upstream: pkg/apis/core/validation#ValidatePodTemplateSpec
pub(crate) fn validate_template(template: &Part<'_, '_>, settings: PodSettings, check: &mut Check<'_>) {
    check.independent_part(template, |check| validate_whole_template(template, settings, check));
}

/// upstream: pkg/apis/core/validation#ValidatePodTemplateSpec
fn validate_whole_template(template: &Part<'_, '_>, settings: PodSettings, check: &mut Check<'_>) {
    validate_template_metadata(template, settings.features, &mut check.errors);
    let Some(spec) = check.child(template, "spec") else {
        return;
    };
    let rules = PodRules::new(settings, None, None);
    validate_pod_spec(&spec, rules, check);
    let metadata = template.child("metadata");
    validate_profile_annotations(&metadata.child("annotations"), &spec, &mut check.errors);
    let ephemeral = spec.child("ephemeralContainers");
    if !ephemeral.is_empty() {
        let error = ephemeral.forbidden("ephemeral containers not allowed in pod template");
        check.errors.push(error);
    }
}
