//! `holdfast doctor`: common problems of a running server.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_value::Value;
use http::{StatusCode, header};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use crate::check::{EXPIRY_WARNING, validity};
use crate::pki;
use crate::remote::{Access, AccessFlags, Client};
use crate::terminal::printable_line;

/// Difference between the clocks of client and server that is reported. Tokens and leases are sensitive to it.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5);

/// Time after which a namespace in deletion is reported.
const DELETION_LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of problems of one sort in the report.
const MAX_PROBLEMS: usize = 20;

const JSON: &str = "application/json";
const WEBHOOKS: [&str; 2] = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];

/// Prints the problems of the server that the flags select.
///
/// # Errors
/// If there are any, or the server cannot be asked.
pub(crate) fn run(flags: &AccessFlags) -> Result<()> {
    let access = Access::from_flags(flags)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let findings = runtime.block_on(examine(&access))?;
    let mut text = String::new();
    for Finding { subject, problems } in &findings {
        let state = if problems.is_empty() { "ok" } else { "problem" };
        let _ = writeln!(text, "{state:<8} {subject}");
        for problem in problems.iter().take(MAX_PROBLEMS) {
            let _ = writeln!(text, "         - {}", printable_line(problem));
        }
        if problems.len() > MAX_PROBLEMS {
            let _ = writeln!(text, "         - and {} more", problems.len() - MAX_PROBLEMS);
        }
    }
    std::io::stdout().write_all(text.as_bytes())?;
    let found: usize = findings.iter().map(|finding| finding.problems.len()).sum();
    ensure!(found == 0, "{found} problems at {}", access.server);
    Ok(())
}

/// Result of one examination.
struct Finding {
    subject: &'static str,
    problems: Vec<String>,
}

async fn examine(access: &Access) -> Result<Vec<Finding>> {
    let mut client = Client::connect(access).await?;
    let mut findings = Vec::new();
    let mut add = |subject, outcome: Result<Vec<String>>| {
        let problems = outcome.unwrap_or_else(|error| vec![format!("cannot be examined: {error:#}")]);
        findings.push(Finding { subject, problems });
    };
    add("health checks", health(&mut client).await);
    add("clock", clock(&mut client).await);
    add("certificates", certificates(access, &client));
    add("webhooks", webhooks(&mut client).await);
    add("aggregated API servers", api_services(&mut client).await);
    add("namespaces in deletion", namespaces(&mut client).await);
    add("deprecated APIs", deprecated(&mut client).await);
    Ok(findings)
}

/// Returns the health checks that fail.
async fn health(client: &mut Client) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in ["/livez", "/readyz"] {
        let answer = client.answer(&format!("{path}?verbose")).await?;
        if answer.status == StatusCode::OK {
            continue;
        }
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        let failed: Vec<String> = body
            .lines()
            .filter_map(|line| line.strip_prefix("[-]"))
            .map(|check| format!("{path}: {check}"))
            .collect();
        match failed.is_empty() {
            true => problems.push(format!("{path}: {}", answer.status)),
            false => problems.extend(failed),
        }
    }
    Ok(problems)
}

/// Compares the clock of the server with that of this machine.
async fn clock(client: &mut Client) -> Result<Vec<String>> {
    let before = OffsetDateTime::now_utc();
    let answer = client.answer("/livez").await?;
    let after = OffsetDateTime::now_utc();
    let date = answer.headers.get(header::DATE).and_then(|date| date.to_str().ok());
    let text = date.context("the server sends no date")?.replace("GMT", "+0000");
    let server = OffsetDateTime::parse(&text, &Rfc2822).context("the server's date cannot be read")?;
    Ok(skew(server, before, after).into_iter().collect())
}

/// Returns the problem of a server whose clock showed `server`, without fractions of a second, between two times here.
fn skew(server: OffsetDateTime, before: OffsetDateTime, after: OffsetDateTime) -> Option<String> {
    let behind = before - server - Duration::from_secs(1);
    let ahead = server - after;
    let (difference, direction) = if behind > ahead {
        (behind, "behind")
    } else {
        (ahead, "ahead of")
    };
    (difference > MAX_CLOCK_SKEW).then(|| {
        let seconds = difference.whole_seconds();
        format!("the server's clock is {seconds} s {direction} that of this machine")
    })
}

/// Returns the certificates of the connection whose end is near.
fn certificates(access: &Access, client: &Client) -> Result<Vec<String>> {
    let now = OffsetDateTime::now_utc();
    let mut ends = Vec::new();
    if let Some(der) = client.certificate() {
        ends.push(("the server's certificate", pki::end_of_der(der)?));
    }
    if let Some((certificate, _)) = &access.certificate {
        ends.push((
            "the client certificate of the kubeconfig",
            pki::end_of_pem(certificate)?,
        ));
    }
    if let Some(authority) = &access.authority {
        ends.push(("the authority of the kubeconfig", pki::end_of_pem(authority)?));
    }
    let near = ends.into_iter().filter(|(_, end)| *end < now + EXPIRY_WARNING);
    Ok(near
        .map(|(name, end)| format!("{name} is {}", validity(end, now)))
        .collect())
}

async fn items(client: &mut Client, path: &str) -> Result<Vec<Value>> {
    let list = client.get(path, JSON).await?;
    let items = list.get("items").and_then(Value::as_list);
    Ok(items.map(|items| items.iter().cloned().collect()).unwrap_or_default())
}

fn name(object: &Value) -> &str {
    object.str_at(&["metadata", "name"]).unwrap_or_default()
}

/// Returns the webhooks in the cluster that no Service or endpoint serves.
async fn webhooks(client: &mut Client) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for plural in WEBHOOKS {
        let configurations = items(client, &format!("/apis/admissionregistration.k8s.io/v1/{plural}")).await?;
        for configuration in &configurations {
            let webhooks = configuration.get("webhooks").and_then(Value::as_list);
            for webhook in webhooks.into_iter().flat_map(|webhooks| webhooks.iter()) {
                let Some(service) = webhook.at(&["clientConfig", "service"]) else {
                    continue;
                };
                let text = |field| service.str_at(&[field]).unwrap_or_default().to_owned();
                let Some(problem) = backend_problem(client, &text("namespace"), &text("name")).await? else {
                    continue;
                };
                let effect = match webhook.str_at(&["failurePolicy"]) {
                    Some("Ignore") => "it is skipped",
                    _ => "the writes that it matches are denied",
                };
                let webhook_name = webhook.str_at(&["name"]).unwrap_or_default();
                problems.push(format!(
                    "{plural}/{}: {webhook_name}: {problem}; {effect}",
                    name(configuration)
                ));
            }
        }
    }
    Ok(problems)
}

/// Returns the reason why a Service has no backend.
async fn backend_problem(client: &mut Client, namespace: &str, service: &str) -> Result<Option<String>> {
    let shown = format!("Service {namespace}/{service}");
    let found = client
        .answer(&format!("/api/v1/namespaces/{namespace}/services/{service}"))
        .await?;
    if found.status == StatusCode::NOT_FOUND {
        return Ok(Some(format!("{shown} does not exist")));
    }
    ensure!(found.status.is_success(), "{shown}: {}", found.status);
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{service}"
    );
    let slices = items(client, &path).await?;
    let endpoints = slices.iter().filter_map(|slice| slice.get("endpoints")?.as_list());
    // Readiness that is not known counts as readiness.
    let is_ready = |endpoint: &Value| endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool) != Some(false);
    let has_ready = endpoints.flat_map(|endpoints| endpoints.iter()).any(is_ready);
    Ok((!has_ready).then(|| format!("{shown} has no ready endpoints")))
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_list);
    conditions.into_iter().flat_map(|conditions| conditions.iter())
}

/// Returns the APIServices that are not available.
async fn api_services(client: &mut Client) -> Result<Vec<String>> {
    let services = items(client, "/apis/apiregistration.k8s.io/v1/apiservices").await?;
    let problem = |service: &Value| {
        let mut unavailable = conditions(service).filter(|condition| {
            condition.str_at(&["type"]) == Some("Available") && condition.str_at(&["status"]) != Some("True")
        });
        let message = unavailable.next()?.str_at(&["message"]).unwrap_or_default();
        Some(format!("APIService {}: {message}", name(service)))
    };
    Ok(services.iter().filter_map(problem).collect())
}

/// Returns the namespaces that are in deletion for long, with the reasons.
async fn namespaces(client: &mut Client) -> Result<Vec<String>> {
    let namespaces = items(client, "/api/v1/namespaces").await?;
    let now = OffsetDateTime::now_utc();
    Ok(namespaces
        .iter()
        .filter_map(|namespace| stuck(namespace, now))
        .collect())
}

fn stuck(namespace: &Value, now: OffsetDateTime) -> Option<String> {
    let since = namespace.str_at(&["metadata", "deletionTimestamp"])?;
    let timestamp = Timestamp::parse(since, Precision::Seconds).ok()?;
    let begun = OffsetDateTime::from(std::time::SystemTime::from(timestamp));
    if now - begun < DELETION_LIMIT {
        return None;
    }
    let is_reason = |condition: &&Value| condition.str_at(&["status"]) == Some("True");
    let messages = conditions(namespace)
        .filter(is_reason)
        .filter_map(|condition| condition.str_at(&["message"]));
    let mut reasons: Vec<&str> = messages.collect();
    if reasons.is_empty() {
        reasons.push("no controller reports a reason; is the namespace controller running?");
    }
    Some(format!("{} since {since}: {}", name(namespace), reasons.join("; ")))
}

/// Returns the deprecated APIs that clients have requested since the start of the server.
async fn deprecated(client: &mut Client) -> Result<Vec<String>> {
    let answer = client.answer("/metrics").await?;
    ensure!(answer.status.is_success(), "/metrics: {}", answer.status);
    Ok(requested_deprecated(&String::from_utf8_lossy(&answer.body)))
}

fn requested_deprecated(metrics: &str) -> Vec<String> {
    let lines = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("apiserver_requested_deprecated_apis{"));
    let apis: BTreeSet<String> = lines
        .map(|labels| {
            let label = |name: &str| {
                let start = labels.find(&format!("{name}=\""))? + name.len() + 2;
                labels[start..].split('"').next()
            };
            let text = |name| label(name).unwrap_or_default();
            let group = match text("group") {
                "" => String::new(),
                group => format!("{group}/"),
            };
            let removal = match text("removed_release") {
                "" => String::new(),
                release => format!(", which Kubernetes {release} no longer serves"),
            };
            format!(
                "clients request {} of {group}{}{removal}",
                text("resource"),
                text("version")
            )
        })
        .collect();
    apis.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn clock_skew_is_measured_around_the_request() {
        assert_eq!(skew(at(0), at(0), at(3)), None);
        assert_eq!(skew(at(8), at(0), at(3)), None);
        assert_eq!(
            skew(at(9), at(0), at(3)).as_deref(),
            Some("the server's clock is 6 s ahead of that of this machine")
        );
        assert_eq!(
            skew(at(-7), at(0), at(3)).as_deref(),
            Some("the server's clock is 6 s behind that of this machine")
        );
    }

    #[test]
    fn stuck_namespace_is_reported_with_its_reasons() {
        let now =
            OffsetDateTime::parse("2026-01-01T00:02:00Z", &time::format_description::well_known::Rfc3339).unwrap();
        let problem = |metadata: &str| {
            let text = format!(
                "{{metadata: {{name: a{metadata}}}, status: {{conditions: [{{type: X, status: 'True', message: why}}, \
                 {{type: Y, status: 'False', message: not}}]}}}}"
            );
            stuck(&yaml::parse(text.as_bytes(), &Limits::REQUEST).unwrap(), now)
        };
        assert_eq!(problem(""), None);
        assert_eq!(problem(", deletionTimestamp: '2026-01-01T00:01:30Z'"), None);
        assert_eq!(
            problem(", deletionTimestamp: '2026-01-01T00:00:30Z'").as_deref(),
            Some("a since 2026-01-01T00:00:30Z: why")
        );
    }

    #[test]
    fn deprecated_apis_are_read_from_metrics() {
        let metrics = "apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",resource=\"endpoints\",\
                       subresource=\"\",version=\"v1\"} 1\n\
                       apiserver_requested_deprecated_apis{group=\"a.b\",removed_release=\"1.40\",resource=\"things\",\
                       subresource=\"\",version=\"v1beta1\"} 1\n";
        assert_eq!(
            requested_deprecated(metrics),
            [
                "clients request endpoints of v1",
                "clients request things of a.b/v1beta1, which Kubernetes 1.40 no longer serves"
            ]
        );
    }
}
