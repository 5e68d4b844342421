//! One of the two servers.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use conformance::{Connection, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::answers::Answer;
use super::bodies::Kind;
use super::steps::{Step, Verb};

/// Namespace of the compared objects.
pub(super) const NAMESPACE: &str = "compare";

const JSON: &str = "application/json";

pub(super) struct Side {
    connection: Connection,
}

impl Side {
    pub(super) async fn connect(target: &Target) -> Result<Self> {
        Ok(Self {
            connection: target.connect().await?,
        })
    }

    /// Creates the namespace, and the objects that Pods in it need.
    pub(super) async fn prepare(&mut self) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        for (path, object) in [("/api/v1/namespaces", namespace), (accounts.as_str(), account)] {
            let body = Bytes::from(object.to_string());
            let (code, answer) = self.connection.ask(Method::POST, path, JSON, body).await?;
            let there = code.is_success() || code == StatusCode::CONFLICT;
            ensure!(there, "{path}: {code}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(())
    }

    /// Returns a document that the server serves.
    pub(super) async fn document(&mut self, path: &str) -> Result<Value> {
        let body = self.connection.send(Method::GET, path, JSON, Bytes::new()).await?;
        serde_json::from_slice(&body).with_context(|| path.to_owned())
    }

    /// Sends a write of the object of this name.
    pub(super) async fn send(&mut self, kind: &Kind, name: &str, step: &Step) -> Result<Answer> {
        let (method, path, media_type) = step.request(&kind.path, name);
        let body = step.body_named(name).to_string();
        let answer = self.connection.open(method, &path, media_type, body.into()).await?;
        let code = answer.status();
        let warnings = answer
            .headers()
            .get_all("warning")
            .iter()
            .map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned())
            .collect();
        let bytes = answer.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer::new(code, warnings, body))
    }

    /// Deletes the object of this name with any finalizers.
    pub(super) async fn forget(&mut self, kind: &Kind, name: &str) -> Result<()> {
        let path = format!("{}/{name}", kind.path);
        let options = json!({"gracePeriodSeconds": 0}).to_string();
        let answer = self.connection.ask(Method::DELETE, &path, JSON, options.into()).await?;
        if answer.0.is_success() {
            let patch = json!({"metadata": {"finalizers": null}}).to_string();
            let media_type = Verb::MergePatch.media_type();
            self.connection
                .ask(Method::PATCH, &path, media_type, patch.into())
                .await?;
        }
        Ok(())
    }
}
