//! The phases of the measurement.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use conformance::{Connection, Server, Target};
use http::Method;
use http_body_util::BodyExt as _;

use super::quantile;

const COLLECTION: &str = "/apis/apps/v1/namespaces/default/deployments";
const APPLY: &str = "application/apply-patch+yaml";

/// A sort of operation on single objects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Apply to names that are not there.
    Create,
    /// The same apply again.
    Reapply,
    /// An apply that changes one field.
    Change,
    /// GET.
    Get,
}

impl Phase {
    pub(super) fn title(self) -> &'static str {
        match self {
            Phase::Create => "create by apply, server CPU each",
            Phase::Reapply => "unchanged re-apply, server CPU each",
            Phase::Change => "apply that changes one field, server CPU each",
            Phase::Get => "get, server CPU each",
        }
    }
}

/// What a phase of single operations came to.
pub(super) struct Figure {
    /// Processor time of the server for each operation, in microseconds.
    pub(super) cpu_micros: f64,
    /// Operations a second.
    pub(super) rate: f64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

/// What a phase of lists came to.
pub(super) struct ListFigure {
    /// Processor time of the server for each list, in microseconds.
    pub(super) cpu_micros: f64,
    /// The size of the answer.
    pub(super) bytes: usize,
}

/// The operations, sent over a number of connections.
pub(super) struct Workload {
    target: Target,
    connections: usize,
}

impl Workload {
    pub(super) fn new(target: Target, connections: usize) -> Self {
        Self { target, connections }
    }

    /// Runs a phase on the first `objects` Deployments.
    pub(super) async fn run(&self, phase: Phase, objects: usize, server: &Server) -> Result<Figure> {
        self.run_range(phase, 0..objects, server).await
    }

    /// Runs a phase on the Deployments of these numbers.
    pub(super) async fn run_range(&self, phase: Phase, numbers: Range<usize>, server: &Server) -> Result<Figure> {
        let total = numbers.len();
        let mut connections = Vec::new();
        for _ in 0..self.connections {
            connections.push(self.target.connect().await?);
        }
        let next = Arc::new(AtomicUsize::new(numbers.start));
        let (cpu, begin) = (server.cpu()?, Instant::now());
        let mut tasks = Vec::new();
        for connection in connections {
            tasks.push(tokio::spawn(drain(connection, phase, Arc::clone(&next), numbers.end)));
        }
        let mut delays = Vec::with_capacity(total);
        for task in tasks {
            delays.extend(task.await??);
        }
        let (elapsed, cpu) = (begin.elapsed(), server.cpu()? - cpu);
        delays.sort();
        Ok(Figure {
            cpu_micros: cpu.as_secs_f64() * 1e6 / total as f64,
            rate: total as f64 / elapsed.as_secs_f64(),
            p50: quantile(&delays, 0.5),
            p99: quantile(&delays, 0.99),
        })
    }

    /// Deletes all but the first `keep` of `of` Deployments.
    pub(super) async fn keep_only(&self, keep: usize, of: usize) -> Result<()> {
        let mut connection = self.target.connect().await?;
        for number in keep..of {
            connection.send(Method::DELETE, &path(number), "", Bytes::new()).await?;
        }
        Ok(())
    }

    /// Lists all Deployments of the namespace.
    pub(super) async fn list(&self, times: usize, server: &Server) -> Result<ListFigure> {
        let mut connection = self.target.connect().await?;
        let mut bytes = connection.send(Method::GET, COLLECTION, "", Bytes::new()).await?.len();
        let cpu = server.cpu()?;
        for _ in 0..times {
            bytes = connection.send(Method::GET, COLLECTION, "", Bytes::new()).await?.len();
        }
        let cpu = server.cpu()? - cpu;
        Ok(ListFigure {
            cpu_micros: cpu.as_secs_f64() * 1e6 / times as f64,
            bytes,
        })
    }

    /// How long it takes from sending a write until a watcher has its event, sorted.
    pub(super) async fn watch_delays(&self, times: usize) -> Result<Vec<Duration>> {
        let mut writer = self.target.connect().await?;
        let mut watcher = self.target.connect().await?;
        let url = format!("{COLLECTION}?watch=true&fieldSelector=metadata.name%3Dbench-0&resourceVersion=0");
        let mut events = watcher.open(Method::GET, &url, "", Bytes::new()).await?.into_body();
        events.frame().await.context("the initial event")??;
        let mut delays = Vec::with_capacity(times);
        let path = apply_path(0);
        for round in 0..times {
            let body = deployment(0, 100 + round);
            let begin = Instant::now();
            let write = writer.send(Method::PATCH, &path, APPLY, body);
            let event = async {
                events.frame().await.context("an event")??;
                Ok::<_, anyhow::Error>(begin.elapsed())
            };
            let (written, delay) = tokio::join!(write, event);
            written?;
            delays.push(delay?);
        }
        delays.sort();
        Ok(delays)
    }
}

async fn drain(mut connection: Connection, phase: Phase, next: Arc<AtomicUsize>, end: usize) -> Result<Vec<Duration>> {
    let mut delays = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return Ok(delays);
        }
        let begin = Instant::now();
        match phase {
            Phase::Get => connection.send(Method::GET, &path(number), "", Bytes::new()).await?,
            Phase::Create | Phase::Reapply => {
                connection
                    .send(Method::PATCH, &apply_path(number), APPLY, deployment(number, 3))
                    .await?
            }
            Phase::Change => {
                connection
                    .send(Method::PATCH, &apply_path(number), APPLY, deployment(number, 4))
                    .await?
            }
        };
        delays.push(begin.elapsed());
    }
}

fn path(number: usize) -> String {
    format!("{COLLECTION}/bench-{number}")
}

fn apply_path(number: usize) -> String {
    format!("{COLLECTION}/bench-{number}?fieldManager=bench&force=true")
}

/// A Deployment of two containers, about 1 KB of JSON.
fn deployment(number: usize, replicas: usize) -> Bytes {
    let object = serde_json::json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": format!("bench-{number}"),
            "labels": {"app.kubernetes.io/name": "bench", "app.kubernetes.io/instance": format!("bench-{number}")},
            "annotations": {"example.com/description": "a Deployment of two containers to measure with"}
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app.kubernetes.io/instance": format!("bench-{number}")}},
            "template": {
                "metadata": {"labels": {
                    "app.kubernetes.io/name": "bench", "app.kubernetes.io/instance": format!("bench-{number}")
                }},
                "spec": {"containers": [
                    {
                        "name": "web",
                        "image": "registry.example.com/bench/web:1.0.0",
                        "ports": [{"name": "http", "containerPort": 8080}],
                        "env": [{"name": "LEVEL", "value": "info"}, {"name": "REGION", "value": "north"}],
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}
                    },
                    {
                        "name": "sidecar",
                        "image": "registry.example.com/bench/sidecar:1.0.0",
                        "args": ["--listen=:9090", "--verbose"],
                        "ports": [{"name": "metrics", "containerPort": 9090}]
                    }
                ]}
            }
        }
    });
    Bytes::from(object.to_string())
}
