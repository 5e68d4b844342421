//! Validation of the status of Jobs.

use std::collections::HashSet;

use holdfast_schema::{Check, Field, FieldError, Part, Rules};
use holdfast_value::json;

use super::indexed::{overlap, validate_indexes};
use super::validation::invalid_without_value;
use crate::rules::JobStatusRule;
use crate::validation::Errors;

/// An update of the status of a Job. Most rules apply only to changed fields, so that a status that predates a rule and
/// breaks it can still be updated.
struct Change<'f, 'v, 'p> {
    spec: &'f Field<'v, 'p>,
    status: &'f Field<'v, 'p>,
    old: &'f Field<'v, 'p>,
}

/// Validates an update of the status.
///
/// upstream: pkg/apis/batch/validation#ValidateJobUpdateStatus
pub(super) fn validate_status_update(new: &Field<'_, '_>, old: &Field<'_, '_>, errors: &mut Errors) {
    let (spec, status, old) = (new.child("spec"), new.child("status"), old.child("status"));
    let change = Change {
        spec: &spec,
        status: &status,
        old: &old,
    };
    change.validate_outcome(errors);
    change.validate_finished(errors);
    change.validate_indexes(errors);
    change.validate_pods(errors);
    change.validate_criteria(errors);
    change.validate_kept(errors);
}

/// Hand-written checks of the counts in a status.
pub(super) struct CountRules;

impl<'v> Rules<'v> for CountRules {
    type Rule = JobStatusRule;

    fn rule(&self, rule: JobStatusRule, status: &Part<'v, '_>, check: &mut Check<'_>) {
        let JobStatusRule::Uncounted = rule;
        validate_uncounted(status, &mut check.errors);
    }
}

/// Validates that the terminated Pods that are not counted yet are distinct.
///
/// upstream: pkg/apis/batch/validation#validateJobStatus
fn validate_uncounted(status: &Field<'_, '_>, errors: &mut Errors) {
    let uncounted = status.child("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for list in ["succeeded", "failed"] {
        for pod in uncounted.child(list).items() {
            if pod.text().is_empty() {
                errors.push(pod.invalid_text("must not be empty"));
            } else if !seen.insert(pod.text()) {
                errors.push(pod.duplicate());
            }
        }
    }
}

/// Returns true if the status has a condition of type `condition` with status `True`.
pub(super) fn holds(status: &Field<'_, '_>, condition: &str) -> bool {
    let conditions = status.child("conditions");
    conditions
        .items()
        .any(|found| found.child("type").text() == condition && found.child("status").text() == "True")
}

impl Change<'_, '_, '_> {
    fn is(&self, condition: &str) -> bool {
        holds(self.status, condition)
    }

    fn was(&self, condition: &str) -> bool {
        holds(self.old, condition)
    }

    fn turned(&self, condition: &str) -> bool {
        self.is(condition) != self.was(condition)
    }

    fn changed(&self, part: &str) -> bool {
        self.status.child(part).value() != self.old.child(part).value()
    }

    fn finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn turned_finished(&self) -> bool {
        self.finished() != (self.was("Complete") || self.was("Failed"))
    }

    fn refuse(&self, detail: &str) -> FieldError {
        invalid_without_value(&self.status.child("conditions"), detail)
    }

    /// Validates the outcome of the Job and its times.
    ///
    /// upstream: pkg/apis/batch/validation#validateJobStatus
    fn validate_outcome(&self, errors: &mut Errors) {
        let (complete, failed) = (self.is("Complete"), self.is("Failed"));
        let (began, ended) = (self.status.child("startTime"), self.status.child("completionTime"));
        if complete && failed && (self.turned("Complete") || self.turned("Failed")) {
            errors.push(self.refuse("cannot set Complete=True and Failed=true conditions"));
        }
        if complete && self.is("FailureTarget") && (self.turned("Complete") || self.turned("FailureTarget")) {
            errors.push(self.refuse("cannot set Complete=True and FailureTarget=true conditions"));
        }
        if self.turned("Complete") || self.changed("completionTime") {
            if !complete && ended.is_set() {
                errors.push(ended.invalid("cannot set completionTime when there is no Complete=True condition"));
            }
            if complete && !ended.is_set() {
                errors.push(ended.required("completionTime is required for Complete jobs"));
            }
        }
        // Times are stored in one format, which sorts chronologically.
        let reversed = began.is_set() && ended.is_set() && ended.text() < began.text();
        if reversed && (self.changed("startTime") || self.changed("completionTime")) {
            errors.push(ended.invalid("must be equal to or after `startTime`"));
        }
        if failed && !self.is("FailureTarget") && (self.turned("Failed") || self.changed("failedIndexes")) {
            errors.push(self.refuse("cannot set Failed=True condition without the FailureTarget=true condition"));
        }
        if complete && !self.is("SuccessCriteriaMet") && (self.turned("Complete") || self.turned("SuccessCriteriaMet"))
        {
            errors
                .push(self.refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"));
        }
    }

    /// Validates that a finished Job has a start time, and has no Pods left to run or count.
    ///
    /// upstream: pkg/apis/batch/validation#validateJobStatus
    fn validate_finished(&self, errors: &mut Errors) {
        if !self.finished() {
            return;
        }
        let turned = self.turned_finished();
        let (active, began) = (self.status.child("active"), self.status.child("startTime"));
        if (turned || self.changed("active")) && active.number() > Some(0) {
            errors.push(active.invalid("active>0 is invalid for finished job"));
        }
        let never_ran = self.spec.child("suspend").is_true() && self.spec.child("completions").number() == Some(0);
        if (turned || self.changed("startTime")) && !never_ran && !began.is_set() {
            errors.push(began.required("startTime is required for finished job"));
        }
        let uncounted = self.status.child("uncountedTerminatedPods");
        let (succeeded, failed) = (uncounted.child("succeeded"), uncounted.child("failed"));
        if (turned || self.changed("uncountedTerminatedPods")) && !(succeeded.is_empty() && failed.is_empty()) {
            // The reference shows its internal names in its own order.
            let shown = |list: &Field<'_, '_>| list.value().map_or_else(|| "null".to_owned(), json::to_string);
            let (succeeded, failed) = (shown(&succeeded), shown(&failed));
            let detail = format!("{{\"Succeeded\":{succeeded},\"Failed\":{failed}}}: must be empty for finished job");
            errors.push(invalid_without_value(&uncounted, &detail));
        }
    }

    /// upstream: pkg/apis/batch/validation#validateJobStatus
    fn validate_indexes(&self, errors: &mut Errors) {
        let (completed, failed) = (
            self.status.child("completedIndexes"),
            self.status.child("failedIndexes"),
        );
        let (completed_changed, failed_changed) = (self.changed("completedIndexes"), self.changed("failedIndexes"));
        let completions = self.spec.child("completions").number();
        let by_index = self.spec.child("backoffLimitPerIndex").is_set();
        if let Some(completions) = completions {
            if completed_changed {
                validate_indexes(&completed, "completedIndexes", completions, errors);
            }
            if failed_changed && by_index {
                validate_indexes(&failed, "failedIndexes", completions, errors);
            }
        }
        let indexed = self.spec.child("completionMode").text() == "Indexed";
        if completed_changed && !completed.text().is_empty() && !indexed {
            errors.push(completed.invalid("cannot set non-empty completedIndexes when non-indexed completion mode"));
        }
        if failed_changed && failed.is_set() && !by_index {
            errors.push(failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null"));
        }
        if (completed_changed || failed_changed)
            && let Some(completions) = completions
            && let Some(index) = overlap(completed.text(), failed.text(), completions)
        {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.push(failed.invalid(detail));
        }
    }

    /// upstream: pkg/apis/batch/validation#validateJobStatus
    fn validate_pods(&self, errors: &mut Errors) {
        let (active, ready) = (self.status.child("active"), self.status.child("ready"));
        let terminating = self.status.child("terminating");
        let leaving = self.finished() && terminating.number() > Some(0);
        if leaving && (self.turned_finished() || self.changed("terminating")) {
            errors.push(terminating.invalid("terminating>0 is invalid for finished job"));
        }
        let unready = ready.number() > Some(active.number().unwrap_or_default());
        if unready && (self.changed("ready") || self.changed("active")) {
            errors.push(ready.invalid("cannot set more ready pods than active"));
        }
    }

    /// upstream: pkg/apis/batch/validation#validateJobStatus
    fn validate_criteria(&self, errors: &mut Errors) {
        let met = self.is("SuccessCriteriaMet");
        if met && self.is("Failed") {
            errors.push(self.refuse("cannot set SuccessCriteriaMet=True and Failed=true conditions"));
        }
        if met && self.is("FailureTarget") {
            errors.push(self.refuse("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"));
        }
        if self.spec.child("successPolicy").is_set() && !met && self.is("Complete") {
            errors.push(
                self.refuse("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"),
            );
        }
    }

    /// Validates changes that cannot be reverted.
    ///
    /// upstream: pkg/apis/batch/validation#ValidateJobStatusUpdate
    fn validate_kept(&self, errors: &mut Errors) {
        for condition in ["Failed", "Complete", "FailureTarget"] {
            if self.was(condition) && !self.is(condition) {
                errors.push(self.refuse(&format!("cannot disable the terminal {condition}=True condition")));
            }
        }
        self.not_fewer("failed", errors);
        let (completions, parallelism) = (self.spec.child("completions"), self.spec.child("parallelism"));
        // An elastic indexed Job may shrink, and with it the number of succeeded Pods.
        let elastic =
            self.spec.child("completionMode").text() == "Indexed" && completions.value() == parallelism.value();
        if !elastic {
            self.not_fewer("succeeded", errors);
        }
        self.validate_times_kept(errors);
        let (met, had_met) = (self.is("SuccessCriteriaMet"), self.was("SuccessCriteriaMet"));
        if had_met && !met {
            errors.push(self.refuse("cannot disable the SuccessCriteriaMet=True condition"));
        }
        if self.was("Complete") && !had_met && met {
            errors.push(self.refuse("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"));
        }
    }

    /// upstream: pkg/apis/batch/validation#ValidateJobStatusUpdate
    fn not_fewer(&self, count: &str, errors: &mut Errors) {
        let (now, before) = (self.status.child(count), self.old.child(count));
        if now.number().unwrap_or_default() < before.number().unwrap_or_default() {
            errors.push(now.invalid_number(format!("cannot decrease the {count} counter")));
        }
    }

    /// upstream: pkg/apis/batch/validation#ValidateJobStatusUpdate
    fn validate_times_kept(&self, errors: &mut Errors) {
        let (began, ended) = (self.status.child("startTime"), self.status.child("completionTime"));
        if self.old.child("completionTime").is_set() && ended.is_set() && self.changed("completionTime") {
            errors.push(ended.invalid("field is immutable"));
        }
        let suspended = self.spec.child("suspend").is_true();
        if self.old.child("startTime").is_set() && !suspended && self.changed("startTime") {
            errors.push(began.invalid("field is immutable for unsuspended job once set"));
        }
    }
}
