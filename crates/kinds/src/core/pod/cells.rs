//! Cells of Pods in tables: ready containers, status and restarts.

use std::collections::HashSet;
use std::time::SystemTime;

use holdfast_resource::table::{NamedCell, age, condition, items, parse_time};
use holdfast_value::Value;

/// Table cells that show more than the value at one path.
pub(in crate::core) const CELLS: &[NamedCell] = &[
    ("pod-ip", |object, _| match items(object, &["status", "podIPs"]) {
        [first, ..] => first.str_at(&["ip"]).unwrap_or_default().into(),
        [] => "<none>".into(),
    }),
    ("pod-readiness-gates", |object, _| readiness_gates(object)),
    ("pod-ready", |object, _| ready(object)),
    ("pod-restarts", restarts),
    ("pod-status", |object, _| status(object)),
];

/// Returns the number of ready containers of all: `1/2`. Sidecars count too.
fn ready(pod: &Value) -> Value {
    let containers = Containers::from_pod(pod);
    let total = items(pod, &["spec", "containers"]).len() + containers.sidecars.len();
    format!("{}/{total}", containers.ready()).into()
}

/// Returns the number of restarts and the time since the last one: `3 (5m ago)`.
fn restarts(pod: &Value, now: SystemTime) -> Value {
    let statuses = Containers::from_pod(pod).restarting();
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

/// Returns the time since the latest of `times`, as printed after the number of restarts.
fn ago(times: impl Iterator<Item = String>, now: SystemTime) -> Option<String> {
    let latest = times.max_by_key(|time| parse_time(time))?;
    Some(age(Some(&latest), now))
}

/// Returns the status of the pod in one word.
fn status(pod: &Value) -> Value {
    let reason = pod.str_at(&["status", "reason"]).filter(|reason| !reason.is_empty());
    let phase = pod.str_at(&["status", "phase"]).unwrap_or_default();
    let mut status = reason.unwrap_or(phase).to_owned();
    let scheduled = condition(pod, "PodScheduled").and_then(|scheduled| scheduled.str_at(&["reason"]));
    if scheduled == Some("SchedulingGated") {
        status = "SchedulingGated".to_owned();
    }
    let containers = Containers::from_pod(pod);
    if let Some(text) = containers.initializing() {
        status = text;
    }
    if containers.counts_main() {
        status = of_containers(pod, status);
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

/// Containers of a pod that count: those after the init container that the pod waits for do not.
struct Containers<'v> {
    pod: &'v Value,
    /// Names of the sidecars.
    sidecars: HashSet<&'v str>,
    /// Statuses of the init containers up to the first one that is not done, if there is one.
    init: &'v [Value],
    /// True if the last of these is not done.
    waits: bool,
}

impl<'v> Containers<'v> {
    #[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
    fn from_pod(pod: &'v Value) -> Self {
        let sidecars = items(pod, &["spec", "initContainers"])
            .iter()
            .filter(|container| container.str_at(&["restartPolicy"]) == Some("Always"));
        let mut containers = Self {
            pod,
            sidecars: sidecars.filter_map(|container| container.str_at(&["name"])).collect(),
            init: items(pod, &["status", "initContainerStatuses"]),
            waits: false,
        };
        let mut statuses = containers.init.iter();
        if let Some(at) = statuses.position(|status| !containers.is_done(status)) {
            (containers.init, containers.waits) = (&containers.init[..=at], true);
        }
        containers
    }

    /// Returns true if the pod no longer waits for the init container.
    fn is_done(&self, status: &Value) -> bool {
        let ended = status.at(&["state", "terminated"]).and_then(exit_code);
        ended == Some(0) || self.is_sidecar(status) && flag(status, "started")
    }

    fn is_sidecar(&self, status: &Value) -> bool {
        status
            .str_at(&["name"])
            .is_some_and(|name| self.sidecars.contains(name))
    }

    /// Returns true if the main containers count: the init containers are done or the condition Initialized is true.
    fn counts_main(&self) -> bool {
        let initialized = || condition(self.pod, "Initialized").and_then(|found| found.str_at(&["status"]));
        !self.waits || initialized() == Some("True")
    }

    fn main(&self) -> &'v [Value] {
        match self.counts_main() {
            true => items(self.pod, &["status", "containerStatuses"]),
            false => &[],
        }
    }

    fn ready(&self) -> usize {
        let ended = |status: &Value| status.at(&["state", "terminated"]).and_then(exit_code) == Some(0);
        let sidecars = self.init.iter().filter(|status| {
            !ended(status) && self.is_sidecar(status) && flag(status, "started") && flag(status, "ready")
        });
        sidecars.count() + self.main().iter().filter(|status| is_running(status)).count()
    }

    /// Returns the statuses whose restarts count. Once the main containers started, only sidecars of the init
    /// containers do.
    fn restarting(&self) -> Vec<&'v Value> {
        let all = !self.counts_main();
        let init = self.init.iter().filter(|status| all || self.is_sidecar(status));
        init.chain(self.main()).collect()
    }

    /// Returns the state of the init container that the pod waits for, or `None` if it waits for none.
    fn initializing(&self) -> Option<String> {
        let status = self.init.last().filter(|_| self.waits)?;
        let waiting = status.str_at(&["state", "waiting", "reason"]);
        Some(match (status.at(&["state", "terminated"]), waiting) {
            (Some(terminated), _) => format!("Init:{}", end(terminated)),
            (None, Some(reason)) if !reason.is_empty() && reason != "PodInitializing" => format!("Init:{reason}"),
            _ => {
                let total = items(self.pod, &["spec", "initContainers"]).len();
                format!("Init:{}/{total}", self.init.len() - 1)
            }
        })
    }
}

/// Returns the number of readiness gates whose conditions are true, of all: `1/2`.
fn readiness_gates(pod: &Value) -> Value {
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
        } else if is_running(container) {
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

fn is_running(container: &Value) -> bool {
    flag(container, "ready") && container.at(&["state", "running"]).is_some()
}

/// Returns the reason, signal or exit code of a terminated container.
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
    fn a_pod_is_summed_up_in_a_word() {
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
    fn containers_after_waiting_init_container_do_not_count() {
        let pending = |conditions: &str| {
            pod(&format!(
                r#"{{"spec":{{"containers":[{{"name":"c"}}],"initContainers":[{{"name":"a"}},{{"name":"s","restartPolicy":"Always"}}]}},
                "status":{{"phase":"Pending","conditions":[{conditions}],"initContainerStatuses":[
                    {{"name":"a","restartCount":1,"state":{{"running":{{}}}}}},
                    {{"name":"s","restartCount":3,"started":true,"ready":true,"state":{{"running":{{}}}}}}],
                "containerStatuses":[{{"name":"c","restartCount":5,"ready":true,"state":{{"running":{{}}}}}}]}}}}"#
            ))
        };
        let cells = |pod: &Value| [ready(pod), status(pod), restarts(pod, UNIX_EPOCH)];
        assert_eq!(cells(&pending("")), ["0/2", "Init:0/2", "1"].map(Value::from));
        let initialized = pending(r#"{"type":"Initialized","status":"True"}"#);
        assert_eq!(cells(&initialized), ["1/2", "Init:0/2", "5"].map(Value::from));
    }

    #[test]
    fn restarts_show_how_long_ago_the_last_was() {
        let text = r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}]},"status":{"containerStatuses":[
            {"name":"a","restartCount":2,"ready":true,"state":{"running":{}},
             "lastState":{"terminated":{"finishedAt":"1970-01-01T00:00:10Z"}}}]}}"#;
        let now = UNIX_EPOCH + Duration::from_secs(70);
        assert_eq!(restarts(&pod(text), now), Value::from("2 (60s ago)"));
        assert_eq!(ready(&pod(text)), Value::from("1/2"));
    }
}
