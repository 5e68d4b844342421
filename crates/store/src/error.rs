//! Errors, by operation.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::key::{Key, Revision};

/// Error of opening a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the directory.
    #[error("data directory {} is in use by {}", path.display(), holder.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    InUse {
        /// Data directory.
        path: PathBuf,
        /// Process that uses it, if known.
        holder: Option<u32>,
    },
    /// The file was written by a later version of this program.
    #[error("{} has format version {found}, but this version reads up to {supported}: use a newer Holdfast", path.display())]
    NewerFormat {
        /// File.
        path: PathBuf,
        /// Its format version.
        found: i64,
        /// Newest supported format version.
        supported: i64,
    },
    /// The file is a database of another program.
    #[error("{} is not a Holdfast store", path.display())]
    NotAStore {
        /// File.
        path: PathBuf,
    },
    /// The file does not contain what was written.
    #[error("{} is damaged: {detail}", path.display())]
    Damaged {
        /// File.
        path: PathBuf,
        /// Description of the damage, with the key if it is known.
        detail: String,
    },
    /// The etcd cannot be used.
    #[error("etcd: {detail}")]
    Etcd {
        /// Description of the problem, in etcd's words if etcd responded.
        detail: String,
    },
    /// A file exists where a new one was to be written.
    #[error("{} already exists; nothing was changed", path.display())]
    Occupied {
        /// Path that exists.
        path: PathBuf,
    },
    /// The directory or file cannot be used.
    #[error("{}: {detail}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Error message of the system.
        detail: String,
    },
}

impl OpenError {
    /// Returns a function for `map_err` that wraps the system's error for an unusable file or directory.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self + Copy + '_ {
        |error| Self::Io {
            path: path.to_owned(),
            detail: error.to_string(),
        }
    }
}

/// Error of a transaction that was not committed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// A guard failed. Nothing was changed.
    #[error("{key} is at revision {current}, not {expected}")]
    GuardFailed {
        /// First key whose guard failed.
        key: Key,
        /// Revision that the guard expects.
        expected: Revision,
        /// Modification revision of the key, 0 if it is absent.
        current: Revision,
    },
    /// A transaction that can never succeed.
    #[error("{0}")]
    Invalid(&'static str),
    /// A value exceeds the limit.
    #[error("a value of {bytes} bytes is too large, the limit is {limit}")]
    TooLarge {
        /// Size.
        bytes: usize,
        /// Limit.
        limit: usize,
    },
    /// The storage failed. For this process the transaction did not happen; `FORMAT.md` describes what may reappear
    /// after a crash before the storage recovers.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The engine rejected the transaction, or its outcome is unknown; the message is the engine's.
    #[error("{0}")]
    Refused(Arc<str>),
    /// There was no response in time: whether the transaction happened is unknown.
    #[error("the engine did not answer in time")]
    Unanswered,
    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
}

/// Error of determining the most recent state.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The engine does not report its revision; the message is the engine's.
    #[error("{0}")]
    Etcd(Arc<str>),
    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
}

/// A failure of the storage, shared by all writers of a group.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {detail}", path.display())]
pub struct StorageError {
    /// File.
    pub path: Arc<PathBuf>,
    /// Description of the failure by the engine or the system.
    pub detail: Arc<str>,
    /// True if there was no space left: the one failure that an operator can fix at once.
    pub full: bool,
}

/// Error of reading or watching from a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The events since this revision are no longer complete.
    #[error("revision {requested} is older than {oldest}, the oldest known")]
    Compacted {
        /// Requested revision, or the one that the watcher had reached.
        requested: Revision,
        /// Oldest available revision.
        oldest: Revision,
    },
    /// The revision is in the future.
    #[error("revision {requested} is newer than {current}, the current one")]
    Future {
        /// Requested revision.
        requested: Revision,
        /// Revision of the store.
        current: Revision,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}
