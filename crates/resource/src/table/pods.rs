//! What tables tell of pods: how many containers are ready, what the pod does, how often it was started anew.

use std::time::SystemTime;

use holdfast_value::Value;

use super::super::cell::{condition, items};
use super::ago;

/// Containers that are ready, of all: `1/2`. Init containers that go on beside the others count too.
pub(super) fn ready(pod: &Value) -> Value {
    let sidecars = items(pod, &["spec", "initContainers"])
        .iter()
        .filter(|container| restarts_always(container));
    let total = items(pod, &["spec", "containers"]).len() + sidecars.count();
    let running = items(pod, &["status", "containerStatuses"]).iter();
    let running = running.filter(|status| flag(status, "ready") && status.at(&["state", "running"]).is_some());
    let started = items(pod, &["status", "initContainerStatuses"]).iter();
    let started = started.filter(|status| is_sidecar(pod, status) && flag(status, "started") && flag(status, "ready"));
    format!("{}/{total}", running.count() + started.count()).into()
}

/// How often containers were started anew, and how long ago the last time was: `3 (5m ago)`.
pub(super) fn restarts(pod: &Value, now: SystemTime) -> Value {
    let init = items(pod, &["status", "initContainerStatuses"]);
    let statuses: Vec<&Value> = match initializing(pod) {
        Some(_) => init.iter().collect(),
        None => {
            let sidecars = init.iter().filter(|status| is_sidecar(pod, status));
            sidecars.chain(items(pod, &["status", "containerStatuses"])).collect()
        }
    };
    let counts = statuses
        .iter()
        .filter_map(|status| status.get("restartCount")?.as_i64());
    let count: i64 = counts.sum();
    let ends = statuses
        .iter()
        .filter_map(|status| status.str_at(&["lastState", "terminated", "finishedAt"]));
    match ago(ends.map(str::to_owned), now) {
        Some(ago) if count > 0 => format!("{count} ({ago} ago)").into(),
        _ => count.to_string().into(),
    }
}

/// What the pod does, in a word.
pub(super) fn status(pod: &Value) -> Value {
    let reason = pod.str_at(&["status", "reason"]).filter(|reason| !reason.is_empty());
    let phase = pod.str_at(&["status", "phase"]).unwrap_or_default();
    let mut status = reason.unwrap_or(phase).to_owned();
    let scheduled = condition(pod, "PodScheduled").and_then(|scheduled| scheduled.str_at(&["reason"]));
    if scheduled == Some("SchedulingGated") {
        status = "SchedulingGated".to_owned();
    }
    let initialized = condition(pod, "Initialized").and_then(|found| found.str_at(&["status"])) == Some("True");
    match initializing(pod) {
        Some(text) if !initialized => status = text,
        _ => status = of_containers(pod, status),
    }
    if pod.at(&["metadata", "deletionTimestamp"]).is_some() {
        if reason == Some("NodeLost") {
            status = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            status = "Terminating".to_owned();
        }
    }
    status.into()
}

/// How many of the conditions that the pod asks for hold, of all: `1/2`.
pub(super) fn readiness_gates(pod: &Value) -> Value {
    let gates = items(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".into();
    }
    let holds = |gate: &&Value| {
        let found = gate.str_at(&["conditionType"]).and_then(|of| condition(pod, of));
        found.and_then(|found| found.str_at(&["status"])) == Some("True")
    };
    format!("{}/{}", gates.iter().filter(holds).count(), gates.len()).into()
}

/// What the first init container that is not done does; `None` where all are done.
fn initializing(pod: &Value) -> Option<String> {
    let statuses = items(pod, &["status", "initContainerStatuses"]);
    let total = items(pod, &["spec", "initContainers"]).len();
    for (at, status) in statuses.iter().enumerate() {
        let terminated = status.at(&["state", "terminated"]);
        if terminated.and_then(exit_code) == Some(0) || is_sidecar(pod, status) && flag(status, "started") {
            continue;
        }
        let text = match (terminated, status.str_at(&["state", "waiting", "reason"])) {
            (Some(terminated), _) => format!("Init:{}", end(terminated)),
            (None, Some(reason)) if !reason.is_empty() && reason != "PodInitializing" => format!("Init:{reason}"),
            _ => format!("Init:{at}/{total}"),
        };
        return Some(text);
    }
    None
}

fn of_containers(pod: &Value, mut status: String) -> String {
    let statuses = items(pod, &["status", "containerStatuses"]);
    let (mut any_running, mut failed) = (false, None);
    for container in statuses.iter().rev() {
        let waiting = container
            .str_at(&["state", "waiting", "reason"])
            .filter(|reason| !reason.is_empty());
        if let Some(reason) = waiting {
            status = reason.to_owned();
        } else if let Some(terminated) = container.at(&["state", "terminated"]) {
            status = end(terminated);
            if exit_code(terminated) != Some(0) {
                failed = Some(status.clone());
            }
        } else if flag(container, "ready") && container.at(&["state", "running"]).is_some() {
            any_running = true;
        }
    }
    if status == "Completed" {
        let ready = condition(pod, "Ready").and_then(|ready| ready.str_at(&["status"])) == Some("True");
        match (any_running, ready, failed) {
            (true, true, _) => return "Running".to_owned(),
            (_, _, Some(reason)) => return reason,
            (true, false, None) => return "NotReady".to_owned(),
            _ => {}
        }
    }
    status
}

/// How a container ended.
fn end(terminated: &Value) -> String {
    if let Some(reason) = terminated.str_at(&["reason"]).filter(|reason| !reason.is_empty()) {
        return reason.to_owned();
    }
    match terminated.get("signal").and_then(Value::as_i64).unwrap_or_default() {
        0 => format!("ExitCode:{}", exit_code(terminated).unwrap_or_default()),
        signal => format!("Signal:{signal}"),
    }
}

fn exit_code(terminated: &Value) -> Option<i64> {
    Some(terminated.get("exitCode").and_then(Value::as_i64).unwrap_or_default())
}

fn restarts_always(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == Some("Always")
}

/// Whether the status is that of an init container that goes on beside the others.
fn is_sidecar(pod: &Value, status: &Value) -> bool {
    let name = status.str_at(&["name"]);
    let mut containers = items(pod, &["spec", "initContainers"]).iter();
    containers.any(|container| container.str_at(&["name"]) == name && restarts_always(container))
}

fn flag(status: &Value, field: &str) -> bool {
    status.get(field).and_then(Value::as_bool).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use holdfast_value::{Limits, json};

    use super::*;

    fn pod(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
    }

    #[test]
    fn a_pod_is_told_in_a_word() {
        for (text, expected) in [
            (r#"{"status":{"phase":"Pending"}}"#, "Pending"),
            (
                r#"{"metadata":{"deletionTimestamp":"x"},"status":{"phase":"Running"}}"#,
                "Terminating",
            ),
            (
                r#"{"status":{"phase":"Running","containerStatuses":[{"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}"#,
                "CrashLoopBackOff",
            ),
            (
                r#"{"spec":{"initContainers":[{"name":"a"},{"name":"b"}]},"status":{"phase":"Pending","initContainerStatuses":[
                    {"name":"a","state":{"terminated":{"exitCode":0}}},{"name":"b","state":{"running":{}}}]}}"#,
                "Init:1/2",
            ),
            (
                r#"{"status":{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":3}}}]}}"#,
                "ExitCode:3",
            ),
        ] {
            assert_eq!(status(&pod(text)), Value::from(expected), "{text}");
        }
    }

    #[test]
    fn restarts_tell_how_long_ago_the_last_was() {
        let text = r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}]},"status":{"containerStatuses":[
            {"name":"a","restartCount":2,"ready":true,"state":{"running":{}},
             "lastState":{"terminated":{"finishedAt":"1970-01-01T00:00:10Z"}}}]}}"#;
        let now = UNIX_EPOCH + Duration::from_secs(70);
        assert_eq!(restarts(&pod(text), now), Value::from("2 (60s ago)"));
        assert_eq!(ready(&pod(text)), Value::from("1/2"));
    }
}
