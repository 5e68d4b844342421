//! Tests of watches: every event once and in order, no others, and no wake-up for writes to other prefixes.
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use holdfast_store::{
    Config, Event, EventKind, HistoryError, HistoryLimits, Revision, Store, Transaction, Value, Watcher,
};
use tempfile::TempDir;

struct Opened {
    store: Store<()>,
    _directory: TempDir,
}

impl std::ops::Deref for Opened {
    type Target = Store<()>;

    fn deref(&self) -> &Store<()> {
        &self.store
    }
}

impl Opened {
    async fn put(&self, key: &str) -> Revision {
        self.store
            .commit(Transaction::new().put(key, Value::plain("value")))
            .await
            .unwrap()
            .revision
    }

    async fn delete(&self, key: &str) -> Revision {
        self.store
            .commit(Transaction::new().delete(key))
            .await
            .unwrap()
            .revision
    }
}

fn open() -> Opened {
    open_with(HistoryLimits::default())
}

fn open_with(history: HistoryLimits) -> Opened {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(
        Config {
            history,
            ..Config::new(directory.path())
        },
        (),
    )
    .unwrap();
    Opened {
        store,
        _directory: directory,
    }
}

fn describe(event: &Event<()>) -> (Revision, EventKind, String) {
    (event.revision(), event.kind(), event.key().to_string())
}

fn drain(watcher: &mut Watcher<()>) -> Vec<Revision> {
    std::iter::from_fn(|| watcher.try_next().unwrap())
        .map(|event| event.revision())
        .collect()
}

/// Returns true if the watcher has no event now.
fn waits(watcher: &mut Watcher<()>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(pin!(watcher.next()).poll(&mut context), Poll::Pending)
}

#[tokio::test]
async fn a_watch_delivers_its_prefix_from_the_revision_on() {
    let store = open();
    for key in [
        "/registry/pods/a/x",
        "/registry/pods/b/x",
        "/registry/secrets/a/x",
        "/registry/pods/a/y",
    ] {
        store.put(key).await;
    }
    store.delete("/registry/pods/a/x").await;

    let mut namespace = store.watch("/registry/pods/a/", 2).unwrap();
    assert_eq!(
        describe(&namespace.next().await.unwrap()),
        (5, EventKind::Put, "/registry/pods/a/y".into())
    );
    let delete = namespace.next().await.unwrap();
    assert_eq!(describe(&delete), (6, EventKind::Delete, "/registry/pods/a/x".into()));
    assert_eq!(delete.previous().unwrap().mod_revision(), 2);
    assert!(waits(&mut namespace));

    assert_eq!(drain(&mut store.watch("/registry/pods/", 1).unwrap()), [2, 3, 5, 6]);
    assert_eq!(drain(&mut store.watch("/registry/", 1).unwrap()), [2, 3, 4, 5, 6]);
    assert_eq!(drain(&mut store.watch("/registry/p", 1).unwrap()), [2, 3, 5, 6]);
    assert_eq!(drain(&mut store.watch("/registry/pods/a", 5).unwrap()), [6]);
    assert_eq!(drain(&mut store.watch_key("/registry/pods/a/x", 1).unwrap()), [2, 6]);
    assert_eq!(drain(&mut store.watch_key("/registry/pods/a", 1).unwrap()), []);
}

#[tokio::test]
async fn a_waiting_watch_is_woken_by_its_own_events_alone() {
    let store = open();
    let mut pods = store.watch("/registry/pods/", 1).unwrap();
    let mut namespace = store.watch("/registry/pods/a/", 1).unwrap();
    let mut within_a_segment = store.watch("/registry/pods/a", 1).unwrap();
    let mut key = store.watch_key("/registry/pods/a/x", 1).unwrap();
    let mut everything = store.watch("/", 1).unwrap();
    let mut all = [
        &mut pods,
        &mut namespace,
        &mut within_a_segment,
        &mut key,
        &mut everything,
    ];

    for (written, expected) in [
        ("/registry/secrets/a/x", [false, false, false, false, true]),
        // One prefix ends within a segment: its watcher wakes with the whole table, and filters the events itself.
        ("/registry/pods/b/x", [true, false, true, false, true]),
        ("/registry/pods/a/y", [true, true, true, false, true]),
        ("/registry/pods/a/x", [true, true, true, true, true]),
    ] {
        let flags: [Arc<Flag>; 5] = Default::default();
        let mut waiting = all.each_mut().map(|watcher| Box::pin(watcher.next()));
        for (future, flag) in waiting.iter_mut().zip(&flags) {
            let waker = Waker::from(flag.clone());
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        store.put(written).await;
        drop(waiting);
        assert_eq!(flags.map(|flag| flag.0.load(Ordering::Acquire)), expected, "{written}");
        for watcher in &mut all {
            drain(watcher);
        }
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

#[tokio::test]
async fn progress_covers_delivered_and_excludes_pending_events() {
    let store = open();
    let mut watcher = store.watch("/registry/pods/", 1).unwrap();
    store.put("/registry/pods/a/x").await;
    store.put("/registry/secrets/a/x").await;
    let transaction = Transaction::new()
        .put("/registry/pods/a/y", Value::plain(""))
        .put("/registry/pods/a/z", Value::plain(""));
    let both = store.commit(transaction).await.unwrap().revision;
    store.put("/registry/secrets/a/y").await;

    assert_eq!(watcher.progress(), 1);
    assert_eq!(watcher.next().await.unwrap().revision(), 2);
    assert_eq!(watcher.progress(), 1, "more of revision 2 could follow");
    assert_eq!(watcher.next().await.unwrap().revision(), both);
    assert_eq!(watcher.progress(), both - 1, "half of the transaction is delivered");
    assert_eq!(watcher.next().await.unwrap().revision(), both);
    assert!(watcher.try_next().unwrap().is_none());
    assert_eq!(watcher.progress(), store.revision());
}

#[tokio::test]
async fn a_watch_from_the_future_begins_there() {
    let store = open();
    let mut watcher = store.watch("/registry/pods/", 3).unwrap();
    assert!(waits(&mut watcher));
    for _ in 0..4 {
        store.put("/registry/pods/a/x").await;
    }
    assert_eq!(drain(&mut watcher), [4, 5]);
}

#[tokio::test]
async fn a_watch_that_falls_behind_the_history_is_expired() {
    let store = open_with(HistoryLimits {
        bytes: 10_000,
        ..HistoryLimits::default()
    });
    let mut slow = store.watch("/registry/pods/", 1).unwrap();
    for _ in 0..200 {
        store.put("/registry/pods/a/x").await;
    }
    let oldest = store.oldest_revision();
    assert!(oldest > 2, "{oldest}");
    assert_eq!(
        slow.next().await.unwrap_err(),
        HistoryError::Compacted { requested: 1, oldest }
    );
}

#[tokio::test]
async fn an_idle_watch_is_not_expired_by_the_events_of_others() {
    let store = open_with(HistoryLimits {
        bytes: 10_000,
        ..HistoryLimits::default()
    });
    let mut namespace = store.watch("/registry/pods/a/", 1).unwrap();
    let mut everything = store.watch_key("/registry", 1).unwrap();
    for _ in 0..200 {
        store.put("/registry/pods/b/x").await;
    }
    assert!(store.oldest_revision() > 2);
    let put = store.put("/registry/pods/a/x").await;
    assert_eq!(drain(&mut namespace), [put]);
    assert_eq!(drain(&mut everything), []);
    assert_eq!((namespace.progress(), everything.progress()), (put, put));
}

#[tokio::test]
async fn closing_the_store_ends_watches_after_their_events() {
    let store = open();
    let mut watcher = store.watch("/registry/pods/", 1).unwrap();
    let mut waiting = store.watch("/registry/pods/", 1).unwrap();
    let waiting = tokio::spawn(async move {
        while waiting.next().await.is_ok() {}
        waiting.next().await.unwrap_err()
    });
    store.put("/registry/pods/a/x").await;
    store.close().await.unwrap();
    assert_eq!(waiting.await.unwrap(), HistoryError::Closed);
    assert_eq!(watcher.next().await.unwrap().revision(), 2);
    assert_eq!(watcher.next().await.unwrap_err(), HistoryError::Closed);
    assert_eq!(store.watch("/registry/pods/", 2).unwrap_err(), HistoryError::Closed);
    assert_eq!(store.snapshot().len(), 1, "reads go on");
    let late = store.commit(Transaction::new().delete("/registry/pods/a/x")).await;
    assert!(matches!(late, Err(holdfast_store::CommitError::Closed)));
}

#[tokio::test]
async fn waiting_for_a_revision_ends_when_it_comes_or_in_time() {
    let store = open();
    let (snapshot, _) = tokio::join!(store.wait_for(3, Duration::from_secs(60)), async {
        store.put("/a").await;
        store.put("/a").await
    });
    assert!(snapshot.unwrap().revision() >= 3);
    let never = store.wait_for(9, Duration::ZERO).await;
    assert_eq!(
        never.unwrap_err(),
        HistoryError::Future {
            requested: 9,
            current: 3
        }
    );
}
