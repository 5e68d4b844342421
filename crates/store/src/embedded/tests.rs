//! The engine from open to close, on a real directory.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::{Config, Store, Transaction, Value};

async fn put(store: &Store<()>, key: &str, text: &str) -> crate::Revision {
    let value = Value::plain(text.as_bytes().to_vec());
    store.commit(Transaction::new().put(key, value)).await.unwrap().revision
}

#[tokio::test]
async fn what_was_written_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    assert_eq!(store.revision(), 1);
    assert_eq!(put(&store, "/registry/pods/a/x", "one").await, 2);
    assert_eq!(put(&store, "/registry/pods/a/x", "two").await, 3);
    store
        .commit(Transaction::new().delete("/registry/pods/a/x"))
        .await
        .unwrap();
    put(&store, "/registry/pods/a/y", "three").await;
    store.close().await.unwrap();
    drop(store);

    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    assert_eq!(store.revision(), 5);
    let snapshot = store.snapshot();
    assert!(snapshot.get(b"/registry/pods/a/x").is_none());
    assert_eq!(snapshot.get(b"/registry/pods/a/y").unwrap().bytes(), "three");
    let mut watcher = store.watch("/registry/pods/", 1).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = watcher.try_next().unwrap() {
        seen.push((
            event.revision(),
            event.kind(),
            event.current().bytes().clone(),
            event.previous().is_some(),
        ));
    }
    use crate::EventKind::{Delete, Put};
    assert_eq!(
        seen,
        [
            (2, Put, "one".into(), false),
            (3, Put, "two".into(), true),
            (4, Delete, "two".into(), true),
            (5, Put, "three".into(), false)
        ]
    );
    assert_eq!(
        store
            .snapshot_at(3)
            .unwrap()
            .get(b"/registry/pods/a/x")
            .unwrap()
            .bytes(),
        "two"
    );
}

#[tokio::test]
async fn concurrent_creates_of_one_key_have_one_winner() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(Config::new(directory.path()), ()).unwrap());
    let create = |_| {
        let store = store.clone();
        async move {
            store
                .commit(Transaction::new().guard("/k", 0).put("/k", Value::plain("v")))
                .await
        }
    };
    let tasks: Vec<_> = (0..32).map(|n| tokio::spawn(create(n))).collect();
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => won += 1,
            Err(CommitError::GuardFailed {
                expected: 0,
                current: 2,
                ..
            }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(won, 1);
    store.wait_for(2, Duration::ZERO).await.unwrap();
}
