//! One user that sends requests as fast as possible, and one that does not, in a priority level of their own.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "what fails here is the test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::{Binary, Client, Server, Target};

/// The collection of priority levels.
pub const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
/// The collection of flow schemas.
pub const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Media type of lists that cost the server more time than the client.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Starts a server with a priority level for service accounts of the namespace `load`, which have all permissions. The
/// level has one seat if the server has few.
pub async fn server(binary: &Binary, flags: &[&str]) -> (Server, Client) {
    let server = Server::start(binary, flags).unwrap();
    let mut client = Client::new(&server).await;
    client.namespace("load").await;
    let binding = json!({
        "metadata": {"name": "load"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name":
        "cluster-admin"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name":
        "system:serviceaccounts:load"}],
    });
    client.make(BINDINGS, binding).await;
    let queuing = json!({"queues": 64, "handSize": 1, "queueLengthLimit": 100});
    let level = json!({"metadata": {"name": "load"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": {"type": "Queue", "queuing": queuing},
    }}});
    client.make(LEVELS, level).await;
    let all =
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]});
    let who = json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "load", "name": "*"}});
    let schema = json!({"metadata": {"name": "load"}, "spec": {
        "priorityLevelConfiguration": {"name": "load"}, "matchingPrecedence": 300, "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": [who], "resourceRules": [all]}],
    }});
    client.make(SCHEMAS, schema).await;
    for number in 0..60 {
        let name = format!("c{number}");
        let text = "x".repeat(1000);
        client
            .make(CONFIG_MAPS, json!({"metadata": {"name": name}, "data": {"text": text}}))
            .await;
    }
    (server, client)
}

/// Returns the token of a service account of the namespace `load`.
pub async fn token(client: &mut Client, name: &str) -> &'static str {
    let accounts = "/api/v1/namespaces/load/serviceaccounts";
    client.make(accounts, json!({"metadata": {"name": name}})).await;
    let made = client
        .make(
            &format!("{accounts}/{name}/token"),
            json!({"spec": {"expirationSeconds": 3600}}),
        )
        .await;
    // It lives as long as a test.
    Box::leak(made["status"]["token"].as_str().unwrap().to_owned().into_boxed_str())
}

/// Starts connections that send sequential requests as fast as they can. `answers` receives each response.
pub async fn load(
    target: &Target,
    connections: usize,
    user: &'static str,
    tasks: &mut JoinSet<()>,
    answers: &UnboundedSender<(&'static str, StatusCode)>,
) {
    for _ in 0..connections {
        let (answers, mut connection) = (answers.clone(), target.connect().await.unwrap());
        tasks.spawn(async move {
            loop {
                let answer = connection.get(CONFIG_MAPS, TABLE).await.unwrap();
                let status = answer.status();
                answer.into_body().collect().await.unwrap();
                if answers.send((user, status)).is_err() {
                    return;
                }
            }
        });
    }
}

/// Calls [`times`] on a separate thread, so that the time of the other client is not counted.
async fn apart(target: &Target, count: usize) -> Vec<Duration> {
    let target = target.clone();
    let measure = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(times(&target, count))
    };
    tokio::task::spawn_blocking(measure).await.unwrap()
}

/// Returns the durations of sequential requests, the longest last.
async fn times(target: &Target, count: usize) -> Vec<Duration> {
    let mut connection = target.connect().await.unwrap();
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        let path = format!("{CONFIG_MAPS}/c1");
        let (status, _) = connection.ask(Method::GET, &path, "", Bytes::new()).await.unwrap();
        assert_eq!(status, StatusCode::OK);
        times.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    times.sort_unstable();
    times
}

/// Threads that only use the processors, one for each, until this is dropped.
#[derive(Debug)]
pub struct BusyLoops(Arc<AtomicBool>);

impl BusyLoops {
    /// Starts them.
    #[must_use]
    pub fn start() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let ended = Arc::clone(&ended);
            std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(ended)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Durations of the requests of the quiet user, in ascending order.
#[derive(Debug)]
pub struct Figures {
    /// While no other request runs.
    pub idle: Vec<Duration>,
    /// Durations alongside as many busy loops as the machine has processors, without other requests: the cost of the
    /// scheduler.
    pub loops: Vec<Duration>,
    /// Durations alongside the hog.
    pub beside: Vec<Duration>,
    /// Number of requests of the hog that were served meanwhile.
    pub served: usize,
    /// Number of requests of the hog that were rejected.
    pub rejected: usize,
}

/// Measures the given number of requests of the quiet user without a hog, and as many alongside a hog with the given
/// number of connections.
pub async fn figures(binary: &Binary, requests: usize, connections: usize) -> Figures {
    let (server, mut client) = server(binary, &[]).await;
    let target = Target::new(&server).unwrap();
    let hog = target.clone().with_token(token(&mut client, "hog").await);
    let quiet = target.clone().with_token(token(&mut client, "quiet").await);
    let idle = apart(&quiet, requests).await;
    let busy = BusyLoops::start();
    let loops = apart(&quiet, requests).await;
    drop(busy);
    let (mut tasks, (sender, mut answers)) = (JoinSet::new(), unbounded_channel());
    load(&hog, connections, "hog", &mut tasks, &sender).await;
    // The hog is active before the measurement.
    for _ in 0..connections {
        answers.recv().await.unwrap();
    }
    let beside = apart(&quiet, requests).await;
    tasks.abort_all();
    drop(sender);
    let (mut served, mut rejected) = (0, 0);
    while let Some((_, status)) = answers.recv().await {
        match status {
            StatusCode::OK => served += 1,
            _ => rejected += 1,
        }
    }
    Figures {
        idle,
        loops,
        beside,
        served,
        rejected,
    }
}
