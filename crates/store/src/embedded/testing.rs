//! The embedded engine in a task and on a disk of the caller, for simulations.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::replay::replay;
use super::writer::{Command, Writer};
use super::{Embedded, WAITING};
use crate::clock::Clock;
use crate::entry::Indexer;
use crate::error::OpenError;
use crate::key::Revision;
use crate::state::{HistoryLimits, State};
use crate::store::Store;

pub use super::disk::{Disk, Row, RowId, Step};

/// The content of a disk at a start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Content<'a> {
    /// Versions in the order of their ids.
    pub rows: &'a [Row<'a>],
    /// Revision at which the history begins; `None` on a new disk.
    pub compacted: Option<Revision>,
}

/// The writer of a store, which must be run as a task.
pub struct WriterTask<X: Indexer, D: Disk> {
    writer: Writer<X, D>,
    commands: mpsc::Receiver<Command<X>>,
}

impl<X: Indexer, D: Disk> WriterTask<X, D> {
    /// Runs until the store is closed or dropped. Between two parts of a step, it waits for a future of `pause`.
    pub async fn run<P: Future<Output = ()>>(self, pause: impl FnMut() -> P) {
        self.writer.run_as_task(self.commands, pause).await;
    }
}

/// Loads the content of a disk into a new store. The store commits nothing until its writer runs.
///
/// # Errors
/// [`OpenError::Damaged`] if the rows do not fit each other.
pub fn open<X: Indexer, D: Disk>(
    disk: D,
    content: Content<'_>,
    history: HistoryLimits,
    clock: Arc<dyn Clock>,
    indexer: X,
) -> Result<(Store<X>, WriterTask<X, D>), OpenError> {
    let (state, mut publisher) = State::new(indexer, history);
    let mut draft = publisher.draft();
    let compacted = content.compacted.unwrap_or(1);
    draft.pass(compacted);
    for row in content.rows {
        replay(&mut draft, row, compacted, None).map_err(|_| OpenError::Damaged {
            path: Path::new("simulated disk").to_owned(),
            detail: format!("row {:?} does not fit those before it", row.id),
        })?;
    }
    publisher.begin_at(compacted);
    publisher.publish(draft);
    let (sender, commands) = mpsc::channel(WAITING);
    let engine = Embedded {
        commands: sender,
        files: None,
        transformer: None,
    };
    let writer = Writer::new(disk, publisher, clock);
    let store = Store::with_engine(state, Box::new(engine));
    Ok((store, WriterTask { writer, commands }))
}
