//! Clients that create custom objects while their CRD is deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::client::{Connection, Target};

const JSON: &str = "application/json";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/racers.example.com";
const OBJECTS: &str = "/apis/example.com/v1/namespaces/default/racers";

/// The number of clients that create objects.
const CREATORS: usize = 4;

/// The number of objects that exist before the CRD is deleted.
const OBJECTS_BEFORE_DELETION: usize = 12;

/// Time limit of a step.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Events of one round.
#[derive(Clone, Copy, Debug)]
pub struct RaceOutcome {
    /// The number of objects that were created.
    pub created: usize,
    /// The number of objects that were left when the CRD existed again.
    pub left: usize,
}

/// Deletes a CRD while clients of all `servers` create its objects, and creates it again.
///
/// # Errors
/// If a server does not respond, or a step does not end.
pub async fn race_with_crd_deletion(servers: &[Target]) -> Result<RaceOutcome> {
    let [first, ..] = servers else {
        bail!("there is no server");
    };
    let last = servers.last().unwrap_or(first);
    define(servers).await?;
    let (created, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let creators: Vec<_> = (servers.iter().cycle().take(CREATORS).enumerate())
        .map(|(number, server)| {
            let (server, created, ended) = (server.clone(), Arc::clone(&created), Arc::clone(&ended));
            tokio::spawn(async move { create(&server, number, &created, &ended).await })
        })
        .collect();
    let begun = Instant::now();
    while created.load(Ordering::Relaxed) < OBJECTS_BEFORE_DELETION {
        ensure!(begun.elapsed() < STEP_TIMEOUT, "too few objects were created");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (code, answer) = ask(&mut first.connect().await?, Method::DELETE, CRD, &Value::Null).await?;
    ensure!(code == StatusCode::OK, "{answer}");
    until(last, CRD, |code, _| code == StatusCode::NOT_FOUND).await?;
    ended.store(true, Ordering::Relaxed);
    for creator in creators {
        creator.await??;
    }
    define(servers).await?;
    let (_, list) = ask(&mut last.connect().await?, Method::GET, OBJECTS, &Value::Null).await?;
    let left = list["items"].as_array().map_or(0, Vec::len);
    let (code, answer) = ask(&mut first.connect().await?, Method::DELETE, CRD, &Value::Null).await?;
    ensure!(code == StatusCode::OK, "{answer}");
    until(last, CRD, |code, _| code == StatusCode::NOT_FOUND).await?;
    Ok(RaceOutcome {
        created: created.load(Ordering::Relaxed),
        left,
    })
}

async fn define(servers: &[Target]) -> Result<()> {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "racers.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "racers", "kind": "Racer"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    for server in servers.iter().take(1) {
        let (code, answer) = ask(&mut server.connect().await?, Method::POST, CRDS, &crd).await?;
        ensure!(code == StatusCode::CREATED, "{answer}");
    }
    for server in servers {
        until(server, OBJECTS, |code, list| {
            code == StatusCode::OK && list["kind"] == "RacerList"
        })
        .await?;
    }
    Ok(())
}

/// Creates objects until the race has ended. Servers are expected to reject some of them.
async fn create(server: &Target, number: usize, created: &AtomicUsize, ended: &AtomicBool) -> Result<()> {
    let mut connection = server.connect().await?;
    let mut attempt = 0;
    while !ended.load(Ordering::Relaxed) {
        attempt += 1;
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Racer", "metadata": {"name": format!("r{number}-{attempt}")},
        });
        match ask(&mut connection, Method::POST, OBJECTS, &object).await? {
            (StatusCode::CREATED, _) => {
                created.fetch_add(1, Ordering::Relaxed);
            }
            (StatusCode::FORBIDDEN | StatusCode::NOT_FOUND, _) => {}
            (code, answer) => bail!("{code}: {answer}"),
        }
    }
    Ok(())
}

/// Repeats a GET until the response satisfies `is_right`.
async fn until(server: &Target, path: &str, is_right: impl Fn(StatusCode, &Value) -> bool) -> Result<()> {
    let begun = Instant::now();
    let mut connection = server.connect().await?;
    loop {
        let (code, answer) = ask(&mut connection, Method::GET, path, &Value::Null).await?;
        if is_right(code, &answer) {
            return Ok(());
        }
        ensure!(begun.elapsed() < STEP_TIMEOUT, "{path}: {code} {answer}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends a request and parses the response as JSON; null if it is not JSON.
async fn ask(connection: &mut Connection, method: Method, path: &str, body: &Value) -> Result<(StatusCode, Value)> {
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let (code, answer) = connection.ask(method, path, JSON, body).await?;
    Ok((code, serde_json::from_slice(&answer).unwrap_or_default()))
}
