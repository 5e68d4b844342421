//! Tests many concurrent writers and watchers: each watcher gets every event of its prefix once and in order, and the
//! state that it builds from them equals the store's content.
use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_store::{CommitError, Config, EventKind, HistoryError, Revision, Store, Transaction, Value, Watcher};

const WRITERS: u64 = 16;
const WRITES: u64 = 150;

/// A watcher's own copy of its prefix, updated only by events.
struct Replica {
    watcher: Watcher<()>,
    contents: BTreeMap<String, (Revision, Vec<u8>)>,
    last: Revision,
}

impl Replica {
    fn from_snapshot(store: &Store<()>, prefix: &str) -> Self {
        let snapshot = store.snapshot();
        let contents = snapshot
            .range(prefix.as_bytes())
            .map(|entry| (entry.key().to_string(), (entry.mod_revision(), entry.bytes().to_vec())))
            .collect();
        let last = snapshot.revision();
        Self {
            watcher: store.watch(prefix, last).unwrap(),
            contents,
            last,
        }
    }

    /// Follows the store until it closes.
    async fn follow(mut self, store: Arc<Store<()>>) -> BTreeMap<String, (Revision, Vec<u8>)> {
        loop {
            let event = match self.watcher.next().await {
                Ok(event) => event,
                Err(HistoryError::Closed) => return self.contents,
                Err(error) => panic!("{error}"),
            };
            assert!(event.revision() >= self.last, "events go back");
            self.last = event.revision();
            assert!(store.revision() >= self.last, "an event is seen before its revision");
            let key = event.key().to_string();
            let replaced = match event.kind() {
                EventKind::Put => self
                    .contents
                    .insert(key.clone(), (event.revision(), event.current().bytes().to_vec())),
                EventKind::Delete => self.contents.remove(&key),
            };
            let previous = replaced.map(|(revision, _)| revision);
            assert_eq!(
                event.previous().map(|entry| entry.mod_revision()),
                previous,
                "an event of {key} is missing"
            );
        }
    }
}

/// Writes, deletes and races for shared keys; returns the number of acknowledged writes.
async fn write(store: Arc<Store<()>>, writer: u64) -> u64 {
    let mut changes = 0;
    for n in 0..WRITES {
        let own = format!("/registry/pods/ns{}/w{writer}-{}", writer % 4, n % 7);
        let shared = format!("/registry/secrets/ns{}/shared", n % 3);
        let current = store
            .snapshot()
            .get(shared.as_bytes())
            .map_or(0, |entry| entry.mod_revision());
        let transaction = match n % 5 {
            0 => Transaction::new().delete(own),
            1 => Transaction::new()
                .guard(shared.as_str(), current)
                .put(own, Value::plain("both"))
                .put(shared.as_str(), Value::object(format!("{{{writer}:}}"), 1)),
            _ => Transaction::new().put(own, Value::object(format!("[]{n}"), 1)),
        };
        match store.commit(transaction).await {
            Ok(committed) => {
                assert!(
                    store.snapshot().revision() >= committed.revision,
                    "a writer reads its own write"
                );
                changes += committed.entries.iter().flatten().count() as u64;
            }
            Err(CommitError::GuardFailed { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    changes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_watcher_ends_with_what_the_store_holds() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(Config::new(directory.path()), ()).unwrap());
    let prefixes = [
        "/registry/pods/",
        "/registry/pods/ns1/",
        "/registry/secrets/",
        "/registry/",
        "/registry/pods/ns2/w",
    ];
    let follow = |prefix: &'static str| {
        let replica = Replica::from_snapshot(&store, prefix);
        (prefix, tokio::spawn(replica.follow(store.clone())))
    };
    let mut replicas: Vec<_> = (0..8).flat_map(|_| prefixes).map(follow).collect();
    let mut all = store.watch("/", 1).unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(store.clone(), writer)))
        .collect();
    // More watchers start at arbitrary moments in the middle.
    for prefix in prefixes.iter().cycle().take(40) {
        tokio::task::yield_now().await;
        replicas.push(follow(prefix));
    }
    let mut changes = 0;
    for writer in writers {
        changes += writer.await.unwrap();
    }
    store.close().await.unwrap();

    let snapshot = store.snapshot();
    for (prefix, replica) in replicas {
        let held: BTreeMap<_, _> = snapshot
            .range(prefix.as_bytes())
            .map(|entry| (entry.key().to_string(), (entry.mod_revision(), entry.bytes().to_vec())))
            .collect();
        assert_eq!(replica.await.unwrap(), held, "{prefix}");
    }
    let mut events = 0;
    while all.try_next().unwrap().is_some() {
        events += 1;
    }
    assert_eq!(events, changes);
}
