//! Custom resources: cost of an apply with a CRD as large as those of operators, and with one that has many validation
//! rules.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use conformance::operators::{DOCUMENT, Types, collectors};
use conformance::{Binary, Connection, Server, Target};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::workload::{DEPLOYMENTS, Objects, Phase, SCALED, Workload, containers};
use super::{Row, megabytes, micros, millis, row};

const APPLY: &str = "application/apply-patch+yaml";

/// Number of validation rules of the second CRD.
const RULES: usize = 50;

/// Collectors whose Pods are configured like the Deployments of the other rows.
const COLLECTORS: Objects = Objects {
    collection: "/apis/monitoring.example.com/v1/namespaces/default/collectors",
    object: collector,
    patch: SCALED,
};

const CHECKED: Objects = Objects {
    collection: "/apis/checked.example.com/v1/namespaces/default/checked",
    object: checked,
    patch: SCALED,
};

const UNCHECKED: Objects = Objects {
    collection: "/apis/checked.example.com/v1/namespaces/default/unchecked",
    object: unchecked,
    patch: SCALED,
};

/// Returns all rows, each with as many objects and connections.
pub(super) async fn rows(binary: &Binary, objects: usize, connections: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let server = Server::start(binary, &[])?;
    let target = Target::new(&server)?;
    let mut connection = target.connect().await?;
    let document = connection.send(Method::GET, DOCUMENT, "", Bytes::new()).await?;
    let crd = collectors(&Types::from_document(&serde_json::from_slice(&document)?));
    let size = crd.to_string().len();
    let memory = server.memory()?;
    let elapsed = define(&mut connection, &crd, &COLLECTORS).await?;
    let title = format!("apply of a CRD of {} KB until it is served", size / 1000);
    rows.push(row(&title, &millis(elapsed), "", ""));
    let grown = megabytes(server.memory()?.saturating_sub(memory));
    rows.push(row("memory for that CRD, before its first object", &grown, "", ""));
    for phase in [
        Phase::Create,
        Phase::Reapply,
        Phase::Remembered,
        Phase::Change,
        Phase::Get,
    ] {
        // The same of a Deployment with the same pod, on the same server.
        let measure = |of| Workload::new(target.clone(), connections, of);
        let usual = measure(DEPLOYMENTS).run(phase, objects, &server).await?;
        let figure = measure(COLLECTORS).run(phase, objects, &server).await?;
        let title_of = |what: &str| format!("{}, {what}, server CPU each", phase.title());
        let (custom, same) = (
            title_of("custom resource of that CRD"),
            title_of("Deployment with the same pod"),
        );
        rows.push(row(&custom, &micros(figure.cpu_micros), "", ""));
        rows.push(row(&same, &micros(usual.cpu_micros), "", ""));
    }
    for (kind, of) in [("no rules", UNCHECKED), ("50 rules in CEL", CHECKED)] {
        define(&mut connection, &crd_of_many_fields(&of), &of).await?;
        ensure_rules(&mut connection, &of).await?;
        for phase in [Phase::Create, Phase::Change] {
            let figure = Workload::new(target.clone(), connections, of)
                .run(phase, objects, &server)
                .await?;
            let title = format!(
                "{}, custom resource of 41 fields, {kind}, server CPU each",
                phase.title()
            );
            rows.push(row(&title, &micros(figure.cpu_micros), "", ""));
        }
    }
    Ok(rows)
}

/// Applies a CRD and returns the time until its resource was served.
async fn define(connection: &mut Connection, crd: &Value, of: &Objects) -> Result<Duration> {
    let name = crd["metadata"]["name"].as_str().context("a name")?;
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=bench");
    let begin = Instant::now();
    connection
        .send(Method::PATCH, &path, APPLY, Bytes::from(crd.to_string()))
        .await?;
    loop {
        let (status, _) = connection.ask(Method::GET, of.collection, "", Bytes::new()).await?;
        if status.is_success() {
            return Ok(begin.elapsed());
        }
        ensure!(status == StatusCode::NOT_FOUND, "{name}: {status}");
        ensure!(begin.elapsed() < Duration::from_secs(30), "{name} is not served");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Checks that an object that violates the rules is rejected if there are rules, and accepted if not.
async fn ensure_rules(connection: &mut Connection, of: &Objects) -> Result<()> {
    let wrong = String::from_utf8((of.object)(0, 3).to_vec())?.replace("\"least0\":1", "\"least0\":10");
    let path = format!("{}/bench-0?fieldManager=bench&dryRun=All", of.collection);
    let (status, _) = connection.ask(Method::PATCH, &path, APPLY, Bytes::from(wrong)).await?;
    let rejected = status == StatusCode::UNPROCESSABLE_ENTITY;
    ensure!(rejected == (of.collection == CHECKED.collection), "{path}: {status}");
    Ok(())
}

/// Returns a pod's part of a Deployment of the other rows, and as much around it.
fn collector(number: usize, replicas: usize) -> Bytes {
    let name = format!("bench-{number}");
    let object = json!({
        "apiVersion": "monitoring.example.com/v1",
        "kind": "Collector",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/name": "bench", "app.kubernetes.io/instance": name},
            "annotations": {"example.com/description": "a collector of two containers to measure with"}
        },
        "spec": {
            "replicas": replicas,
            "serviceMonitorSelector": {"matchLabels": {"app.kubernetes.io/instance": name}},
            "podMetadata": {"labels": {"app.kubernetes.io/name": "bench", "app.kubernetes.io/instance": name}},
            "containers": containers()
        }
    });
    Bytes::from(object.to_string())
}

/// Returns a CRD with fields of five types, with validation rules for each if its resource is the checked one.
fn crd_of_many_fields(of: &Objects) -> Value {
    let plural = of.collection.rsplit('/').next().unwrap_or_default();
    let fields = RULES / 5;
    let properties: serde_json::Map<String, Value> = (0..fields)
        .flat_map(|number| {
            [
                (format!("name{number}"), json!({"type": "string", "maxLength": 64})),
                (format!("least{number}"), json!({"type": "integer"})),
                (format!("most{number}"), json!({"type": "integer"})),
                (
                    format!("list{number}"),
                    json!({"type": "array", "maxItems": 16, "items": {"type": "string", "maxLength": 64}}),
                ),
            ]
        })
        .chain([("replicas".to_owned(), json!({"type": "integer"}))])
        .collect();
    let rules: Vec<Value> = (0..fields)
        .flat_map(|number| {
            [
                format!("self.least{number} <= self.most{number}"),
                format!("self.name{number}.startsWith('bench-') && self.name{number} != 'bench-'"),
                format!("self.list{number}.all(item, item.size() > 0)"),
                format!("!has(self.list{number}) || self.list{number}.exists(item, item == 'one')"),
                format!("self.name{number}.matches('^[a-z]+-[0-9]+$') || self.most{number} == 0"),
            ]
        })
        .map(|rule| json!({"rule": rule, "message": "not so"}))
        .collect();
    let mut spec = json!({"type": "object", "properties": properties});
    if plural == "checked" {
        spec["x-kubernetes-validations"] = rules.into();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.checked.example.com")},
        "spec": {
            "group": "checked.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind_of(plural)},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

fn kind_of(plural: &str) -> &'static str {
    if plural == "checked" { "Checked" } else { "Unchecked" }
}

fn checked(number: usize, replicas: usize) -> Bytes {
    many_fields("Checked", number, replicas)
}

fn unchecked(number: usize, replicas: usize) -> Bytes {
    many_fields("Unchecked", number, replicas)
}

fn many_fields(kind: &str, number: usize, replicas: usize) -> Bytes {
    let mut spec = json!({"replicas": replicas});
    for field in 0..RULES / 5 {
        spec[format!("name{field}")] = format!("bench-{field}").into();
        spec[format!("least{field}")] = 1.into();
        spec[format!("most{field}")] = 9.into();
        spec[format!("list{field}")] = json!(["one", "two", "three"]);
    }
    let object = json!({
        "apiVersion": "checked.example.com/v1",
        "kind": kind,
        "metadata": {"name": format!("bench-{number}")},
        "spec": spec,
    });
    Bytes::from(object.to_string())
}
