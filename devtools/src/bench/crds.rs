//! Cost of a thousand CRDs: of their creation, of a start with them, and of their memory.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use conformance::{Binary, Server, Target};
use http::Method;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::{Row, megabytes, millis, quantile, row};

const JSON: &str = "application/json";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Number of CRDs, and number of groups that they belong to.
const COUNT: usize = 1_000;
const GROUPS: usize = 40;

/// Number of clients that create them concurrently.
const CONNECTIONS: usize = 4;

/// Returns all rows.
pub(super) async fn rows(binary: &Binary) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (size, limit, memory) in [(10_000, "a few s", "≤ 100 MB"), (50_000, "", "≤ 100 MB")] {
        of_size(binary, size, limit, memory, &mut rows).await?;
    }
    Ok(rows)
}

async fn of_size(binary: &Binary, size: usize, limit: &str, memory: &str, rows: &mut Vec<Row>) -> Result<()> {
    let server = Server::start(binary, &[])?;
    let target = Target::new(&server)?;
    let pattern = fields(size);
    let actual = crd(0, &pattern).to_string().len();
    let named = format!("1,000 CRDs of {} KB", actual / 1000);
    let (cpu, begin) = (server.cpu()?, Instant::now());
    let mut delays = create_all(&target, &pattern).await?;
    until_served(&target).await?;
    let elapsed = begin.elapsed();
    delays.sort();
    let spent = server.cpu()? - cpu;
    let title_of = |what: &str| format!("create {named}, {what}");
    rows.push(row(&title_of("until all are served"), &millis(elapsed), "", limit));
    rows.push(row(&title_of("server CPU"), &millis(spent), "", ""));
    rows.push(row(&title_of("p99"), &millis(quantile(&delays, 0.99)), "", ""));
    rows.push(row(
        &format!("memory, {named}, while the history has their writes"),
        &megabytes(server.memory()?),
        "",
        "",
    ));

    let begin = Instant::now();
    let server = server.restart(&[])?;
    let target = Target::new(&server)?;
    until_served(&target).await?;
    rows.push(row(
        &format!("start to served, {named}"),
        &millis(begin.elapsed()),
        "",
        "< 1 s",
    ));
    rows.push(row(
        &format!("memory, {named}"),
        &megabytes(server.memory()?),
        "",
        memory,
    ));
    read_documents(&target, &named, rows).await?;
    rows.push(row(
        &format!("memory after these, {named}"),
        &megabytes(server.memory()?),
        "",
        "",
    ));
    Ok(())
}

/// Creates all CRDs over several connections; returns the duration of each creation.
async fn create_all(target: &Target, pattern: &Value) -> Result<Vec<Duration>> {
    let mut writers = JoinSet::new();
    for writer in 0..CONNECTIONS {
        let (mut connection, pattern) = (target.connect().await?, pattern.clone());
        writers.spawn(async move {
            let mut delays = Vec::new();
            for number in (writer..COUNT).step_by(CONNECTIONS) {
                let body = Bytes::from(crd(number, &pattern).to_string());
                let sent = Instant::now();
                connection.send(Method::POST, CRDS, JSON, body).await?;
                delays.push(sent.elapsed());
            }
            Ok::<_, anyhow::Error>(delays)
        });
    }
    let mut delays = Vec::new();
    while let Some(writer) = writers.join_next().await {
        delays.extend(writer??);
    }
    Ok(delays)
}

/// Measures the first read of each document that depends on the CRDs.
async fn read_documents(target: &Target, named: &str, rows: &mut Vec<Row>) -> Result<()> {
    let mut connection = target.connect().await?;
    for (what, path, accept) in [
        (
            "aggregated discovery",
            "/apis",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        ),
        ("the index of OpenAPI v3", "/openapi/v3", JSON),
        (
            "OpenAPI v3 of a group version",
            "/openapi/v3/apis/g7.bench.example.com/v1",
            JSON,
        ),
        ("OpenAPI v2", "/openapi/v2", JSON),
    ] {
        let begin = Instant::now();
        let answer = connection.get(path, accept).await?;
        ensure!(answer.status().is_success(), "{path}: {}", answer.status());
        let body = http_body_util::BodyExt::collect(answer.into_body()).await?.to_bytes();
        let first = begin.elapsed();
        let title = format!("{what} ({}) with {named}", megabytes(body.len() as u64));
        rows.push(row(&title, &millis(first), "", ""));
    }
    Ok(())
}

/// Waits until the last CRDs of all writers are served.
async fn until_served(target: &Target) -> Result<()> {
    let mut connection = target.connect().await?;
    for number in COUNT - CONNECTIONS..COUNT {
        let path = format!("/apis/{}/v1/{}", group(number), plural(number));
        let begin = Instant::now();
        loop {
            let (status, _) = connection.ask(Method::GET, &path, "", Bytes::new()).await?;
            if status.is_success() {
                break;
            }
            ensure!(begin.elapsed() < Duration::from_secs(30), "{path} is not served");
        }
    }
    Ok(())
}

fn group(number: usize) -> String {
    format!("g{}.bench.example.com", number % GROUPS)
}

fn plural(number: usize) -> String {
    format!("widgets{number}")
}

fn crd(number: usize, spec: &Value) -> Value {
    let (group, plural, kind) = (group(number), plural(number), format!("Widget{number}"));
    let version = json!({
        "name": "v1",
        "served": true,
        "storage": true,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
        ],
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": spec, "status": status()}
        }}
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "categories": ["bench"]},
            "versions": [version]
        }
    })
}

/// Returns the conditions that objects of operators have.
fn status() -> Value {
    let condition = json!({"type": "object", "required": ["type", "status"], "properties": {
        "type": {"type": "string", "maxLength": 316},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {"type": "string"},
        "message": {"type": "string"},
        "lastTransitionTime": {"type": "string", "format": "date-time"}
    }});
    json!({"type": "object", "properties": {"conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": condition
    }}})
}

/// Returns a schema of about `size` bytes, composed of typical parts of operators' schemas.
fn fields(size: usize) -> Value {
    let mut properties = Map::new();
    let mut bytes = 0;
    for number in 0.. {
        if bytes >= size {
            break;
        }
        let field = json!({
            "type": "object",
            "description": "How the part is placed on nodes, and which secret it reads its credentials from. Changes take effect when the part is started anew.",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                    "description": "Name of the secret in the namespace of the object."},
                "replicas": {"type": "integer", "format": "int32", "minimum": 0, "default": 1},
                "policy": {"type": "string", "enum": ["Always", "OnFailure", "Never"], "default": "Always"},
                "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "selector": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
                "env": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string"}, "value": {"type": "string", "description": "Value of the variable."}}}}
            }
        });
        bytes += field.to_string().len() + 12;
        properties.insert(format!("part{number}"), field);
    }
    json!({"type": "object", "properties": properties})
}
