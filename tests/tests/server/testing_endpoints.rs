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
    let path = format!("{CONFIG_MAPS}/kube-root-ca.crt");
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
    let selected = "&fieldSelector=metadata.name!%3Dkube-root-ca.crt";
    add(&mut client, rule(json!({"end": {"afterEvents": 2}}))).await;
    assert_eq!(names(&watch(&server, selected).await), ["a", "b"]);
    add(&mut client, rule(json!({"expired": {"afterEvents": 1}}))).await;
    let events = watch(&server, selected).await;
    assert_eq!(events.len(), 2);
    assert_eq!(
        (&events[1]["type"], &events[1]["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(events[1]["object"]["reason"], "Expired");
    // The next watch has no fault.
    let events = watch(&server, &format!("{selected}&timeoutSeconds=1")).await;
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
