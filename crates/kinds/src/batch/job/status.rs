//! What may be said of the progress of a Job.

use holdfast_resource::{Field, FieldError};

use crate::validation::{Errors, numbers, same};

/// Checks a write to the status.
pub(super) fn validate_status_update(new: &Field<'_, '_>, old: &Field<'_, '_>) -> Errors {
    let mut errors = Errors::new();
    let (status, old_status) = (new.child("status"), old.child("status"));
    for count in ["active", "succeeded", "failed", "ready", "terminating"] {
        numbers::not_negative(&status.child(count), &mut errors);
    }
    let is = |status: &Field<'_, '_>, sort: &str| {
        let conditions = status.child("conditions");
        conditions
            .items()
            .any(|condition| condition.child("type").text() == sort && condition.child("status").text() == "True")
    };
    let (complete, failed) = (is(&status, "Complete"), is(&status, "Failed"));
    let conditions = status.child("conditions");
    let refuse = |detail: &str| FieldError {
        value: None,
        ..conditions.invalid(detail)
    };
    let (began, ended) = (status.child("startTime"), status.child("completionTime"));
    if complete && failed {
        errors.push(refuse("cannot set Complete=True and Failed=true conditions"));
    }
    let finished = complete || failed;
    if finished && !began.is_set() {
        errors.push(began.required("startTime is required for finished job"));
    }
    if complete && !ended.is_set() {
        errors.push(ended.required("completionTime is required for Complete jobs"));
    }
    if !complete && ended.is_set() && !old_status.child("completionTime").is_set() {
        errors.push(ended.invalid("cannot set completionTime when there is no Complete=True condition"));
    }
    if complete && !is(&status, "SuccessCriteriaMet") {
        errors.push(refuse(
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ));
    }
    if failed && !is(&status, "FailureTarget") {
        errors.push(refuse(
            "cannot set Failed=True condition without the FailureTarget=true condition",
        ));
    }
    for (sort, text) in [
        ("Failed", "cannot disable the terminal Failed=True condition"),
        ("Complete", "cannot disable the terminal Complete=True condition"),
        ("FailureTarget", "cannot disable the FailureTarget=True condition"),
        (
            "SuccessCriteriaMet",
            "cannot disable the SuccessCriteriaMet=True condition",
        ),
    ] {
        if is(&old_status, sort) && !is(&status, sort) {
            errors.push(refuse(text));
        }
    }
    let active = status.child("active");
    if finished && active.number().is_some_and(|count| count > 0) {
        errors.push(active.invalid("active>0 is invalid for finished job"));
    }
    let terminating = status.child("terminating");
    if finished && terminating.number().is_some_and(|count| count > 0) {
        errors.push(terminating.invalid("terminating>0 is invalid for finished job"));
    }
    let before = old_status.child("startTime");
    let suspended = new.child("spec").child("suspend").is_true();
    if before.is_set() && !suspended && !same(began.value(), before.value()) {
        errors.push(began.invalid("field is immutable for unsuspended job once set"));
    }
    let before = old_status.child("completionTime");
    if before.is_set() && ended.is_set() && !same(ended.value(), before.value()) {
        errors.push(ended.invalid("field is immutable once set"));
    }
    if began.is_set() && ended.is_set() && ended.text() < began.text() {
        errors.push(ended.invalid("completionTime cannot be set before startTime"));
    }
    errors
}
