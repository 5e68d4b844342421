//! Requests that give every metric of the dashboard a value.

use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::hook::{Hook, Reply, deny};
use conformance::{Client, MERGE, Server, Target};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// Time limit for the configuration to have an effect.
const EFFECT_LIMIT: Duration = Duration::from_secs(60);

/// Metrics that show the last effects of the configuration.
const EFFECTS: [&str; 6] = [
    "\naggregator_unavailable_apiservice_total{",
    "\napiserver_admission_webhook_fail_open_count{",
    "\napiserver_admission_webhook_rejection_count{",
    "\napiserver_request_terminations_total{",
    "\napiserver_validating_admission_policy_check_total{",
    "\napiserver_watch_events_total{",
];

/// A server with webhooks, a policy, an unavailable APIService and a watch, and the client that sends requests.
pub struct Load {
    target: Target,
    client: Client,
    /// Command with a client certificate, which the kubeconfig has.
    doctor: Command,
    _hooks: [Hook; 2],
    _watch: http::Response<Incoming>,
    requests: usize,
}

impl Load {
    /// Configures the server, and sends requests until the configuration has an effect.
    pub async fn start(server: &Server) -> Self {
        let target = Target::new(server).unwrap();
        let mut client = Client::new(server).await;
        let hooks = [
            Hook::start(|_| deny("no secrets")).await,
            Hook::start(|_| Reply::Nothing).await,
        ];
        configure(&mut client, &hooks).await;
        let mut watch = target.connect().await.unwrap();
        let path = format!("{CONFIG_MAPS}?watch=true");
        let watch = watch.open(Method::GET, &path, "", Bytes::new()).await.unwrap();
        let mut doctor = server.binary().command();
        doctor.arg("doctor").env("KUBECONFIG", server.kubeconfig());
        let mut load = Self {
            target,
            client,
            doctor,
            _hooks: hooks,
            _watch: watch,
            requests: 0,
        };
        let end = Instant::now() + EFFECT_LIMIT;
        loop {
            load.send().await;
            let page = load.metrics("/metrics").await;
            let missing: Vec<_> = EFFECTS.iter().filter(|metric| !page.contains(**metric)).collect();
            if missing.is_empty() {
                return load;
            }
            assert!(Instant::now() < end, "no effect: {missing:?}");
        }
    }

    /// Sends requests of each verb, some of which fail.
    pub async fn send(&mut self) {
        self.requests += 1;
        let name = format!("load-{}", self.requests);
        let path = format!("{CONFIG_MAPS}/{name}");
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.client.make(CONFIG_MAPS, object.clone()).await;
        self.client.get(&path).await;
        self.client.get(CONFIG_MAPS).await;
        self.client.get("/api/v1/configmaps").await;
        let changed = json!({"data": {"changed": "true"}});
        self.client.ask(Method::PATCH, &path, MERGE, changed).await;
        self.client.ask(Method::PUT, &path, "application/json", object).await;
        self.client.delete(&path, Value::Null).await;
        self.client.get(&path).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        self.client.ask(Method::POST, SECRETS, "application/json", secret).await;
        self.doctor.output().unwrap();
        let denied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "denied"}});
        self.client
            .ask(Method::POST, CONFIG_MAPS, "application/json", denied)
            .await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        let briefly = format!("{SERVICES}?timeout=100ms");
        self.client
            .ask(Method::POST, &briefly, "application/json", service)
            .await;
    }

    /// Returns the metrics of the server, with those of its health checks.
    pub async fn all_metrics(&self) -> String {
        self.metrics("/metrics").await + &self.metrics("/metrics/slis").await
    }

    async fn metrics(&self, path: &str) -> String {
        let answer = self.target.connect().await.unwrap().get(path, "").await.unwrap();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }
}

async fn configure(client: &mut Client, hooks: &[Hook; 2]) {
    let nobody = json!({"clientConfig": {"url": "https://127.0.0.1:1/"}, "failurePolicy": "Ignore"});
    let webhooks = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "load"}, "webhooks": [
        hooks[0].webhook("denies.example.com", &["CREATE"], "/v1/secrets", json!({})),
        hooks[1].webhook("waits.example.com", &["CREATE"], "/v1/services", json!({})),
        hooks[0].webhook("fails.example.com", &["CREATE"], "/v1/configmaps", nobody),
    ]});
    client
        .make(&format!("{ADMISSION}/validatingwebhookconfigurations"), webhooks)
        .await;
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "load"}, "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"]}]},
            "validations": [{"expression": "object.metadata.name != 'denied'"}]}});
    client
        .make(&format!("{ADMISSION}/validatingadmissionpolicies"), policy)
        .await;
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "load"}, "spec": {"policyName": "load", "validationActions": ["Deny"]}});
    client
        .make(&format!("{ADMISSION}/validatingadmissionpolicybindings"), binding)
        .await;
    make_api_service_unavailable(client).await;
}

/// Makes an APIService of this server, and then gives it a server that does not exist.
async fn make_api_service_unavailable(client: &mut Client) {
    let api_service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.load.example.com"}, "spec": {"group": "load.example.com", "version": "v1",
            "groupPriorityMinimum": 2000, "versionPriority": 10}});
    client.make(API_SERVICES, api_service).await;
    let path = format!("{API_SERVICES}/v1.load.example.com");
    let is_available = |object: &Value| object["status"]["conditions"][0]["status"] == "True";
    client.until(&path, |_, object| is_available(object)).await;
    let absent =
        json!({"spec": {"insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "absent"}}});
    client.ask(Method::PATCH, &path, MERGE, absent).await;
}
