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

    /// Returns true if other servers may write to it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Notes that a caller waits until the state is at `revision`, even if there is nothing to publish at this
    /// revision.
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

    /// Finishes the transactions that wait, ends all watches and lets go of the storage.
    fn close(&self) -> Pending<'_, Result<(), StorageError>>;
}
