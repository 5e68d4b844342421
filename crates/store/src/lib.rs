#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
//! A revisioned key-value store for an API server.
//!
//! The store has two layers. The [`Engine`] makes writes durable: [`Embedded`] keeps a log in one SQLite file, and
//! [`Etcd`] uses an etcd. The [`State`] holds everything in memory: an ordered map with copy-on-write snapshots, and
//! the recent events. The state serves reads and watches without any access to the disk. [`Store`] combines both
//! layers.
//!
//! There is one revision counter for all keys. A write is a [`Transaction`]: guards on the revisions of keys, and puts
//! and deletes that all happen together or not at all. It is acknowledged after it is durable.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! use holdfast_store::{Config, Store, Transaction, Value};
//!
//! # let directory = tempfile::tempdir()?;
//! let store = Store::open(Config::new(directory.path()), ())?;
//! let web = Value::object(r#"{"metadata":{"name":"web","resourceVersion":""}}"#, 45);
//! let key = "/registry/deployments/default/web";
//!
//! let created = store.commit(Transaction::new().guard(key, 0).put(key, web)).await?;
//! let snapshot = store.snapshot();
//! let entry = snapshot.get(key.as_bytes()).ok_or("absent")?;
//! assert_eq!(entry.bytes(), r#"{"metadata":{"name":"web","resourceVersion":"2"}}"#);
//!
//! let mut watcher = store.watch("/registry/deployments/", 1)?;
//! assert_eq!(watcher.next().await?.revision(), created.revision);
//! # store.close().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `FORMAT.md`, next to this crate's manifest, describes the file format of the embedded store and its guarantees.

mod clock;
mod codec;
mod completion;
mod config;
mod embedded;
mod engine;
mod entry;
mod error;
mod etcd;
mod history;
mod key;
mod packed;
mod restore;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod transform;
mod versions;
mod watch;

pub use clock::{Clock, SystemClock};
pub use codec::{AsServed, Codec, CodecError, TimeToLive, UntransformableValue};
pub use completion::Completion;
pub use config::Config;
#[cfg(feature = "testing")]
pub use embedded::testing;
pub use embedded::{Embedded, Image, ImageEntry, Recode, Summary as ImageSummary, image_of_snapshot};
pub use engine::{Engine, Pending};
pub use entry::{Entry, Indexer, StoredForm, Value};
pub use error::{CommitError, HistoryError, OpenError, ReadError, StorageError};
#[cfg(feature = "testing")]
pub use etcd::simulated as simulated_etcd;
pub use etcd::{Connection, DialEtcd, Etcd, EtcdConfig, EtcdStream, EtcdStreamFuture, NoObserver, Observer, Operation};
pub use history::{Event, EventKind};
pub use key::{Key, Revision, table_by_segments};
pub use restore::{RestoreError, Restored};
pub use state::{Draft, HistoryLimits, Publisher, Range, Snapshot, State};
pub use store::Store;
pub use transaction::{Committed, Guard, MAX_KEY, MAX_OPS, MAX_VALUE, Op, Revisions, Transaction};
pub use transform::{ENCRYPTED, ENCRYPTED_WITHOUT_PROVIDER, Transformed, Transformer, is_encrypted};
pub use versions::{KeyVersion, KeyVersions, VersionStep};
pub use watch::Watcher;
