//! The phases of the measurement.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::{Bytes, BytesMut};
use conformance::{Connection, Process, Target};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::quantile;

/// Objects that a workload creates: each has a number, and one field that an apply changes.
#[derive(Clone, Copy)]
pub(super) struct Objects {
    pub(super) collection: &'static str,
    /// The object of this number, of the name `bench-` and the number, with this many replicas.
    pub(super) object: fn(usize, usize) -> Bytes,
    /// A merge patch that changes it.
    pub(super) patch: &'static str,
}

impl Objects {
    fn path(&self, number: usize) -> String {
        format!("{}/bench-{number}", self.collection)
    }

    fn apply_path(&self, number: usize) -> String {
        format!("{}?fieldManager=bench&force=true", self.path(number))
    }
}

pub(super) const DEPLOYMENTS: Objects = Objects {
    collection: "/apis/apps/v1/namespaces/default/deployments",
    object: deployment,
    patch: SCALED,
};

/// A merge patch of objects with replicas.
pub(super) const SCALED: &str = r#"{"spec": {"replicas": 5}}"#;

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// A kind of operation on single objects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Apply to names that do not exist.
    Create,
    /// The same apply again, for the first time.
    Reapply,
    /// The same apply once more, which the server remembers as one that changes nothing.
    Remembered,
    /// An apply that changes one field.
    Change,
    /// A merge patch of one field.
    Patch,
    /// GET.
    Get,
    /// DELETE.
    Delete,
}

impl Phase {
    pub(super) fn title(self) -> &'static str {
        match self {
            Phase::Create => "create by apply",
            Phase::Reapply => "unchanged re-apply",
            Phase::Remembered => "unchanged re-apply, remembered",
            Phase::Change => "apply that changes one field",
            Phase::Patch => "merge patch",
            Phase::Get => "get",
            Phase::Delete => "delete",
        }
    }
}

/// Result of a phase of single operations.
pub(super) struct Figure {
    /// Processor time of the server for each operation, in microseconds.
    pub(super) cpu_micros: f64,
    /// Operations a second.
    pub(super) rate: f64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

/// Result of a phase of lists.
pub(super) struct ListFigure {
    /// Processor time of the server for each list, in microseconds.
    pub(super) cpu_micros: f64,
    /// Size of the response.
    pub(super) bytes: usize,
}

/// The operations, sent over a number of connections.
pub(super) struct Workload {
    target: Target,
    connections: usize,
    objects: Objects,
}

impl Workload {
    pub(super) fn new(target: Target, connections: usize, objects: Objects) -> Self {
        Self {
            target,
            connections,
            objects,
        }
    }

    /// Runs a phase on the first `count` objects.
    pub(super) async fn run(&self, phase: Phase, count: usize, server: impl Into<Process>) -> Result<Figure> {
        self.run_range(phase, 0..count, server).await
    }

    /// Runs a phase on the objects of these numbers.
    pub(super) async fn run_range(
        &self,
        phase: Phase,
        numbers: Range<usize>,
        server: impl Into<Process>,
    ) -> Result<Figure> {
        let server = server.into();
        let total = numbers.len();
        let mut connections = Vec::new();
        for _ in 0..self.connections {
            connections.push(self.target.connect().await?);
        }
        let next = Arc::new(AtomicUsize::new(numbers.start));
        let (cpu, begin) = (server.cpu()?, Instant::now());
        let mut tasks = Vec::new();
        for connection in connections {
            let next = Arc::clone(&next);
            tasks.push(tokio::spawn(drain(connection, self.objects, phase, next, numbers.end)));
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

    /// Deletes all except the first `keep` of `of` objects.
    pub(super) async fn keep_only(&self, keep: usize, of: usize) -> Result<()> {
        let mut connection = self.target.connect().await?;
        for number in keep..of {
            connection
                .send(Method::DELETE, &self.objects.path(number), "", Bytes::new())
                .await?;
        }
        Ok(())
    }

    /// Lists all objects of the namespace.
    pub(super) async fn list(&self, times: usize, server: impl Into<Process>) -> Result<ListFigure> {
        let server = server.into();
        let mut connection = self.target.connect().await?;
        let collection = self.objects.collection;
        let mut bytes = connection.send(Method::GET, collection, "", Bytes::new()).await?.len();
        let cpu = server.cpu()?;
        for _ in 0..times {
            bytes = connection.send(Method::GET, collection, "", Bytes::new()).await?.len();
        }
        let cpu = server.cpu()? - cpu;
        Ok(ListFigure {
            cpu_micros: cpu.as_secs_f64() * 1e6 / times as f64,
            bytes,
        })
    }

    /// Measures the times from sending a write until a watcher has its event, sorted.
    pub(super) async fn watch_delays(&self, times: usize) -> Result<Vec<Duration>> {
        self.delays_until_seen_at(&self.target, times).await
    }

    /// Returns the same for a watcher of another server.
    pub(super) async fn delays_until_seen_at(&self, other: &Target, times: usize) -> Result<Vec<Duration>> {
        let mut writer = self.target.connect().await?;
        let mut watcher = other.connect().await?;
        let collection = self.objects.collection;
        let url = format!("{collection}?watch=true&fieldSelector=metadata.name%3Dbench-0&resourceVersion=0");
        let mut events = watcher.open(Method::GET, &url, "", Bytes::new()).await?.into_body();
        let mut delays = Vec::with_capacity(times);
        let path = self.objects.apply_path(0);
        for round in 0..times {
            let replicas = 100 + round;
            let body = (self.objects.object)(0, replicas);
            let begin = Instant::now();
            let write = writer.send(Method::PATCH, &path, APPLY, body);
            let event = async {
                until_seen(&mut events, replicas).await?;
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

/// Reads events until one contains an object with this number of replicas. Events arrive in pieces, and older ones may
/// come first.
async fn until_seen(events: &mut Incoming, replicas: usize) -> Result<()> {
    let (mut seen, shown) = (BytesMut::new(), format!("\"replicas\":{replicas}"));
    loop {
        let frame = events.frame().await.context("an event")??;
        seen.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = seen.iter().position(|byte| *byte == b'\n') {
            let event = seen.split_to(end + 1);
            if event.windows(shown.len()).any(|part| part == shown.as_bytes()) {
                return Ok(());
            }
        }
    }
}

async fn drain(
    mut connection: Connection,
    objects: Objects,
    phase: Phase,
    next: Arc<AtomicUsize>,
    end: usize,
) -> Result<Vec<Duration>> {
    let mut delays = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return Ok(delays);
        }
        let begin = Instant::now();
        let replicas = if phase == Phase::Change { 4 } else { 3 };
        match phase {
            Phase::Get => {
                let path = objects.path(number);
                connection.send(Method::GET, &path, "", Bytes::new()).await?
            }
            Phase::Delete => {
                let path = objects.path(number);
                connection.send(Method::DELETE, &path, "", Bytes::new()).await?
            }
            Phase::Patch => {
                let path = objects.path(number);
                let body = Bytes::from_static(objects.patch.as_bytes());
                connection.send(Method::PATCH, &path, MERGE, body).await?
            }
            Phase::Create | Phase::Reapply | Phase::Remembered | Phase::Change => {
                let body = (objects.object)(number, replicas);
                let path = objects.apply_path(number);
                connection.send(Method::PATCH, &path, APPLY, body).await?
            }
        };
        delays.push(begin.elapsed());
    }
}

/// Returns a Deployment of two containers, about 1 KB of JSON.
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
                "spec": {"containers": containers()}
            }
        }
    });
    Bytes::from(object.to_string())
}

/// Returns the containers of each object that is measured.
pub(super) fn containers() -> serde_json::Value {
    serde_json::json!([
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
    ])
}
