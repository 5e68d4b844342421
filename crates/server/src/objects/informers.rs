//! Informers of a prefix of the store: first all objects, then each change, for as long as the server runs.
//!
//! An informer never ends and never misses a change. State and watch are opened together before the task is spawned, so
//! that no change before its first poll is lost. If the history is compacted past it, it restarts from the current
//! state and receives the differences from the last state that it received. So its knowledge never goes back.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_store::{EventKind, HistoryError, Key, Watcher};
use holdfast_value::SmolStr;

use crate::objects::{Entry, Objects, Snapshot, Store};
use crate::runtime::background::Background;
use crate::runtime::shutdown::Shutdown;

/// Maximum number of changes that are processed together before the task yields.
const RUN: usize = 512;

/// Handler of the changes that an informer receives.
pub(crate) trait InformerHandler: Send + 'static {
    /// Applies differences, in the order of revisions. Afterwards the informer has the state of `revision`.
    fn apply(&mut self, differences: &[Difference], revision: u64);
}

/// Difference between the current state of a key and the state last given to the informer.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// Entry before the change.
    pub(crate) before: Option<Arc<Entry>>,
    /// Current entry.
    pub(crate) now: Option<Arc<Entry>>,
}

/// Keys that an informer watches, with its name in the health of the server.
pub(crate) struct InformerScope {
    /// Prefix of the keys.
    pub(crate) prefix: SmolStr,
    /// Health check that fails if the informer ends.
    pub(crate) check: &'static str,
}

/// Starts an informer: gives `handler` the current state, and each later change in a task that ends with the store.
pub(crate) fn start(
    store: &Arc<Store>,
    background: &Background,
    shutdown: &Shutdown,
    scope: InformerScope,
    handler: impl InformerHandler,
) {
    let InformerScope { prefix, check } = scope;
    let mut informer = Informer {
        store: Arc::clone(store),
        prefix: prefix.clone(),
        known: HashMap::new(),
        handler,
    };
    // If the store is closed, there are no more changes.
    let Ok(watcher) = informer.begin() else { return };
    let work = async move { informer.run(watcher).await };
    background.spawn(check, prefix, shutdown, work);
}

struct Informer<H> {
    store: Arc<Store>,
    prefix: SmolStr,
    /// Last state that the informer received.
    known: HashMap<Key, Arc<Entry>>,
    handler: H,
}

impl<H: InformerHandler> Informer<H> {
    async fn run(mut self, mut watcher: Watcher<Objects>) {
        loop {
            let broken = self.changes(&mut watcher).await;
            if broken == HistoryError::Closed {
                return;
            }
            tracing::warn!(prefix = %self.prefix, %broken, "informer missed changes and reads all objects again");
            match self.begin() {
                Ok(next) => watcher = next,
                Err(_) => return,
            }
        }
    }

    /// Passes on the current objects; the watcher gives the later changes.
    fn begin(&mut self) -> Result<Watcher<Objects>, HistoryError> {
        let (snapshot, watcher) = {
            let store = self.store.for_key(self.prefix.as_bytes());
            store.snapshot_and_watch(self.prefix.as_str())?
        };
        let differences = self.differences(&snapshot);
        self.handler.apply(&differences, snapshot.revision());
        Ok(watcher)
    }

    fn differences(&mut self, snapshot: &Snapshot) -> Vec<Difference> {
        let mut gone = std::mem::take(&mut self.known);
        let mut differences = Vec::new();
        for entry in snapshot.range(self.prefix.as_bytes()) {
            let before = gone.remove(entry.key());
            self.known.insert(entry.key().clone(), Arc::clone(entry));
            let same = |before: &Arc<Entry>| before.mod_revision() == entry.mod_revision();
            if !before.as_ref().is_some_and(same) {
                let now = Some(Arc::clone(entry));
                differences.push(Difference { before, now });
            }
        }
        differences.extend(gone.into_values().map(|before| Difference {
            before: Some(before),
            now: None,
        }));
        differences
    }

    /// Passes on changes for as long as possible; changes that are already available are passed on together.
    async fn changes(&mut self, watcher: &mut Watcher<Objects>) -> HistoryError {
        loop {
            let mut next = match watcher.next().await {
                Ok(event) => Some(event),
                Err(broken) => return broken,
            };
            let (mut differences, mut revision, mut broken) = (Vec::new(), 0, None);
            while let Some(event) = next {
                revision = event.revision();
                let now = (event.kind() == EventKind::Put).then(|| Arc::clone(event.current()));
                differences.push(self.difference(event.key(), now));
                if differences.len() == RUN {
                    break;
                }
                next = watcher.try_next().unwrap_or_else(|error| {
                    broken = Some(error);
                    None
                });
            }
            self.handler.apply(&differences, revision);
            if let Some(broken) = broken {
                return broken;
            }
        }
    }

    fn difference(&mut self, key: &Key, now: Option<Arc<Entry>>) -> Difference {
        let before = match &now {
            Some(entry) => self.known.insert(key.clone(), Arc::clone(entry)),
            None => self.known.remove(key),
        };
        Difference { before, now }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use arc_swap::ArcSwap;
    use holdfast_resource::Registry;
    use holdfast_store::{Config, HistoryLimits, Transaction, Value};

    use super::*;

    const PREFIX: &str = "/registry/configmaps/";

    /// Records the differences.
    #[derive(Default)]
    struct Notes(Vec<String>);

    impl InformerHandler for Notes {
        fn apply(&mut self, differences: &[Difference], _revision: u64) {
            let text = |entry: &Option<Arc<Entry>>| {
                let bytes = entry.as_ref().map(|entry| entry.bytes().to_vec());
                String::from_utf8(bytes.unwrap_or_default()).unwrap()
            };
            let reported = differences
                .iter()
                .map(|difference| format!("{}>{}", text(&difference.before), text(&difference.now)));
            self.0.extend(reported);
        }
    }

    fn informer(store: &Arc<Store>) -> Informer<Notes> {
        Informer {
            store: Arc::clone(store),
            prefix: PREFIX.into(),
            known: HashMap::new(),
            handler: Notes::default(),
        }
    }

    fn store(folder: &tempfile::TempDir) -> Arc<Store> {
        let registry = Arc::new(ArcSwap::from_pointee(Registry::default()));
        let config = Config {
            history: HistoryLimits {
                bytes: 1_000,
                ..HistoryLimits::default()
            },
            ..Config::new(folder.path())
        };
        Arc::new(Store::open(config, Objects::new(registry)).unwrap())
    }

    async fn put(store: &Store, name: &str, text: &str) {
        let put = Transaction::new().put(format!("{PREFIX}{name}"), Value::plain(text.as_bytes().to_vec()));
        store.commit(put).await.unwrap();
    }

    #[tokio::test]
    async fn informer_that_missed_changes_gets_each_difference_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        for name in ["a", "b", "c"] {
            put(&store, name, "1").await;
        }
        let mut informer = informer(&store);
        let mut watcher = informer.begin().unwrap();
        assert_eq!(informer.handler.0, [">1", ">1", ">1"]);
        store
            .commit(Transaction::new().delete(format!("{PREFIX}a")))
            .await
            .unwrap();
        put(&store, "b", "2").await;
        put(&store, "d", "1").await;
        // Enough writes that the history is compacted past the earlier ones.
        for n in 0..20 {
            put(&store, "e", &format!("{n:0>200}")).await;
        }
        let broken = informer.changes(&mut watcher).await;
        assert!(matches!(broken, HistoryError::Compacted { .. }), "{broken}");
        informer.handler.0.clear();
        informer.begin().unwrap();
        let last = format!(">{:0>200}", 19);
        assert_eq!(informer.handler.0, ["1>2", ">1", &last, "1>"]);
    }

    #[tokio::test]
    async fn change_before_the_first_poll_is_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        let mut informer = informer(&store);
        let mut watcher = informer.begin().unwrap();
        put(&store, "a", "1").await;
        store.begin_history();
        let changes = informer.changes(&mut watcher);
        assert!(futures_util::FutureExt::now_or_never(changes).is_none(), "it goes on");
        assert_eq!(informer.handler.0, [">1"]);
    }
}
