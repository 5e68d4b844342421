//! The store as its users see it: one engine below, one state above it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::embedded::Embedded;
use crate::engine::Engine;
use crate::entry::Indexer;
use crate::error::{CommitError, HistoryError, OpenError, ReadError, StorageError};
use crate::key::{Key, Revision};
use crate::state::{HistoryLimits, Snapshot, State};
use crate::transaction::{Committed, Guard, Transaction};
use crate::watch::{Scope, Watcher};

/// How to open an embedded store.
#[derive(Clone)]
pub struct Config {
    /// The data directory; made if it is absent. The store keeps `store.db` (with `-wal` and `-shm` beside it),
    /// `acknowledged` and `lock` there and leaves everything else alone.
    pub directory: PathBuf,
    /// Bounds of the event history.
    pub history: HistoryLimits,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Whether a damaged store is opened with what can still be read of it, instead of not at all.
    pub accept_data_loss: bool,
    /// Whether a write is acknowledged only after it is on the disk. Without it a crash of the machine may lose or damage the
    /// store; a crash of the process loses nothing.
    pub sync: bool,
}

impl Config {
    /// A store in this directory, with the usual history and the system's clock.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            history: HistoryLimits::default(),
            clock: Arc::new(SystemClock),
            accept_data_loss: false,
            sync: true,
        }
    }
}

/// What one of several stores does of a transaction.
struct Part<X: Indexer> {
    transaction: Transaction<X>,
    /// Which operations of the whole transaction its own are.
    places: Vec<usize>,
}

impl<X: Indexer> Default for Part<X> {
    fn default() -> Self {
        Self {
            transaction: Transaction::new(),
            places: Vec::new(),
        }
    }
}

/// A revisioned key-value store: durable guarded writes, reads and watches from memory.
///
/// Some keys may be in stores of their own, each with a counter of revisions of its own, as `--etcd-servers-overrides` says:
/// [`Store::of`] leads there. What has to do with one key or prefix goes by that; snapshots hold the keys of all, and a commit does
/// what each store is to do, one after the other.
pub struct Store<X: Indexer> {
    state: Arc<State<X>>,
    engine: Box<dyn Engine<X>>,
    /// By what their keys begin with.
    elsewhere: Vec<(Key, Self)>,
}

impl<X: Indexer> Store<X> {
    /// Opens the embedded store of a directory and loads it.
    ///
    /// # Errors
    /// Where the directory cannot be used, is in use by another process, or holds what cannot be read.
    pub fn open(config: Config, indexer: X) -> Result<Self, OpenError> {
        let (state, engine) = Embedded::open(config, indexer)?;
        Ok(Self {
            state,
            engine: Box::new(engine),
            elsewhere: Vec::new(),
        })
    }

    /// A store on an engine that publishes to `state`.
    pub fn with_engine(state: Arc<State<X>>, engine: Box<dyn Engine<X>>) -> Self {
        Self {
            state,
            engine,
            elsewhere: Vec::new(),
        }
    }

    /// The same with stores of their own for some keys, by what these begin with: whole tables.
    pub fn with_elsewhere(mut self, elsewhere: Vec<(Key, Self)>) -> Self {
        self.elsewhere = elsewhere;
        self
    }

    /// The store that holds the keys that begin so.
    pub fn of(&self, key: &[u8]) -> &Self {
        let home = self.elsewhere.iter().find(|(prefix, _)| key.starts_with(prefix));
        home.map_or(self, |(_, store)| store)
    }

    /// The stores beside this one, by what their keys begin with.
    pub fn elsewhere(&self) -> &[(Key, Self)] {
        &self.elsewhere
    }

    /// Does a transaction; returns when it is durable and every read from then on shows it.
    ///
    /// # Errors
    /// [`CommitError`]; on each of them nothing was changed.
    pub async fn commit(&self, transaction: Transaction<X>) -> Result<Committed<X>, CommitError> {
        let transaction = match self.engine.is_shared() {
            true => self.state.complete(transaction, &self.newest()),
            false => transaction,
        };
        transaction.check()?;
        if self.elsewhere.is_empty() {
            return self.engine.commit(transaction).await;
        }
        Box::pin(self.commit_each(transaction)).await
    }

    /// Does what each store is to do: this one first, which holds the quotas that a write takes from. If another one refuses, what
    /// was taken stays so until it is counted, as in the reference, which has no transactions of several keys.
    async fn commit_each(&self, transaction: Transaction<X>) -> Result<Committed<X>, CommitError> {
        let mut parts: Vec<Part<X>> = (0..=self.elsewhere.len()).map(|_| Part::default()).collect();
        let home = |key: &Key| {
            let elsewhere = self.elsewhere.iter().position(|(prefix, _)| key.starts_with(prefix));
            elsewhere.map_or(0, |at| at + 1)
        };
        let stores = || std::iter::once(self).chain(self.elsewhere.iter().map(|(_, store)| store));
        for guard in transaction.guards {
            if let Some(part) = parts.get_mut(home(&guard.key)) {
                part.transaction.guards.push(guard);
            }
        }
        let mut entries: Vec<_> = transaction.ops.iter().map(|_| None).collect();
        for (place, op) in transaction.ops.into_iter().enumerate() {
            if let Some(part) = parts.get_mut(home(op.key())) {
                part.transaction.ops.push(op);
                part.places.push(place);
            }
        }
        for (store, part) in stores().zip(&parts).filter(|(_, part)| part.places.is_empty()) {
            store.check_guards(&part.transaction.guards)?;
        }
        let mut revision = 0;
        for (store, part) in stores().zip(parts).filter(|(_, part)| !part.places.is_empty()) {
            let committed = store.engine.commit(part.transaction).await?;
            revision = committed.revision;
            for (place, made) in part.places.into_iter().zip(committed.entries) {
                if let Some(entry) = entries.get_mut(place) {
                    *entry = made;
                }
            }
        }
        Ok(Committed { revision, entries })
    }

    /// Whether guards hold where nothing is to be changed, as far as it is known here.
    fn check_guards(&self, guards: &[Guard]) -> Result<(), CommitError> {
        if guards.is_empty() {
            return Ok(());
        }
        let newest = self.engine.ahead(self.state.snapshot());
        for guard in guards {
            let current = newest.get(&guard.key).map_or(0, |entry| entry.mod_revision());
            if current != guard.expected {
                return Err(CommitError::GuardFailed {
                    key: guard.key.clone(),
                    expected: guard.expected,
                    current,
                });
            }
        }
        Ok(())
    }

    /// The most recent state: it shows every write that was acknowledged, by whichever server, before this was called; but of other
    /// stores what is at hand.
    ///
    /// # Errors
    /// [`ReadError`], where others write to the same engine and it cannot say what is the most recent.
    pub async fn latest(&self) -> Result<Snapshot<X>, ReadError> {
        if let Some(current) = self.engine.current() {
            current.await?;
        }
        Ok(self.snapshot())
    }

    /// As [`Store::latest`], also of the store that holds the keys that begin with `key`.
    ///
    /// # Errors
    /// As [`Store::latest`].
    pub async fn latest_with(&self, key: &[u8]) -> Result<Snapshot<X>, ReadError> {
        let home = self.of(key);
        if !std::ptr::eq(home, self)
            && let Some(current) = home.engine.current()
        {
            current.await?;
        }
        self.latest().await
    }

    /// Whether others may write to the same engine, so that [`Store::snapshot`] may be older than [`Store::latest`].
    pub fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    /// What keeps the store from working.
    ///
    /// # Errors
    /// In words for the log.
    pub fn health(&self) -> Result<(), String> {
        if self.is_failing() {
            self.engine.health()?;
            return Err("the last write to the store failed".to_owned());
        }
        self.engine.health()
    }

    /// What keeps clients from being served well.
    ///
    /// # Errors
    /// In words for the log.
    pub fn readiness(&self) -> Result<(), String> {
        self.engine.readiness()
    }

    /// The current revision.
    pub fn revision(&self) -> Revision {
        self.state.revision()
    }

    /// Whether the last attempt to store something failed; reads go on nevertheless.
    pub fn is_failing(&self) -> bool {
        self.state.is_failing()
    }

    /// The oldest revision that can be read at or watched from.
    pub fn oldest_revision(&self) -> Revision {
        self.state.compacted()
    }

    /// The current state, without touching the disk.
    pub fn snapshot(&self) -> Snapshot<X> {
        let snapshot = self.state.snapshot();
        match self.elsewhere.is_empty() {
            true => snapshot,
            false => snapshot.beside(self.elsewhere.iter().map(|(of, store)| (of.clone(), store.snapshot()))),
        }
    }

    /// The current state, with what is known of it beyond: what to judge a write by, whose guards tell whether it still is
    /// so. Not for those who read.
    pub fn newest(&self) -> Snapshot<X> {
        let newest = self.engine.ahead(self.state.snapshot());
        match self.elsewhere.is_empty() {
            true => newest,
            false => newest.beside(self.elsewhere.iter().map(|(of, store)| (of.clone(), store.newest()))),
        }
    }

    /// The state exactly as it was at `revision`. The first snapshot of a past revision takes about a microsecond for
    /// each event since; those read lately are at hand.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] or [`HistoryError::Future`].
    pub fn snapshot_at(&self, revision: Revision) -> Result<Snapshot<X>, HistoryError> {
        self.state.snapshot_at(revision)
    }

    /// Keeps a snapshot at hand that somebody will ask for again by its revision, such as for the next page of a list. It
    /// is let go when its revision leaves the history, or when many others were kept since.
    pub fn keep(&self, snapshot: &Snapshot<X>) {
        self.state.keep(snapshot);
    }

    /// Begins the history anew, for this process: what came before the current revision can be neither read nor watched
    /// from. For what is written before the server serves, whose beginning no watcher can have seen.
    pub fn begin_history(&self) {
        self.state.begin_history();
    }

    /// How many events there were of the table whose keys begin with `prefix`, of those that this process has seen.
    pub fn events_of(&self, prefix: &[u8]) -> u64 {
        self.state.events_of(prefix)
    }

    /// All events after revision `after` of keys that begin with `prefix`, once each, in order.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] where events after `after` are gone; [`HistoryError::Closed`].
    pub fn watch(&self, prefix: impl Into<Key>, after: Revision) -> Result<Watcher<X>, HistoryError> {
        Watcher::new(&self.state, Scope::Prefix(prefix.into()), after)
    }

    /// The current state, and all events after it of keys that begin with `prefix`: what begins to follow a prefix takes
    /// both here, since the history may begin anew between the two.
    ///
    /// # Errors
    /// [`HistoryError::Closed`]
    pub fn snapshot_and_watch(&self, prefix: impl Into<Key>) -> Result<(Snapshot<X>, Watcher<X>), HistoryError> {
        let prefix = prefix.into();
        loop {
            let snapshot = self.snapshot();
            match self.watch(prefix.clone(), snapshot.revision()) {
                Ok(watcher) => return Ok((snapshot, watcher)),
                // The history begins behind this snapshot by now, and not behind the current one.
                Err(HistoryError::Compacted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// All events after revision `after` of one key.
    ///
    /// # Errors
    /// As [`Store::watch`].
    pub fn watch_key(&self, key: impl Into<Key>, after: Revision) -> Result<Watcher<X>, HistoryError> {
        Watcher::new(&self.state, Scope::Key(key.into()), after)
    }

    /// Waits until the store is at `revision` or later, and returns the state then.
    ///
    /// # Errors
    /// [`HistoryError::Future`] if that has not come about within `timeout`; [`HistoryError::Closed`].
    pub async fn wait_for(&self, revision: Revision, timeout: Duration) -> Result<Snapshot<X>, HistoryError> {
        let snapshot = self.snapshot();
        if snapshot.revision() >= revision {
            return Ok(snapshot);
        }
        self.engine.want(revision);
        let mut revisions = self.state.subscribe();
        let reached = revisions.wait_for(|current| *current >= revision);
        match tokio::time::timeout(timeout, reached).await {
            Ok(Ok(_)) => Ok(self.snapshot()),
            Ok(Err(_)) => Err(HistoryError::Closed),
            Err(_) => Err(HistoryError::Future {
                requested: revision,
                current: self.revision(),
            }),
        }
    }

    /// Finishes the writes that wait, ends the watches and lets go of the directory. Reads still work.
    ///
    /// # Errors
    /// If the last checkpoint failed; what was acknowledged is durable all the same.
    pub async fn close(&self) -> Result<(), StorageError> {
        for (_, store) in &self.elsewhere {
            store.engine.close().await?;
        }
        self.engine.close().await
    }
}
