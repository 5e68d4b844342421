//! Salvage: copies whatever is still readable of a damaged store to a new file.
//!
//! The new file holds the newest readable version of each key and no history. Its revision is far above all known
//! revisions, so that no revision is used twice, whatever was lost. The new file replaces the damaged one as a whole:
//! once it has its name, each opening continues with the remaining steps.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::acknowledged::Acknowledged;
use super::directory::{private, sync_folder_of};
use super::disk::{Row, RowId};
use super::sqlite::{self, Sound};
use crate::error::OpenError;
use crate::key::Revision;

/// Distance between the revision of a salvaged store and the highest known one of the damaged store. The number of lost
/// writes is unknown; at ten thousand a second this distance covers some minutes of them.
const SKIPPED: Revision = 10_000_000;

/// Result of the salvage of a damaged store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salvaged {
    /// Number of remaining keys.
    pub(crate) keys: usize,
    /// Number of unreadable rows, as far as they were seen.
    pub(crate) unreadable: usize,
    /// Newest readable revision.
    pub(crate) newest: Revision,
    /// Revision of the new file.
    pub(crate) revision: Revision,
}

/// A readable row.
struct ReadableRow {
    id: RowId,
    deleted: bool,
    create_revision: Revision,
    revision_at: Option<u32>,
    time: Duration,
    value: Option<Vec<u8>>,
}

/// Creates a store from the readable content of the one at `path`, and replaces it. The damaged files are kept next to
/// it.
pub(crate) fn salvage(path: &Path) -> Result<Salvaged, OpenError> {
    let mut found = Found::default();
    // A file that cannot be opened at all has no readable content.
    if let Ok(connection) = sqlite::connect(path) {
        found.read(&connection);
    }
    let known = Acknowledged::read(path).ok().flatten().unwrap_or(1);
    let salvaged = Salvaged {
        keys: found.rows.values().filter(|row| !row.deleted).count(),
        unreadable: found.unreadable,
        newest: found.newest,
        revision: known.max(found.newest) + SKIPPED,
    };
    let io_error = OpenError::io(path);
    let (draft, done) = (beside(path, "salvaging"), beside(path, "salvaged"));
    for leftover in [draft.clone(), sqlite::log_of(&draft)] {
        remove(&leftover).map_err(io_error)?;
    }
    private(&draft).map_err(io_error)?;
    let rows: Vec<Row<'_>> = found.rows.iter().filter_map(|(key, kept)| kept.row(key)).collect();
    sqlite::write_anew(&draft, &rows, salvaged.revision)?;
    Acknowledged::begin(path, salvaged.revision)?;
    let replace = || -> io::Result<()> {
        fs::rename(&draft, &done)?;
        sync_folder_of(path)?;
        finish(path)
    };
    replace().map_err(io_error)?;
    Ok(salvaged)
}

/// Replaces the damaged file with a salvaged one, if there is one.
pub(crate) fn finish(path: &Path) -> io::Result<()> {
    let done = beside(path, "salvaged");
    if !fs::exists(&done)? {
        return Ok(());
    }
    let log = sqlite::log_of(path);
    for file in [&log, path] {
        if fs::exists(file)? {
            fs::rename(file, beside(file, "damaged"))?;
        }
    }
    // The log's index is derived from the log, and this one is of the damaged log.
    let mut index = path.as_os_str().to_owned();
    index.push("-shm");
    remove(Path::new(&index))?;
    fs::rename(&done, path)?;
    sync_folder_of(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".");
    beside.push(ending);
    beside.into()
}

impl ReadableRow {
    fn from_row(row: &Row<'_>) -> Self {
        Self {
            id: row.id,
            deleted: row.deleted,
            create_revision: row.create_revision,
            revision_at: row.revision_at,
            time: row.time,
            value: row.value.map(<[u8]>::to_vec),
        }
    }

    /// Returns the row of a key that is not deleted.
    fn row<'a>(&'a self, key: &'a [u8]) -> Option<Row<'a>> {
        let value = self.value.as_deref().filter(|_| !self.deleted)?;
        Some(Row {
            id: self.id,
            key,
            deleted: false,
            create_revision: self.create_revision,
            revision_at: self.revision_at,
            time: self.time,
            value: Some(value),
        })
    }
}

/// Readable content of a damaged file.
#[derive(Default)]
struct Found {
    /// The newest readable row of each key.
    rows: BTreeMap<Vec<u8>, ReadableRow>,
    unreadable: usize,
    newest: Revision,
}

impl Found {
    /// Reads from both ends, since reading stops where the tree of the table is broken.
    fn read(&mut self, connection: &Connection) {
        self.newest = sqlite::compacted(connection).unwrap_or_default();
        let mut last = None;
        let whole = sqlite::sound_rows(connection, "", "ASC", |sound| {
            if let Sound::Yes(row) = sound {
                last = Some(row.id);
            }
            self.take(sound);
            true
        });
        if whole.is_err() {
            let _ = sqlite::sound_rows(connection, "", "DESC", |sound| match sound {
                Sound::Yes(row) if last.is_some_and(|last| row.id <= last) => false,
                sound => {
                    self.take(sound);
                    true
                }
            });
        }
    }

    fn take(&mut self, sound: Sound<'_>) {
        let Sound::Yes(row) = sound else {
            self.unreadable += 1;
            return;
        };
        self.newest = self.newest.max(row.id.revision());
        let known = self.rows.get(row.key);
        if known.is_none_or(|known| known.id < row.id) {
            self.rows.insert(row.key.to_vec(), ReadableRow::from_row(&row));
        }
    }
}
