//! Priority and fairness: levels and schemas in answers, queueing, rejections, dumps and metrics.

use std::time::Duration;

use crate::support::{Answer, CONFIG_MAPS, Server, config_map};
use holdfast_server::wire::body::{RequestBody, ResponseBody};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const DUMPS: &str = "/debug/api_priority_and_fairness";
const SCHEMA_UID: &str = "x-kubernetes-pf-flowschema-uid";
const LEVEL_UID: &str = "x-kubernetes-pf-prioritylevel-uid";

/// The limit response of a level of one seat.
const REJECT: &str = r#"{"type": "Reject"}"#;
const QUEUE: &str = r#"{"type": "Queue", "queuing": {"queues": 4, "handSize": 1, "queueLengthLimit": 5}}"#;

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}

async fn uid(server: &Server, path: &str) -> String {
    server.get(path).await.at("/metadata/uid").as_str().unwrap().to_owned()
}

/// Starts a server where bob may do everything, in a priority level of his own with one seat.
async fn server_with_one_seat(response: &str) -> Server {
    let server = Server::start_with_seats(20).await;
    let binding = json!({
        "metadata": {"name": "bob"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name":
        "cluster-admin"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    assert_eq!(server.post(BINDINGS, &binding.to_string()).await.code, 201);
    let response: Value = serde_json::from_str(response).unwrap();
    let level = json!({"metadata": {"name": "tiny"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": response,
    }}});
    assert_eq!(server.post(LEVELS, &level.to_string()).await.code, 201);
    let all =
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]});
    let schema = json!({"metadata": {"name": "bob"}, "spec": {
        "priorityLevelConfiguration": {"name": "tiny"}, "matchingPrecedence": 300, "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "bob"}}], "resourceRules": [all]}],
    }});
    assert_eq!(server.post(SCHEMAS, &schema.to_string()).await.code, 201);
    let large = config_map("large", &"x".repeat(40_000));
    assert_eq!(server.post(CONFIG_MAPS, &large).await.code, 201);
    let level = uid(&server, &format!("{LEVELS}/tiny")).await;
    // The change is observed without an explicit wait.
    while header(&bob(&server, CONFIG_MAPS).await, LEVEL_UID) != Some(&level) {
        tokio::task::yield_now().await;
    }
    server
}

async fn bob(server: &Server, path: &str) -> Answer {
    server.send_as("bob", "GET", path, "", "").await
}

fn request(method: &str, path: &str, body: RequestBody) -> http::Request<RequestBody> {
    http::Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", "Bearer token")
        .header("impersonate-user", "bob")
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

/// Returns an answer that is not read, which keeps its seat.
async fn hold(server: &Server) -> http::Response<ResponseBody> {
    let path = format!("{CONFIG_MAPS}/large");
    let answer = server
        .service
        .respond(request("GET", &path, RequestBody::from_bytes("")), None, None)
        .await;
    assert_eq!(answer.status(), 200);
    answer
}

/// Spawns a request of bob.
fn begin(server: &Server, path: &str) -> JoinHandle<http::Response<ResponseBody>> {
    let (service, request) = (
        server.service.clone(),
        request("GET", path, RequestBody::from_bytes("")),
    );
    tokio::spawn(async move { service.respond(request, None, None).await })
}

async fn dump(server: &Server, name: &str) -> String {
    let answer = server.respond("GET", &format!("{DUMPS}/{name}"), "", "", "*/*").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
    text(answer).await
}

async fn text(answer: http::Response<ResponseBody>) -> String {
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Waits until this number of requests wait in the level of bob.
async fn until_waiting(server: &Server, count: usize) {
    loop {
        let dump = dump(server, "dump_priority_levels").await;
        let tiny = dump.lines().find(|line| line.starts_with("tiny,")).unwrap();
        if tiny.split(',').nth(4).map(str::trim) == Some(&count.to_string()) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn metric(server: &Server, name: &str) -> Option<f64> {
    let metrics = server.metrics().await;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

#[tokio::test]
async fn answers_name_the_schema_and_the_level_of_their_request() {
    let server = Server::start_with_seats(600).await;
    let exempt = uid(&server, &format!("{SCHEMAS}/exempt")).await;
    let level = uid(&server, &format!("{LEVELS}/exempt")).await;
    for path in [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/none",
        "/version",
        "/none",
    ] {
        let answer = server.get(path).await;
        assert_eq!(header(&answer, SCHEMA_UID), Some(&*exempt), "{path}");
        assert_eq!(header(&answer, LEVEL_UID), Some(&*level), "{path}");
    }
    // A request that authorization denies was classified before.
    let refused = server.send_as("alice", "GET", "/api/v1/pods", "", "").await;
    let schema = uid(&server, &format!("{SCHEMAS}/global-default")).await;
    assert_eq!((refused.code, header(&refused, SCHEMA_UID)), (403, Some(&*schema)));
    // Unauthenticated requests are not classified, nor are long-running connections.
    let path = "/api/v1/namespaces/default/pods/none/exec?command=a";
    assert_eq!(header(&server.get(path).await, SCHEMA_UID), None);
    let request = http::Request::get("/version")
        .body(RequestBody::from_bytes(""))
        .unwrap();
    let unknown = server.service.respond(request, None, None).await;
    assert_eq!(unknown.status(), 401);
    assert!(!unknown.headers().contains_key(SCHEMA_UID));
    let watch = server
        .respond("GET", &format!("{CONFIG_MAPS}?watch=1"), "", "", "application/json")
        .await;
    assert_eq!(watch.headers()[SCHEMA_UID], *exempt);
}

#[tokio::test]
async fn without_levels_answers_name_none() {
    let server = Server::start().await;
    let answer = server.get("/api/v1/namespaces/default").await;
    assert_eq!((answer.code, header(&answer, SCHEMA_UID)), (200, None));
    assert_eq!(server.get(&format!("{DUMPS}/dump_queues")).await.code, 404);
}

#[tokio::test]
async fn full_level_without_queues_rejects_like_the_reference() {
    let server = server_with_one_seat(REJECT).await;
    let held = hold(&server).await;
    let refused = begin(&server, CONFIG_MAPS).await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(refused.headers()["x-content-type-options"], "nosniff");
    assert_eq!(
        refused.headers()[SCHEMA_UID],
        *uid(&server, &format!("{SCHEMAS}/bob")).await
    );
    assert_eq!(text(refused).await, "Too many requests, please try again later.\n");
    // Members of `system:masters` are never rejected.
    assert_eq!(server.get(CONFIG_MAPS).await.code, 200);
    drop(held);
    assert_eq!(bob(&server, CONFIG_MAPS).await.code, 200);
    let labels = r#"{flow_schema="bob",priority_level="tiny",reason="concurrency-limit"}"#;
    let rejected = metric(
        &server,
        &format!("apiserver_flowcontrol_rejected_requests_total{labels}"),
    )
    .await;
    assert_eq!(rejected, Some(1.0));
}

#[tokio::test]
async fn a_request_waits_for_its_turn_and_is_shown_meanwhile() {
    let server = server_with_one_seat(QUEUE).await;
    let held = hold(&server).await;
    let waiting = begin(&server, CONFIG_MAPS);
    until_waiting(&server, 1).await;
    let requests = dump(&server, "dump_requests?includeRequestDetails=1").await;
    let mut heads = requests.lines().next().unwrap().split(',').map(str::trim);
    assert_eq!(
        (heads.next(), heads.next_back()),
        (Some("PriorityLevelName"), Some("SubResource"))
    );
    let of_bob: Vec<Vec<&str>> = requests
        .lines()
        .filter(|line| line.starts_with("tiny,"))
        .map(|line| line.split(',').map(str::trim).collect())
        .collect();
    let [first, second] = of_bob.as_slice() else {
        panic!("{requests}")
    };
    assert_eq!(
        (first[1], first[3], first[4], first[9]),
        ("bob", "0", "bob", "0001-01-01T00:00:00Z")
    );
    assert_eq!((second[3], second[6], second[8]), ("-1", "1", "0s"));
    assert_eq!(
        first[10..],
        ["bob", "list", CONFIG_MAPS, "default", "", "v1", "configmaps", ""]
    );
    assert_eq!(second[14], "large");
    let queues = dump(&server, "dump_queues").await;
    let full = queues
        .lines()
        .filter(|line| line.starts_with("tiny,") && line.contains(" 1,"))
        .count();
    assert!(full >= 1, "{queues}");
    assert_eq!(queues.lines().filter(|line| line.starts_with("tiny,")).count(), 4);
    drop(held);
    assert_eq!(waiting.await.unwrap().status(), 200);
    until_waiting(&server, 0).await;
    let labels = r#"{flow_schema="bob",priority_level="tiny"}"#;
    let queued = metric(
        &server,
        &format!("apiserver_flowcontrol_current_inqueue_requests{labels}"),
    )
    .await;
    assert_eq!(queued, Some(0.0));
}

#[tokio::test]
async fn disconnected_client_leaves_the_queue() {
    let server = server_with_one_seat(QUEUE).await;
    let held = hold(&server).await;
    let waiting = begin(&server, CONFIG_MAPS);
    until_waiting(&server, 1).await;
    waiting.abort();
    assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
    until_waiting(&server, 0).await;
    drop(held);
    assert_eq!(bob(&server, CONFIG_MAPS).await.code, 200);
}

#[tokio::test]
async fn a_request_waits_for_a_quarter_of_its_time() {
    let server = server_with_one_seat(QUEUE).await;
    let held = hold(&server).await;
    let refused = bob(&server, &format!("{CONFIG_MAPS}?timeout=4s")).await;
    assert_eq!(refused.code, 429);
    assert_eq!(header(&refused, "retry-after"), Some("1"));
    drop(held);
    let labels = r#"{flow_schema="bob",priority_level="tiny",reason="time-out"}"#;
    let rejected = metric(
        &server,
        &format!("apiserver_flowcontrol_rejected_requests_total{labels}"),
    )
    .await;
    assert_eq!(rejected, Some(1.0));
    let labels = r#"{execute="false",flow_schema="bob",priority_level="tiny"}"#;
    let waited = metric(
        &server,
        &format!("apiserver_flowcontrol_request_wait_duration_seconds_count{labels}"),
    )
    .await;
    assert_eq!(waited, Some(1.0));
}

#[tokio::test]
async fn a_full_queue_refuses() {
    let server = server_with_one_seat(QUEUE).await;
    let _held = hold(&server).await;
    let waiting: Vec<_> = (0..5).map(|_| begin(&server, CONFIG_MAPS)).collect();
    until_waiting(&server, 5).await;
    let refused = bob(&server, CONFIG_MAPS).await;
    assert_eq!(refused.code, 429);
    let labels = r#"{flow_schema="bob",priority_level="tiny",reason="queue-full"}"#;
    let rejected = metric(
        &server,
        &format!("apiserver_flowcontrol_rejected_requests_total{labels}"),
    )
    .await;
    assert_eq!(rejected, Some(1.0));
    waiting.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn a_watch_takes_its_seat_until_it_has_begun() {
    let server = server_with_one_seat(REJECT).await;
    let path = format!("{CONFIG_MAPS}?watch=1");
    let mut watch = begin(&server, &path).await.unwrap();
    assert_eq!(watch.status(), 200);
    assert_eq!(bob(&server, CONFIG_MAPS).await.code, 429);
    // The initial objects were sent with the first frame.
    let frame = watch.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.starts_with(b"{\"type\":\"ADDED\""));
    assert_eq!(bob(&server, CONFIG_MAPS).await.code, 200);
    // A rejected or unread watch keeps no seat either.
    drop(begin(&server, &path).await.unwrap());
    assert_eq!(bob(&server, CONFIG_MAPS).await.code, 200);
}

#[tokio::test]
async fn a_request_gives_its_seat_back_while_its_body_comes() {
    let server = server_with_one_seat(REJECT).await;
    let body = RequestBody::new(
        ResponseBody::stream(futures_util::stream::pending()),
        Duration::from_secs(60),
    );
    let slow = request("POST", CONFIG_MAPS, body);
    let service = server.service.clone();
    let slow = tokio::spawn(async move { service.respond(slow, None, None).await });
    let labels = r#"{flow_schema="bob",priority_level="tiny"}"#;
    let seats = format!("apiserver_flowcontrol_watch_count_samples_count{labels}");
    while metric(&server, &seats).await != Some(1.0) {
        tokio::task::yield_now().await;
    }
    while bob(&server, CONFIG_MAPS).await.code == 429 {
        tokio::task::yield_now().await;
    }
    slow.abort();
}

#[tokio::test]
async fn levels_and_schemas_are_followed_live() {
    let server = server_with_one_seat(REJECT).await;
    let held = hold(&server).await;
    let refused = async || bob(&server, CONFIG_MAPS).await.code == 429;
    assert!(refused().await);
    // A level that may borrow has more seats.
    let level = server.get(&format!("{LEVELS}/tiny")).await;
    let mut wider = level.body.clone();
    wider["spec"]["limited"]["borrowingLimitPercent"] = 500.into();
    wider["spec"]["limited"]["nominalConcurrencyShares"] = 500.into();
    assert_eq!(
        server.put(&format!("{LEVELS}/tiny"), &wider.to_string()).await.code,
        200
    );
    while refused().await {
        tokio::task::yield_now().await;
    }
    // Without his schema bob is classified like other users; the level finishes its running request and is removed.
    assert_eq!(server.delete(&format!("{SCHEMAS}/bob")).await.code, 200);
    let schema = uid(&server, &format!("{SCHEMAS}/global-default")).await;
    while header(&bob(&server, CONFIG_MAPS).await, SCHEMA_UID) != Some(&schema) {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.delete(&format!("{LEVELS}/tiny")).await.code, 200);
    let level = async || {
        let dump = dump(&server, "dump_priority_levels").await;
        dump.lines().find(|line| line.starts_with("tiny,")).map(str::to_owned)
    };
    while level()
        .await
        .is_none_or(|line| line.split(',').nth(3).map(str::trim) != Some("true"))
    {
        tokio::task::yield_now().await;
    }
    drop(held);
    while level().await.is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn level_dumps_and_metrics_use_names_of_the_reference() {
    let server = Server::start_with_seats(600).await;
    let dump = dump(&server, "dump_priority_levels").await;
    let lines: Vec<&str> = dump.lines().collect();
    assert_eq!(
        lines[0],
        "PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ExecutingRequests, DispatchedRequests, \
         RejectedRequests, TimedoutRequests, CancelledRequests"
    );
    let names: Vec<&str> = lines[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(
        names,
        [
            "catch-all",
            "exempt",
            "global-default",
            "leader-election",
            "node-high",
            "system",
            "workload-high",
            "workload-low"
        ]
    );
    assert!(
        lines[1].starts_with("catch-all,         0,            true,   false,       0, "),
        "{}",
        lines[1]
    );
    for (name, value) in [
        (r#"nominal_limit_seats{priority_level="workload-low"}"#, 245.0),
        (r#"lower_limit_seats{priority_level="workload-low"}"#, 24.0),
        (r#"upper_limit_seats{priority_level="workload-low"}"#, 845.0),
        (r#"current_limit_seats{priority_level="workload-low"}"#, 56.0),
        (
            r#"current_executing_requests{flow_schema="exempt",priority_level="exempt"}"#,
            1.0,
        ),
        (
            r#"current_executing_seats{flow_schema="exempt",priority_level="exempt"}"#,
            1.0,
        ),
    ] {
        assert_eq!(
            metric(&server, &format!("apiserver_flowcontrol_{name}")).await,
            Some(value),
            "{name}"
        );
    }
    let metrics = server.metrics().await;
    for line in [
        "# TYPE apiserver_flowcontrol_seat_fair_frac gauge",
        "# TYPE apiserver_flowcontrol_priority_level_seat_utilization histogram",
        r#"apiserver_flowcontrol_priority_level_request_utilization_bucket{phase="waiting",priority_level="system",le="0.001"}"#,
        r#"apiserver_flowcontrol_read_vs_write_current_requests_bucket{phase="executing",request_kind="mutating",le="0.95"}"#,
        r#"apiserver_flowcontrol_demand_seats_bucket{priority_level="system",le="2.8"}"#,
        r#"apiserver_flowcontrol_request_execution_seconds_bucket{flow_schema="exempt",priority_level="exempt",type="regular",le="0.005"}"#,
        r#"apiserver_flowcontrol_work_estimated_seats_bucket{flow_schema="exempt",priority_level="exempt",le="100"}"#,
        r#"apiserver_current_inqueue_requests{request_kind="readOnly"} 0"#,
        r#"apiserver_current_inflight_requests{request_kind="readOnly"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[tokio::test]
async fn list_takes_seats_for_objects_created_just_now() {
    let server = server_with_one_seat(REJECT).await;
    const SEATS: &str =
        "apiserver_flowcontrol_work_estimated_seats_sum{flow_schema=\"exempt\",priority_level=\"exempt\"}";
    for number in 0..5 {
        let large = config_map(&format!("large-{number}"), &"x".repeat(100_000));
        assert_eq!(server.post(CONFIG_MAPS, &large).await.code, 201);
    }
    let before = metric(&server, SEATS).await.unwrap_or_default();
    assert_eq!(server.get(CONFIG_MAPS).await.code, 200);
    let after = metric(&server, SEATS).await.unwrap();
    assert!(after - before >= 5.0, "{before} {after}");
}
