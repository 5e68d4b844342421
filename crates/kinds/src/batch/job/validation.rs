//! What is wrong with a Job.

use std::collections::HashSet;

use holdfast_resource::metadata::formats::{dns_label, domain_prefixed_path, qualified_name};
use holdfast_resource::metadata::labels::{LabelSelector, invalid_selector, validate_label_selector};
use holdfast_resource::{Field, FieldError, FieldErrorKind};
use holdfast_value::Value;

use super::indexed::{validate_index_limits, validate_success_policy};
use super::{CONTROLLER_UID, JOB_NAME, OLD_CONTROLLER_UID, OLD_JOB_NAME};
use crate::core::pod_spec::validate_template;
use crate::validation::{Errors, immutable, numbers, one_of, same};
use crate::workload::immutable_selector;

const MANAGER_LENGTH: usize = 63;
const FAILURE_RULES: usize = 20;
const CONDITION_PATTERNS: usize = 20;
const EXIT_CODES: usize = 255;

/// Checks a Job.
pub(super) fn validate_job(job: &Field<'_, '_>, allow_privileged: bool) -> Errors {
    let mut errors = Errors::new();
    validate_made_selector(job, &mut errors);
    validate_own_spec(job, allow_privileged, &mut errors);
    validate_host_names(job, &mut errors);
    errors
}

/// Pods of an indexed Job are hosts named by the Job and their index: the longest such name has to be one of a host.
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

/// Checks the specification of a Job, its selector included.
pub(super) fn validate_own_spec(job: &Field<'_, '_>, allow_privileged: bool, errors: &mut Errors) {
    let spec = job.child("spec");
    validate_job_spec(&spec, allow_privileged, errors);
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

/// A selector that the server makes up is not the client's to write.
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

/// Checks what Jobs and the templates of CronJobs share.
pub(in crate::batch) fn validate_job_spec(spec: &Field<'_, '_>, allow_privileged: bool, errors: &mut Errors) {
    for part in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ] {
        numbers::not_negative(&spec.child(part), errors);
    }
    let (per_index, most_failed) = (spec.child("backoffLimitPerIndex"), spec.child("maxFailedIndexes"));
    if most_failed.is_set() {
        numbers::not_negative(&most_failed, errors);
        if !per_index.is_set() {
            errors.push(per_index.required("when maxFailedIndexes is specified"));
        }
    }
    validate_manager(&spec.child("managedBy"), errors);
    let mode = spec.child("completionMode");
    if mode.is_set() && !matches!(mode.text(), "NonIndexed" | "Indexed") {
        errors.push(mode.not_supported(&["NonIndexed", "Indexed"]));
    }
    let indexed = mode.text() == "Indexed";
    if indexed {
        validate_index_limits(spec, errors);
    } else if !mode.is_set() || mode.text() == "NonIndexed" {
        for part in [&per_index, &most_failed] {
            if part.is_set() {
                errors.push(part.invalid("requires indexed completion mode"));
            }
        }
    }
    let template = spec.child("template");
    validate_failure_policy(spec, errors);
    let success = spec.child("successPolicy");
    if success.is_set() && !indexed {
        errors.push(success.invalid("requires indexed completion mode"));
    } else if success.is_set() {
        validate_success_policy(&success, spec.child("completions").number(), errors);
    }
    let replacement = spec.child("podReplacementPolicy");
    if replacement.is_set() {
        let by_failure = spec.child("podFailurePolicy").is_set();
        let supported: &[&str] = if by_failure {
            &["Failed"]
        } else {
            &["Failed", "TerminatingOrFailed"]
        };
        one_of(&replacement, supported, errors);
    }
    validate_template(&template, allow_privileged, errors);
    let pod = template.child("spec");
    let restart = pod.child("restartPolicy");
    match restart.text() {
        "OnFailure" if spec.child("podFailurePolicy").is_set() => {
            errors.push(restart.invalid("only \"Never\" is supported when podFailurePolicy is specified"));
        }
        "OnFailure" | "Never" => {}
        "" | "Always" => errors.push(restart.required("valid values: \"OnFailure\", \"Never\"")),
        _ => errors.push(restart.not_supported(&["OnFailure", "Never"])),
    }
}

fn validate_manager(manager: &Field<'_, '_>, errors: &mut Errors) {
    if !manager.is_set() {
        return;
    }
    errors.extend(domain_prefixed_path(&manager.path(), manager.text()));
    if manager.text().len() > MANAGER_LENGTH {
        errors.push(manager.too_long(MANAGER_LENGTH));
    }
}

/// An error that shows no value.
pub(super) fn invalid_without_value(field: &Field<'_, '_>, detail: &str) -> FieldError {
    FieldError {
        kind: FieldErrorKind::Invalid,
        field: field.path(),
        value: None,
        detail: detail.to_owned(),
    }
}

/// Reports a text that is missing or none of `supported`; what is supported is also told where it is missing.
fn stated_one_of(field: &Field<'_, '_>, supported: &[&str], errors: &mut Errors) {
    if field.text().is_empty() {
        let listed: Vec<String> = supported.iter().map(|name| format!("\"{name}\"")).collect();
        errors.push(field.required(format!("valid values: [{}]", listed.join(" "))));
    } else {
        one_of(field, supported, errors);
    }
}

fn validate_failure_policy(spec: &Field<'_, '_>, errors: &mut Errors) {
    let (policy, template) = (spec.child("podFailurePolicy"), spec.child("template"));
    let rules = policy.child("rules");
    if rules.len() > FAILURE_RULES {
        errors.push(rules.too_many(FAILURE_RULES));
    }
    let pod = template.child("spec");
    let names: HashSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| pod.child(list).slice().iter())
        .filter_map(|container| container.str_at(&["name"]))
        .collect();
    for rule in rules.items() {
        let action = rule.child("action");
        stated_one_of(&action, &["Count", "FailIndex", "FailJob", "Ignore"], errors);
        if action.text() == "FailIndex" && !spec.child("backoffLimitPerIndex").is_set() {
            errors.push(action.invalid("requires the backoffLimitPerIndex to be set"));
        }
        let (codes, conditions) = (rule.child("onExitCodes"), rule.child("onPodConditions"));
        if codes.is_set() {
            validate_exit_codes(&codes, &names, errors);
        }
        if conditions.len() > CONDITION_PATTERNS {
            errors.push(conditions.too_many(CONDITION_PATTERNS));
        }
        for condition in conditions.items() {
            let (sort, status) = (condition.child("type"), condition.child("status"));
            crate::validation::report(&sort, qualified_name(sort.text()), errors);
            stated_one_of(&status, &["False", "True", "Unknown"], errors);
        }
        match (codes.is_set(), !conditions.is_empty()) {
            (true, true) => errors.push(invalid_without_value(
                &rule,
                "specifying both OnExitCodes and OnPodConditions is not supported",
            )),
            (false, false) => errors.push(invalid_without_value(
                &rule,
                "specifying one of OnExitCodes and OnPodConditions is required",
            )),
            _ => {}
        }
    }
}

fn validate_exit_codes(codes: &Field<'_, '_>, names: &HashSet<&str>, errors: &mut Errors) {
    let (operator, container, values) = (
        codes.child("operator"),
        codes.child("containerName"),
        codes.child("values"),
    );
    stated_one_of(&operator, &["In", "NotIn"], errors);
    if container.is_set() && !names.contains(container.text()) {
        errors.push(container.invalid("must be one of the container or initContainer names in the pod template"));
    }
    if values.is_empty() {
        errors.push(values.invalid("at least one value is required"));
    } else if values.len() > EXIT_CODES {
        errors.push(values.too_many(EXIT_CODES));
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

/// Reports changes of what a Job keeps once it is there.
pub(super) fn validate_change(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.child("spec"), old.child("spec"));
    validate_completions(&spec, &old_spec, errors);
    immutable_selector(&spec, &old_spec, errors);
    validate_template_change(&spec, old, errors);
    for part in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        immutable(&spec.child(part), &old_spec.child(part), errors);
    }
}

/// An indexed Job may grow and shrink as long as all of it runs at once.
fn validate_completions(spec: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (completions, before) = (spec.child("completions"), old.child("completions"));
    if same(completions.value(), before.value()) {
        return;
    }
    if spec.child("completionMode").text() != "Indexed" {
        immutable(&completions, &before, errors);
        return;
    }
    // That an indexed Job needs them is said already.
    if completions.is_set() && completions.number() != spec.child("parallelism").number() {
        errors.push(completions.invalid("can only be modified in tandem with spec.parallelism"));
    }
}

/// The template stays, but for its metadata and where Pods may run while the Job is suspended and has not begun.
fn validate_template_change(spec: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let old_spec = old.child("spec");
    let (template, before) = (spec.child("template"), old_spec.child("template"));
    let idle = old_spec.child("suspend").is_true() && !old.child("status").child("startTime").is_set();
    if !idle {
        immutable(&template, &before, errors);
        return;
    }
    let (pod, before) = (template.child("spec"), before.child("spec"));
    let mut left = pod.value().cloned().unwrap_or_default();
    for part in ["nodeSelector", "affinity", "tolerations", "schedulingGates"] {
        match before.child(part).value() {
            Some(value) => left.set_at(&[part], value.clone()),
            None => {
                left.remove_at(&[part]);
            }
        }
    }
    keep_resources(&mut left, &before);
    if !same(Some(&left), before.value()) {
        errors.push(pod.invalid("field is immutable"));
    }
}

/// Gives the containers of a pod specification the resources that they had before.
fn keep_resources(spec: &mut Value, before: &Field<'_, '_>) {
    let Some(Value::List(containers)) = spec.at_mut(&["containers"]) else {
        return;
    };
    let before = before.child("containers");
    for (container, before) in containers.make_mut().iter_mut().zip(before.slice()) {
        if let Some(resources) = before.get("resources") {
            container.set_at(&["resources"], resources.clone());
        }
    }
}
