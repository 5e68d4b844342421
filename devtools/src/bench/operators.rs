//! Cost of features that operators enable and disable, per request: priority levels, the audit log, feature gates,
//! aggregated APIs; and the latency of a user alongside one that sends requests as fast as possible.

use std::fs;

use anyhow::Result;
use bytes::Bytes;
use conformance::hog::figures;
use conformance::{Binary, Server, Target, USER_TOKEN};
use http::Method;
use serde_json::json;

use super::workload::{DEPLOYMENTS, Phase, Workload};
use super::{Row, micros, millis, quantile, row};

const JSON: &str = "application/json";

/// A policy that audits every request without its bodies.
const METADATA: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
/// A policy that is evaluated for every request and audits none.
const NONE: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: None}]}";

/// Everything off that can be.
const OFF: &str = "--enable-priority-and-fairness=false";
/// Everybody may do everything, so that the requests are those of a user who has a priority level.
const ALLOWED: &str = "--authorization-mode=AlwaysAllow";

/// Returns all rows, each with as many objects and connections.
pub(super) async fn rows(binary: &Binary, objects: usize, connections: usize) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let policy = |name: &str, text: &str| -> Result<Vec<String>> {
        let path = folder.path().join(name);
        fs::write(&path, text)?;
        let log = folder.path().join(format!("{name}.log"));
        Ok(vec![
            OFF.to_owned(),
            format!("--audit-policy-file={}", path.display()),
            format!("--audit-log-path={}", log.display()),
        ])
    };
    let settings = [
        ("all off", vec![OFF.to_owned()]),
        ("priority levels", Vec::new()),
        ("audit policy of level None", policy("none.yaml", NONE)?),
        ("audit of all at Metadata", policy("metadata.yaml", METADATA)?),
        (
            "all gates of alpha and beta",
            vec![OFF.to_owned(), "--feature-gates=AllAlpha=true,AllBeta=true".to_owned()],
        ),
        (AGGREGATED, vec![OFF.to_owned()]),
    ];
    let mut rows = Vec::new();
    for (name, flags) in settings {
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain([ALLOWED]).collect();
        let server = Server::start(binary, &flags)?;
        let target = Target::new(&server)?.with_token(USER_TOKEN);
        if name == AGGREGATED {
            serve_elsewhere(&target).await?;
        }
        let workload = Workload::new(target, connections, DEPLOYMENTS);
        for phase in [Phase::Create, Phase::Get] {
            let figure = workload.run(phase, objects, &server).await?;
            let title = format!("{}, {name}, server CPU each", phase.title());
            rows.push(row(&title, &micros(figure.cpu_micros), "", ""));
        }
    }
    let figures = figures(binary, REQUESTS, HOG).await;
    let [idle, loops, beside] = [&figures.idle, &figures.loops, &figures.beside].map(|times| quantile(times, 0.99));
    rows.push(row("Get one ConfigMap on an idle server, p99", &millis(idle), "", ""));
    let title = "Get one ConfigMap with a busy loop on each processor, p99";
    rows.push(row(title, &millis(loops), "", ""));
    let title = format!("Get one ConfigMap with a user who lists on {HOG} connections, p99");
    rows.push(row(&title, &millis(beside), "", &format!("≤ {}", millis(idle * 2))));
    Ok(rows)
}

/// Number of measured requests of the quiet user, without and with the other user.
const REQUESTS: usize = 2000;
/// The connections of the other.
const HOG: usize = 60;

const AGGREGATED: &str = "with an aggregated API";

/// Registers an aggregated API whose server does not exist.
async fn serve_elsewhere(target: &Target) -> Result<()> {
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.elsewhere.example.com"},
        "spec": {"group": "elsewhere.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "elsewhere"}},
    });
    let mut connection = target.connect().await?;
    connection
        .send(
            Method::POST,
            "/apis/apiregistration.k8s.io/v1/apiservices",
            JSON,
            Bytes::from(service.to_string()),
        )
        .await?;
    Ok(())
}
