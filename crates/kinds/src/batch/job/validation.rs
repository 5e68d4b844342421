//! Validation of Jobs.

use std::collections::HashSet;

use holdfast_kind_tables::features::{Feature, Features};
use holdfast_schema::metadata::formats::dns_label;
use holdfast_schema::metadata::labels::{LabelSelector, invalid_selector, validate_label_selector};
use holdfast_schema::{AnyRules, Changes, Check, Field, FieldError, FieldErrorKind, Part, Rules};
use holdfast_value::Value;

use super::indexed::{validate_index_limits, validate_succeeded_counts, validate_success_rule};
use super::status::holds;
use super::{CONTROLLER_UID, JOB_NAME, OLD_CONTROLLER_UID, OLD_JOB_NAME};
use crate::config::PodSettings;
use crate::defaults::put_at;
use crate::pod_spec::validate_template;
use crate::rules::{JobChange, JobRule};
use crate::validation::{Errors, immutable, one_of, same};

/// Validates a Job.
///
/// upstream: pkg/apis/batch/validation#ValidateJob
pub(super) fn validate_job(job: &Part<'_, '_>, settings: PodSettings, check: &mut Check<'_>) {
    validate_made_selector(job, &mut check.errors);
    validate_own_spec(job, settings, check);
    validate_host_names(job, &mut check.errors);
}

/// Validates the hostnames of an indexed Job's Pods, which consist of the Job's name and the index. The longest must be
/// valid.
///
/// upstream: pkg/apis/batch/validation#ValidateJob
fn validate_host_names(job: &Field<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (job.child("metadata"), job.child("spec"));
    let name = metadata.child("name");
    let completions = spec.child("completions").number().unwrap_or_default();
    if spec.child("completionMode").text() != "Indexed" || completions <= 0 {
        return;
    }
    let host = format!("{}-{}", name.text(), completions - 1);
    if !dns_label(&host).is_empty() {
        errors.push(name.invalid_text(format!("will not able to create pod with invalid DNS label: {host}")));
    }
}

/// Validates the spec of a Job, including its selector.
///
/// upstream: pkg/apis/batch/validation#ValidateJobSpec
pub(super) fn validate_own_spec(job: &Part<'_, '_>, settings: PodSettings, check: &mut Check<'_>) {
    let Some(spec) = check.child(job, "spec") else {
        return;
    };
    validate_job_spec(&spec, settings, check);
    let errors = &mut check.errors;
    let (selector, template) = (spec.child("selector"), spec.child("template"));
    if selector.is_set() {
        validate_label_selector(&selector, errors);
    } else {
        errors.push(selector.required(""));
    }
    let metadata = template.child("metadata");
    let labels = metadata.child("labels");
    if LabelSelector::read(&selector).is_some_and(|read| !read.matches(&labels)) {
        errors.push(labels.invalid("`selector` does not match template `labels`"));
    }
}

/// Validates that the selector and the Pod labels are the generated ones, unless the selector is manual.
///
/// upstream: pkg/apis/batch/validation#validateGeneratedSelector
fn validate_made_selector(job: &Field<'_, '_>, errors: &mut Errors) {
    let spec = job.child("spec");
    let selector = spec.child("selector");
    if spec.child("manualSelector").is_true() || !selector.is_set() {
        return;
    }
    let metadata = job.child("metadata");
    let (uid, name) = (metadata.child("uid").text(), metadata.child("name").text());
    let template = spec.child("template");
    let pod = template.child("metadata");
    let labels = pod.child("labels");
    let expected = [
        (OLD_CONTROLLER_UID, uid),
        (OLD_JOB_NAME, name),
        (CONTROLLER_UID, uid),
        (JOB_NAME, name),
    ];
    for (label, value) in expected {
        let found = labels.entry(label);
        if !found.is_set() {
            errors.push(labels.entry(label).required(format!("must be '{value}'")));
        } else if found.text() != value {
            let shown = labels.value().cloned().unwrap_or_default();
            errors.push(found.invalid_as(shown, format!("must be '{value}'")));
        }
    }
    let mut made = Value::empty_map();
    for (label, value) in expected {
        made.set_at(&[label], value.into());
    }
    if LabelSelector::read(&selector).is_some_and(|read| !read.matches(&Field::root(&made))) {
        errors.push(invalid_selector(&selector, "`selector` not auto-generated"));
    }
}

/// Validates the part of the spec that Jobs and the templates of CronJobs share.
///
/// upstream: pkg/apis/batch/validation#validateJobSpec
pub(in crate::batch) fn validate_job_spec(spec: &Part<'_, '_>, settings: PodSettings, check: &mut Check<'_>) {
    let rules = SpecRules { settings, spec };
    check.values(spec, &rules);
}

/// Hand-written checks of the spec of a Job.
struct SpecRules<'a, 'v> {
    settings: PodSettings,
    spec: &'a Part<'v, 'a>,
}

impl<'v> Rules<'v> for SpecRules<'_, 'v> {
    type Rule = JobRule;

    fn rule(&self, rule: JobRule, part: &Part<'v, '_>, check: &mut Check<'_>) {
        let errors = &mut check.errors;
        match rule {
            JobRule::FailedIndexes => validate_failed_indexes(part, errors),
            JobRule::CompletionMode => validate_completion_mode(part, errors),
            JobRule::SuccessPolicy => validate_success_mode(part, self, check),
            JobRule::Replacement => validate_replacement(part, errors),
            JobRule::Template => self.validate_template(part, check),
            JobRule::FailIndex => self.validate_fail_index(&part.child("action"), errors),
            JobRule::Requirement => validate_one_requirement(part, errors),
            JobRule::Container => self.validate_container(&part.child("containerName"), errors),
            JobRule::Values => validate_exit_codes(part, errors),
            JobRule::SuccessRule => validate_success_rule(part, errors),
            JobRule::SucceededCounts => {
                let completions = self.spec.child("completions").number();
                validate_succeeded_counts(part, completions, self, check);
            }
        }
    }
}

impl SpecRules<'_, '_> {
    /// Validates the template. Its restart policy must let Pods finish.
    ///
    /// upstream: pkg/apis/batch/validation#validateJobSpec
    fn validate_template(&self, spec: &Part<'_, '_>, check: &mut Check<'_>) {
        let Some(template) = check.child(spec, "template") else {
            return;
        };
        validate_template(&template, self.settings, check);
        let pod = template.child("spec");
        let restart = pod.child("restartPolicy");
        check.errors.push(match restart.text() {
            "OnFailure" if spec.child("podFailurePolicy").is_set() => {
                restart.invalid("only \"Never\" is supported when podFailurePolicy is specified")
            }
            "OnFailure" | "Never" => return,
            "" | "Always" => restart.required("valid values: \"OnFailure\", \"Never\""),
            _ => restart.not_supported(&["OnFailure", "Never"]),
        });
    }

    /// upstream: pkg/apis/batch/validation#validatePodFailurePolicyRule
    fn validate_fail_index(&self, action: &Field<'_, '_>, errors: &mut Errors) {
        if action.text() == "FailIndex" && !self.spec.child("backoffLimitPerIndex").is_set() {
            errors.push(action.invalid("requires the backoffLimitPerIndex to be set"));
        }
    }

    /// Validates that the container whose exit codes count exists in the template.
    ///
    /// upstream: pkg/apis/batch/validation#validatePodFailurePolicyRuleOnExitCodes
    fn validate_container(&self, container: &Field<'_, '_>, errors: &mut Errors) {
        let template = self.spec.child("template");
        let pod = template.child("spec");
        let is_named = |one: &Value| one.str_at(&["name"]) == Some(container.text());
        let known = |list| pod.child(list).slice().iter().any(is_named);
        if container.is_set() && !["containers", "initContainers"].into_iter().any(known) {
            let message = "must be one of the container or initContainer names in the pod template";
            errors.push(container.invalid(message));
        }
    }
}

/// Validates that `maxFailedIndexes` is only set together with `backoffLimitPerIndex`.
///
/// upstream: pkg/apis/batch/validation#validateJobSpec
fn validate_failed_indexes(spec: &Field<'_, '_>, errors: &mut Errors) {
    let per_index = spec.child("backoffLimitPerIndex");
    if spec.child("maxFailedIndexes").is_set() && !per_index.is_set() {
        errors.push(per_index.required("when maxFailedIndexes is specified"));
    }
}

/// Validates the index limits of an indexed Job. Other Jobs must not have limits per index.
///
/// upstream: pkg/apis/batch/validation#validateJobSpec
fn validate_completion_mode(spec: &Field<'_, '_>, errors: &mut Errors) {
    let mode = spec.child("completionMode");
    if mode.text() == "Indexed" {
        validate_index_limits(spec, errors);
    } else if !mode.is_set() || mode.text() == "NonIndexed" {
        for part in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            let part = spec.child(part);
            if part.is_set() {
                errors.push(part.invalid("requires indexed completion mode"));
            }
        }
    }
}

/// Checks that only indexed Jobs have a success policy.
///
/// upstream: pkg/apis/batch/validation#validateSuccessPolicy
fn validate_success_mode<'v>(spec: &Part<'v, '_>, rules: &dyn AnyRules<'v>, check: &mut Check<'_>) {
    let success = spec.child("successPolicy");
    if spec.child("completionMode").text() == "Indexed" {
        check.field(spec, "successPolicy", rules);
    } else if success.is_set() {
        check.errors.push(success.invalid("requires indexed completion mode"));
    }
}

/// Validates the Pod replacement policy. With a Pod failure policy, only `Failed` is allowed.
///
/// upstream: pkg/apis/batch/validation#validatePodReplacementPolicy
fn validate_replacement(spec: &Field<'_, '_>, errors: &mut Errors) {
    let replacement = spec.child("podReplacementPolicy");
    let supported: &[&str] = if spec.child("podFailurePolicy").is_set() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    if replacement.is_set() {
        one_of(&replacement, supported, errors);
    }
}

/// Returns an error that shows no value.
pub(super) fn invalid_without_value(field: &Field<'_, '_>, detail: &str) -> FieldError {
    FieldError {
        kind: FieldErrorKind::Invalid,
        field: field.path(),
        value: None,
        detail: detail.to_owned(),
    }
}

/// Validates that a rule has either exit codes or conditions.
///
/// upstream: pkg/apis/batch/validation#validatePodFailurePolicyRule
fn validate_one_requirement(rule: &Field<'_, '_>, errors: &mut Errors) {
    let message = match (
        rule.child("onExitCodes").is_set(),
        !rule.child("onPodConditions").is_empty(),
    ) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(invalid_without_value(rule, message));
}

/// Validates the exit codes of a rule: at least one, ascending and distinct.
///
/// upstream: pkg/apis/batch/validation#validatePodFailurePolicyRuleOnExitCodes
fn validate_exit_codes(codes: &Field<'_, '_>, errors: &mut Errors) {
    let (operator, values) = (codes.child("operator"), codes.child("values"));
    if values.is_empty() {
        errors.push(values.invalid("at least one value is required"));
    }
    let (mut seen, mut before, mut ordered) = (HashSet::new(), i64::MIN, true);
    for value in values.items() {
        let number = value.number().unwrap_or_default();
        if operator.text() == "In" && number == 0 {
            errors.push(value.invalid("must not be 0 for the In operator"));
        }
        if !seen.insert(number) {
            errors.push(value.duplicate());
        }
        ordered &= before <= number;
        before = number;
    }
    if !ordered {
        errors.push(values.invalid("must be ordered"));
    }
}

/// Rules for immutable parts of a Job, with the whole old object.
pub(super) struct ChangeRules<'v> {
    pub(super) old: Field<'v, 'v>,
    pub(super) features: Features,
}

impl<'v> Changes<'v> for ChangeRules<'_> {
    type Change = JobChange;

    fn change(&self, change: JobChange, spec: &Part<'v, '_>, old: &Part<'v, '_>, check: &mut Check<'_>) {
        match change {
            JobChange::Completions => validate_completions(spec, old, &mut check.errors),
            JobChange::Template => validate_template_change(spec, &self.old, self.features, &mut check.errors),
        }
    }
}

/// Validates a change of `completions`: an indexed Job may scale as long as `completions` equals `parallelism`.
///
/// upstream: pkg/apis/batch/validation#validateCompletions
fn validate_completions(spec: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (completions, before) = (spec.child("completions"), old.child("completions"));
    if same(completions.value(), before.value()) {
        return;
    }
    if spec.child("completionMode").text() != "Indexed" {
        immutable(&completions, &before, errors);
        return;
    }
    // Missing completions of an indexed Job are reported elsewhere.
    if completions.is_set() && completions.number() != spec.child("parallelism").number() {
        errors.push(completions.invalid("can only be modified in tandem with spec.parallelism"));
    }
}

/// Checks that the template is immutable, except for scheduling directives and resources while the Job is suspended and
/// has no active Pods.
///
/// upstream: pkg/apis/batch/validation#validatePodTemplateUpdate
fn validate_template_change(spec: &Field<'_, '_>, old: &Field<'_, '_>, features: Features, errors: &mut Errors) {
    let (old_spec, status) = (old.child("spec"), old.child("status"));
    let (template, old_template) = (spec.child("template"), old_spec.child("template"));
    let suspended = old_spec.child("suspend").is_true();
    let not_begun = suspended && !status.child("startTime").is_set();
    let waits = suspended
        && (not_begun || holds(&status, "Suspended"))
        && status.child("active").number().unwrap_or_default() == 0;
    let directives_may_change = match features.has(Feature::MutableSchedulingDirectivesForSuspendedJobs) {
        true => waits,
        false => not_begun,
    };
    let resources_may_change = waits && features.has(Feature::MutablePodResourcesForSuspendedJobs);
    let (now, mut before) = (template.value(), old_template.value().cloned().unwrap_or_default());
    if let Some(now) = now.filter(|_| directives_may_change) {
        take_directives(&mut before, now);
    }
    if !resources_may_change {
        if !same(now, Some(&before)) {
            errors.push(template.invalid("field is immutable"));
        }
        return;
    }
    let pod = template.child("spec");
    let mut left = pod.value().cloned().unwrap_or_default();
    let before = before.get("spec");
    keep_resources(&mut left, &Field::placed(before, ""));
    if !same(Some(&left), before) {
        errors.push(pod.invalid("field is immutable"));
    }
}

/// Copies the scheduling directives, labels and annotations of `now` to a template. Of the affinity, only the node
/// affinity is copied.
fn take_directives(template: &mut Value, now: &Value) {
    let mut take = |path: &[&str]| put_at(template, path, now.at(path).cloned());
    for part in ["labels", "annotations"] {
        take(&["metadata", part]);
    }
    for part in ["nodeSelector", "tolerations", "schedulingGates"] {
        take(&["spec", part]);
    }
    take(&["spec", "affinity", "nodeAffinity"]);
    let is_empty = |affinity: &Value| affinity.as_map().is_some_and(|map| map.is_empty());
    match now.at(&["spec", "affinity"]) {
        Some(_) if template.at(&["spec", "affinity"]).is_none() => {
            template.set_at(&["spec", "affinity"], Value::empty_map());
        }
        None if template.at(&["spec", "affinity"]).is_some_and(is_empty) => {
            template.remove_at(&["spec", "affinity"]);
        }
        _ => {}
    }
}

/// Restores the old resources of the containers in a Pod spec.
fn keep_resources(spec: &mut Value, before: &Field<'_, '_>) {
    for list in ["containers", "initContainers"] {
        let before = before.child(list);
        let Some(Value::List(containers)) = spec.at_mut(&[list]) else {
            continue;
        };
        if containers.len() != before.len() {
            continue;
        }
        for (container, before) in containers.make_mut().iter_mut().zip(before.slice()) {
            if container.get("name") != before.get("name") {
                continue;
            }
            put_at(container, &["resources"], before.get("resources").cloned());
        }
    }
}
