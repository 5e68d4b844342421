//! The store as its users see it: an engine and the state on top of it.

use std::sync::Arc;
use std::time::Duration;

use crate::codec::{CodecError, UntransformableValue};
use crate::completion::Completion;
use crate::engine::Engine;
use crate::entry::{Entry, Indexer, StoredForm, Value};
use crate::error::{CommitError, HistoryError, ReadError, StorageError};
use crate::key::{Key, Revision};
use crate::restore::{RestoreError, Restored};
use crate::state::{Snapshot, State, home_of};
use crate::transaction::{Committed, Guard, Transaction};
use crate::versions::KeyVersions;
use crate::watch::{Scope, Watcher};

/// The part of a transaction that one of several stores commits.
struct Part<X: Indexer> {
    transaction: Transaction<X>,
    /// Positions of its operations in the whole transaction.
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
/// Some keys may be in separate stores, each with its own revision counter, as configured by
/// `--etcd-servers-overrides`; [`Store::for_key`] returns the store of a key. Methods for one key or prefix use that store.
/// Snapshots contain the keys of all stores, and a commit runs the parts of the stores one after the other.
pub struct Store<X: Indexer> {
    state: Arc<State<X>>,
    engine: Box<dyn Engine<X>>,
    /// Additional stores with the prefixes of their keys.
    overrides: Vec<(Key, Self)>,
}

impl<X: Completion> Store<X> {
    /// Commits a transaction. Returns when it is durable and visible to every later read.
    ///
    /// # Errors
    /// [`CommitError`]. Nothing was changed, except for the parts that other stores committed before one of them
    /// failed.
    pub async fn commit(&self, transaction: Transaction<X>) -> Result<Committed<X>, CommitError> {
        let is_completed = self.engine.is_shared() || self.has_claims(&transaction);
        let transaction = match is_completed {
            true => self
                .state
                .indexer()
                .complete(transaction, &self.newest(), self.engine.is_shared()),
            false => transaction,
        };
        transaction.check()?;
        if self.overrides.is_empty() {
            return self.engine.commit(transaction).await;
        }
        Box::pin(self.commit_each(transaction)).await
    }

    /// Returns true if the transaction writes an object with claims.
    fn has_claims(&self, transaction: &Transaction<X>) -> bool {
        transaction
            .ops
            .iter()
            .any(|op| self.state.indexer().has_claims(op.key()))
    }
}

impl<X: Indexer> Store<X> {
    /// Creates a store on an engine that publishes to `state`.
    pub fn with_engine(state: Arc<State<X>>, engine: Box<dyn Engine<X>>) -> Self {
        Self {
            state,
            engine,
            overrides: Vec::new(),
        }
    }

    /// Adds separate stores for the keys with these prefixes, which must be whole tables.
    pub fn with_overrides(mut self, overrides: Vec<(Key, Self)>) -> Self {
        self.overrides = overrides;
        self
    }

    /// Returns the store that holds the keys with this prefix.
    pub fn for_key(&self, key: &[u8]) -> &Self {
        let home = home_of(&self.overrides, key).and_then(|at| self.overrides.get(at));
        home.map_or(self, |(_, store)| store)
    }

    /// Returns true if the entry is stored in another form than a value of its key would be now, such as under an
    /// earlier encryption key. It should be written again even if it does not change.
    pub fn is_stale(&self, entry: &Entry<X>) -> bool {
        let engine = match self.overrides.is_empty() {
            true => &self.engine,
            false => &self.for_key(entry.key()).engine,
        };
        engine.is_stale(entry.key(), entry.form())
    }

    /// Tries again to read the values that could not be transformed, and writes the readable ones again, so that
    /// watchers see them. `decode` returns the value for a key. Returns the number of values that remain unreadable,
    /// which includes values that cannot be written. A value that another server wrote meanwhile does not.
    ///
    /// # Errors
    /// The last [`CommitError`] if values can be decoded, but none of them can be written; [`CommitError::Closed`].
    pub async fn restore_untransformable(
        &self,
        decode: impl Fn(&Key, UntransformableValue<'_>) -> Result<Value, CodecError>,
    ) -> Result<usize, CommitError>
    where
        X: Completion,
    {
        let snapshot = self.snapshot();
        if !snapshot.may_be_untransformable() {
            return Ok(0);
        }
        let (mut unreadable, mut restored, mut failure) = (0, 0, None);
        for entry in snapshot
            .range(b"")
            .filter(|entry| entry.form() == StoredForm::UNREADABLE)
        {
            let bytes = entry.bytes_once();
            let decoded = UntransformableValue::from_placeholder(&bytes).map(|value| decode(entry.key(), value));
            let Some(Ok(value)) = decoded else {
                unreadable += 1;
                continue;
            };
            let (key, expected) = (entry.key().clone(), entry.mod_revision());
            let write = Transaction::new().guard(key.clone(), expected).put(key, value);
            match self.commit(write).await {
                Ok(_) => restored += 1,
                Err(CommitError::GuardFailed { key, .. }) if key == *entry.key() => restored += 1,
                Err(error @ CommitError::Closed) => return Err(error),
                // The guard of another key is that of a claim, such as the address of a Service.
                Err(error) => {
                    unreadable += 1;
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(error) if restored == 0 => Err(error),
            Some(error) => {
                tracing::warn!(%error, "values that can be decrypted again cannot be written");
                Ok(unreadable)
            }
            None => Ok(unreadable),
        }
    }

    /// Writes and removes keys until the state is that of `earlier`, a snapshot of this store. Values that are equal
    /// except for their revisions stay, and revisions never go back: each key that differs is written or removed at a new
    /// revision. All changes become visible together, and watchers get them as events. The cost depends on the number of
    /// keys that differ, not on the number of all keys.
    ///
    /// # Errors
    /// [`RestoreError`]. Nothing was changed.
    pub async fn restore(&self, earlier: &Snapshot<X>) -> Result<Restored, RestoreError> {
        if self.is_shared() || !self.overrides.is_empty() {
            return Err(RestoreError::Shared);
        }
        self.engine.restore(earlier).await
    }

    /// Returns the additional stores with the prefixes of their keys.
    pub fn overrides(&self) -> &[(Key, Self)] {
        &self.overrides
    }

    /// Commits the part of each store. This store is first, because it holds the quotas that a write is charged to. If
    /// another store rejects its part, the charge remains until the next recount, as in the reference, which has no
    /// transactions of several keys.
    async fn commit_each(&self, transaction: Transaction<X>) -> Result<Committed<X>, CommitError> {
        let mut parts: Vec<Part<X>> = (0..=self.overrides.len()).map(|_| Part::default()).collect();
        for part in &mut parts {
            part.transaction.revisions = transaction.revisions;
        }
        let home = |key: &Key| home_of(&self.overrides, key).map_or(0, |at| at + 1);
        let stores = || std::iter::once(self).chain(self.overrides.iter().map(|(_, store)| store));
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

    /// Checks, against the known state, whether the guards of a transaction without changes hold.
    fn check_guards(&self, guards: &[Guard]) -> Result<(), CommitError> {
        if guards.is_empty() {
            return Ok(());
        }
        let newest = self.engine.ahead(self.state.snapshot());
        guards.iter().try_for_each(|guard| guard.check(newest.get(&guard.key)))
    }

    /// Returns the most recent state of this store, including every write that any server had acknowledged before the
    /// call. For other stores it contains their current snapshots.
    ///
    /// # Errors
    /// [`ReadError`] if others write to the same engine and it cannot determine the most recent revision.
    pub async fn latest(&self) -> Result<Snapshot<X>, ReadError> {
        if let Some(current) = self.engine.current() {
            current.await?;
        }
        Ok(self.snapshot())
    }

    /// Returns the same as [`Store::latest`], but also the most recent state of the store of the keys that begin with
    /// `key`.
    ///
    /// # Errors
    /// See [`Store::latest`].
    pub async fn latest_with(&self, key: &[u8]) -> Result<Snapshot<X>, ReadError> {
        let home = self.for_key(key);
        if !std::ptr::eq(home, self)
            && let Some(current) = home.engine.current()
        {
            current.await?;
        }
        self.latest().await
    }

    /// Returns true if others may write to the same engine, so that [`Store::snapshot`] may be older than
    /// [`Store::latest`].
    pub fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    /// Returns the size of the store's files on disk in bytes, if it has files.
    pub fn size_on_disk(&self) -> Option<u64> {
        self.engine.size_on_disk()
    }

    /// Checks for problems that keep the store from working.
    ///
    /// # Errors
    /// If there is a problem; the message is for the log.
    pub fn health(&self) -> Result<(), String> {
        if self.is_failing() {
            self.engine.health()?;
            return Err("the last write to the store failed".to_owned());
        }
        self.engine.health()
    }

    /// Checks for problems that keep the store from serving clients well.
    ///
    /// # Errors
    /// If there is a problem; the message is for the log.
    pub fn readiness(&self) -> Result<(), String> {
        self.engine.readiness()
    }

    /// Returns the current revision.
    pub fn revision(&self) -> Revision {
        self.state.revision()
    }

    /// Returns true if the last attempt to store something failed; reads continue nevertheless.
    pub fn is_failing(&self) -> bool {
        self.state.is_failing()
    }

    /// Returns the oldest revision that can be read at or watched from.
    pub fn oldest_revision(&self) -> Revision {
        self.state.compacted()
    }

    /// Returns the current state, without access to the disk.
    pub fn snapshot(&self) -> Snapshot<X> {
        self.with_others(self.state.snapshot(), Self::snapshot)
    }

    /// Returns the current state plus newer entries that are known but not yet published. Use it only to evaluate a
    /// write, whose guards detect outdated entries; not for reads.
    pub fn newest(&self) -> Snapshot<X> {
        self.with_others(self.engine.ahead(self.state.snapshot()), Self::newest)
    }

    /// Combines this store's own snapshot with `snapshot` of the others.
    fn with_others(&self, own: Snapshot<X>, snapshot: impl Fn(&Self) -> Snapshot<X>) -> Snapshot<X> {
        match self.overrides.is_empty() {
            true => own,
            false => own.beside(self.overrides.iter().map(|(of, store)| (of.clone(), snapshot(store)))),
        }
    }

    /// Returns the exact state at `revision`. The first snapshot of a past revision costs about a microsecond for each
    /// event since then; recently read ones are cached.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] or [`HistoryError::Future`].
    pub fn snapshot_at(&self, revision: Revision) -> Result<Snapshot<X>, HistoryError> {
        self.state.snapshot_at(revision)
    }

    /// Returns the versions of `key` that the history holds before its version `before`, or all of them, the newest first.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] if the history does not hold the version `before`.
    pub fn versions(&self, key: impl Into<Key>, before: Option<Revision>) -> Result<KeyVersions<X>, HistoryError> {
        KeyVersions::new(&self.state, key.into(), before)
    }

    /// Caches a snapshot that a client will request again by its revision, such as for the next page of a list. It is
    /// dropped when its revision leaves the history, or when many others were cached since.
    pub fn keep(&self, snapshot: &Snapshot<X>) {
        self.state.keep(snapshot);
    }

    /// Restarts the history for this process: revisions before the current one can be neither read nor watched from.
    /// Used after writes before the server serves, which no watcher can have seen.
    pub fn begin_history(&self) {
        self.state.begin_history();
    }

    /// Restarts the history at `revision`, the revision of a write: later writes can be watched.
    pub fn begin_history_at(&self, revision: Revision) {
        self.state.begin_history_at(revision);
    }

    /// Returns the number of events that this process has seen of the table whose keys begin with `prefix`.
    pub fn events_of(&self, prefix: &[u8]) -> u64 {
        self.state.events_of(prefix)
    }

    /// Watches all events after revision `after` of keys that begin with `prefix`, once each, in order.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] if events after `after` are gone; [`HistoryError::Closed`].
    pub fn watch(&self, prefix: impl Into<Key>, after: Revision) -> Result<Watcher<X>, HistoryError> {
        Watcher::new(&self.state, Scope::Prefix(prefix.into()), after)
    }

    /// Returns the current state together with a watcher of all later events of keys that begin with `prefix`. A caller
    /// that starts to watch a prefix needs both from one call, because the history may restart between two calls.
    ///
    /// # Errors
    /// [`HistoryError::Closed`]
    pub fn snapshot_and_watch(&self, prefix: impl Into<Key>) -> Result<(Snapshot<X>, Watcher<X>), HistoryError> {
        let prefix = prefix.into();
        loop {
            let snapshot = self.snapshot();
            match self.watch(prefix.clone(), snapshot.revision()) {
                Ok(watcher) => return Ok((snapshot, watcher)),
                // The history now begins after this snapshot, but not after the current one.
                Err(HistoryError::Compacted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Watches all events after revision `after` of one key.
    ///
    /// # Errors
    /// See [`Store::watch`].
    pub fn watch_key(&self, key: impl Into<Key>, after: Revision) -> Result<Watcher<X>, HistoryError> {
        Watcher::new(&self.state, Scope::Key(key.into()), after)
    }

    /// Waits until the store is at `revision` or later, and returns its state.
    ///
    /// # Errors
    /// [`HistoryError::Future`] if the revision is not reached within `timeout`.
    pub async fn wait_for(&self, revision: Revision, timeout: Duration) -> Result<Snapshot<X>, HistoryError> {
        let snapshot = self.snapshot();
        if snapshot.revision() >= revision {
            return Ok(snapshot);
        }
        self.engine.want(revision);
        match tokio::time::timeout(timeout, self.state.reached(revision)).await {
            Ok(()) => Ok(self.snapshot()),
            Err(_) => Err(HistoryError::Future {
                requested: revision,
                current: self.revision(),
            }),
        }
    }

    /// Finishes the waiting writes, ends the watches and releases the directory. Reads still work.
    ///
    /// # Errors
    /// If the last checkpoint failed; the first error if several failed. Acknowledged writes are durable nevertheless.
    pub async fn close(&self) -> Result<(), StorageError> {
        let others = self.overrides.iter().map(|(_, store)| &store.engine);
        let mut outcome = Ok(());
        for engine in others.chain([&self.engine]) {
            outcome = outcome.and(engine.close().await);
        }
        outcome
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::config::Config;
    use crate::engine::Pending;
    use crate::entry::Value;

    /// An engine that counts its closings, all of which fail.
    struct Stuck(Arc<AtomicUsize>);

    impl Engine<()> for Stuck {
        fn commit(&self, _: Transaction<()>) -> Pending<'_, Result<Committed<()>, CommitError>> {
            Box::pin(async { Err(CommitError::Closed) })
        }

        fn close(&self) -> Pending<'_, Result<(), StorageError>> {
            let closing = self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                Err(StorageError {
                    path: Arc::default(),
                    detail: format!("{closing}").into(),
                    full: false,
                })
            })
        }
    }

    #[tokio::test]
    async fn all_stores_are_closed_and_the_first_error_is_returned() {
        let (directories, closings) = ([(); 3].map(|()| tempfile::tempdir().unwrap()), Arc::default());
        let mut stores = directories.iter().map(|directory| Store {
            engine: Box::new(Stuck(Arc::clone(&closings))),
            ..Store::open(Config::new(directory.path()), ()).unwrap()
        });
        let store = stores.next().unwrap();
        let overrides = stores.map(|other| (Key::from("/registry/events/"), other));
        let error = store.with_overrides(overrides.collect()).close().await.unwrap_err();
        assert_eq!((&*error.detail, closings.load(Ordering::Relaxed)), ("0", 3));
    }

    #[tokio::test]
    async fn a_transaction_goes_to_the_stores_of_its_keys() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = |directory: &tempfile::TempDir| Store::open(Config::new(directory.path()), ()).unwrap();
        let events = Key::from("/registry/events/");
        let store = open(&here).with_overrides(vec![(events.clone(), open(&there))]);
        let (pod, event) = ("/registry/pods/a/x", "/registry/events/a/x");
        let first = Transaction::new()
            .guard(event, 0)
            .put(event, Value::plain("e"))
            .put(pod, Value::plain("p"));
        let made = store.commit(first).await.unwrap().entries;
        let keys: Vec<&[u8]> = made.iter().flatten().map(|entry| entry.key().as_bytes()).collect();
        assert_eq!(keys, [event.as_bytes(), pod.as_bytes()]);
        let revision = store.for_key(event.as_bytes()).revision();
        // A guard in a store without changes also blocks the changes of the other stores.
        let stale = Transaction::new().guard(event, revision + 1).delete(pod);
        let failed = store.commit(stale).await.unwrap_err();
        assert!(matches!(failed, CommitError::GuardFailed { current, .. } if current == revision));
        store
            .commit(Transaction::new().guard(event, revision).delete(pod))
            .await
            .unwrap();
        for snapshot in [store.snapshot(), store.newest()] {
            assert_eq!((snapshot.len(), snapshot.count(&events)), (1, 1));
            assert!(snapshot.get(event.as_bytes()).is_some() && snapshot.get(pod.as_bytes()).is_none());
            assert_eq!(snapshot.range(b"/registry/").count(), 1);
        }
    }

    #[tokio::test]
    async fn snapshot_and_watch_have_no_gap_when_history_restarts() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Config::new(directory.path()), ()).unwrap();
        let write = async || {
            let put = Transaction::new().put("/registry/pods/a/b", Value::plain("x"));
            store.commit(put).await.unwrap().revision
        };
        let (snapshot, mut watcher) = store.snapshot_and_watch("/registry/pods/").unwrap();
        let revision = write().await;
        store.begin_history();
        assert!(snapshot.is_empty());
        assert_eq!(watcher.next().await.unwrap().revision(), revision);
    }
}
