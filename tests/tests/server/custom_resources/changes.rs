//! A CRD that changes while its objects are written and watched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use conformance::{Binary, Connection, Server, Target};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;

use super::{CRD, JSON, MERGE, WAIT_TIMEOUT, WIDGETS, ask, crd, define, get, widget};

/// Number of changes of the CRD.
const ROUNDS: usize = 12;
const WRITERS: usize = 3;
const WATCHERS: usize = 2;

/// Returns a schema with a field for each round so far, each with a default.
fn schema(round: usize) -> Value {
    let fields = (0..=round).map(|round| (format!("round{round}"), json!({"type": "integer", "default": round})));
    json!({"type": "object", "properties": fields.collect::<serde_json::Map<_, _>>()})
}

async fn send(
    connection: &mut Connection,
    method: Method,
    path: &str,
    media_type: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let body = Bytes::from(body.to_string());
    let (code, bytes) = connection.ask(method, path, media_type, body).await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Creates objects and changes each once until it is stopped. Returns their names.
async fn write(target: Target, writer: usize, ended: Arc<AtomicBool>) -> Vec<String> {
    let mut connection = target.connect().await.unwrap();
    let mut names = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let name = format!("w{writer}-{}", names.len());
        let (code, answer) = send(&mut connection, Method::POST, WIDGETS, JSON, &widget(&name, &json!({}))).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
        let path = format!("{WIDGETS}/{name}");
        let label = json!({"metadata": {"labels": {"changed": "yes"}}});
        let (code, answer) = send(&mut connection, Method::PATCH, &path, MERGE, &label).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        names.push(name);
    }
    names
}

/// Watches, and resumes after the end of a watch, until the wanted numbers of objects have been added and changed.
/// Returns the events of each object.
async fn follow(
    target: Target,
    mut version: u64,
    mut wanted: Receiver<Option<usize>>,
) -> BTreeMap<String, Vec<String>> {
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    loop {
        let mut connection = target.connect().await.unwrap();
        let path = format!("{WIDGETS}?watch=1&resourceVersion={version}");
        let watch = connection.get(&path, JSON).await.unwrap();
        assert_eq!(watch.status(), StatusCode::OK);
        let (mut body, mut text) = (watch.into_body(), Vec::new());
        loop {
            let complete = |count: usize| seen.values().filter(|events| events.len() == 2).count() == count;
            if wanted.borrow_and_update().is_some_and(complete) {
                return seen;
            }
            let frame = tokio::select! {
                frame = body.frame() => frame,
                _ = wanted.changed() => continue,
            };
            let Some(Ok(frame)) = frame else { break };
            text.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                let object = &event["object"];
                let at: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                assert!(at > version, "events come once and in order: {event}");
                version = at;
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                seen.entry(name)
                    .or_default()
                    .push(event["type"].as_str().unwrap().to_owned());
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_lost_or_outdated_while_a_crd_changes() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    define(&target, &schema(0)).await;
    let ended = Arc::new(AtomicBool::new(false));
    let (finish, wanted) = tokio::sync::watch::channel(None);
    let list = get(&target, WIDGETS).await.1;
    let version: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|_| tokio::spawn(follow(target.clone(), version, wanted.clone())))
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(target.clone(), writer, Arc::clone(&ended))))
        .collect();

    for round in 1..ROUNDS {
        let changed = json!({"spec": {"versions": crd(&schema(round))["spec"]["versions"]}});
        let (code, answer) = ask(&target, Method::PATCH, CRD, MERGE, &changed).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        // A client that has seen the change of the CRD sees its effect in everything that is written, read and listed
        // from now on.
        let field = format!("round{round}");
        let name = format!("checked{round}");
        let (code, made) = ask(&target, Method::POST, WIDGETS, JSON, &widget(&name, &json!({}))).await;
        assert_eq!(
            (code, &made["spec"][&field]),
            (StatusCode::CREATED, &json!(round)),
            "{made}"
        );
        let first = get(&target, &format!("{WIDGETS}/checked1")).await.1;
        assert_eq!(first["spec"][&field], json!(round), "{first}");
    }
    ended.store(true, Ordering::Relaxed);
    let mut names = Vec::new();
    for writer in writers {
        names.extend(writer.await.unwrap());
    }
    finish.send(Some(names.len())).unwrap();
    for watcher in watchers {
        let seen = tokio::time::timeout(WAIT_TIMEOUT, watcher).await.unwrap().unwrap();
        for name in &names {
            assert_eq!(seen[name], ["ADDED", "MODIFIED"], "{name}");
        }
    }
}
