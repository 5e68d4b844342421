//! Table cells of Jobs.

use std::time::SystemTime;

use holdfast_resource::table::{NamedCell, condition, duration, parse_time};
use holdfast_value::Value;

/// Table cells that are not just the value at a path.
pub(in crate::batch) const CELLS: &[NamedCell] = &[
    ("job-completions", |object, _| job_completions(object)),
    ("job-duration", job_duration),
    ("job-status", |object, _| job_status(object)),
];

fn job_completions(job: &Value) -> Value {
    let number = |path: &[&str]| job.at(path).and_then(Value::as_i64);
    let succeeded = number(&["status", "succeeded"]).unwrap_or_default();
    match (
        number(&["spec", "completions"]),
        number(&["spec", "parallelism"]).unwrap_or_default(),
    ) {
        (Some(completions), _) => format!("{succeeded}/{completions}").into(),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}").into(),
        _ => format!("{succeeded}/1").into(),
    }
}

fn job_duration(job: &Value, now: SystemTime) -> Value {
    let time = |field| job.str_at(&["status", field]).and_then(parse_time);
    let Some(start) = time("startTime") else {
        return "".into();
    };
    let end = time("completionTime").unwrap_or(now);
    duration(end.duration_since(start).unwrap_or_default()).into()
}

fn job_status(job: &Value) -> Value {
    let holds = |of: &str| condition(job, of).and_then(|found| found.str_at(&["status"])) == Some("True");
    let status = match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if job.at(&["metadata", "deletionTimestamp"]).is_some() => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    status.into()
}
