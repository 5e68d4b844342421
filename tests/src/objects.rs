//! Objects over HTTP, for tests that start the binary.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "what fails here is the test"
)]

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{Connection, Server, Target};

/// The media type of merge patches.
pub const MERGE: &str = "application/merge-patch+json";

/// Time limit of anything that happens asynchronously.
const LIMIT: Duration = Duration::from_secs(60);

/// Client of a server that exchanges objects as JSON. A failure fails the test.
pub struct Client {
    connection: Connection,
}

impl Client {
    /// Returns a client with a connection of its own, as a user of `system:masters`.
    pub async fn new(server: &Server) -> Self {
        Self {
            connection: Target::new(server).unwrap().connect().await.unwrap(),
        }
    }

    /// Returns a client with a connection of its own, as the user with that token.
    pub async fn with_token(server: &Server, token: &'static str) -> Self {
        let target = Target::new(server).unwrap().with_token(token);
        Self {
            connection: target.connect().await.unwrap(),
        }
    }

    /// Sends a request and returns the response; text that is not JSON, such as that of a missing path, is returned as
    /// a string.
    pub async fn ask(&mut self, method: Method, path: &str, media_type: &str, body: Value) -> (StatusCode, Value) {
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        let (status, answer) = self.connection.ask(method, path, media_type, body).await.unwrap();
        let tree = serde_json::from_slice(&answer);
        (status, tree.unwrap_or_else(|_| String::from_utf8_lossy(&answer).into()))
    }

    /// Makes an object in the collection at `path`.
    pub async fn make(&mut self, path: &str, object: Value) -> Value {
        let (status, made) = self.ask(Method::POST, path, "application/json", object).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made
    }

    /// Makes a namespace.
    pub async fn namespace(&mut self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.make("/api/v1/namespaces", object).await;
    }

    /// Makes a ConfigMap with this metadata and returns its uid.
    pub async fn config_map(&mut self, namespace: &str, metadata: Value) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let made = self.make(&path, object).await;
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Returns the response to a GET of `path`.
    pub async fn get(&mut self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, "", Value::Null).await
    }

    /// Deletes the object or collection at `path`, with these options.
    pub async fn delete(&mut self, path: &str, options: Value) -> Value {
        let (status, answer) = self.ask(Method::DELETE, path, "application/json", options).await;
        assert!(status.is_success(), "{answer}");
        answer
    }

    /// Lets go of the finalizers of an object.
    pub async fn release(&mut self, path: &str) {
        let patch = json!({"metadata": {"finalizers": null}});
        let (status, answer) = self.ask(Method::PATCH, path, MERGE, patch).await;
        assert!(status.is_success(), "{answer}");
    }

    /// Waits until the response to a GET of `path` satisfies `expected`.
    pub async fn until(&mut self, path: &str, expected: impl Fn(StatusCode, &Value) -> bool) -> Value {
        let end = Instant::now() + LIMIT;
        loop {
            let (status, object) = self.get(path).await;
            if expected(status, &object) {
                return object;
            }
            assert!(Instant::now() < end, "{path}: {status}: {object}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until the counter `metric` has the value `times` for the label `status`.
    pub async fn until_counted(&mut self, metric: &str, status: &str, times: u32) {
        let (status, times) = (format!("status=\"{status}\""), format!(" {times}"));
        self.until("/metrics", |_, text| {
            let mut lines = text.as_str().unwrap().lines().filter(|line| line.starts_with(metric));
            lines.any(|line| line.contains(&status) && line.ends_with(&times))
        })
        .await;
    }

    /// Waits until `path` is not found.
    pub async fn until_gone(&mut self, path: &str) {
        self.until(path, |status, _| status == StatusCode::NOT_FOUND).await;
    }
}
