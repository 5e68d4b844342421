//! A server without sockets: requests are passed directly to the service, over a real store in a temporary folder.

// Each test file uses a part of this module. Lints do not recognize test code outside of test functions.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used
)]

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_admission::{AdmissionChain, AdmissionPlugin};
use holdfast_authorization::{Authorizer, Chain};
use holdfast_server::api::context::{Config, Context, Parts, Shared};
use holdfast_server::identity::{Authenticator, Impersonation, TokenFile};
use holdfast_server::metrics::Metrics;
use holdfast_server::objects::{Objects, Store};
use holdfast_server::operations::fairness::{self, PriorityAndFairness};
use holdfast_server::operations::health::Health;
use holdfast_server::operations::paths::Paths;
use holdfast_server::operations::service::Service;
use holdfast_server::operations::start;
use holdfast_server::runtime::shutdown::ShutdownTrigger;
use holdfast_server::runtime::{RandomIdentifiers, SystemClock};
use holdfast_server::webhooks::Webhooks;
use holdfast_server::wire::body::{RequestBody, ResponseBody};
use holdfast_server::write::FieldManagers;
use holdfast_store::HistoryLimits;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};

pub const APPLY: &str = "application/apply-patch+yaml";
pub const MERGE: &str = "application/merge-patch+json";
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub struct Server {
    pub service: Arc<Service>,
    webhooks: Arc<holdfast_admission::webhooks::Webhooks>,
    _folder: tempfile::TempDir,
}

/// An answer whose body has been read completely.
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    async fn read(response: http::Response<ResponseBody>) -> Self {
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Self {
            code: head.status.as_u16(),
            headers: head.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        }
    }

    /// Returns the value at a JSON pointer.
    pub fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub fn message(&self) -> &str {
        self.at("/message").as_str().unwrap_or_default()
    }

    pub fn version(&self) -> &str {
        self.at("/metadata/resourceVersion").as_str().unwrap_or_default()
    }
}

impl Server {
    pub async fn start() -> Self {
        Self::start_with(HistoryLimits::default()).await
    }

    /// Starts a server with these bounds of the event history.
    pub async fn start_with(history: HistoryLimits) -> Self {
        Self::start_as(history, chain(Vec::new())).await
    }

    /// Starts a server with priority levels that share this number of seats.
    pub async fn start_with_seats(seats: u64) -> Self {
        let fairness = PriorityAndFairness::new(seats, Duration::from_secs(60));
        let (history, admission) = (HistoryLimits::default(), chain(Vec::new()));
        Self::start_in_full(history, admission, Some(Arc::new(fairness)), Config::default()).await
    }

    /// Starts a server with these settings.
    pub async fn start_configured(config: Config) -> Self {
        Self::start_in_full(HistoryLimits::default(), chain(Vec::new()), None, config).await
    }

    /// Starts a server with another admission plugin.
    pub async fn start_with_plugin(plugin: impl AdmissionPlugin + 'static) -> Self {
        Self::start_as(HistoryLimits::default(), chain(vec![Box::new(plugin)])).await
    }

    /// Starts a server without the admission plugin of that name.
    pub async fn start_without_plugin(name: &str) -> Self {
        let chain = chain(Vec::new()).only(|known| known != name);
        Self::start_as(HistoryLimits::default(), chain).await
    }

    async fn start_as(history: HistoryLimits, admission: AdmissionChain) -> Self {
        Self::start_in_full(history, admission, None, Config::default()).await
    }

    async fn start_in_full(
        history: HistoryLimits,
        admission: AdmissionChain,
        fairness: Option<Arc<PriorityAndFairness>>,
        config: Config,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kinds = holdfast_kinds::Config::default();
        let built_in = holdfast_kinds::registry(&kinds).unwrap();
        let registry = Arc::new(ArcSwap::from_pointee(built_in));
        let types = Arc::clone(registry.load().types());
        let objects = Objects::new(Arc::clone(&registry));
        let of_store = holdfast_store::Config {
            history,
            ..holdfast_store::Config::new(folder.path())
        };
        let opened = Store::open(of_store, objects).unwrap();
        let store = Arc::new(opened);
        let context = Arc::new(Context::new(Parts {
            shared: Shared {
                registry: Arc::clone(&registry),
                store: Arc::clone(&store),
                policies: Arc::clone(&kinds.policies),
                authorizer: Arc::new(Chain::new([Arc::clone(&kinds.policy) as Arc<dyn Authorizer>])),
                tokens: Arc::new(TokenFile::parse("token,admin,uid,system:masters").unwrap()),
                identifiers: Arc::new(RandomIdentifiers::default()),
                clock: Arc::new(SystemClock),
                metrics: Arc::new(Metrics::new().unwrap()),
            },
            field_managers: FieldManagers::new(types),
            webhooks: Webhooks::new(Arc::clone(&kinds.webhooks), Arc::clone(&store), Arc::clone(&registry)),
            nodes: holdfast_server::nodes::NodeConnections::new(None, None, None).unwrap(),
            issuer: Arc::new(holdfast_resource::access::NoTokens),
            admission,
            shutdown: ShutdownTrigger::new().shutdown(),
            background: Default::default(),
            config,
        }));
        start(&context).await.unwrap();
        let in_flight = Arc::default();
        let metrics = Arc::clone(&context.shared.metrics);
        let mut paths = Paths::new(registry, Health::new(), "localhost:6443", &SystemClock)
            .with_metrics(metrics, Arc::clone(&in_flight));
        if let Some(levels) = &fairness {
            fairness::follow(&context, levels);
            paths = paths.with_fairness(fairness.clone());
        }
        let service = Service {
            context,
            authenticator: Authenticator::default(),
            impersonation: Impersonation::default(),
            paths,
            in_flight,
            fairness,
            auditor: None,
            browsers: None,
            go_away: None,
            drain: None,
            ends_unauthenticated_connections: true,
            tracer: None,
            storage_versions: None,
            page: None,
            testing: None,
            timeline: None,
        };
        service.context.shared.store.begin_history();
        Self {
            service: Arc::new(service),
            webhooks: kinds.webhooks,
            _folder: folder,
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "", "").await
    }

    pub async fn post(&self, path: &str, body: &str) -> Answer {
        self.send("POST", path, "application/json", body).await
    }

    pub async fn put(&self, path: &str, body: &str) -> Answer {
        self.send("PUT", path, "application/json", body).await
    }

    pub async fn patch(&self, path: &str, media_type: &str, body: &str) -> Answer {
        self.send("PATCH", path, media_type, body).await
    }

    /// Creates a CRD and accepts its names, as its controller does.
    pub async fn define(&self, crd: &Value) {
        const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let answer = self.post(DEFINITIONS, &crd.to_string()).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        let versions = crd["spec"]["versions"].as_array().unwrap();
        let stored = versions.iter().find(|version| version["storage"] == true).unwrap();
        let accepted = json!({"status": {
            "acceptedNames": crd["spec"]["names"],
            "conditions": [{"type": "Established", "status": "True"}],
            "storedVersions": [stored["name"]],
        }});
        let name = crd["metadata"]["name"].as_str().unwrap();
        let status = format!("{DEFINITIONS}/{name}/status");
        let answer = self.patch(&status, MERGE, &accepted.to_string()).await;
        assert_eq!(answer.code, 200, "{}", answer.body);
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, "", "").await
    }

    pub async fn send(&self, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
        Answer::read(self.respond(method, path, content_type, body, "application/json").await).await
    }

    /// Sends a request as `user`.
    pub async fn send_as(&self, user: &str, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
        let headers = [("Accept", "application/json"), ("Impersonate-User", user)];
        Answer::read(self.request(method, path, content_type, body, &headers).await).await
    }

    pub async fn respond(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
        accept: &str,
    ) -> http::Response<ResponseBody> {
        self.request(method, path, content_type, body, &[("Accept", accept)])
            .await
    }

    /// Returns all metrics as text.
    pub async fn metrics(&self) -> String {
        let answer = self.respond("GET", "/metrics", "", "", "*/*").await;
        String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    /// Returns the answer to a body that is not text.
    pub async fn respond_to_bytes(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
        accept: &str,
    ) -> http::Response<ResponseBody> {
        self.request(method, path, content_type, body, &[("Accept", accept)])
            .await
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: impl AsRef<[u8]>,
        headers: &[(&str, &str)],
    ) -> http::Response<ResponseBody> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("Authorization", "Bearer token")
            .header("User-Agent", "tests/1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !content_type.is_empty() {
            request = request.header("Content-Type", content_type);
        }
        let request = request.body(RequestBody::from_bytes(body.as_ref().to_vec())).unwrap();
        self.service.respond(request, None, None).await
    }

    /// Sets `webhooks` as those of the configuration of that type (`mutating` or `validating`) and name, and waits
    /// until they are called.
    pub async fn configure(&self, webhook_type: &str, name: &str, webhooks: &[Value]) {
        let kind = format!(
            "{}WebhookConfiguration",
            webhook_type[..1].to_uppercase() + &webhook_type[1..]
        );
        let mut body = serde_json::json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": webhooks,
        });
        let collection = format!("/apis/admissionregistration.k8s.io/v1/{webhook_type}webhookconfigurations");
        let before = self.webhooks.changes();
        let mut answer = self.post(&collection, &body.to_string()).await;
        if answer.code == 409 {
            let existing = self.get(&format!("{collection}/{name}")).await;
            body["metadata"]["resourceVersion"] = existing.version().into();
            answer = self.put(&format!("{collection}/{name}"), &body.to_string()).await;
        }
        assert!(matches!(answer.code, 200 | 201), "{}", answer.body);
        while self.webhooks.changes() == before {
            tokio::task::yield_now().await;
        }
    }

    /// Deletes a webhook configuration and waits until its webhooks are no longer called.
    pub async fn unconfigure(&self, webhook_type: &str, name: &str) {
        let before = self.webhooks.changes();
        let path = format!("/apis/admissionregistration.k8s.io/v1/{webhook_type}webhookconfigurations/{name}");
        assert_eq!(self.delete(&path).await.code, 200);
        while self.webhooks.changes() == before {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the answer to a GET that accepts this media type.
    pub async fn get_as(&self, path: &str, accept: &str) -> Answer {
        Answer::read(self.respond("GET", path, "", "", accept).await).await
    }

    /// Opens a watch.
    pub async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, "application/json").await
    }

    /// Opens a watch that accepts this media type.
    pub async fn watch_as(&self, path: &str, accept: &str) -> Watch {
        let response = self.respond("GET", path, "", "", accept).await;
        assert_eq!(response.status(), 200);
        Watch {
            body: response.into_body(),
            text: Vec::new(),
        }
    }
}

/// Returns the plugins that are enabled by default, and `more`.
fn chain(more: Vec<Box<dyn AdmissionPlugin>>) -> AdmissionChain {
    AdmissionChain::new(holdfast_admission_plugins::plugins().into_iter().chain(more).collect())
}

/// An open watch.
pub struct Watch {
    body: ResponseBody,
    /// The received text that was not read yet.
    text: Vec<u8>,
}

impl Watch {
    /// Returns the next event as `TYPE NAME`, with its full content; `None` at the end.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        let line = self.next_line().await?;
        let event: Value = serde_json::from_slice(&line).unwrap();
        let name = event
            .pointer("/object/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Some((format!("{} {name}", event["type"].as_str().unwrap()), event))
    }

    /// Returns the next event as its text.
    pub async fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                break end;
            }
            let frame = tokio::time::timeout(Duration::from_secs(100), self.body.frame())
                .await
                .unwrap()?;
            self.text.extend_from_slice(&frame.unwrap().into_data().unwrap());
        };
        Some(self.text.drain(..=end).collect())
    }

    /// Returns the next events as `TYPE NAME`.
    pub async fn events(&mut self, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.extend(self.next().await.map(|(short, _)| short));
        }
        events
    }
}

/// Returns a ConfigMap as JSON.
pub fn config_map(name: &str, value: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"k":"{value}"}}}}"#)
}
