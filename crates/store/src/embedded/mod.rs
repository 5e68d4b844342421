//! The embedded engine: a log in one file, written by one thread in groups.

mod acknowledged;
mod directory;
#[cfg_attr(
    not(feature = "testing"),
    expect(unreachable_pub, reason = "public for tests with disks of their own")
)]
mod disk;
mod image;
mod memory;
mod replay;
mod restore;
mod salvage;
mod sqlite;
#[cfg(feature = "testing")]
pub mod testing;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as sync_mpsc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::config::Config;
use crate::engine::{Engine, Pending};
use crate::entry::{Indexer, StoredForm};
use crate::error::{CommitError, OpenError, StorageError};
use crate::restore::{RestoreError, Restored};
use crate::state::{Publisher, Snapshot, State};
use crate::store::Store;
use crate::transaction::{Committed, Transaction};
use crate::transform::Transformer;
use acknowledged::Synced;
use directory::Directory;
pub use image::{Image, ImageEntry, Recode, Summary, image_of_snapshot};
use restore::RestoreRequest;
use sqlite::{Checkpointer, Sqlite};
use tokio::time::Instant;
use writer::{Command, Keeper, Prepared, Writer};

/// Number of transactions that may wait for the writer before senders of more transactions have to wait.
const WAITING: usize = 1024;
/// Interval of the checks for old history.
const TICK: Duration = Duration::from_secs(1);
/// Maximum time that written data stays in the write-ahead log of an idle store.
const MAX_LOG_AGE: Duration = Duration::from_secs(30);

/// The engine of a data directory. If it is dropped without [`Engine::close`], it finishes in the background.
pub struct Embedded<X: Indexer> {
    commands: mpsc::Sender<Command<X>>,
    /// The database and its write-ahead log; `None` for a store in memory.
    files: Option<[PathBuf; 2]>,
    transformer: Option<Arc<dyn Transformer>>,
}

impl<X: Indexer> std::fmt::Debug for Embedded<X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl<X: Indexer> Store<X> {
    /// Opens the embedded store of a directory and loads it.
    ///
    /// # Errors
    /// If the directory cannot be used, is in use by another process, or has unreadable content.
    pub fn open(config: Config, indexer: X) -> Result<Self, OpenError> {
        let (state, engine) = Embedded::open(config, indexer)?;
        Ok(Self::with_engine(state, Box::new(engine)))
    }
}

impl<X: Indexer> Embedded<X> {
    /// Opens and locks the directory, loads its content into a new state, and starts the writer.
    ///
    /// # Errors
    /// If the directory cannot be used, is in use by another process, or has unreadable content.
    pub fn open(config: Config, indexer: X) -> Result<(Arc<State<X>>, Self), OpenError> {
        let directory = Directory::take(&config.directory)?;
        let file = directory.store_file()?;
        let (state, mut publisher) = State::new(indexer, config.history);
        let transformer = config.transformer;
        let mut disk = match load(&file, &mut publisher, transformer.as_ref()) {
            Err(damage @ OpenError::Damaged { .. }) if config.accept_data_loss => {
                tracing::error!(%damage, "the store is damaged; its readable part is copied into a new file");
                let salvaged = salvage::salvage(&file)?;
                tracing::warn!(?salvaged, "data was lost; the damaged files end in .damaged");
                load(&file, &mut publisher, transformer.as_ref())
            }
            read => read,
        }?;

        if !config.sync {
            disk.stop_syncing()?;
        }
        let path = disk.path().clone();
        let acknowledged = disk.acknowledged();
        let checkpointer = Checkpointer::open(&path)?;
        let (commands, received) = mpsc::channel(WAITING);
        let mut writer = Writer::new(disk, publisher, config.clock);
        writer.directory = Some(directory);
        let cannot_start = OpenError::io(&path);
        writer.keeper = Some(keep(checkpointer, acknowledged, commands.downgrade()).map_err(cannot_start)?);
        thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer.run(received))
            .map_err(cannot_start)?;
        let mut log = file.clone().into_os_string();
        log.push("-wal");
        let engine = Self {
            commands,
            files: Some([file, log.into()]),
            transformer,
        };
        Ok((state, engine))
    }
}

impl<X: Indexer> Engine<X> for Embedded<X> {
    fn commit(&self, transaction: Transaction<X>) -> Pending<'_, Result<Committed<X>, CommitError>> {
        Box::pin(async move {
            let prepared = match &self.transformer {
                Some(transformer) => Prepared::transform(transaction, &**transformer)?,
                None => transaction.into(),
            };
            let (reply, answer) = oneshot::channel();
            let sent = self.commands.send(Command::Commit(prepared, reply)).await;
            sent.map_err(|_| CommitError::Closed)?;
            answer.await.map_err(|_| CommitError::Closed)?
        })
    }

    fn restore(&self, earlier: &Snapshot<X>) -> Pending<'_, Result<Restored, RestoreError>> {
        let (reply, answer) = oneshot::channel();
        let request = RestoreRequest {
            earlier: earlier.clone(),
            transformer: self.transformer.clone(),
            reply,
        };
        Box::pin(async move {
            let sent = self.commands.send(Command::Restore(request)).await;
            sent.map_err(|_| CommitError::Closed)?;
            answer.await.map_err(|_| CommitError::Closed)?
        })
    }

    fn is_stale(&self, key: &[u8], form: StoredForm) -> bool {
        let transformer = self.transformer.as_ref();
        transformer.is_some_and(|transformer| transformer.form_of(key) != form)
    }

    fn size_on_disk(&self) -> Option<u64> {
        let sizes = self.files.as_ref()?.iter().filter_map(|file| file.metadata().ok());
        Some(sizes.map(|file| file.len()).sum())
    }

    fn close(&self) -> Pending<'_, Result<(), StorageError>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            if self.commands.send(Command::Close(reply)).await.is_err() {
                return Ok(());
            }
            answer.await.unwrap_or(Ok(()))
        })
    }
}

/// Reads the file and publishes its content.
fn load<X: Indexer>(
    file: &Path,
    publisher: &mut Publisher<X>,
    transformer: Option<&Arc<dyn Transformer>>,
) -> Result<Sqlite, OpenError> {
    let mut draft = publisher.draft();
    let (disk, compacted) = Sqlite::open(file, &mut draft, transformer)?;
    publisher.begin_at(compacted);
    publisher.publish(draft);
    Ok(disk)
}

/// Starts the thread that moves the log into the file, syncs the acknowledged revision and wakes the writer
/// periodically.
fn keep<X: Indexer>(
    checkpointer: Checkpointer,
    acknowledged: Arc<Synced>,
    commands: mpsc::WeakSender<Command<X>>,
) -> std::io::Result<Keeper> {
    let (wanted, requests) = sync_mpsc::channel();
    let rest = Arc::new(AtomicBool::new(false));
    let raise = rest.clone();
    let moving = Arc::new(Mutex::new(()));
    let moves = Arc::clone(&moving);
    let thread = thread::Builder::new().name("store-keeper".into()).spawn(move || {
        let mut flushed = Instant::now();
        loop {
            let due = match requests.recv_timeout(TICK) {
                Ok(()) => true,
                Err(sync_mpsc::RecvTimeoutError::Timeout) => flushed.elapsed() > MAX_LOG_AGE,
                Err(sync_mpsc::RecvTimeoutError::Disconnected) => return,
            };
            if due {
                let _moving = moves.lock();
                match checkpointer.run() {
                    Ok(()) => raise.store(true, Ordering::Release),
                    Err(error) => tracing::warn!(%error, "a checkpoint of the store failed"),
                }
                flushed = Instant::now();
            }
            if let Err(error) = acknowledged.sync() {
                tracing::warn!(%error, "cannot sync the mark of acknowledged writes");
            }
            // A writer with a full queue is awake anyway.
            if let Some(commands) = commands.upgrade() {
                let _ = commands.try_send(Command::Tick);
            }
        }
    })?;
    Ok(Keeper {
        wanted,
        rest,
        moving,
        thread,
    })
}

#[cfg(test)]
mod tests;
