//! Memory and latency while clients do not read their lists, and the limit of open files.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use conformance::{Binary, Client, Process, Server, Target, hog};
use http::{Method, StatusCode};
use serde_json::json;

const CONFIG_MAPS: &str = "/api/v1/configmaps";
const OBJECT: &str = "/api/v1/namespaces/default/configmaps/c1";
const OBJECTS: usize = 200;
const OBJECT_BYTES: usize = 100_000;
const STREAMS: usize = 60;

/// Memory in bytes that the response of one stream may hold.
const STREAM_BYTES: u64 = 1 << 20;

const LARGE_OBJECTS: usize = 40;
const LARGE_OBJECT_BYTES: usize = 600_000;

/// Memory in bytes that the allocator may keep of unread lists of large objects.
const KEPT_BYTES: u64 = 48 << 20;

/// Maximum median time of other requests while no list is read.
const PROBE_TIME: Duration = Duration::from_millis(50);

/// Time limit of every wait.
const TIME_LIMIT: Duration = Duration::from_secs(120);

const TABLE: &str = "as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// Returns the forms of lists: query and media type.
fn forms() -> Vec<(&'static str, String)> {
    let (json, yaml) = ("application/json", "application/yaml");
    let (protobuf, cbor) = ("application/vnd.kubernetes.protobuf", "application/cbor");
    vec![
        ("", json.to_owned()),
        ("?pretty=1", json.to_owned()),
        ("", yaml.to_owned()),
        ("", protobuf.to_owned()),
        ("", cbor.to_owned()),
        ("", format!("{json};{TABLE}")),
        ("?includeObject=Object", format!("{json};{TABLE}")),
        ("?includeObject=Object", format!("{yaml};{TABLE}")),
        ("", format!("{json};{PARTIAL}")),
        ("", format!("{protobuf};{PARTIAL}")),
    ]
}

/// Waits until the process uses less anonymous memory than `limit`; fails with `what` after too long a wait.
async fn wait_for_memory_below(process: Process, limit: u64, what: &str) {
    let end = Instant::now() + TIME_LIMIT;
    loop {
        let memory = process.anonymous_memory().unwrap();
        if memory < limit {
            return;
        }
        assert!(Instant::now() < end, "{what}: {memory} bytes, more than {limit}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn make_large_objects(client: &mut Client) {
    let text = "x\n".repeat(LARGE_OBJECT_BYTES / 2);
    for number in 0..LARGE_OBJECTS {
        let object = json!({"metadata": {"name": format!("c{number}")}, "data": {"text": text}});
        client.make("/api/v1/namespaces/default/configmaps", object).await;
    }
}

/// Returns the median time of requests of another client.
async fn median_of_probes(target: &Target) -> Duration {
    let mut connection = target.connect().await.unwrap();
    let mut times = Vec::new();
    for number in 0..20 {
        let path = if number % 2 == 0 { "/livez" } else { OBJECT };
        let begun = Instant::now();
        let (status, _) = connection.ask(Method::GET, path, "", Bytes::new()).await.unwrap();
        assert_eq!(status, StatusCode::OK);
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_that_nobody_takes_cost_little() {
    let server = Server::start(
        &Binary::debug().unwrap(),
        &["--feature-gates=CBORServingAndStorage=true"],
    )
    .unwrap();
    let (mut client, target) = (Client::new(&server).await, Target::new(&server).unwrap());
    let text = "x".repeat(OBJECT_BYTES);
    for number in 0..OBJECTS {
        let object = json!({"metadata": {"name": format!("c{number}")}, "data": {"text": text}});
        client.make("/api/v1/namespaces/default/configmaps", object).await;
    }
    let before = server.process().anonymous_memory().unwrap();
    let limit = before + STREAMS as u64 * STREAM_BYTES;
    for (query, accept) in forms() {
        let what = format!("{accept}{query}");
        let mut held = Vec::new();
        for window in [0, 65_535] {
            let mut connection = target.connect_http2_with_window(window).await.unwrap();
            for _ in 0..STREAMS / 2 {
                let path = format!("{CONFIG_MAPS}{query}");
                let answer = connection.get(&path, &accept).await.unwrap();
                assert_eq!(answer.status(), StatusCode::OK, "{what}");
                held.push(answer);
            }
        }
        let memory = server.process().anonymous_memory().unwrap();
        assert!(memory < limit, "{what}: {memory} bytes are held, {before} before");
        let time = median_of_probes(&target).await;
        assert!(time < PROBE_TIME, "{what}: others wait for {time:?}");
        drop(held);
        wait_for_memory_below(server.process(), before + limit.saturating_sub(before) / 2, &what).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_unread_lists_returns_to_the_system() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let (mut client, target) = (Client::new(&server).await, Target::new(&server).unwrap());
    make_large_objects(&mut client).await;
    let before = server.process().anonymous_memory().unwrap();
    for round in 0..3 {
        for accept in ["application/json", "application/yaml"] {
            let mut connection = target.connect_http2_with_window(0).await.unwrap();
            let mut held = Vec::new();
            for _ in 0..STREAMS {
                held.push(connection.get(CONFIG_MAPS, accept).await.unwrap());
            }
            drop(held);
            let what = format!("round {round} of {accept}");
            wait_for_memory_below(server.process(), before + KEPT_BYTES, &what).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_large_objects_delay_no_other_request() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let (mut client, target) = (Client::new(&server).await, Target::new(&server).unwrap());
    make_large_objects(&mut client).await;
    for view in [TABLE, PARTIAL] {
        let accept = format!("application/json;{view}");
        let mut held = Vec::new();
        for _ in 0..STREAMS {
            let mut connection = target.connect_http2_with_window(0).await.unwrap();
            held.push(connection.get(CONFIG_MAPS, &accept).await.unwrap());
        }
        let time = median_of_probes(&target).await;
        assert!(time < PROBE_TIME, "{accept}: others wait for {time:?}");
    }
}

/// Returns watches with a zero window, more than a priority level with one seat serves at a time.
async fn open_unread_watches(target: &Target, query: &str) -> Vec<http::Response<hyper::body::Incoming>> {
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut connection = target.connect_http2_with_window(0).await.unwrap();
        held.push(
            connection
                .get(&format!("{CONFIG_MAPS}?watch=1&{query}"), "")
                .await
                .unwrap(),
        );
    }
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_watches_keep_no_seats() {
    let seats = ["--max-requests-inflight=1", "--max-mutating-requests-inflight=1"];
    let (server, mut client) = hog::server(&Binary::debug().unwrap(), &seats).await;
    // More than the buffers between the server and the window hold.
    for number in 0..4 {
        let text = "x".repeat(OBJECT_BYTES);
        let object = json!({"metadata": {"name": format!("large{number}")}, "data": {"text": text}});
        client.make("/api/v1/namespaces/default/configmaps", object).await;
    }
    let target = Target::new(&server).unwrap();
    let slow = target.clone().with_token(hog::token(&mut client, "slow").await);
    let other = target.clone().with_token(hog::token(&mut client, "other").await);
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for query in ["resourceVersion=0", initial] {
        let held = open_unread_watches(&slow, query).await;
        assert!(held.iter().all(|answer| answer.status() == StatusCode::OK), "{query}");
        let mut connection = other.connect().await.unwrap();
        let (status, answer) = connection.ask(Method::GET, OBJECT, "", Bytes::new()).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{query}: {answer:?}");
    }
}

#[test]
fn soft_limit_of_open_files_is_raised() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let mut server = Command::new("sh")
        .args(["-c", "ulimit -Sn 256 && exec \"$0\" \"$@\""])
        .arg(Binary::debug().unwrap().path())
        .arg(format!("--data-dir={}", folder.path().join("data").display()))
        .arg(format!("--ready-file={}", ready.display()))
        .arg("--secure-port=0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + TIME_LIMIT;
    while !ready.exists() {
        assert!(server.try_wait().unwrap().is_none() && Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1], "{files}");
    assert_ne!(numbers[0], "256", "{files}");
}
