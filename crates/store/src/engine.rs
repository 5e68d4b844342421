//! What keeps the state durable.
//!
//! An engine owns the revision counter and the truth; the [`State`](crate::State) above it is what it has published so far.
//! The contract is cut so that etcd fulfils it as well as a file of our own:
//!
//! - *Opening* yields every entry as of one revision, then the events after it: for etcd a paged `Range` at a revision
//!   followed by a `Watch` from the next one; for a file its log.
//! - *Committing* is a guarded transaction: for etcd a `Txn` that compares `mod_revision`s. It is acknowledged when it
//!   is durable **and** the state shows it, so that a writer reads its own write.
//! - *Feeding*: each durable change, of this server or of another, is published once, in the order of revisions, by the one
//!   [`Publisher`](crate::Publisher) of the engine.
//! - *Compaction*: the engine may forget what [`Publisher::trim`](crate::Publisher::trim) let go of, and nothing else.

use std::future::Future;
use std::pin::Pin;

use crate::entry::Indexer;
use crate::error::{CommitError, ReadError, StorageError};
use crate::key::Revision;
use crate::state::Snapshot;
use crate::transaction::{Committed, Transaction};

/// A future of an engine's.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The durable part of a store. See the module's contract.
pub trait Engine<X: Indexer>: Send + Sync + 'static {
    /// Does a transaction: ready when it is durable and published, or when it is sure not to be acknowledged.
    ///
    /// A transaction that was begun is finished even if the future is dropped.
    fn commit(&self, transaction: Transaction<X>) -> Pending<'_, Result<Committed<X>, CommitError>>;

    /// Learns the most recent revision, of this server or of another, and waits until the state is there; none where the state is the
    /// most recent at all times.
    fn current(&self) -> Option<Pending<'_, Result<Revision, ReadError>>> {
        None
    }

    /// Whether others may write to it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Says that a caller waits until the state is at `revision`, of which there may be nothing to publish.
    fn want(&self, _revision: Revision) {}

    /// `snapshot`, which is the current state, with what the engine knows beyond it: for those who write, whose guards
    /// show whether it still is so.
    fn ahead(&self, snapshot: Snapshot<X>) -> Snapshot<X> {
        snapshot
    }

    /// The bytes of the files on disk, where the engine has files of its own.
    fn size_on_disk(&self) -> Option<u64> {
        None
    }

    /// What keeps the engine from working, beyond what the last write met.
    ///
    /// # Errors
    /// In words for the log.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    /// What keeps clients from being served well.
    ///
    /// # Errors
    /// In words for the log.
    fn readiness(&self) -> Result<(), String> {
        self.health()
    }

    /// Finishes the transactions that wait, ends all watches and lets go of the storage.
    fn close(&self) -> Pending<'_, Result<(), StorageError>>;
}
