//! Holdfast and kube-apiserver on one etcd: each returns, changes and deletes the objects that the other wrote, rules
//! written through one apply to the other, and each can replace the other.
//!
//! The tests run if `HOLDFAST_KUBE_APISERVER` names the program, which `cargo xtask kube-apiserver` builds.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what fails here is the test")]

mod kinds;
mod places;
mod rules;

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use conformance::{Binary, Connection, Reference, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use test_support::etcd::Etcd;
use tokio::sync::{Mutex, MutexGuard};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const RANGE: &str = "--service-cluster-ip-range=10.9.0.0/24";

/// Time limit for events that are certain to happen.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Lock that allows one kube-apiserver at a time, because each needs some hundred megabytes and seconds.
static ONE: Mutex<()> = Mutex::const_new(());

/// Both servers.
struct Pair {
    holdfast: Side,
    reference: Side,
    server: Server,
    apiserver: Reference,
    etcd: Etcd,
    _one: MutexGuard<'static, ()>,
}

impl Pair {
    /// Starts both on a new etcd, kube-apiserver first, with these flags for Holdfast.
    async fn start(more: &[&str]) -> Self {
        Self::with(more, &[]).await
    }

    /// Returns the same with flags for kube-apiserver, too.
    async fn with(more: &[&str], reference: &[&str]) -> Self {
        let one = ONE.lock().await;
        let etcd = Etcd::one().unwrap();
        let flags: Vec<&str> = [RANGE].iter().chain(reference).copied().collect();
        let program = test_support::kube_apiserver::named().unwrap();
        let apiserver = Reference::start(&program, &etcd.endpoints(), &flags).await.unwrap();
        let server = holdfast(&etcd, &apiserver, more);
        Self {
            holdfast: Side::new("Holdfast", Target::new(&server).unwrap()),
            reference: Side::new("kube-apiserver", apiserver.target().unwrap()),
            server,
            apiserver,
            etcd,
            _one: one,
        }
    }

    /// Returns each side as the writer, with the other one.
    fn ways(&self) -> [(&Side, &Side); 2] {
        [(&self.holdfast, &self.reference), (&self.reference, &self.holdfast)]
    }

    /// Returns the number of keys in etcd with this prefix.
    fn keys(&self, prefix: &str) -> u64 {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let (key, end) = (STANDARD.encode(prefix), STANDARD.encode(end));
        let request = json!({"key": key, "range_end": end, "count_only": true});
        let body = self.etcd.ask(0, "/v3/kv/range", &request.to_string()).unwrap();
        let answer: Value = serde_json::from_str(&body).unwrap();
        // A count of zero is omitted.
        answer["count"].as_str().map_or(0, |count| count.parse().unwrap())
    }

    fn sides(&self) -> [&Side; 2] {
        [&self.holdfast, &self.reference]
    }
}

async fn kube_apiserver(etcd: &Etcd) -> Reference {
    let program = test_support::kube_apiserver::named().unwrap();
    Reference::start(&program, &etcd.endpoints(), &[RANGE]).await.unwrap()
}

/// Returns a Holdfast on an etcd that signs by the key of a kube-apiserver.
fn holdfast(etcd: &Etcd, apiserver: &Reference, more: &[&str]) -> Server {
    let endpoints = format!("--etcd-servers={}", etcd.endpoints());
    let key = format!("--service-account-signing-key-file={}", apiserver.key().display());
    let public = format!("--service-account-key-file={}", apiserver.public_key().display());
    let flags: Vec<&str> = [endpoints.as_str(), &key, &public, RANGE]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    Server::start(&Binary::debug().unwrap(), &flags).unwrap()
}

/// One of the servers.
struct Side {
    name: &'static str,
    target: Target,
    /// Connection without a request in progress.
    idle: Mutex<Option<Connection>>,
}

impl Side {
    fn new(name: &'static str, target: Target) -> Self {
        Self {
            name,
            target,
            idle: Mutex::default(),
        }
    }

    /// Returns the same server for another user.
    fn as_user(&self, token: &'static str) -> Self {
        Self::new(self.name, self.target.clone().with_token(token))
    }

    async fn ask(&self, method: Method, path: &str, media_type: &str, body: &Value) -> (StatusCode, Value) {
        let body = match body {
            Value::Null => Bytes::new(),
            body => body.to_string().into(),
        };
        let idle = self.idle.lock().await.take();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.target.connect().await.unwrap(),
        };
        let (code, answer) = connection.ask(method, path, media_type, body).await.unwrap();
        *self.idle.lock().await = Some(connection);
        (code, serde_json::from_slice(&answer).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, "", &Value::Null).await
    }

    async fn post(&self, path: &str, object: &Value) -> (StatusCode, Value) {
        self.ask(Method::POST, path, JSON, object).await
    }

    async fn merge(&self, path: &str, patch: &Value) -> (StatusCode, Value) {
        self.ask(Method::PATCH, path, MERGE, patch).await
    }

    async fn apply(&self, path: &str, manager: &str, object: &Value) -> (StatusCode, Value) {
        let path = format!("{path}?fieldManager={manager}");
        self.ask(Method::PATCH, &path, APPLY, object).await
    }

    async fn delete(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::DELETE, path, "", &Value::Null).await
    }

    /// Makes an object.
    async fn make(&self, collection: &str, object: &Value) -> Value {
        let (code, made) = self.post(collection, object).await;
        assert_eq!(code, StatusCode::CREATED, "{} {collection}: {made}", self.name);
        made
    }

    /// Repeats a GET until the response satisfies `right`.
    async fn until(&self, path: &str, right: impl Fn(StatusCode, &Value) -> bool) -> Value {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            let (code, answer) = self.get(path).await;
            if right(code, &answer) {
                return answer;
            }
            assert!(Instant::now() < end, "{} {path}: {code} {answer}", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Repeats a write until it is rejected with a message that contains `words`: rules written through the other
    /// server apply here a little later.
    async fn until_rejected(&self, path: &str, object: &Value, words: &str) {
        let end = Instant::now() + WAIT_TIMEOUT;
        let path = format!("{path}?dryRun=All");
        loop {
            let (code, answer) = self.post(&path, object).await;
            if code.is_client_error() {
                assert!(answer.to_string().contains(words), "{}: {answer}", self.name);
                return;
            }
            assert!(Instant::now() < end, "{} does not refuse {object}", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Follows one object from a version on.
    async fn follow(&self, collection: &str, name: &str, version: &str) -> Stream {
        let path = format!("{collection}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={version}");
        let mut connection = self.target.connect().await.unwrap();
        let answer = connection.open(Method::GET, &path, "", Bytes::new()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{} {path}", self.name);
        Stream {
            _connection: connection,
            body: answer.into_body(),
            buffer: BytesMut::new(),
        }
    }
}

/// The events of a watch.
struct Stream {
    _connection: Connection,
    body: Incoming,
    buffer: BytesMut,
}

impl Stream {
    async fn next(&mut self) -> Value {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                let event: Value = serde_json::from_slice(&line).unwrap();
                if event["type"] != "BOOKMARK" {
                    return event;
                }
                continue;
            }
            let frame = tokio::time::timeout(WAIT_TIMEOUT, self.body.frame())
                .await
                .unwrap()
                .expect("the watch goes on")
                .unwrap();
            self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    }

    /// Returns all events up to the deletion of the object.
    async fn until_gone(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            let last = event["type"] == "DELETED";
            events.push(event);
            if last {
                return events;
            }
        }
    }
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

fn named(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

fn config_map(name: &str, value: &str) -> Value {
    let mut object = named("v1", "ConfigMap", name);
    object["data"] = json!({"value": value});
    object
}
