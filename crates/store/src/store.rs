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
use crate::transaction::{Committed, Transaction};
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

/// A revisioned key-value store: durable guarded writes, reads and watches from memory.
pub struct Store<X: Indexer> {
    state: Arc<State<X>>,
    engine: Box<dyn Engine<X>>,
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
        })
    }

    /// A store on an engine that publishes to `state`.
    pub fn with_engine(state: Arc<State<X>>, engine: Box<dyn Engine<X>>) -> Self {
        Self { state, engine }
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
        self.engine.commit(transaction).await
    }

    /// The most recent state: it shows every write that was acknowledged, by whichever server, before this was called.
    ///
    /// # Errors
    /// [`ReadError`], where others write to the same engine and it cannot say what is the most recent.
    pub async fn latest(&self) -> Result<Snapshot<X>, ReadError> {
        if let Some(current) = self.engine.current() {
            current.await?;
        }
        Ok(self.snapshot())
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
        self.state.snapshot()
    }

    /// The current state, with what is known of it beyond: what to judge a write by, whose guards tell whether it still is
    /// so. Not for those who read.
    pub fn newest(&self) -> Snapshot<X> {
        self.engine.ahead(self.snapshot())
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
        self.engine.close().await
    }
}
