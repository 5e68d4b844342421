//! Metrics, alerts and the dashboard: Prometheus reads them from a server under load.

mod load;
mod prometheus;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use conformance::tool::printed;
use conformance::{Binary, Server, root};
use serde_json::Value;
use test_support::needs;

use load::Load;
use prometheus::Prometheus;

/// Time limit for every query to have a result.
const RESULTS_LIMIT: Duration = Duration::from_secs(60);

/// Metrics that have no value in a short run on the embedded store, with the reason.
const WITHOUT_VALUES: [(&str, &str); 7] = [
    ("apiserver_audit_error_total", "no audit event is lost"),
    ("apiserver_flowcontrol_current_inqueue_requests", "no request is queued"),
    (
        "apiserver_flowcontrol_rejected_requests_total",
        "no request is rejected",
    ),
    (
        "apiserver_flowcontrol_request_wait_duration_seconds_bucket",
        "no request is queued",
    ),
    ("etcd_request_duration_seconds_bucket", "the store is not etcd"),
    ("etcd_request_errors_total", "the store is not etcd"),
    ("etcd_requests_total", "the store is not etcd"),
];

/// Findings of `promtool check metrics`. They are about names of the reference.
const NAMES_OF_REFERENCE: [&str; 7] = [
    "apiserver_admission_step_admission_duration_seconds_summary metric name should not include type 'summary'",
    "apiserver_admission_webhook_fail_open_count counter metrics should have \"_total\" suffix",
    "apiserver_admission_webhook_rejection_count counter metrics should have \"_total\" suffix",
    "apiserver_admission_webhook_fail_open_count non-histogram and non-summary metrics should not have \"_count\" suffix",
    "apiserver_admission_webhook_rejection_count non-histogram and non-summary metrics should not have \"_count\" suffix",
    "authenticated_user_requests counter metrics should have \"_total\" suffix",
    "authentication_attempts counter metrics should have \"_total\" suffix",
];

fn start() -> Server {
    Server::start_with_default_controllers(&Binary::debug().unwrap(), &[]).unwrap()
}

/// Returns the queries of the dashboard.
fn queries() -> Vec<String> {
    let text = fs::read_to_string(root().join("packaging/grafana/holdfast.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the names of the metrics that a query or a file of rules uses.
fn metric_names(text: &str) -> BTreeSet<&str> {
    const PREFIXES: [&str; 9] = [
        "aggregator_",
        "apiserver_",
        "authentication_",
        "authorization_",
        "etcd_",
        "go_",
        "kubernetes_",
        "process_",
        "workqueue_",
    ];
    // A recorded metric has a colon in its name.
    let words = text.split(|character: char| !(character.is_ascii_alphanumeric() || "_:".contains(character)));
    words
        .filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)))
        .collect()
}

fn may_lack_value(name: &str) -> bool {
    WITHOUT_VALUES.iter().any(|(metric, _)| *metric == name)
}

#[tokio::test]
async fn dashboard_and_alerts_use_exposed_metrics() {
    let server = start();
    let page = Load::start(&server).await.all_metrics().await;
    let exposed: BTreeSet<&str> = page.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let rules = fs::read_to_string(root().join("packaging/prometheus/holdfast.rules.yaml")).unwrap();
    let queries = queries();
    assert!(queries.len() > 50, "{}", queries.len());
    for text in queries.iter().chain([&rules]) {
        let names = metric_names(text);
        assert!(!names.is_empty(), "{text}");
        for name in names {
            // A text may name a histogram without the suffix of its samples.
            let is_exposed = exposed.contains(name) || exposed.contains(format!("{name}_bucket").as_str());
            assert!(is_exposed || may_lack_value(name), "{name}: {page}");
        }
    }
    for (name, _) in WITHOUT_VALUES {
        let is_used = queries
            .iter()
            .chain([&rules])
            .any(|text| metric_names(text).contains(name));
        assert!(is_used && !exposed.contains(name), "{name} needs no exception");
    }
}

#[tokio::test]
async fn help_begins_with_stability() {
    let server = start();
    let page = Load::start(&server).await.all_metrics().await;
    let help: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect();
    assert!(help.len() > 90, "{}", help.len());
    for line in help {
        let (_, text) = line.split_once(' ').unwrap();
        let has_stability = ["[ALPHA] ", "[BETA] ", "[STABLE] "]
            .iter()
            .any(|stability| text.starts_with(stability));
        assert!(has_stability, "{line}");
    }
}

#[needs(promtool)]
#[tokio::test]
async fn promtool_finds_only_names_of_the_reference() {
    let server = start();
    let page = Load::start(&server).await.all_metrics().await;
    let findings = prometheus::check_metrics(&page);
    let unexpected: Vec<&str> = findings
        .lines()
        .filter(|line| !NAMES_OF_REFERENCE.contains(line))
        .collect();
    assert_eq!(unexpected, Vec::<&str>::new());
}

#[needs(promtool)]
#[test]
fn each_alert_fires_only_above_its_limit() {
    let folder = root().join("packaging/prometheus");
    let mut check = Command::new("promtool");
    check
        .args(["check", "rules", "holdfast.rules.yaml"])
        .current_dir(&folder);
    printed(&mut check, "");
    let mut test = Command::new("promtool");
    test.args(["test", "rules", "holdfast.tests.yaml"]).current_dir(&folder);
    printed(&mut test, "");
    let rules = fs::read_to_string(folder.join("holdfast.rules.yaml")).unwrap();
    let tests = fs::read_to_string(folder.join("holdfast.tests.yaml")).unwrap();
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(
            tests.contains(&format!("\n    alertname: {alert}\n    exp_alerts:\n")),
            "{alert} fires"
        );
        let is_silent = tests.contains(&format!("alertname: {alert}, exp_alerts: []"));
        // The test of this alert has a second level, which is silent.
        assert!(is_silent || alert == "HoldfastRejecting", "{alert} does not fire");
    }
}

#[needs(prometheus, promtool)]
#[tokio::test]
async fn prometheus_has_data_for_mixin_and_dashboard() {
    let server = start();
    let mut load = Load::start(&server).await;
    let mixin = root().join("tests/tests/server/monitoring/mixin.rules.yaml");
    let rules = fs::read_to_string(&mixin).unwrap();
    let alerts = root().join("packaging/prometheus/holdfast.rules.yaml");
    let prometheus = Prometheus::start(&server, &[mixin, alerts]);

    let recorded = rules.lines().filter_map(|line| line.trim().strip_prefix("- record: "));
    let of_dashboard = queries()
        .into_iter()
        .filter(|query| !metric_names(query).iter().all(|name| may_lack_value(name)));
    let for_server = |query: String| {
        query
            .replace("$__rate_interval", "20s")
            .replace("$job", ".+")
            .replace("$instance", ".+")
    };
    let mut missing: Vec<String> = recorded
        .map(str::to_owned)
        .chain(of_dashboard.map(for_server))
        .collect();
    let end = Instant::now() + RESULTS_LIMIT;
    while !missing.is_empty() {
        assert!(Instant::now() < end, "no data: {missing:#?}");
        load.send().await;
        missing.retain(|query| !prometheus.has_data(query));
    }
    let scraped = r#"min(up{job=~"apiserver.*"}) == 1"#;
    assert!(prometheus.has_data(scraped));
    assert!(!prometheus.has_data(r#"ALERTS{alertname="HoldfastDown"}"#));
}
