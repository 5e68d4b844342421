//! An embedded store without files, for tests of clients.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::disk::{Disk, Step};
use super::writer::Writer;
use super::{Embedded, WAITING};
use crate::clock::Clock;
use crate::entry::Indexer;
use crate::error::StorageError;
use crate::key::Revision;
use crate::state::{HistoryLimits, Publisher, Snapshot, State};
use crate::store::Store;

/// Disk that keeps nothing: the state in memory is the only copy.
struct NoDisk;

impl Disk for NoDisk {
    fn stores_values(&self) -> bool {
        false
    }

    fn write(&mut self, _step: Step<'_>) -> Result<(), StorageError> {
        Ok(())
    }

    fn recover(&mut self, _revision: Revision) -> Result<(), StorageError> {
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    fn log_bytes(&self) -> u64 {
        0
    }

    fn close(self) -> Result<(), StorageError> {
        Ok(())
    }
}

impl<X: Indexer> Store<X> {
    /// Creates an empty store without files. A task of the current runtime writes to it, in the same way as the thread
    /// of a store with files. The objects are lost when the store is dropped.
    ///
    /// # Panics
    /// If the current thread has no tokio runtime.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use std::sync::Arc;
    ///
    /// use holdfast_store::{HistoryLimits, Store, SystemClock, Transaction, Value};
    ///
    /// let store = Store::in_memory(HistoryLimits::default(), Arc::new(SystemClock), ());
    /// store.commit(Transaction::new().guard("/a", 0).put("/a", Value::plain("1"))).await?;
    /// assert!(store.snapshot().get(b"/a").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_memory(history: HistoryLimits, clock: Arc<dyn Clock>, indexer: X) -> Self {
        let (state, mut publisher) = State::new(indexer, history);
        let mut draft = publisher.draft();
        draft.pass(1);
        publisher.begin_at(1);
        publisher.publish(draft);
        Self::without_files(state, publisher, clock)
    }

    /// Creates a store without files that begins with the state of `snapshot`, which another store has made. Both share
    /// all entries: the cost does not depend on their number. Its history begins at the revision of the snapshot.
    ///
    /// # Panics
    /// If the current thread has no tokio runtime.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use std::sync::Arc;
    ///
    /// use holdfast_store::{HistoryLimits, Store, SystemClock, Transaction, Value};
    ///
    /// let (history, clock) = (HistoryLimits::default(), Arc::new(SystemClock));
    /// let store = Store::in_memory(history, clock.clone(), ());
    /// store.commit(Transaction::new().put("/a", Value::plain("1"))).await?;
    /// let fork = Store::in_memory_from(&store.snapshot(), history, clock, ());
    /// fork.commit(Transaction::new().put("/b", Value::plain("2"))).await?;
    /// assert_eq!((fork.snapshot().len(), store.snapshot().len()), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_memory_from(snapshot: &Snapshot<X>, history: HistoryLimits, clock: Arc<dyn Clock>, indexer: X) -> Self {
        let (state, mut publisher) = State::new(indexer, history);
        publisher.begin_with(snapshot);
        Self::without_files(state, publisher, clock)
    }

    fn without_files(state: Arc<State<X>>, publisher: Publisher<X>, clock: Arc<dyn Clock>) -> Self {
        let (sender, commands) = mpsc::channel(WAITING);
        let writer = Writer::new(NoDisk, publisher, clock);
        tokio::spawn(writer.run_as_task(commands, || std::future::ready(())));
        let engine = Embedded {
            commands: sender,
            files: None,
            transformer: None,
        };
        Self::with_engine(state, Box::new(engine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::entry::Value;
    use crate::error::CommitError;
    use crate::transaction::Transaction;

    fn open() -> Store<()> {
        Store::in_memory(HistoryLimits::default(), Arc::new(SystemClock), ())
    }

    #[tokio::test]
    async fn store_in_memory_checks_guards_and_shows_events() {
        let store = open();
        let mut watcher = store.watch("/", store.revision()).unwrap();
        let put = || Transaction::new().guard("/a", 0).put("/a", Value::plain("1"));
        let committed = store.commit(put()).await.unwrap();
        assert_eq!(watcher.next().await.unwrap().revision(), committed.revision);
        let again = store.commit(put()).await;
        assert!(matches!(again, Err(CommitError::GuardFailed { .. })), "{again:?}");
        assert_eq!(store.size_on_disk(), None);
    }

    #[tokio::test]
    async fn fork_shares_the_state_and_goes_on_by_itself() {
        let origin = open();
        let put = |key: &str, value: &'static str| Transaction::new().put(key, Value::plain(value));
        let first = origin.commit(put("/a", "1")).await.unwrap();
        let snapshot = origin.snapshot();
        origin.commit(put("/a", "2")).await.unwrap();

        let fork = Store::in_memory_from(&snapshot, HistoryLimits::default(), Arc::new(SystemClock), ());
        let (before, shared) = (snapshot.get(b"/a").unwrap(), fork.snapshot());
        assert!(Arc::ptr_eq(before, shared.get(b"/a").unwrap()), "nothing is copied");
        assert_eq!(fork.revision(), first.revision);
        assert!(fork.watch("/", first.revision - 1).is_err(), "its history begins here");

        let mut watcher = fork.watch("/", fork.revision()).unwrap();
        let committed = fork.commit(put("/b", "3")).await.unwrap();
        assert!(committed.revision > first.revision);
        assert_eq!(watcher.next().await.unwrap().revision(), committed.revision);
        assert!(origin.snapshot().get(b"/b").is_none());
    }

    #[tokio::test]
    async fn closed_store_in_memory_accepts_no_writes() {
        let store = open();
        store.close().await.unwrap();
        let late = store.commit(Transaction::new().put("/a", Value::plain("1"))).await;
        assert!(matches!(late, Err(CommitError::Closed)), "{late:?}");
        assert_eq!(open().snapshot().range(b"").count(), 0);
    }
}
