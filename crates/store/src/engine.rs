//! The engine interface: the part of the store that makes the state durable.
//!
//! An engine owns the revision counter and the durable data. The [`State`](crate::State) above it holds what the engine
//! has published so far. Both etcd and a local file can fulfil the contract:
//!
//! - *Opening* yields every entry as of one revision, then the events after it: for etcd a paged `Range` at a revision
//!   followed by a `Watch` from the next one; for a file its log.
//! - *Committing* is a guarded transaction: for etcd a `Txn` that compares `mod_revision`s. It is acknowledged when it
//!   is durable **and** visible in the state, so that a writer reads its own write.
//! - *Feeding*: the one [`Publisher`](crate::Publisher) of the engine publishes each durable change once, in the order
//!   of revisions, whether this server or another one made it.
//! - *Compaction*: the engine may forget only what [`Publisher::trim`](crate::Publisher::trim) has released.

use std::future::Future;
use std::pin::Pin;

use crate::entry::{Indexer, StoredForm};
use crate::error::{CommitError, ReadError, StorageError};
use crate::key::Revision;
use crate::restore::{RestoreError, Restored};
use crate::state::Snapshot;
use crate::transaction::{Committed, Transaction};

/// A future that an engine returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The durable part of a store. See the module's contract.
pub trait Engine<X: Indexer>: Send + Sync + 'static {
    /// Commits a transaction. The future is ready when the transaction is durable and published, or when it is certain
    /// that it will not be acknowledged.
    ///
    /// A transaction that was started is completed even if the future is dropped.
    fn commit(&self, transaction: Transaction<X>) -> Pending<'_, Result<Committed<X>, CommitError>>;

    /// Changes the state to that of `earlier`, a snapshot of this engine's state, in one step. Nobody sees a state in between.
    fn restore(&self, _earlier: &Snapshot<X>) -> Pending<'_, Result<Restored, RestoreError>> {
        Box::pin(std::future::ready(Err(RestoreError::Shared)))
    }

    /// Determines the most recent revision of any server and waits until the state has reached it; `None` if the state
    /// is always the most recent one.
    fn current(&self) -> Option<Pending<'_, Result<Revision, ReadError>>> {
        None
    }

    /// Returns true if other servers may write to it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Notes that a caller waits until the state is at `revision`, even if there is nothing to publish at this
    /// revision.
    fn want(&self, _revision: Revision) {}

    /// Returns `snapshot`, which is the current state, with the newer entries that the engine knows. For writes, whose
    /// guards detect outdated entries.
    fn ahead(&self, snapshot: Snapshot<X>) -> Snapshot<X> {
        snapshot
    }

    /// Returns true if a value of `key` that is stored in `form` would be stored in another form now, and should be
    /// written again even if it does not change.
    fn is_stale(&self, _key: &[u8], _form: StoredForm) -> bool {
        false
    }

    /// Returns the size of the engine's files on disk in bytes, if it has files.
    fn size_on_disk(&self) -> Option<u64> {
        None
    }

    /// Checks for problems that keep the engine from working, apart from the result of the last write.
    ///
    /// # Errors
    /// If there is a problem; the message is for the log.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    /// Checks for problems that keep the engine from serving clients well.
    ///
    /// # Errors
    /// If there is a problem; the message is for the log.
    fn readiness(&self) -> Result<(), String> {
        self.health()
    }

    /// Finishes the waiting transactions, ends all watches and releases the storage.
    fn close(&self) -> Pending<'_, Result<(), StorageError>>;
}
