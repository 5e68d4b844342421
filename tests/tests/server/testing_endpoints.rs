//! The endpoints for tests below `/testing/`: faults of requests, watches and webhooks.

use std::time::{Duration, Instant};

use conformance::hook::{Hook, Reply, allow};
use conformance::{Binary, Client, Server, Target, USER_TOKEN};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FAULTS: &str = "/testing/faults";
const JSON: &str = "application/json";

fn start(more: &[&str]) -> Server {
    let flags: Vec<&str> = ["--testing-endpoints"].iter().chain(more).copied().collect();
    Server::start(&Binary::debug().unwrap(), &flags).unwrap()
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

/// Adds a fault and returns its path.
async fn add(client: &mut Client, rule: Value) -> String {
    let added = client.make(FAULTS, rule).await;
    format!("{FAULTS}/{}", added["id"])
}

async fn post(client: &mut Client, object: Value) -> (StatusCode, Value) {
    client.ask(Method::POST, CONFIG_MAPS, JSON, object).await
}

/// Returns the counters of the fault at that path.
async fn counters(client: &mut Client, fault: &str) -> (u64, u64) {
    let (_, fault) = client.get(fault).await;
    let counter = |name: &str| fault["status"][name].as_u64().unwrap();
    (counter("matched"), counter("fired"))
}

/// Reads a watch to its end, and returns its events.
async fn watch(server: &Server, query: &str) -> Vec<Value> {
    let mut connection = Target::new(server).unwrap().connect().await.unwrap();
    let answer = connection
        .get(&format!("{CONFIG_MAPS}?watch=1{query}"), JSON)
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

#[tokio::test]
async fn endpoints_exist_only_with_their_flag() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let mut client = Client::new(&server).await;
    let unknown = client.get("/unknown/faults").await;
    assert_eq!(client.get(FAULTS).await, unknown);
    assert_eq!(unknown.0, 404);
    let rejection = Binary::debug()
        .unwrap()
        .rejection(&["--testing-endpoints", "--bind-address=0.0.0.0"])
        .unwrap();
    assert!(rejection.contains("requires a loopback --bind-address"), "{rejection}");
}

#[tokio::test]
async fn endpoints_are_authorized_as_paths() {
    let server = start(&[]);
    let mut alice = Client::with_token(&server, USER_TOKEN).await;
    let (status, answer) = alice.get(FAULTS).await;
    assert_eq!(status, 403);
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("cannot get path \"/testing/faults\"")
    );
    let mut admin = Client::new(&server).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "testers"},
        "rules": [{"nonResourceURLs": ["/testing/*"], "verbs": ["get", "post"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "testers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "testers"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    let group = "/apis/rbac.authorization.k8s.io/v1";
    admin.make(&format!("{group}/clusterroles"), role).await;
    admin.make(&format!("{group}/clusterrolebindings"), binding).await;
    let listed = alice.until(FAULTS, |status, _| status == 200).await;
    assert_eq!(listed, json!({"faults": []}));
    let (status, _) = alice.ask(Method::DELETE, FAULTS, "", Value::Null).await;
    assert_eq!(status, 403);
}

#[tokio::test]
async fn faults_are_listed_with_counters_and_deleted() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let rule = json!({
        "match": {"verbs": ["create"], "resource": "configmaps", "userAgent": "holdfast-tests"},
        "skip": 1, "count": 1, "action": {"error": {"code": 503, "message": "maintenance", "retryAfterSeconds": 3}},
    });
    let fault = add(&mut client, rule.clone()).await;
    assert_eq!(post(&mut client, config_map("a", "")).await.0, 201);
    let (status, answer) = post(&mut client, config_map("b", "")).await;
    assert_eq!(
        (status.as_u16(), &answer["reason"]),
        (503, &json!("ServiceUnavailable"))
    );
    assert_eq!(answer["message"], "maintenance");
    assert_eq!(answer["details"]["retryAfterSeconds"], 3);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/b")).await.0, 404);
    assert_eq!(post(&mut client, config_map("b", "")).await.0, 201);
    assert_eq!(counters(&mut client, &fault).await, (3, 1));
    let (_, listed) = client.get(FAULTS).await;
    assert_eq!(listed["faults"][0]["match"], rule["match"]);
    client.delete(&fault, Value::Null).await;
    assert_eq!(client.get(&fault).await.0, 404);
    add(
        &mut client,
        json!({"match": {"name": "x"}, "action": {"timeoutAfterWrite": {}}}),
    )
    .await;
    client.delete(FAULTS, Value::Null).await;
    assert_eq!(client.get(FAULTS).await.1, json!({"faults": []}));
}

#[tokio::test]
async fn invalid_fault_is_rejected_with_a_status() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    for (body, part) in [
        (json!({"action": {"error": {"code": 200}}}), "code must be"),
        (json!({"action": {"latency": {"duration": "2m"}}}), "at most 1m0s"),
        (
            json!({"match": {"kind": "Pod"}, "action": {"error": {"code": 500}}}),
            "unknown field `kind`",
        ),
        (json!([]), "the body is invalid"),
    ] {
        let (status, answer) = client.ask(Method::POST, FAULTS, JSON, body).await;
        assert_eq!((status.as_u16(), &answer["kind"]), (400, &json!("Status")), "{part}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{answer}");
    }
    let large = json!({"match": {"name": "x".repeat(70_000)}, "action": {"error": {"code": 500}}});
    assert_eq!(client.ask(Method::POST, FAULTS, JSON, large).await.0, 413);
    assert_eq!(client.ask(Method::PUT, FAULTS, JSON, json!({})).await.0, 405);
    assert_eq!(client.get("/testing/unknown").await.0, 404);
}

#[tokio::test]
async fn write_is_stored_though_its_client_gets_a_timeout() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let rule = json!({"match": {"resource": "configmaps"}, "count": 1, "action": {"timeoutAfterWrite": {}}});
    let fault = add(&mut client, rule).await;
    let mut invalid = config_map("a", "1");
    invalid["metadata"]["name"] = json!("not valid");
    assert_eq!(post(&mut client, invalid).await.0, 422);
    let (status, answer) = post(&mut client, config_map("a", "1")).await;
    assert_eq!((status.as_u16(), &answer["reason"]), (504, &json!("Timeout")));
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/a")).await.1["data"]["value"], "1");
    assert_eq!(
        post(&mut client, config_map("a", "1")).await.1["reason"],
        "AlreadyExists"
    );
    assert_eq!(counters(&mut client, &fault).await, (1, 1));
}

#[tokio::test]
async fn latency_delays_requests_and_ends_with_their_time() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let path = format!("{CONFIG_MAPS}/missing");
    let rule = |duration: &str| {
        json!({"match": {"verbs": ["get"], "resource": "configmaps"}, "count": 1,
               "action": {"latency": {"duration": duration}}})
    };
    add(&mut client, rule("300ms")).await;
    let began = Instant::now();
    client.get(&path).await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    add(&mut client, rule("60s")).await;
    let began = Instant::now();
    let (status, _) = client.get(&format!("{path}?timeout=200ms")).await;
    assert_eq!(status, 504);
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn watch_ends_after_its_events_or_with_410() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    for name in ["a", "b", "c"] {
        assert_eq!(post(&mut client, config_map(name, "")).await.0, 201);
    }
    let rule = |action: Value| json!({"match": {"resource": "configmaps"}, "count": 1, "action": {"watch": action}});
    let names = |events: &[Value]| -> Vec<String> {
        let names = events.iter().map(|event| &event["object"]["metadata"]["name"]);
        names.map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
    };
    add(&mut client, rule(json!({"end": {"afterEvents": 2}}))).await;
    assert_eq!(names(&watch(&server, "").await), ["a", "b"]);
    add(&mut client, rule(json!({"expired": {"afterEvents": 1}}))).await;
    let events = watch(&server, "").await;
    assert_eq!(events.len(), 2);
    assert_eq!(
        (&events[1]["type"], &events[1]["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(events[1]["object"]["reason"], "Expired");
    // The next watch has no fault.
    let events = watch(&server, "&timeoutSeconds=1").await;
    assert_eq!(names(&events), ["a", "b", "c"]);
}

#[tokio::test]
async fn lagging_watch_gets_events_later() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let rule = json!({"match": {"resource": "configmaps"}, "action": {"watch": {"lag": {"duration": "700ms"}}}});
    add(&mut client, rule).await;
    let mut connection = Target::new(&server).unwrap().connect().await.unwrap();
    let (_, list) = client.get(CONFIG_MAPS).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut body = connection
        .get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}"), JSON)
        .await
        .unwrap()
        .into_body();
    let began = Instant::now();
    for name in ["a", "b", "c"] {
        assert_eq!(post(&mut client, config_map(name, "")).await.0, 201);
    }
    let mut text = String::new();
    while !text.contains("\"name\":\"c\"") {
        let frame = body.frame().await.unwrap().unwrap();
        text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap();
    }
    // The lags of events at the same time do not add up.
    let elapsed = began.elapsed();
    assert!(
        elapsed >= Duration::from_millis(700) && elapsed < Duration::from_millis(2000),
        "{elapsed:?}"
    );
}

#[tokio::test]
async fn unavailable_webhook_respects_its_failure_policy() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let started = Hook::start(
        |review| match review["request"]["object"]["data"]["value"] == "denied" {
            true => Reply::Raw(500, "denied".to_owned()),
            false => allow(),
        },
    );
    let hook = started.await;
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    for (name, policy) in [("closed", "Fail"), ("open", "Ignore")] {
        let more = json!({"failurePolicy": policy});
        let webhook = hook.webhook(&format!("{name}.a.b"), &["CREATE"], "/v1/configmaps", more);
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name}, "webhooks": [webhook],
        });
        client.make(configurations, configuration).await;
    }
    let end = Instant::now() + Duration::from_secs(60);
    while post(&mut client, config_map("probe", "denied")).await.0 == 201 {
        client.delete(&format!("{CONFIG_MAPS}/probe"), Value::Null).await;
        assert!(Instant::now() < end, "the webhook is never called");
    }
    let away =
        |name: &str| json!({"match": {"webhookConfiguration": name}, "count": 1, "action": {"webhookUnavailable": {}}});
    let fault = add(&mut client, away("open")).await;
    assert_eq!(post(&mut client, config_map("a", "")).await.0, 201);
    assert_eq!(counters(&mut client, &fault).await, (1, 1));
    add(&mut client, away("closed")).await;
    let (status, answer) = post(&mut client, config_map("b", "")).await;
    let message = answer["message"].as_str().unwrap();
    assert_eq!(status, 500);
    assert!(message.contains("failed calling webhook \"closed.a.b\""), "{message}");
    assert!(message.ends_with("connect: connection refused"), "{message}");
    assert_eq!(post(&mut client, config_map("b", "")).await.0, 201);
}

#[tokio::test]
async fn expired_token_fails_until_the_fault_is_deleted() {
    let server = start(&[]);
    let mut admin = Client::new(&server).await;
    let mut alice = Client::with_token(&server, USER_TOKEN).await;
    assert_eq!(alice.get("/version").await.0, 200);
    let rule = json!({"match": {"user": "alice"}, "action": {"tokenExpired": {}}});
    let fault = add(&mut admin, rule).await;
    let (status, answer) = alice.get("/version").await;
    assert_eq!((status.as_u16(), &answer["reason"]), (401, &json!("Unauthorized")));
    assert_eq!(admin.get("/version").await.0, 200);
    admin.delete(&fault, Value::Null).await;
    assert_eq!(alice.get("/version").await.0, 200);
}

#[tokio::test]
async fn faults_of_a_file_apply_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("faults.yaml");
    let text = "faults:\n- match:\n    verbs: [create]\n    resource: configmaps\n  probability: 0.5\n  action:\n    \
                error:\n      code: 409\n";
    std::fs::write(&path, text).unwrap();
    let file = format!("--testing-faults-file={}", path.display());
    let mut runs = Vec::new();
    for seed in ["--testing-seed=5", "--testing-seed=5", "--testing-seed=6"] {
        let server = start(&[&file, seed]);
        let mut client = Client::new(&server).await;
        let mut answers = String::new();
        for number in 0..32 {
            let (status, _) = post(&mut client, config_map(&format!("c{number}"), "")).await;
            answers.push(if status == 201 { '.' } else { 'x' });
        }
        runs.push(answers);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    assert!(runs[0].contains('x') && runs[0].contains('.'));
}

#[tokio::test]
async fn controllers_get_only_faults_that_name_them() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    client.namespace("gone").await;
    add(
        &mut client,
        json!({"match": {"resource": "namespaces", "verbs": ["update"]}, "action": {"error": {"code": 500}}}),
    )
    .await;
    client.delete("/api/v1/namespaces/gone", Value::Null).await;
    client.until_gone("/api/v1/namespaces/gone").await;
    client.namespace("kept").await;
    let user = "system:serviceaccount:kube-system:namespace-controller";
    let fault = add(
        &mut client,
        json!({"match": {"user": user}, "action": {"error": {"code": 500}}}),
    )
    .await;
    client.delete("/api/v1/namespaces/kept", Value::Null).await;
    client
        .until(&fault, |_, fault| fault["status"]["fired"].as_u64() > Some(0))
        .await;
    assert_eq!(client.get("/api/v1/namespaces/kept").await.0, 200);
    client.delete(&fault, Value::Null).await;
    client.until_gone("/api/v1/namespaces/kept").await;
}

const CHECKPOINTS: &str = "/testing/checkpoints";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Keeps the state under that name.
async fn keep(client: &mut Client, name: &str) -> Value {
    client.make(CHECKPOINTS, json!({"name": name})).await
}

/// Restores the checkpoint and returns the report.
async fn restore(client: &mut Client, name: &str, watchers: &str) -> Value {
    let path = format!("{CHECKPOINTS}/{name}/restore");
    let body = json!({"watchers": watchers});
    let (status, report) = client.ask(Method::POST, &path, JSON, body).await;
    assert_eq!(status, 200, "{report}");
    report
}

async fn change(client: &mut Client, name: &str, value: &str) {
    let patch = json!({"data": {"value": value}});
    let path = format!("{CONFIG_MAPS}/{name}");
    let (status, answer) = client.ask(Method::PATCH, &path, conformance::MERGE, patch).await;
    assert_eq!(status, 200, "{answer}");
}

fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap();
    text.parse().unwrap()
}

/// Events of an open watch.
struct Events {
    body: hyper::body::Incoming,
    text: Vec<u8>,
}

impl Events {
    async fn open(server: &Server, query: &str) -> Self {
        let mut connection = Target::new(server).unwrap().connect().await.unwrap();
        let answer = connection
            .get(&format!("{CONFIG_MAPS}?watch=1{query}"), JSON)
            .await
            .unwrap();
        Self {
            body: answer.into_body(),
            text: Vec::new(),
        }
    }

    /// Returns the next event; `None` at the end of the watch.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.text.extend_from_slice(&frame.into_data().unwrap());
        }
    }
}

#[tokio::test]
async fn restore_returns_objects_with_new_versions_and_events() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    for name in ["changed", "deleted", "kept"] {
        assert_eq!(post(&mut client, config_map(name, "1")).await.0, 201);
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                         "spec": {"ports": [{"port": 80}]}});
    let web = client.make(SERVICES, service).await;
    let (_, before) = client.get(&format!("{CONFIG_MAPS}/deleted")).await;
    let (_, kept) = client.get(&format!("{CONFIG_MAPS}/kept")).await;
    let checkpoint = keep(&mut client, "start").await;
    assert!(checkpoint["objects"].as_u64().unwrap() > 4);
    change(&mut client, "changed", "2").await;
    client.delete(&format!("{CONFIG_MAPS}/deleted"), Value::Null).await;
    client.delete(&format!("{SERVICES}/web"), Value::Null).await;
    assert_eq!(post(&mut client, config_map("later", "1")).await.0, 201);
    let (_, list) = client.get(CONFIG_MAPS).await;
    let mut events = Events::open(&server, &format!("&resourceVersion={}", version(&list))).await;

    let report = restore(&mut client, "start", "differences").await;
    let restored: u64 = report["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!(restored > version(&list));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let event = events.next().await.unwrap();
        // Controllers may write at the same time, so that the last change is a later one.
        assert!((version(&list) + 1..=restored).contains(&version(&event["object"])));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        seen.push((text(&event["object"]["metadata"]["name"]), text(&event["type"])));
    }
    let expected = [("changed", "MODIFIED"), ("deleted", "ADDED"), ("later", "DELETED")];
    assert_eq!(seen, expected.map(|(name, kind)| (name.to_owned(), kind.to_owned())));
    let (_, mut again) = client.get(&format!("{CONFIG_MAPS}/deleted")).await;
    assert!(version(&again) > version(&list));
    again["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    assert_eq!(again, before);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/kept")).await.1, kept);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/later")).await.0, 404);
    assert_eq!(client.get(&format!("{SERVICES}/web")).await.1["spec"], web["spec"]);
    let address = web["spec"]["clusterIP"].as_str().unwrap();
    let claim = format!("/apis/networking.k8s.io/v1/ipaddresses/{address}");
    assert_eq!(client.get(&claim).await.0, 200);
    // Objects can be written as before, and the checkpoint can be used again.
    change(&mut client, "changed", "3").await;
    restore(&mut client, "start", "differences").await;
    assert_eq!(
        client.get(&format!("{CONFIG_MAPS}/changed")).await.1["data"]["value"],
        "1"
    );
}

#[tokio::test]
async fn watch_resumed_within_restore_misses_nothing() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    for name in ["a", "b", "c"] {
        post(&mut client, config_map(name, "1")).await;
    }
    keep(&mut client, "start").await;
    for name in ["a", "b", "c"] {
        change(&mut client, name, "2").await;
    }
    let (_, list) = client.get(CONFIG_MAPS).await;
    restore(&mut client, "start", "differences").await;
    // Each watch ends after one event, and the next one begins at the version of that event.
    let mut last = version(&list);
    for name in ["a", "b", "c"] {
        let mut events = Events::open(&server, &format!("&resourceVersion={last}")).await;
        let event = events.next().await.unwrap();
        let object = &event["object"];
        assert_eq!(
            (&event["type"], &object["data"]["value"]),
            (&json!("MODIFIED"), &json!("1"))
        );
        assert_eq!(object["metadata"]["name"], name);
        assert!(version(object) > last);
        last = version(object);
    }
}

#[tokio::test]
async fn restore_can_expire_watches_and_history() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    assert_eq!(post(&mut client, config_map("a", "1")).await.0, 201);
    keep(&mut client, "start").await;
    change(&mut client, "a", "2").await;
    let (_, list) = client.get(CONFIG_MAPS).await;
    let from = format!("&resourceVersion={}", version(&list));
    let mut events = Events::open(&server, &from).await;
    let report = restore(&mut client, "start", "expire").await;
    let event = events.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert!(events.next().await.is_none());
    let event = Events::open(&server, &from).await.next().await.unwrap();
    assert_eq!(event["object"]["code"], 410);
    // A watch from the restored state works. A controller may create a ConfigMap of its own meanwhile.
    let version = report["resourceVersion"].as_str().unwrap();
    let now = format!("&resourceVersion={version}&fieldSelector=metadata.name=a");
    let mut events = Events::open(&server, &now).await;
    change(&mut client, "a", "3").await;
    let event = events.next().await.unwrap();
    assert_eq!(event["object"]["data"]["value"], "3", "{event}");
}

#[tokio::test]
async fn restore_serves_custom_resources_immediately() {
    let server = start(&["--controllers=*,-namespace-controller"]);
    let mut client = Client::new(&server).await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.a.b"},
        "spec": {"group": "a.b", "scope": "Cluster", "names": {"plural": "gadgets", "kind": "Gadget"},
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    keep(&mut client, "none").await;
    client.make(crds, crd).await;
    client.until("/apis/a.b/v1/gadgets", |status, _| status == 200).await;
    let gadget = json!({"apiVersion": "a.b/v1", "kind": "Gadget", "metadata": {"name": "x"}, "spec": {"size": 1}});
    let made = client.make("/apis/a.b/v1/gadgets", gadget).await;
    keep(&mut client, "gadget").await;
    restore(&mut client, "none", "differences").await;
    assert_eq!(client.get("/apis/a.b/v1/gadgets/x").await.0, 404);
    restore(&mut client, "gadget", "differences").await;
    let (status, again) = client.get("/apis/a.b/v1/gadgets/x").await;
    assert_eq!((status.as_u16(), &again["spec"]), (200, &made["spec"]));
    assert_eq!(again["metadata"]["uid"], made["metadata"]["uid"]);
}

#[tokio::test]
async fn checkpoints_are_listed_deleted_and_bounded() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    for number in 0..64 {
        keep(&mut client, &format!("c{number}")).await;
    }
    let create = async |client: &mut Client, name: &str| {
        let (status, answer) = client.ask(Method::POST, CHECKPOINTS, JSON, json!({"name": name})).await;
        (
            status.as_u16(),
            answer["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let (status, message) = create(&mut client, "more").await;
    assert_eq!((status, message.contains("at most 64")), (400, true));
    assert_eq!(create(&mut client, "c1").await.0, 409);
    client.delete(&format!("{CHECKPOINTS}/c0"), Value::Null).await;
    assert_eq!(
        client.get(CHECKPOINTS).await.1["checkpoints"].as_array().unwrap().len(),
        63
    );
    assert_eq!(create(&mut client, "Not valid").await.0, 400);
    let path = format!("{CHECKPOINTS}/c0/restore");
    let (status, answer) = client.ask(Method::POST, &path, JSON, Value::Null).await;
    assert_eq!((status.as_u16(), &answer["reason"]), (404, &json!("NotFound")));
    let path = format!("{CHECKPOINTS}/c1/restore");
    let invalid = json!({"watchers": "none"});
    assert_eq!(client.ask(Method::POST, &path, JSON, invalid).await.0, 400);
    client.delete(CHECKPOINTS, Value::Null).await;
    assert_eq!(client.get(CHECKPOINTS).await.1, json!({"checkpoints": []}));
}

/// Number of objects of the measurement.
const MANY: usize = 10_000;

#[tokio::test]
async fn checkpoint_of_many_objects_copies_nothing() {
    let server = start(&["--unsafe-no-fsync"]);
    let mut client = Client::new(&server).await;
    keep(&mut client, "empty").await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let mut client = Client::new(&server).await;
        writers.spawn(async move {
            for number in (writer..MANY).step_by(8) {
                let (status, answer) = post(&mut client, config_map(&format!("c{number}"), "1")).await;
                assert_eq!(status, 201, "{answer}");
            }
        });
    }
    writers.join_all().await;
    let mut times = Vec::new();
    for number in 0..5 {
        let began = Instant::now();
        let checkpoint = keep(&mut client, &format!("many{number}")).await;
        times.push(began.elapsed());
        assert!(checkpoint["objects"].as_u64().unwrap() >= MANY as u64);
    }
    let checkpoint = times.iter().min().unwrap();
    let began = Instant::now();
    let emptied = restore(&mut client, "empty", "expire").await;
    let removal = began.elapsed();
    // Controllers may have created objects of their own since the start.
    let counts = MANY as u64..MANY as u64 + 20;
    assert!(counts.contains(&emptied["deleted"].as_u64().unwrap()), "{emptied}");
    let began = Instant::now();
    let filled = restore(&mut client, "many0", "differences").await;
    let creation = began.elapsed();
    assert!(counts.contains(&filled["created"].as_u64().unwrap()), "{filled}");
    println!("checkpoint of {MANY} objects: {checkpoint:?}; restore: removal {removal:?}, creation {creation:?}");
    assert!(*checkpoint < Duration::from_millis(250), "{checkpoint:?}");
    assert!(removal + creation < Duration::from_secs(60), "{removal:?} {creation:?}");
}

const CLOCK: &str = "/testing/clock";

async fn advance(client: &mut Client, by: &str) -> Value {
    let (status, report) = client.ask(Method::POST, CLOCK, JSON, json!({"advance": by})).await;
    assert_eq!(status, 200, "{report}");
    report
}

#[tokio::test]
async fn clock_moves_only_forward_and_dates_objects() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    for invalid in ["0s", "-1h", "soon", "1000000h"] {
        let (status, answer) = client.ask(Method::POST, CLOCK, JSON, json!({"advance": invalid})).await;
        assert_eq!((status.as_u16(), &answer["kind"]), (400, &json!("Status")), "{invalid}");
    }
    let made = |answer: Value| answer["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    let before = made(post(&mut client, config_map("before", "")).await.1);
    advance(&mut client, "8760h").await;
    let report = advance(&mut client, "8760h").await;
    assert_eq!(report["advanced"], "17520h0m0s");
    assert_eq!(client.get(CLOCK).await.1["advanced"], "17520h0m0s");
    let after = made(post(&mut client, config_map("after", "")).await.1);
    let year = |text: &str| text[..4].parse::<u32>().unwrap();
    assert!(year(&after) - year(&before) >= 1, "{before} {after}");
}

#[tokio::test]
async fn events_expire_when_the_clock_moves() {
    let server = start(&["--event-ttl=1h"]);
    let mut client = Client::new(&server).await;
    let events = "/api/v1/namespaces/default/events";
    let involved = json!({"kind": "Pod", "namespace": "default", "name": "x"});
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a", "namespace": "default"},
                       "involvedObject": involved, "reason": "Test", "message": "a", "type": "Normal"});
    client.make(events, event).await;
    advance(&mut client, "30m").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(client.get(&format!("{events}/a")).await.0, 200);
    advance(&mut client, "31m").await;
    client.until_gone(&format!("{events}/a")).await;
}

#[tokio::test]
async fn token_expires_when_the_clock_moves() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    client.make(accounts, account).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                         "spec": {"expirationSeconds": 600}});
    let made = client.make(&format!("{accounts}/robot/token"), request).await;
    let token = made["status"]["token"].as_str().unwrap().to_owned();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    assert_eq!(
        client.make(reviews, review.clone()).await["status"]["authenticated"],
        true
    );
    let target = Target::new(&server).unwrap().with_token(token);
    let mut robot = target.connect().await.unwrap();
    let version = async |robot: &mut conformance::Connection| {
        let answer = robot.ask(Method::GET, "/version", "", Default::default()).await;
        answer.unwrap().0.as_u16()
    };
    assert_eq!(version(&mut robot).await, 200);
    // A token is accepted for one more minute.
    advance(&mut client, "12m").await;
    assert_eq!(version(&mut robot).await, 401);
    assert_ne!(client.make(reviews, review).await["status"]["authenticated"], true);
}

#[tokio::test]
async fn watch_ends_when_the_clock_moves() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let mut short = Events::open(&server, "&timeoutSeconds=3600").await;
    let mut long = Events::open(&server, "&timeoutSeconds=36000").await;
    advance(&mut client, "2h").await;
    let ended = async { while short.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
    assert_eq!(post(&mut client, config_map("a", "")).await.0, 201);
    let seen = async { while long.next().await.unwrap()["object"]["metadata"]["name"] != "a" {} };
    tokio::time::timeout(Duration::from_secs(60), seen).await.unwrap();
}
