//! `POST /apis/holdfast.dev/v1/diffs` and `holdfast diff`: effects of applies that nobody sends.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::{Binary, Client, Connection, MERGE, Server, Target, USER_TOKEN};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};

const DIFFS: &str = "/apis/holdfast.dev/v1/diffs";
const APPLY: &str = "application/apply-patch+yaml";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Time limit of every wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

async fn start(flags: &'static [&'static str]) -> (Server, Client) {
    let started = tokio::task::spawn_blocking(move || Server::start(&Binary::debug().unwrap(), flags).unwrap());
    let server = started.await.unwrap();
    let client = Client::new(&server).await;
    (server, client)
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn deployment(replicas: u32, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}},
    }})
}

async fn apply(client: &mut Client, path: &str, manager: &str, object: Value) {
    let path = format!("{path}?fieldManager={manager}");
    let (status, answer) = client.ask(Method::PATCH, &path, APPLY, object).await;
    assert!(status.is_success(), "{answer}");
}

fn request(manager: &str, objects: &[Value]) -> Value {
    json!({"apiVersion": "holdfast.dev/v1", "kind": "Diff", "spec": {"fieldManager": manager, "objects": objects}})
}

async fn diffs(client: &mut Client, request: Value) -> Value {
    let (status, answer) = client.ask(Method::POST, DIFFS, "application/json", request).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(
        (&answer["kind"], &answer["apiVersion"]),
        (&json!("Diff"), &json!("holdfast.dev/v1"))
    );
    answer["status"].clone()
}

/// Returns `CHANGE PATH BEFORE AFTER` for each field.
fn fields(diff: &Value) -> Vec<String> {
    let fields = diff["fields"].as_array().cloned().unwrap_or_default();
    let text = |field: &Value| {
        let [change, path] = ["change", "field"].map(|name| field[name].as_str().unwrap());
        format!("{change} {path} {} {}", field["before"], field["after"])
    };
    fields.iter().map(text).collect()
}

#[tokio::test]
async fn diff_has_fields_conflicts_and_fields_given_up() {
    let (_server, mut client) = start(&[]).await;
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    apply(&mut client, path, "ci", deployment(2, "web:1")).await;
    apply(
        &mut client,
        "/api/v1/namespaces/default/configmaps/old",
        "ci",
        config_map("old", json!({"a": "1", "b": "2"})),
    )
    .await;
    let shared = config_map("old", json!({"b": "2"}));
    apply(
        &mut client,
        "/api/v1/namespaces/default/configmaps/old",
        "other",
        shared,
    )
    .await;
    let (_, before) = client.get(path).await;

    let objects = [
        deployment(2, "web:1"),
        deployment(2, "web:2"),
        config_map("new", json!({"k": "v"})),
        config_map("old", json!({"c": "3"})),
        config_map("Bad_Name", json!({})),
        json!({"apiVersion": "example.com/v1", "kind": "Unknown", "metadata": {"name": "x"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "missing"}}),
    ];
    let status = diffs(&mut client, request("ci", &objects)).await;
    let items = status["objects"].as_array().unwrap();
    assert_eq!(items.len(), objects.len());
    assert_eq!(
        (&items[0]["result"], items[0].get("fields")),
        (&json!("Unchanged"), None)
    );
    assert_eq!(items[1]["result"], "Update");
    assert_eq!(
        fields(&items[1]),
        [r#"Changed .spec.template.spec.containers[name="main"].image "web:1" "web:2""#]
    );
    assert_eq!(items[1]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(
        (&items[2]["result"], &items[2]["namespace"]),
        (&json!("Create"), &json!("default"))
    );
    assert!(
        fields(&items[2]).contains(&r#"Added .data.k null "v""#.to_owned()),
        "{}",
        items[2]
    );
    assert_eq!(
        fields(&items[3]),
        [r#"Removed .data.a "1" null"#, r#"Added .data.c null "3""#]
    );
    assert_eq!(items[3]["givenUp"], json!([".data.b"]));
    for (item, code) in [(4, 422), (5, 400), (6, 404)] {
        assert_eq!(
            (&items[item]["result"], &items[item]["status"]["code"]),
            (&json!("Failed"), &json!(code))
        );
        assert_eq!(items[item]["status"]["kind"], "Status");
    }
    let counts = ["created", "updated", "unchanged", "failed", "conflicting"].map(|name| status[name].clone());
    assert_eq!(counts, [1, 2, 1, 3, 0].map(|count| json!(count)));

    // A conflict shows what an apply that ignores it would do.
    let status = diffs(&mut client, request("other", &[deployment(5, "web:1")])).await;
    let item = &status["objects"][0];
    assert_eq!(fields(item), ["Changed .spec.replicas 2 5"]);
    let conflict = &item["conflicts"][0];
    assert_eq!(
        (&conflict["field"], &conflict["manager"]),
        (&json!(".spec.replicas"), &json!("ci"))
    );
    assert_eq!((&conflict["stored"], &conflict["requested"]), (&json!(2), &json!(5)));
    assert_eq!(status["conflicting"], 1);
    let mut forced = request("other", &[deployment(5, "web:1")]);
    forced["spec"]["force"] = json!(true);
    let status = diffs(&mut client, forced).await;
    assert!(status["objects"][0].get("conflicts").is_none());

    // Nothing was stored.
    assert_eq!(client.get(path).await.1, before);
    let (status, _) = client.get("/api/v1/namespaces/default/configmaps/new").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn diff_of_custom_resource_follows_its_schema() {
    let (_server, mut client) = start(&[]).await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "default": 3}, "color": {"type": "string"},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}}}}}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    client
        .make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        .await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    client.until(things, |status, _| status == StatusCode::OK).await;
    let thing = |ports: Value| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"ports": ports}});
    let first = thing(json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]));
    let status = diffs(&mut client, request("m", std::slice::from_ref(&first))).await;
    assert!(
        fields(&status["objects"][0]).contains(&"Added .spec.size null 3".to_owned()),
        "{status}"
    );
    apply(
        &mut client,
        "/apis/example.com/v1/namespaces/default/things/t",
        "m",
        first,
    )
    .await;
    let second = thing(json!([{"name": "b", "port": 3}]));
    let status = diffs(&mut client, request("m", &[second])).await;
    assert_eq!(
        fields(&status["objects"][0]),
        [
            r#"Removed .spec.ports[name="a"] {"name":"a","port":1} null"#,
            r#"Changed .spec.ports[name="b"].port 2 3"#
        ]
    );
}

#[tokio::test]
async fn each_object_needs_the_rights_of_its_apply() {
    let (server, mut admin) = start(&["--authorization-mode=RBAC"]).await;
    let mut alice = Client::with_token(&server, USER_TOKEN).await;
    let objects = [
        config_map("mine", json!({"a": "1"})),
        config_map("other", json!({"a": "1"})),
    ];
    for object in &objects {
        admin
            .make("/api/v1/namespaces/default/configmaps", object.clone())
            .await;
    }
    let ask = request("alice", &objects);
    let (status, _) = alice.ask(Method::POST, DIFFS, "application/json", ask.clone()).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let rules = json!([
        {"apiGroups": ["holdfast.dev"], "resources": ["diffs"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"], "resourceNames": ["mine"]},
    ]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "d"}, "rules": rules});
    admin.make(&format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "d"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "d"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    admin.make(&format!("{RBAC}/clusterrolebindings"), binding).await;
    let status = diffs(&mut alice, ask).await;
    assert_eq!(status["objects"][0]["result"], "Unchanged");
    let denied = &status["objects"][1]["status"];
    assert_eq!(denied["code"], 403);
    let message = denied["message"].as_str().unwrap();
    assert!(
        message.contains(r#"User "alice" cannot patch resource "configmaps""#),
        "{message}"
    );

    // An apply that creates needs the right to create, too.
    let status = diffs(&mut alice, request("alice", &[config_map("absent", json!({}))])).await;
    assert_eq!(status["objects"][0]["status"]["code"], 403);
}

#[tokio::test]
async fn invalid_requests_are_rejected_as_a_whole() {
    let (_server, mut client) = start(&[]).await;
    let mut unknown = request("m", &[config_map("a", json!({}))]);
    unknown["spec"]["forse"] = json!(true);
    let mut other_kind = request("m", &[config_map("a", json!({}))]);
    other_kind["kind"] = json!("Transaction");
    let many = vec![json!({}); 5001];
    for (body, code) in [
        (unknown, 400),
        (other_kind, 400),
        (request("", &[config_map("a", json!({}))]), 400),
        (request("m", &[]), 400),
        (request("m", &many), 413),
        (json!([]), 400),
    ] {
        let (status, answer) = client.ask(Method::POST, DIFFS, "application/json", body).await;
        assert_eq!((status.as_u16(), &answer["kind"]), (code, &json!("Status")), "{answer}");
    }
    let (status, _) = client.ask(Method::POST, DIFFS, "text/plain", json!({})).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    // Manifests that are no objects fail one by one.
    let status = diffs(&mut client, request("m", &[json!(5), json!({"kind": "ConfigMap"})])).await;
    assert_eq!(status["failed"], 2);
}

#[tokio::test]
async fn own_group_is_served_at_its_paths_and_listed_nowhere() {
    let (_server, mut client) = start(&[]).await;
    let (status, group) = client.get("/apis/holdfast.dev/v1").await;
    assert_eq!((status, &group["kind"]), (StatusCode::OK, &json!("APIResourceList")));
    assert_eq!(client.get("/apis/holdfast.dev").await.1["name"], "holdfast.dev");
    assert_eq!(client.get(DIFFS).await.0, StatusCode::METHOD_NOT_ALLOWED);
    for path in ["/apis", "/openapi/v3", "/"] {
        let (status, list) = client.get(path).await;
        assert!(
            status == StatusCode::OK && !list.to_string().contains("holdfast.dev"),
            "{path}"
        );
    }
    let (_server, mut client) = start(&["--holdfast-apis=false"]).await;
    for path in ["/apis/holdfast.dev", "/apis/holdfast.dev/v1"] {
        assert_eq!(client.get(path).await.0, StatusCode::NOT_FOUND);
    }
    let ask = request("m", &[config_map("a", json!({}))]);
    let (status, _) = client.ask(Method::POST, DIFFS, "application/json", ask).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

/// Reads the next event of a watch: its type, and the diff of its object.
struct Events {
    body: Incoming,
    rest: Vec<u8>,
    _connection: Connection,
}

impl Events {
    async fn open(server: &Server, query: &str, request: &Value) -> Self {
        let mut connection = Target::new(server).unwrap().connect().await.unwrap();
        let path = format!("{DIFFS}?watch=true{query}");
        let body = Bytes::from(request.to_string());
        let opened = connection
            .open_accepting("application/json", Method::POST, &path, "application/json", body)
            .await;
        let answer = opened.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        Self {
            body: answer.into_body(),
            rest: Vec::new(),
            _connection: connection,
        }
    }

    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                let diff = event["object"]["status"]["objects"][0].clone();
                return Some((event["type"].as_str().unwrap().to_owned(), diff));
            }
            let frame = tokio::time::timeout(WAIT_TIMEOUT, self.body.frame()).await.unwrap()?;
            self.rest.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }
}

#[tokio::test]
async fn watch_reports_drift_as_it_happens() {
    let (server, mut client) = start(&[]).await;
    let path = "/api/v1/namespaces/default/configmaps/a";
    apply(&mut client, path, "ci", config_map("a", json!({"k": "1"}))).await;
    let in_later = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "later"}});
    let ask = request("ci", &[config_map("a", json!({"k": "1"})), in_later]);
    let mut events = Events::open(&server, "", &ask).await;
    let (event, diff) = events.next().await.unwrap();
    assert_eq!((event.as_str(), &diff["result"]), ("ADDED", &json!("Unchanged")));
    let (event, diff) = events.next().await.unwrap();
    assert_eq!(
        (event.as_str(), &diff["result"], &diff["index"]),
        ("ADDED", &json!("Failed"), &json!(1))
    );

    // A change of a field that the manifests do not name changes no diff.
    let change = async |client: &mut Client, data: Value| {
        let (status, _) = client.ask(Method::PATCH, path, MERGE, json!({"data": data})).await;
        assert_eq!(status, StatusCode::OK);
    };
    change(&mut client, json!({"other": "x"})).await;
    change(&mut client, json!({"k": "2"})).await;
    let (event, diff) = events.next().await.unwrap();
    assert_eq!((event.as_str(), &diff["index"]), ("MODIFIED", &json!(0)));
    assert_eq!(fields(&diff), [r#"Changed .data.k "2" "1""#]);
    assert_eq!(diff["conflicts"][0]["field"], ".data.k");
    change(&mut client, json!({"k": "1"})).await;
    let (_, diff) = events.next().await.unwrap();
    assert_eq!(diff["result"], "Unchanged");

    // The namespace was the reason for the failure.
    client.namespace("later").await;
    let (event, diff) = events.next().await.unwrap();
    assert_eq!(
        (event.as_str(), &diff["index"], &diff["result"]),
        ("MODIFIED", &json!(1), &json!("Create"))
    );
    let (status, _) = client.ask(Method::DELETE, path, "application/json", json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let (_, diff) = events.next().await.unwrap();
    assert_eq!((&diff["index"], &diff["result"]), (&json!(0), &json!("Create")));
}

#[tokio::test]
async fn watch_ends_at_its_timeout_and_with_the_server() {
    let (server, _client) = start(&[]).await;
    let ask = request("m", &[config_map("a", json!({}))]);
    let mut short = Events::open(&server, "&timeoutSeconds=1", &ask).await;
    assert!(short.next().await.is_some());
    assert!(short.next().await.is_none(), "it ends");
    let mut long = Events::open(&server, "", &ask).await;
    assert!(long.next().await.is_some());
    let restarted = tokio::task::spawn_blocking(move || server.restart(&[]));
    assert!(long.next().await.is_none());
    assert!(restarted.await.unwrap().is_ok());
}

#[tokio::test]
async fn thousand_manifests_delay_no_other_request() {
    let (server, mut client) = start(&[]).await;
    let objects: Vec<Value> = (0..1000)
        .map(|at| config_map(&format!("c{at}"), json!({"a": "1", "b": "2"})))
        .collect();
    for object in objects.iter().take(500) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        apply(&mut client, &path, "ci", object.clone()).await;
    }
    let changed: Vec<Value> = (0..1000)
        .map(|at| config_map(&format!("c{at}"), json!({"a": "1", "b": "3"})))
        .collect();
    let began = Instant::now();
    let asked = tokio::spawn(async move {
        let mut other = Client::new(&server).await;
        let status = diffs(&mut other, request("ci", &changed)).await;
        (status, began.elapsed(), server)
    });
    let mut slowest = Duration::ZERO;
    while !asked.is_finished() {
        let began = Instant::now();
        client.get("/api/v1/namespaces/default/configmaps/c1").await;
        slowest = slowest.max(began.elapsed());
    }
    let (status, took, _server) = asked.await.unwrap();
    println!("1,000 diffs in {took:?}; the slowest GET meanwhile {slowest:?}");
    assert_eq!((&status["created"], &status["updated"]), (&json!(500), &json!(500)));
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}

fn command(server: &Server, arguments: &[&str]) -> Output {
    let binary = Binary::debug().unwrap();
    let mut command = Command::new(binary.path());
    command
        .arg("diff")
        .arg("--kubeconfig")
        .arg(server.data_dir().join("kubeconfig"));
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[tokio::test]
async fn command_shows_changes_by_its_exit_code() {
    let (server, mut client) = start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let shown = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{k: '1'}}\n");
    fs::write(&file, shown("a")).unwrap();
    let path = file.to_str().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let output = command(&server, &["-f", path]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        "configmap/a in default: create\n  + .data.k: \"1\"\n"
    );
    apply(
        &mut client,
        "/api/v1/namespaces/default/configmaps/a",
        "holdfast",
        config_map("a", json!({"k": "1"})),
    )
    .await;
    let output = command(&server, &["-f", path]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    fs::write(&file, format!("{}---\n{}", shown("a"), shown("Bad_Name"))).unwrap();
    let output = command(&server, &["-f", path, "-o", "json"]);
    assert_eq!(output.status.code(), Some(2));
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((lines.len(), &lines[1]["status"]["code"]), (2, &json!(422)));
    assert_eq!(command(&server, &["-f", "absent.yaml"]).status.code(), Some(2));
    let other = start(&["--holdfast-apis=false"]).await.0;
    let output = command(&other, &["-f", path]);
    assert!(
        text(&output.stderr).contains("does not serve holdfast.dev/v1"),
        "{}",
        text(&output.stderr)
    );
}
