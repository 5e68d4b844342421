use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::{Clock, SystemClock};
use crate::state::HistoryLimits;
use crate::transform::Transformer;

/// Settings of an embedded store.
#[derive(Clone)]
pub struct Config {
    /// The data directory; created if it is absent. The store keeps `store.db` (with `-wal` and `-shm` next to it),
    /// `acknowledged` and `lock` in it and does not touch other files.
    pub directory: PathBuf,
    /// Bounds of the event history.
    pub history: HistoryLimits,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// True to open a damaged store with whatever is still readable. If false, a damaged store is not opened.
    pub accept_data_loss: bool,
    /// True to acknowledge a write only after it is on the disk. If false, a crash of the machine may lose or damage
    /// the store; a crash of the process loses nothing.
    pub sync: bool,
    /// Transformer of stored values, such as encryption; `None` if values are stored unchanged.
    pub transformer: Option<Arc<dyn Transformer>>,
}

impl Config {
    /// Creates the settings of a store in this directory, with the default history and the system's clock.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            history: HistoryLimits::default(),
            clock: Arc::new(SystemClock),
            accept_data_loss: false,
            sync: true,
            transformer: None,
        }
    }
}
