//! The endpoints for tests below `/testing/`: servers with the state of a checkpoint, and the timeline of requests.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::{Binary, Client, Connection, Server, Target};
use http::{Method, StatusCode};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FORK: &str = "/testing/checkpoints/start/fork";
const FORKS: &str = "/testing/forks";
const JSON: &str = "application/json";

fn start(more: &[&str]) -> Server {
    const USUAL: [&str; 3] = ["--testing-endpoints", "--unsafe-no-fsync", "--controllers="];
    let flags: Vec<&str> = USUAL.iter().chain(more).copied().collect();
    Server::start(&Binary::debug().unwrap(), &flags).unwrap()
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

async fn keep(client: &mut Client) {
    client.make("/testing/checkpoints", json!({"name": "start"})).await;
}

async fn fork(client: &mut Client) -> Value {
    let (status, fork) = client.ask(Method::POST, FORK, JSON, json!({})).await;
    assert_eq!(status, 201, "{fork}");
    fork
}

/// Connects to a fork. The flags of the first server, and therefore its tokens, apply to it.
async fn connect(fork: &Value, server: &Server) -> Connection {
    let authority = server.data_dir().join("fork-ca.crt");
    std::fs::write(&authority, fork["certificateAuthority"].as_str().unwrap()).unwrap();
    let url = fork["url"].as_str().unwrap();
    let target = Target::at(url, Some(&authority), Some(conformance::ADMIN_TOKEN)).unwrap();
    target.connect().await.unwrap()
}

async fn ask(connection: &mut Connection, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let bytes = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let (status, answer) = connection.ask(method, path, JSON, bytes).await.unwrap();
    (status, serde_json::from_slice(&answer).unwrap_or_default())
}

async fn value(connection: &mut Connection, name: &str) -> Value {
    let (_, found) = ask(connection, Method::GET, &format!("{CONFIG_MAPS}/{name}"), Value::Null).await;
    found["data"]["value"].clone()
}

#[tokio::test]
async fn fork_has_its_own_objects_from_the_checkpoint_on() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let before = client.make(CONFIG_MAPS, config_map("before", "1")).await;
    keep(&mut client).await;
    client.make(CONFIG_MAPS, config_map("after", "1")).await;

    let started = fork(&mut client).await;
    let mut fork = connect(&started, &server).await;
    let (_, shared) = ask(&mut fork, Method::GET, &format!("{CONFIG_MAPS}/before"), Value::Null).await;
    assert_eq!(shared, before, "versions and identifiers are the same");
    assert_eq!(value(&mut fork, "after").await, Value::Null);
    let (status, made) = ask(&mut fork, Method::POST, CONFIG_MAPS, config_map("of-fork", "2")).await;
    assert_eq!(status, 201, "{made}");
    let version = |object: &Value| {
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert!(version(&made) > version(&before));
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/of-fork")).await.0, 404);
    // The fork has endpoints of its own.
    let (_, checkpoints) = ask(&mut fork, Method::GET, "/testing/checkpoints", Value::Null).await;
    assert_eq!(checkpoints, json!({"checkpoints": []}));
}

#[tokio::test]
async fn fork_serves_custom_resources_and_token_requests() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"size": {"type": "integer", "maximum": 9}}}}}]},
    });
    client
        .make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        .await;
    let widgets = "/apis/example.com/v1/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "size": 3});
    let end = Instant::now() + Duration::from_secs(60);
    while client.ask(Method::POST, widgets, JSON, widget.clone()).await.0 != 201 {
        assert!(Instant::now() < end, "the CRD is not served");
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    client.make("/api/v1/namespaces/default/serviceaccounts", account).await;
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let (_, issued) = client.ask(Method::POST, path, JSON, request).await;
    keep(&mut client).await;

    let started = fork(&mut client).await;
    let mut fork = connect(&started, &server).await;
    let (_, found) = ask(&mut fork, Method::GET, &format!("{widgets}/a"), Value::Null).await;
    assert_eq!(found["size"], 3, "{found}");
    let too_large = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "b"}, "size": 10});
    assert_eq!(ask(&mut fork, Method::POST, widgets, too_large).await.0, 422);
    // The fork has the keys of the first server.
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": issued["status"]["token"]}});
    let (_, reviewed) = ask(
        &mut fork,
        Method::POST,
        "/apis/authentication.k8s.io/v1/tokenreviews",
        review,
    )
    .await;
    assert_eq!(
        reviewed["status"]["user"]["username"], "system:serviceaccount:default:robot",
        "{reviewed}"
    );
}

#[tokio::test]
async fn forks_are_listed_stopped_and_bounded() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let (status, _) = client.ask(Method::POST, FORK, JSON, json!({})).await;
    assert_eq!(status, 404, "there is no checkpoint");
    keep(&mut client).await;
    assert_eq!(client.get(FORK).await.0, 405);
    let started = fork(&mut client).await;
    let mut connection = connect(&started, &server).await;
    let path = format!("{FORKS}/{}", started["id"]);
    let (_, found) = client.get(&path).await;
    assert_eq!(
        (&found["url"], &found["checkpoint"]),
        (&started["url"], &json!("start"))
    );
    assert!(
        started["kubeconfig"]
            .as_str()
            .unwrap()
            .contains(started["url"].as_str().unwrap())
    );

    let (status, _) = client.ask(Method::DELETE, &path, JSON, Value::Null).await;
    assert_eq!(status, 200);
    assert_eq!(client.get(&path).await.0, 404);
    let late = connection.ask(Method::GET, CONFIG_MAPS, JSON, Bytes::new()).await;
    assert!(late.is_err(), "the fork still serves");

    for _ in 0..32 {
        fork(&mut client).await;
    }
    let (status, rejection) = client.ask(Method::POST, FORK, JSON, json!({})).await;
    assert_eq!(status, 400);
    assert_eq!(rejection["message"], "a server has at most 32 forks");
    let (_, stopped) = client.ask(Method::DELETE, FORKS, JSON, Value::Null).await;
    assert_eq!(stopped["forks"].as_array().unwrap().len(), 32);
    assert_eq!(client.get(FORKS).await.1, json!({"forks": []}));
}

#[tokio::test]
async fn fork_begins_at_the_time_of_its_server_and_ends_with_it() {
    let mut server = start(&[]);
    let mut client = Client::new(&server).await;
    keep(&mut client).await;
    client
        .ask(Method::POST, "/testing/clock", JSON, json!({"advance": "2h"}))
        .await;
    let started = fork(&mut client).await;
    let mut connection = connect(&started, &server).await;
    let (_, clock) = ask(&mut connection, Method::GET, "/testing/clock", Value::Null).await;
    assert_eq!(clock["advanced"], "2h0m0s");
    server.terminate();
    assert_eq!(server.wait_for_end(Duration::from_secs(60)).unwrap(), Some(0));
    assert!(
        connection
            .ask(Method::GET, CONFIG_MAPS, JSON, Bytes::new())
            .await
            .is_err()
    );
}

/// Number of objects of the measurement.
const MANY: usize = 10_000;

#[tokio::test]
async fn fork_of_many_objects_copies_nothing() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    client.make("/testing/checkpoints", json!({"name": "empty"})).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let mut client = Client::new(&server).await;
        writers.spawn(async move {
            for number in (writer..MANY).step_by(8) {
                client.make(CONFIG_MAPS, config_map(&format!("c{number}"), "1")).await;
            }
        });
    }
    writers.join_all().await;
    keep(&mut client).await;
    let least = |path: &'static str| {
        let server = &server;
        async move {
            let mut client = Client::new(server).await;
            let mut times = Vec::new();
            for _ in 0..5 {
                let began = Instant::now();
                let (status, fork) = client.ask(Method::POST, path, JSON, json!({})).await;
                times.push(began.elapsed());
                assert_eq!(status, 201, "{fork}");
            }
            times.into_iter().min().unwrap()
        }
    };
    let memory = server.memory().unwrap();
    let small = least("/testing/checkpoints/empty/fork").await;
    let between = server.memory().unwrap();
    let large = least(FORK).await;
    let after = server.memory().unwrap();
    println!(
        "fork of 0 objects: {small:?}, of {MANY}: {large:?}; memory of five: {} KiB and {} KiB",
        between.saturating_sub(memory) / 1024,
        after.saturating_sub(between) / 1024
    );
    assert!(large < 3 * small + Duration::from_millis(50), "{small:?} {large:?}");
    for name in ["c1", "c2", "c3"] {
        let path = format!("{CONFIG_MAPS}/{name}");
        client.ask(Method::PUT, &path, JSON, config_map(name, "2")).await;
    }
    let began = Instant::now();
    let path = "/testing/checkpoints/start/restore";
    let (_, restored) = client.ask(Method::POST, path, JSON, json!({})).await;
    println!(
        "restore of three differences among {MANY} objects: {:?}",
        began.elapsed()
    );
    // The Lease of the server may have been renewed meanwhile.
    assert!(matches!(restored["updated"].as_u64(), Some(3 | 4)), "{restored}");
}

/// Returns the newest lines of the timeline.
async fn timeline(server: &Server, query: &str) -> String {
    let mut connection = Target::new(server).unwrap().connect().await.unwrap();
    let path = format!("/testing/timeline{query}");
    let bytes = connection.send(Method::GET, &path, "", Bytes::new()).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn timeline_shows_changed_fields_with_owners() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let path = format!("{CONFIG_MAPS}/paint");
    let apply = |colour: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "paint"}, "data": {"colour": colour}});
    let applied = format!("{path}?fieldManager=painter");
    for colour in ["red", "blue"] {
        let (status, answer) = client
            .ask(Method::PATCH, &applied, "application/apply-patch+yaml", apply(colour))
            .await;
        assert!(status.is_success(), "{answer}");
    }
    let patch = json!({"metadata": {"labels": {"a": "b"}}, "data": {"colour": null}});
    let merge = "application/merge-patch+json";
    client
        .ask(Method::PATCH, &format!("{path}?fieldManager=editor"), merge, patch)
        .await;
    client.ask(Method::PUT, &path, JSON, json!({"kind": "Pod"})).await;
    client.ask(Method::DELETE, &path, JSON, Value::Null).await;
    let text = timeline(&server, "?namespace=default").await;
    let lines: Vec<&str> = text.lines().collect();
    let has = |at: usize, parts: &[&str]| {
        let line = lines[at];
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?}: {text}");
    };
    assert_eq!(lines.len(), 5, "{text}");
    has(
        0,
        &[
            "Z PATCH ",
            "/paint?fieldManager=painter 201 ",
            " user=admin ",
            "manager=\"painter\" changed: .data.colour (painter)",
        ],
    );
    has(1, &[" 200 ", "changed: .data.colour (painter)"]);
    has(
        2,
        &[
            "manager=\"editor\" changed: .metadata.labels.a (editor), ",
            "-.data.colour (painter)",
        ],
    );
    has(3, &["PUT ", " 400 "]);
    assert!(!lines[3].contains("changed"), "{text}");
    has(4, &["DELETE ", " 200 ", " deleted"]);
}

#[tokio::test]
async fn timeline_selects_namespaces_and_limits_lines() {
    let server = start(&[]);
    let mut client = Client::new(&server).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "test-"}});
    let made = client.make("/api/v1/namespaces", namespace).await;
    let name = made["metadata"]["name"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/{name}/configmaps");
    for number in 0..4 {
        client.make(&path, config_map(&format!("c{number}"), "1")).await;
        client.make(CONFIG_MAPS, config_map(&format!("d{number}"), "1")).await;
    }
    client.get("/readyz").await;
    let text = timeline(&server, &format!("?namespace={name}")).await;
    let (lines, first) = (text.lines().count(), text.lines().next().unwrap());
    assert_eq!(lines, 5, "{text}");
    assert!(
        first.contains("POST /api/v1/namespaces 201") && first.contains(&format!("name={name}")),
        "{text}"
    );
    let text = timeline(&server, "?limit=3").await;
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(
        text.ends_with(" name=d3 changed: .data.value (unknown)\n") || text.contains("name=d3"),
        "{text}"
    );
    let (status, rejection) = client.get("/testing/timeline?limit=many").await;
    assert_eq!((status.as_u16(), &rejection["reason"]), (400, &json!("BadRequest")));
    let (status, _) = client.ask(Method::DELETE, "/testing/timeline", JSON, Value::Null).await;
    assert_eq!(status, 405);
}

/// Returns the text of all files in a directory of timelines.
fn recorded(directory: &Path) -> String {
    let files = std::fs::read_dir(directory).unwrap();
    files
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}

#[tokio::test]
async fn recorded_timeline_is_in_private_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("timelines");
    let flag = format!("--record={}", directory.display());
    let server = Server::start(&Binary::debug().unwrap(), &[&flag, "--controllers="]).unwrap();
    let mut client = Client::new(&server).await;
    let mut hostile = config_map("settings", "1");
    hostile["data"] = json!({"a\nb": "1"});
    client.ask(Method::POST, CONFIG_MAPS, JSON, hostile).await;
    client.make(CONFIG_MAPS, config_map("settings", "secret-value")).await;
    assert_eq!(
        client.get("/testing/timeline").await.0,
        404,
        "the endpoints have their own flag"
    );
    let text = recorded(&directory);
    assert!(text.lines().all(|line| line.starts_with("20")), "{text}");
    assert!(
        text.contains("POST /api/v1/namespaces/default/configmaps 422"),
        "{text}"
    );
    assert!(text.contains("name=settings changed: .data.value"), "{text}");
    assert!(!text.contains("secret-value"), "{text}");
    for file in std::fs::read_dir(&directory).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let rejection = Binary::debug()
        .unwrap()
        .rejection(&["--record=/dev/null/timelines"])
        .unwrap();
    assert!(rejection.contains("--record: /dev/null/timelines"), "{rejection}");
}
