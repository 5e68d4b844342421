//! Watches: their events, their formats, and their end
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes>).

use std::time::Duration;

use crate::support::{CONFIG_MAPS, MERGE, Server, config_map};
use holdfast_store::HistoryLimits;
use http_body_util::BodyExt;
use serde_json::json;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn make(server: &Server, name: &str) -> String {
    let made = server.post(CONFIG_MAPS, &config_map(name, "1")).await;
    assert_eq!(made.code, 201, "{}", made.message());
    made.version().to_owned()
}

async fn change(server: &Server, name: &str, value: &str) {
    let patch = format!(r#"{{"data":{{"k":"{value}"}}}}"#);
    let changed = server.patch(&format!("{CONFIG_MAPS}/{name}"), MERGE, &patch).await;
    assert_eq!(changed.code, 200, "{}", changed.message());
}

#[tokio::test]
async fn watch_behind_the_history_gets_an_error_and_ends() {
    let limits = HistoryLimits {
        age: Duration::from_secs(300),
        bytes: 1,
    };
    let server = Server::start_with(limits).await;
    let version = make(&server, "a").await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}");
    let (mut slow, mut other) = (
        server.watch(&path).await,
        server
            .watch(&format!("/api/v1/secrets?watch=1&resourceVersion={version}"))
            .await,
    );
    for value in ["2", "3", "4", "5"] {
        change(&server, "a", value).await;
    }
    let (_, error) = slow.next().await.unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    let message = error["object"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("too old resource version: {version} (")),
        "{message}"
    );
    assert!(slow.next().await.is_none());
    // Watches of objects that did not change have missed nothing.
    let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}"#;
    server.post("/api/v1/namespaces/default/secrets", secret).await;
    assert_eq!(other.events(1).await, ["ADDED s"]);
}

#[tokio::test]
async fn the_older_paths_watch_lists_namespaces_and_single_objects() {
    let server = Server::start().await;
    make(&server, "a").await;
    make(&server, "ab").await;
    let mut watches = Vec::new();
    for (path, there) in [
        ("/api/v1/watch/configmaps", vec!["ADDED a", "ADDED ab"]),
        (
            "/api/v1/watch/namespaces/default/configmaps",
            vec!["ADDED a", "ADDED ab"],
        ),
        ("/api/v1/watch/namespaces/default/configmaps/a", vec!["ADDED a"]),
        (
            "/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Da",
            vec!["ADDED a"],
        ),
        (
            "/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3Da",
            vec!["ADDED a"],
        ),
    ] {
        let mut watch = server.watch(path).await;
        assert_eq!(watch.events(there.len()).await, there, "{path}");
        watches.push((path, watch));
    }
    change(&server, "ab", "2").await;
    change(&server, "a", "2").await;
    for (path, watch) in &mut watches {
        if !path.ends_with('a') {
            assert_eq!(watch.events(1).await, ["MODIFIED ab"], "{path}");
        }
        assert_eq!(watch.events(1).await, ["MODIFIED a"], "{path}");
    }
}

#[tokio::test]
async fn a_table_has_its_columns_with_the_first_row_alone() {
    let server = Server::start().await;
    make(&server, "a").await;
    let path = format!("{CONFIG_MAPS}?watch=1");
    let (mut first, mut second) = (server.watch_as(&path, TABLE).await, server.watch_as(&path, TABLE).await);
    change(&server, "a", "2").await;
    server.delete(&format!("{CONFIG_MAPS}/a")).await;
    for watch in [&mut first, &mut second] {
        let (_, added) = watch.next().await.unwrap();
        assert_eq!(added["object"]["columnDefinitions"][0]["name"], "Name");
        for expected in ["MODIFIED", "DELETED"] {
            let (_, event) = watch.next().await.unwrap();
            assert_eq!(event["type"], expected);
            assert!(event["object"]["columnDefinitions"].is_null());
            assert_eq!(event["object"]["rows"][0]["cells"][0], "a");
            let row = &event["object"]["rows"][0]["object"];
            assert_eq!(row["kind"], "PartialObjectMetadata");
            assert_eq!(
                row["metadata"]["resourceVersion"],
                event["object"]["metadata"]["resourceVersion"]
            );
        }
    }
}

#[tokio::test]
async fn metadata_alone_is_shown_on_request() {
    let server = Server::start().await;
    let version = make(&server, "a").await;
    let mut watch = server
        .watch_as(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}"), PARTIAL)
        .await;
    change(&server, "a", "2").await;
    let (short, event) = watch.next().await.unwrap();
    let object = event["object"].as_object().unwrap();
    assert_eq!(short, "MODIFIED a");
    let members: Vec<&str> = object.keys().map(String::as_str).collect();
    assert_eq!(members, ["kind", "apiVersion", "metadata"]);
    let stored = server.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(&object["metadata"], stored.at("/metadata"));
}

#[tokio::test]
async fn frames_of_protobuf_begin_with_their_length() {
    let server = Server::start().await;
    make(&server, "a").await;
    make(&server, "b").await;
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=60");
    // Time advances only when no other work is pending.
    tokio::time::pause();
    let response = server.respond("GET", &path, "", "", PROTOBUF).await;
    assert_eq!(
        response.headers()["content-type"],
        "application/vnd.kubernetes.protobuf;stream=watch"
    );
    let mut bytes = &response.into_body().collect().await.unwrap().to_bytes()[..];
    let mut frames = 0;
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        // A WatchEvent: its type, then the object in its envelope.
        assert!(frame.starts_with(b"\x0a\x05ADDED"));
        assert!(frame.windows(4).any(|bytes| bytes == b"k8s\0"));
        (bytes, frames) = (rest, frames + 1);
    }
    assert_eq!(frames, 2);
}

#[tokio::test]
async fn invalid_watch_is_rejected_before_its_first_event() {
    let server = Server::start().await;
    for (query, accept, code) in [
        ("watch=1", "application/yaml", 406),
        ("watch=1&timeoutSeconds=soon", "application/json", 400),
        ("watch=1&labelSelector=%28", "application/json", 400),
        ("watch=1&includeObject=Everything", TABLE, 400),
        ("watch=1&sendInitialEvents=true", "application/json", 422),
        (
            "watch=1&resourceVersionMatch=Exact&resourceVersion=5",
            "application/json",
            422,
        ),
        ("watch=1&continue=abc", "application/json", 422),
    ] {
        let refused = server.get_as(&format!("{CONFIG_MAPS}?{query}"), accept).await;
        assert_eq!(refused.code, code, "{query}");
    }
}

#[tokio::test]
async fn bookmarks_come_each_minute_and_before_the_end() {
    let server = Server::start().await;
    let version = make(&server, "a").await;
    let path = format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=90&resourceVersion={version}");
    // From here on nothing waits for the disk, and time advances as soon as all tasks wait for it.
    tokio::time::pause();
    let begin = tokio::time::Instant::now();
    let mut watch = server.watch(&path).await;
    for seconds in [60, 88] {
        let (_, event) = watch.next().await.unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(
            event["object"],
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": version}})
        );
        assert_eq!(begin.elapsed().as_secs(), seconds);
    }
    assert!(watch.next().await.is_none());
    assert_eq!(begin.elapsed().as_secs(), 90);
}

#[tokio::test]
async fn watch_from_any_version_bookmarks_end_of_initial_events() {
    let server = Server::start().await;
    make(&server, "a").await;
    let annotated = json!({"k8s.io/initial-events-end": "true"});
    for (query, expected) in [
        ("allowWatchBookmarks=true", true),
        ("allowWatchBookmarks=true&resourceVersion=0", true),
        (
            "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            true,
        ),
        ("resourceVersion=0", false),
    ] {
        let mut watch = server.watch(&format!("{CONFIG_MAPS}?watch=1&{query}")).await;
        assert_eq!(watch.next().await.unwrap().0, "ADDED a", "{query}");
        change(&server, "a", query).await;
        let (short, event) = watch.next().await.unwrap();
        let bookmark = event["object"]["metadata"]["annotations"] == annotated;
        assert_eq!(
            (bookmark, short == "BOOKMARK "),
            (expected, expected),
            "{query}: {event}"
        );
    }
}

#[tokio::test]
async fn a_bookmark_shows_the_zero_value_of_the_kind() {
    let server = Server::start().await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let path = format!("/api/v1/namespaces/default/pods?{query}");
    let mut watch = server.watch(&path).await;
    let (_, event) = watch.next().await.unwrap();
    let version = event["object"]["metadata"]["resourceVersion"].clone();
    let metadata = json!({"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}});
    let zero =
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": null}, "status": {}});
    assert_eq!(event, json!({"type": "BOOKMARK", "object": zero}));
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut watch = server.watch_as(&path, accept).await;
    let (_, event) = watch.next().await.unwrap();
    let table = &event["object"];
    assert_eq!(table["metadata"], json!({"resourceVersion": version}));
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
    assert_eq!(table["rows"][0]["object"], partial);
    assert_eq!(table["rows"][0]["cells"][4], "<unknown>");
}

#[tokio::test]
async fn a_pod_that_goes_at_once_is_seen_to_be_marked_first() {
    let server = Server::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = r#"{"metadata":{"name":"p"},"spec":{"automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}]}}"#;
    let mut watch = server.watch(&format!("{pods}?watch=1&resourceVersion=0")).await;
    for (path, marks) in [(format!("{pods}/p"), true), (pods.to_owned(), true)] {
        assert_eq!(server.post(pods, pod).await.code, 201);
        assert_eq!(watch.next().await.unwrap().0, "ADDED p");
        assert_eq!(server.delete(&path).await.code, 200);
        let (marked, event) = watch.next().await.unwrap();
        assert_eq!(
            (
                marked == "MODIFIED p",
                event["object"]["metadata"]["deletionGracePeriodSeconds"].clone()
            ),
            (marks, json!(0))
        );
        assert_eq!(watch.next().await.unwrap().0, "DELETED p");
    }
    // A precondition refers to the object that the client read.
    let made = server.post(pods, pod).await;
    let options =
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": made.version()}});
    let gone = server
        .send("DELETE", &format!("{pods}/p"), "application/json", &options.to_string())
        .await;
    assert_eq!(gone.code, 200, "{}", gone.message());
}

#[tokio::test]
async fn a_watch_whose_time_is_below_zero_is_over_at_once() {
    let server = Server::start().await;
    make(&server, "a").await;
    let mut watch = server.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=-5")).await;
    assert!(watch.next().await.is_none());
}
