//! Snapshots of a running server's store, and copies from one data directory to another.

use std::path::Path;
use std::process::Output;

use bytes::Bytes;
use conformance::{Binary, Server, Target};
use http::Method;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn holdfast(binary: &Binary, arguments: &[&str]) -> Output {
    binary.command().args(arguments).output().unwrap()
}

fn done(binary: &Binary, arguments: &[&str]) -> String {
    let output = holdfast(binary, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

fn rejected(binary: &Binary, arguments: &[&str]) -> String {
    let output = holdfast(binary, arguments);
    assert!(!output.status.success(), "{arguments:?} is done");
    String::from_utf8(output.stderr).unwrap()
}

async fn create(target: &Target, name: &str) {
    let object = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
    let mut connection = target.connect().await.unwrap();
    connection
        .send(Method::POST, CONFIG_MAPS, "application/json", object.into())
        .await
        .unwrap();
}

/// Returns the list: its revision, and the objects.
async fn listed(target: &Target) -> (u64, serde_json::Value) {
    let mut connection = target.connect().await.unwrap();
    let body = connection
        .send(Method::GET, CONFIG_MAPS, "", Bytes::new())
        .await
        .unwrap();
    let mut list: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    (revision, list["items"].take())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn snapshot_saved_during_writes_is_restored_completely() {
    // The ConfigMap with the authority of the server changes after a restore.
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    for name in ["one", "two"] {
        create(&target, name).await;
    }
    let expected = listed(&target).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    let data = server.data_dir();
    let said = done(
        server.binary(),
        &["snapshot", "save", text(&file), "--data-dir", text(&data)],
    );
    assert!(said.contains(" objects at revision "), "{said}");
    create(&target, "later").await;
    let said = rejected(
        server.binary(),
        &["snapshot", "save", text(&file), "--data-dir", text(&data)],
    );
    assert!(said.contains("already exists"), "{said}");
    done(server.binary(), &["snapshot", "verify", text(&file)]);
    done(server.binary(), &["snapshot", "verify", text(&data)]);
    let said = rejected(
        server.binary(),
        &["snapshot", "restore", text(&file), "--data-dir", text(&data)],
    );
    assert!(said.contains("in use"), "{said}");

    let mut other = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    other.end();
    let place = other.data_dir();
    let said = rejected(
        other.binary(),
        &["snapshot", "restore", text(&file), "--data-dir", text(&place)],
    );
    assert!(said.contains("store.db already exists"), "{said}");
    for name in ["store.db", "acknowledged"] {
        std::fs::remove_file(place.join(name)).unwrap();
    }
    done(
        other.binary(),
        &["snapshot", "restore", text(&file), "--data-dir", text(&place)],
    );
    other.start_anew(&[]).unwrap();
    let (revision, objects) = listed(&Target::new(&other).unwrap()).await;
    assert_eq!(objects, expected.1);
    let newest = listed(&target).await.0;
    assert!(revision > newest, "no revision is given away twice");
}

#[tokio::test]
async fn stopped_store_is_copied_and_a_second_copy_is_harmless() {
    let mut server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    create(&target, "one").await;
    let expected = listed(&target).await;
    let mut other = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    other.end();
    let (from, to) = (server.data_dir(), other.data_dir());
    let copy = ["copy", "--from", text(&from), "--to", text(&to)];
    assert!(rejected(server.binary(), &copy).contains("in use"));
    server.end();
    assert!(rejected(server.binary(), &copy).contains("already exists"));
    for name in ["store.db", "acknowledged"] {
        std::fs::remove_file(to.join(name)).unwrap();
    }
    assert!(done(server.binary(), &copy).contains("copied "));
    assert!(done(server.binary(), &copy).contains("already"));
    other.start_anew(&["--controllers="]).unwrap();
    assert_eq!(listed(&Target::new(&other).unwrap()).await.1, expected.1);
}
