//! Cells that are more than what stands at a path: each a function with a name.

use std::fmt;
use std::time::SystemTime;

use holdfast_value::Value;

use super::age::{age, duration, parse_time};
use super::cell::{condition, items, scalar_text};

/// A function that makes a cell.
#[derive(Clone, Copy)]
pub(super) struct Compute {
    name: &'static str,
    function: fn(&Value, SystemTime) -> Value,
}

impl Compute {
    /// The cell of `object`.
    pub(super) fn of(&self, object: &Value, now: SystemTime) -> Value {
        (self.function)(object, now)
    }
}

impl fmt::Debug for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The function of that name.
pub(super) fn by_name(name: &str) -> Option<Compute> {
    let (name, function) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    Some(Compute {
        name,
        function: *function,
    })
}

type Function = fn(&Value, SystemTime) -> Value;

const FUNCTIONS: [(&str, Function); 53] = [
    ("autoscaler-targets", |object, _| autoscaler_targets(object)),
    ("class-parameters", |object, _| class_parameters(object)),
    ("access-modes", |object, _| {
        access_modes(object, &["spec", "accessModes"])
    }),
    ("claim-access-modes", |object, _| match bound(object) {
        true => access_modes(object, &["status", "accessModes"]),
        false => "".into(),
    }),
    ("claim-capacity", |object, _| match bound(object) {
        true => object.str_at(&["status", "capacity", "storage"]).unwrap_or("0").into(),
        false => "".into(),
    }),
    ("claim-reference", |object, _| claim_reference(object)),
    ("component-error", |object, _| component_condition(object, "error", "")),
    ("component-message", |object, _| {
        component_condition(object, "message", "")
    }),
    ("component-status", |object, _| {
        match component_condition(object, "status", "Unknown").as_str() {
            Some("True") => "Healthy".into(),
            Some("False") => "Unhealthy".into(),
            _ => "Unknown".into(),
        }
    }),
    ("controller", |object, _| controller(object)),
    ("cron-suspend", |object, _| cron_suspend(object)),
    ("default-ingress-class", |object, _| {
        default_class(object, &["ingressclass.kubernetes.io/is-default-class"])
    }),
    ("default-storage-class", |object, _| {
        const BETA: &str = "storageclass.beta.kubernetes.io/is-default-class";
        default_class(object, &["storageclass.kubernetes.io/is-default-class", BETA])
    }),
    ("endpoints", |object, _| endpoints::of_subsets(object)),
    ("event-count", |object, _| event_count(object)),
    ("event-message", |object, _| {
        object.str_at(&["message"]).unwrap_or_default().trim().into()
    }),
    ("event-object", |object, _| event_object(object)),
    ("event-source", |object, _| event_source(object)),
    ("ingress-address", |object, _| {
        ingress_addresses(object).join(",").into()
    }),
    ("ingress-hosts", |object, _| ingress_hosts(object)),
    ("ingress-ports", |object, _| match items(object, &["spec", "tls"]) {
        [] => "80".into(),
        _ => "80, 443".into(),
    }),
    ("job-completions", |object, _| job_completions(object)),
    ("job-duration", job_duration),
    ("job-status", |object, _| job_status(object)),
    ("node-external-ip", |object, _| node_address(object, "ExternalIP")),
    ("node-internal-ip", |object, _| node_address(object, "InternalIP")),
    ("node-kernel", |object, _| node_kernel(object)),
    ("node-roles", |object, _| node_roles(object)),
    ("node-status", |object, _| node_status(object)),
    ("parameter-kind", |object, _| parameter_kind(object)),
    ("parameter-reference", |object, _| parameter_reference(object)),
    ("parent-reference", |object, _| parent_reference(object)),
    ("phase-or-terminating", |object, _| {
        match object.at(&["metadata", "deletionTimestamp"]) {
            Some(_) => "Terminating".into(),
            None => object.str_at(&["status", "phase"]).unwrap_or_default().into(),
        }
    }),
    ("pod-ip", |object, _| match items(object, &["status", "podIPs"]) {
        [first, ..] => first.str_at(&["ip"]).unwrap_or_default().into(),
        [] => "<none>".into(),
    }),
    ("pod-readiness-gates", |object, _| pods::readiness_gates(object)),
    ("pod-ready", |object, _| pods::ready(object)),
    ("pod-restarts", pods::restarts),
    ("pod-status", |object, _| pods::status(object)),
    ("quota-limits", |object, _| quota(object, true)),
    ("quota-requests", |object, _| quota(object, false)),
    ("requested-duration", |object, _| requested_duration(object)),
    ("resource-claim-state", |object, _| resource_claim_state(object)),
    ("service-available", |object, _| service_available(object)),
    ("service-external-ip", |object, _| service_external_ip(object)),
    ("service-ports", |object, _| service_ports(object)),
    ("service-reference", |object, _| {
        let text = |field| object.str_at(&["spec", "service", field]).unwrap_or_default();
        match object.at(&["spec", "service"]) {
            Some(service) if !service.is_null() => format!("{}/{}", text("namespace"), text("name")).into(),
            _ => "Local".into(),
        }
    }),
    ("signing-condition", |object, _| signing_condition(object)),
    ("slice-endpoints", |object, _| endpoints::of_slice(object)),
    ("slice-ports", |object, _| endpoints::ports_of_slice(object)),
    ("storage-class", |object, _| {
        const BETA: [&str; 3] = ["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"];
        let class = object
            .str_at(&BETA)
            .or_else(|| object.str_at(&["spec", "storageClassName"]));
        class.unwrap_or_default().into()
    }),
    ("subject-groups", |object, _| subjects(object, "Group", ", ")),
    ("subject-service-accounts", |object, _| {
        subjects(object, "ServiceAccount", ", ")
    }),
    ("subject-users", |object, _| subjects(object, "User", ", ")),
];

#[path = "endpoints.rs"]
mod endpoints;
#[path = "pods.rs"]
mod pods;

/// What the metrics of an autoscaler stand at and are to be: the first two, and how many more there are.
fn autoscaler_targets(autoscaler: &Value) -> Value {
    let (metrics, current) = (
        items(autoscaler, &["spec", "metrics"]),
        items(autoscaler, &["status", "currentMetrics"]),
    );
    if metrics.is_empty() {
        return "<none>".into();
    }
    let texts = metrics
        .iter()
        .enumerate()
        .map(|(at, metric)| autoscaler_target(metric, current.get(at)));
    let mut text = texts.take(2).collect::<Vec<_>>().join(", ");
    if metrics.len() > 2 {
        text.push_str(&format!(" + {} more...", metrics.len() - 2));
    }
    text.into()
}

fn autoscaler_target(metric: &Value, current: Option<&Value>) -> String {
    // The source stands in a field that is named after the type.
    let sort = metric.str_at(&["type"]).unwrap_or_default();
    let mut letters = sort.chars();
    let field: String = letters
        .next()
        .map(|first| first.to_ascii_lowercase())
        .into_iter()
        .chain(letters)
        .collect();
    let by_resource = matches!(sort, "Resource" | "ContainerResource");
    let target = metric.at(&[field.as_str(), "target"]).unwrap_or(&Value::Null);
    let now = current
        .and_then(|current| current.at(&[field.as_str(), "current"]))
        .unwrap_or(&Value::Null);
    let text = |value: &Value, name: &str| value.get(name).map(scalar_text).filter(|text| !text.is_empty());
    let unknown = || "<unknown>".to_owned();
    if by_resource {
        let name = metric.str_at(&[field.as_str(), "name"]).unwrap_or_default();
        return match text(target, "averageValue") {
            Some(average) => format!(
                "{name}: {}/{average}",
                text(now, "averageValue").unwrap_or_else(unknown)
            ),
            None => {
                let percent = |value: &Value| text(value, "averageUtilization").map(|number| format!("{number}%"));
                let wanted = percent(target).unwrap_or_else(|| "<auto>".to_owned());
                format!("{name}: {}/{wanted}", percent(now).unwrap_or_else(unknown))
            }
        };
    }
    match text(target, "averageValue") {
        Some(average) => {
            let of_average = if sort == "Pods" { "" } else { " (avg)" };
            format!(
                "{}/{average}{of_average}",
                text(now, "averageValue").unwrap_or_else(unknown)
            )
        }
        None => {
            let wanted = text(target, "value").unwrap_or_default();
            format!("{}/{wanted}", text(now, "value").unwrap_or_else(unknown))
        }
    }
}

/// A field of the condition that says how a component is.
fn component_condition(component: &Value, field: &str, missing: &str) -> Value {
    let mut conditions = items(component, &["conditions"]).iter();
    let healthy = conditions.find(|condition| condition.str_at(&["type"]) == Some("Healthy"));
    let text = healthy.and_then(|condition| condition.str_at(&[field]));
    text.unwrap_or(missing).into()
}

fn parameter_kind(policy: &Value) -> Value {
    let text = |field| policy.str_at(&["spec", "paramKind", field]);
    match (text("apiVersion"), text("kind")) {
        (None, None) => "<unset>".into(),
        (version, kind) => format!("{}/{}", version.unwrap_or_default(), kind.unwrap_or_default()).into(),
    }
}

fn parameter_reference(binding: &Value) -> Value {
    let Some(reference) = binding.at(&["spec", "paramRef"]).filter(|found| !found.is_null()) else {
        return "<unset>".into();
    };
    let text = |field| reference.str_at(&[field]).filter(|text| !text.is_empty());
    match (text("name"), reference.get("selector")) {
        (Some(name), _) => format!("{}/{name}", text("namespace").unwrap_or("*")).into(),
        (None, Some(selector)) => selector_as_go(selector).into(),
        (None, None) => "<unset>".into(),
    }
}

/// A label selector as Go prints the struct, which is what clients see in this one place.
fn selector_as_go(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_map);
    let labels: String = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}: {},", scalar_text(value)))
        .collect();
    let expression = |requirement: &Value| {
        let text = |field| requirement.str_at(&[field]).unwrap_or_default();
        let values: Vec<String> = items(requirement, &["values"]).iter().map(scalar_text).collect();
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            text("key"),
            text("operator"),
            values.join(" ")
        )
    };
    let expressions: String = items(selector, &["matchExpressions"]).iter().map(expression).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// What an address belongs to: `RESOURCE[.GROUP][/NAMESPACE]/NAME`.
fn parent_reference(address: &Value) -> Value {
    let Some(parent) = address.at(&["spec", "parentRef"]).filter(|found| !found.is_null()) else {
        return "<none>".into();
    };
    let text = |field| parent.str_at(&[field]).unwrap_or_default();
    let mut shown = text("resource").to_lowercase();
    if !text("group").is_empty() {
        shown.push('.');
        shown.push_str(&text("group").to_lowercase());
    }
    for part in [text("namespace"), text("name")] {
        if !part.is_empty() {
            shown.push('/');
            shown.push_str(part);
        }
    }
    shown.into()
}

fn requested_duration(request: &Value) -> Value {
    let seconds = request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
    match seconds.and_then(|seconds| u64::try_from(seconds).ok()) {
        Some(seconds) => duration(std::time::Duration::from_secs(seconds)).into(),
        None => "<none>".into(),
    }
}

fn signing_condition(request: &Value) -> Value {
    let has = |of: &str| condition(request, of).is_some();
    let mut text = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if request
        .str_at(&["status", "certificate"])
        .is_some_and(|bytes| !bytes.is_empty())
    {
        text.push_str(",Issued");
    }
    text.into()
}

fn resource_claim_state(claim: &Value) -> Value {
    let deleted = claim.at(&["metadata", "deletionTimestamp"]).is_some();
    let allocated = claim
        .at(&["status", "allocation"])
        .is_some_and(|found| !found.is_null());
    let reserved = !items(claim, &["status", "reservedFor"]).is_empty();
    let states = [
        (deleted, "deleted"),
        (!allocated && !deleted, "pending"),
        (allocated, "allocated"),
        (allocated && reserved, "reserved"),
    ];
    let states = states.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name);
    states.collect::<Vec<_>>().join(",").into()
}

fn service_available(service: &Value) -> Value {
    let available = condition(service, "Available");
    let text = |field| available.and_then(|found| found.str_at(&[field])).unwrap_or_default();
    match (text("status"), text("reason")) {
        ("", _) => "Unknown".into(),
        ("True", _) => "True".into(),
        (status, "") => status.into(),
        (status, reason) => format!("{status} ({reason})").into(),
    }
}

fn class_parameters(class: &Value) -> Value {
    let text = |field| class.str_at(&["spec", "parameters", field]).unwrap_or_default();
    match (text("kind"), text("apiGroup")) {
        ("", _) => "<none>".into(),
        (kind, "") => format!("{kind}/{}", text("name")).into(),
        (kind, group) => format!("{kind}.{group}/{}", text("name")).into(),
    }
}

fn node_address(node: &Value, sort: &str) -> Value {
    let mut addresses = items(node, &["status", "addresses"]).iter();
    let address = addresses.find(|address| address.str_at(&["type"]) == Some(sort));
    address
        .and_then(|address| address.str_at(&["address"]))
        .unwrap_or("<none>")
        .into()
}

fn node_kernel(node: &Value) -> Value {
    let text = |field| node.str_at(&["status", "nodeInfo", field]).unwrap_or_default();
    match (text("kernelVersion"), text("architecture")) {
        ("", "") => "<unknown>".into(),
        ("", architecture) => format!("<unknown> ({architecture})").into(),
        (version, "") => version.into(),
        (version, architecture) => format!("{version} ({architecture})").into(),
    }
}

/// What of a quota is used, of what there is: of limits, or of all else.
fn quota(quota: &Value, of_limits: bool) -> Value {
    let hard = quota.at(&["status", "hard"]).and_then(Value::as_map);
    let entries = hard
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("limits.") == of_limits);
    let entries = entries.map(|(name, hard)| {
        let used = quota
            .at(&["status", "used", name.as_str()])
            .map_or_else(|| "0".to_owned(), scalar_text);
        format!("{name}: {used}/{}", scalar_text(hard))
    });
    entries.collect::<Vec<_>>().join(", ").into()
}

/// The subjects of one sort of a binding; service accounts with their namespaces.
fn subjects(binding: &Value, sort: &str, separator: &str) -> Value {
    let subjects = items(binding, &["subjects"]).iter();
    let names = subjects
        .filter(|subject| subject.str_at(&["kind"]) == Some(sort))
        .map(|subject| {
            let text = |field| subject.str_at(&[field]).unwrap_or_default();
            match (sort, text("namespace")) {
                ("ServiceAccount", namespace) if !namespace.is_empty() => format!("{namespace}/{}", text("name")),
                _ => text("name").to_owned(),
            }
        });
    names.collect::<Vec<_>>().join(separator).into()
}

fn bound(claim: &Value) -> bool {
    !claim.str_at(&["spec", "volumeName"]).unwrap_or_default().is_empty()
}

fn access_modes(object: &Value, path: &[&str]) -> Value {
    const MODES: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let listed = items(object, path);
    let short = MODES
        .iter()
        .filter(|(mode, _)| listed.iter().any(|item| item.as_str() == Some(mode)));
    short.map(|(_, short)| *short).collect::<Vec<_>>().join(",").into()
}

fn claim_reference(volume: &Value) -> Value {
    let text = |field| volume.str_at(&["spec", "claimRef", field]).unwrap_or_default();
    match text("name") {
        "" => "".into(),
        name => format!("{}/{name}", text("namespace")).into(),
    }
}

fn controller(object: &Value) -> Value {
    let mut owners = items(object, &["metadata", "ownerReferences"]).iter();
    let owner = owners.find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
    let Some(owner) = owner else { return "<none>".into() };
    let text = |field| owner.str_at(&[field]).unwrap_or_default();
    let kind = text("kind").to_lowercase();
    match text("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text("name")).into(),
        None => format!("{kind}/{}", text("name")).into(),
    }
}

fn cron_suspend(job: &Value) -> Value {
    match job.at(&["spec", "suspend"]).and_then(Value::as_bool) {
        None => "<unset>".into(),
        Some(true) => "True".into(),
        Some(false) => "False".into(),
    }
}

fn default_class(class: &Value, annotations: &[&str]) -> Value {
    let name = class.str_at(&["metadata", "name"]).unwrap_or_default();
    let is_default = |key: &&str| class.str_at(&["metadata", "annotations", key]) == Some("true");
    if annotations.iter().any(is_default) {
        format!("{name} (default)").into()
    } else {
        name.into()
    }
}

fn event_count(event: &Value) -> Value {
    let count = event
        .at(&["series", "count"])
        .or_else(|| event.get("count"))
        .or_else(|| event.get("deprecatedCount"));
    Value::Int(count.and_then(Value::as_i64).filter(|count| *count > 0).unwrap_or(1))
}

fn event_object(event: &Value) -> Value {
    let object = event
        .get("involvedObject")
        .or_else(|| event.get("regarding"))
        .unwrap_or(&Value::Null);
    let kind = object.str_at(&["kind"]).unwrap_or_default().to_lowercase();
    match object.str_at(&["name"]).unwrap_or_default() {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn event_source(event: &Value) -> Value {
    let first = |paths: [&[&str]; 3]| -> String {
        let texts = paths.iter().filter_map(|path| event.str_at(path));
        texts
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .next()
            .unwrap_or_default()
    };
    let component = first([
        &["source", "component"],
        &["reportingComponent"],
        &["reportingController"],
    ]);
    let host = first([
        &["source", "host"],
        &["reportingInstance"],
        &["deprecatedSource", "host"],
    ]);
    if host.is_empty() {
        component.into()
    } else {
        format!("{component}, {host}").into()
    }
}

fn ingress_addresses(object: &Value) -> Vec<String> {
    let points = items(object, &["status", "loadBalancer", "ingress"]);
    let address = |point: &Value| {
        let ip = point.str_at(&["ip"]).filter(|ip| !ip.is_empty());
        ip.or_else(|| point.str_at(&["hostname"])).map(str::to_owned)
    };
    let mut addresses: Vec<String> = points.iter().filter_map(address).collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

fn ingress_hosts(ingress: &Value) -> Value {
    let rules = items(ingress, &["spec", "rules"]);
    let hosts = rules
        .iter()
        .take(3)
        .filter_map(|rule| rule.str_at(&["host"]))
        .filter(|host| !host.is_empty());
    let mut text = hosts.collect::<Vec<_>>().join(",");
    if text.is_empty() {
        text.push('*');
    }
    if rules.len() > 3 {
        text.push_str(&format!(" + {} more...", rules.len() - 3));
    }
    text.into()
}

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

fn node_status(node: &Value) -> Value {
    let ready = condition(node, "Ready").and_then(|ready| ready.str_at(&["status"]));
    let status = match ready {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match node.at(&["spec", "unschedulable"]).and_then(Value::as_bool) {
        Some(true) => format!("{status},SchedulingDisabled").into(),
        _ => status.into(),
    }
}

fn node_roles(node: &Value) -> Value {
    let labels = node.at(&["metadata", "labels"]).and_then(Value::as_map);
    let role = |(key, value): &(holdfast_value::SmolStr, Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) if !role.is_empty() => Some(role.to_owned()),
        _ if key == "kubernetes.io/role" => Some(scalar_text(value)).filter(|role| !role.is_empty()),
        _ => None,
    };
    let mut roles: Vec<String> = labels.into_iter().flatten().filter_map(role).collect();
    roles.sort();
    roles.dedup();
    if roles.is_empty() {
        "<none>".into()
    } else {
        roles.join(",").into()
    }
}

fn service_external_ip(service: &Value) -> Value {
    let mut external: Vec<String> = items(service, &["spec", "externalIPs"])
        .iter()
        .map(scalar_text)
        .collect();
    let (text, missing) = match service.str_at(&["spec", "type"]).unwrap_or_default() {
        "ExternalName" => (
            service.str_at(&["spec", "externalName"]).unwrap_or_default().to_owned(),
            "",
        ),
        "LoadBalancer" => {
            let mut all = ingress_addresses(service);
            all.append(&mut external);
            (all.join(","), "<pending>")
        }
        _ => (external.join(","), "<none>"),
    };
    if text.is_empty() { missing.into() } else { text.into() }
}

fn service_ports(service: &Value) -> Value {
    let ports = items(service, &["spec", "ports"]).iter().map(|port| {
        let number = |field| port.get(field).and_then(Value::as_i64).unwrap_or_default();
        let protocol = port.str_at(&["protocol"]).unwrap_or("TCP");
        match number("nodePort") {
            0 => format!("{}/{protocol}", number("port")),
            node_port => format!("{}:{node_port}/{protocol}", number("port")),
        }
    });
    let text = ports.collect::<Vec<_>>().join(",");
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// How long ago the latest of some times was, as it stands behind a number of restarts.
fn ago(times: impl Iterator<Item = String>, now: SystemTime) -> Option<String> {
    let latest = times.max_by_key(|time| parse_time(time))?;
    Some(age(Some(&latest), now))
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, json};

    use super::*;

    #[test]
    fn cells_tell_what_the_object_says_and_what_is_missing() {
        for (name, object, cell) in [
            (
                "component-status",
                r#"{"conditions":[{"type":"Healthy","status":"True"}]}"#,
                "Healthy",
            ),
            ("component-status", "{}", "Unknown"),
            (
                "parameter-kind",
                r#"{"spec":{"paramKind":{"apiVersion":"v1","kind":"A"}}}"#,
                "v1/A",
            ),
            ("parameter-kind", r#"{"spec":{}}"#, "<unset>"),
            ("parameter-reference", r#"{"spec":{"paramRef":{"name":"p"}}}"#, "*/p"),
            (
                "parameter-reference",
                r#"{"spec":{"paramRef":{"selector":{"matchLabels":{"a":"b"}}}}}"#,
                "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
            ),
            (
                "parent-reference",
                r#"{"spec":{"parentRef":{"group":"G.io","resource":"Things","namespace":"n","name":"t"}}}"#,
                "things.g.io/n/t",
            ),
            ("requested-duration", r#"{"spec":{"expirationSeconds":3600}}"#, "60m"),
            ("requested-duration", r#"{"spec":{}}"#, "<none>"),
            (
                "signing-condition",
                r#"{"status":{"conditions":[{"type":"Approved"}],"certificate":"YQ=="}}"#,
                "Approved,Issued",
            ),
            ("signing-condition", "{}", "Pending"),
            ("resource-claim-state", "{}", "pending"),
            (
                "resource-claim-state",
                r#"{"status":{"allocation":{},"reservedFor":[{}]}}"#,
                "allocated,reserved",
            ),
            ("service-reference", r#"{"spec":{}}"#, "Local"),
            (
                "service-reference",
                r#"{"spec":{"service":{"namespace":"n","name":"s"}}}"#,
                "n/s",
            ),
            (
                "service-available",
                r#"{"status":{"conditions":[{"type":"Available","status":"False","reason":"Gone"}]}}"#,
                "False (Gone)",
            ),
            ("event-message", r#"{"message":" Started \n"}"#, "Started"),
        ] {
            let object = json::parse(object.as_bytes(), &Limits::TRUSTED).unwrap();
            let compute = by_name(name).unwrap();
            assert_eq!(
                compute.of(&object, SystemTime::UNIX_EPOCH),
                cell.into(),
                "{name} of {object}"
            );
        }
    }
}
