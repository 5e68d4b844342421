//! Pods like those of a cluster, in numbers that are too slow to create through the API: one is created through the
//! API, and its stored bytes are the pattern of the others, which are written to the store while no server uses it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use conformance::{Binary, Connection, Server, Target};
use holdfast_store::{Clock, Config, Store, SystemClock, Transaction, Value};
use http::Method;
use serde_json::json;

/// The namespaces that the pods are in.
pub(super) const SMALL: &str = "small";
pub(super) const LARGE: &str = "large";

/// Number of pods that are written to the store in one step.
const STEP: usize = 500;

/// An object of the API as it is stored, to make others of.
pub(super) struct Pattern {
    /// JSON text without the digits of the resource version.
    text: String,
    /// Position of those digits.
    revision_at: usize,
    /// Names in it that differ between objects.
    name: String,
    namespace: String,
    uid: String,
}

impl Pattern {
    fn from_object(object: &Bytes) -> Result<Self> {
        let text = std::str::from_utf8(object)?;
        let tree: serde_json::Value = serde_json::from_str(text)?;
        let field = |name: &str| -> Result<String> {
            let value = tree["metadata"][name].as_str();
            Ok(value.with_context(|| format!("metadata.{name}"))?.to_owned())
        };
        let label = format!("\"resourceVersion\":\"{}", field("resourceVersion")?);
        let at = text.find(&label).context("the resource version")?;
        let digits = field("resourceVersion")?.len();
        let revision_at = at + label.len() - digits;
        let mut bare = text.to_owned();
        bare.replace_range(revision_at..revision_at + digits, "");
        Ok(Self {
            text: bare,
            revision_at,
            name: field("name")?,
            namespace: field("namespace")?,
            uid: field("uid")?,
        })
    }

    /// Returns the value of another object, with the place of its resource version.
    fn object(&self, number: usize, namespace: &str, name: &str) -> Value {
        let uid = format!("{number:08x}-{}", &self.uid[9..]);
        let make = |text: &str| {
            text.replace(&self.name, name)
                .replace(
                    &format!("\"namespace\":\"{}\"", self.namespace),
                    &format!("\"namespace\":\"{namespace}\""),
                )
                .replace(&self.uid, &uid)
        };
        let (before, after) = self.text.split_at(self.revision_at);
        let before = make(before);
        let at = before.len();
        Value::object(before + &make(after), at as u32)
    }
}

/// Objects to write to a store.
pub(super) struct Filling<'p> {
    /// Key prefix, such as `/registry/pods/`.
    pub(super) prefix: &'static str,
    /// The object that the others are like.
    pub(super) pattern: &'p Pattern,
    /// Number of objects by namespace.
    pub(super) counts: &'p [(&'static str, usize)],
}

/// Fills the store in `directory`, which no server may have, as if an hour ago. Returns the bytes of all objects.
pub(super) async fn fill(directory: &Path, filling: &Filling<'_>) -> Result<usize> {
    let mut config = Config::new(directory);
    config.clock = Arc::new(HourAgo);
    let store: Store<()> = Store::open(config, ())?;
    let (mut bytes, mut number) = (0, 0);
    for (namespace, count) in filling.counts {
        let mut left = *count;
        while left > 0 {
            let mut step = Transaction::new();
            for _ in 0..left.min(STEP) {
                let name = name(number);
                let object = filling.pattern.object(number, namespace, &name);
                bytes += object.bytes().len();
                step = step.put(format!("{}{namespace}/{name}", filling.prefix), object);
                number += 1;
            }
            left -= left.min(STEP);
            store.commit(step).await?;
        }
    }
    store.close().await?;
    Ok(bytes)
}

/// Returns the name of an object that was put into the store.
pub(super) fn name(number: usize) -> String {
    format!("web-7d4b9c6f5d-{number:07}")
}

/// Makes a pod through the API, with the status that a kubelet would report.
pub(super) async fn pod_pattern(server: &Server) -> Result<Pattern> {
    let mut connection = Target::new(server)?.connect().await?;
    for namespace in [SMALL, LARGE] {
        namespace_of(&mut connection, namespace).await?;
    }
    let pods = format!("/api/v1/namespaces/{SMALL}/pods");
    let made = format!("{pods}?fieldManager=kube-controller-manager");
    connection
        .send(Method::POST, &made, JSON, Bytes::from(pod().to_string()))
        .await?;
    let status = format!("{pods}/pattern/status?fieldManager=kubelet");
    let report = Bytes::from(pod_status().to_string());
    let stored = connection
        .send(Method::PATCH, &status, "application/merge-patch+json", report)
        .await?;
    ensure!(
        (3000..5800).contains(&stored.len()),
        "a pod of {} bytes is not like others",
        stored.len()
    );
    let pattern = Pattern::from_object(&stored)?;
    let end = format!("{pods}/pattern?gracePeriodSeconds=0");
    connection.send(Method::DELETE, &end, "", Bytes::new()).await?;
    Ok(pattern)
}

/// Returns a stopped server with this number of ConfigMaps in the namespace [`LARGE`] of its store, and the total of
/// their bytes.
pub(super) async fn with_config_maps(binary: &Binary, count: usize) -> Result<(Server, usize)> {
    let mut server = Server::start(binary, &[])?;
    let pattern = config_map_pattern(&server).await?;
    server.end();
    let filling = Filling {
        prefix: "/registry/configmaps/",
        pattern: &pattern,
        counts: &[(LARGE, count)],
    };
    let bytes = fill(&server.data_dir(), &filling).await?;
    Ok((server, bytes))
}

/// Makes a small ConfigMap through the API.
async fn config_map_pattern(server: &Server) -> Result<Pattern> {
    let mut connection = Target::new(server)?.connect().await?;
    namespace_of(&mut connection, LARGE).await?;
    let body = config_map("pattern", 0);
    let path = format!("/api/v1/namespaces/{LARGE}/configmaps");
    let stored = connection.send(Method::POST, &path, JSON, body).await?;
    let pattern = Pattern::from_object(&stored)?;
    connection
        .send(Method::DELETE, &format!("{path}/pattern"), "", Bytes::new())
        .await?;
    Ok(pattern)
}

const JSON: &str = "application/json";

/// Creates a namespace if it does not exist.
async fn namespace_of(connection: &mut Connection, name: &str) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    connection
        .ask(Method::POST, "/api/v1/namespaces", JSON, Bytes::from(body.to_string()))
        .await?;
    Ok(())
}

/// Returns a ConfigMap of some 200 bytes.
pub(super) fn config_map(name: &str, value: usize) -> Bytes {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "data": {"value": value.to_string(), "text": "a line of some length, as one finds in such objects"}
    });
    Bytes::from(object.to_string())
}

fn pod() -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "pattern",
            "labels": {
                "app.kubernetes.io/name": "web",
                "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": "7d4b9c6f5d"
            },
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web-7d4b9c6f5d",
                "uid": "5b8f3a0e-6a75-4c4e-8d1a-3f1f0c2f9b11",
                "controller": true,
                "blockOwnerDeletion": true
            }]
        },
        "spec": {
            "nodeName": "node-17.example.com",
            "serviceAccountName": "web",
            "containers": [{
                "name": "web",
                "image": "registry.example.com/shop/web:1.27.3",
                "ports": [{"name": "http", "containerPort": 8080}],
                "env": [
                    {"name": "LEVEL", "value": "info"},
                    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
                ],
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 10},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/web", "readOnly": true}]
            }],
            "volumes": [{"name": "config", "configMap": {"name": "web-config"}}]
        }
    })
}

fn pod_status() -> serde_json::Value {
    let since = "2026-01-02T03:04:05Z";
    let conditions: Vec<_> = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    .iter()
    .map(|name| json!({"type": name, "status": "True", "lastTransitionTime": since}))
    .collect();
    json!({"status": {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": "10.1.2.17",
        "podIP": "10.244.17.5",
        "podIPs": [{"ip": "10.244.17.5"}],
        "startTime": since,
        "containerStatuses": [{
            "name": "web",
            "image": "registry.example.com/shop/web:1.27.3",
            "imageID": "registry.example.com/shop/web@sha256:7d4b9c6f5d7d4b9c6f5d7d4b9c6f5d7d4b9c6f5d7d4b9c6f5d7d4b9c6f5d7d4b",
            "containerID": "containerd://5b8f3a0e6a754c4e8d1a3f1f0c2f9b115b8f3a0e6a754c4e8d1a3f1f0c2f9b11",
            "ready": true,
            "started": true,
            "restartCount": 0,
            "state": {"running": {"startedAt": since}}
        }]
    }})
}

/// A clock that is an hour slow, so that entries written with it are older than the watch history.
struct HourAgo;

impl Clock for HourAgo {
    fn now(&self) -> Duration {
        SystemClock.now().saturating_sub(Duration::from_secs(3600))
    }
}
