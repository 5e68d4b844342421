//! The log in a SQLite file. `FORMAT.md` describes the file and its guarantees.

mod reader;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};

pub(super) use reader::Reader;

use super::acknowledged::{self, Acknowledged, Synced};
use super::disk::{Disk, Row, RowId, Step};
use crate::entry::Indexer;
use crate::error::{OpenError, StorageError};
use crate::key::Revision;
use crate::state::Draft;
use crate::transform::{self, Transformer};

/// `PRAGMA application_id` of a store: "Hold".
const APPLICATION: i64 = 0x486f_6c64;
/// `PRAGMA user_version`: raised whenever an older program could misread the file.
const FORMAT: i64 = 3;
/// Format without encrypted values. A file gets the current format with its first encrypted value, so that older
/// programs can read the others.
const WITHOUT_ENCRYPTION: i64 = 2;
/// Format without a checksum of the set of rows.
pub(super) const WITHOUT_CONTENT: i64 = 1;

/// Maximum number of times that a checkpoint continues with what was written during its last pass.
const PASSES: usize = 4;
/// Number of pages that the writer may move itself without delaying anyone for long.
const LITTLE: u64 = 256;

const SCHEMA: &str = "
    CREATE TABLE log (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL,
        deleted INTEGER NOT NULL,
        created INTEGER NOT NULL,
        revision_at INTEGER,
        time INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        value BLOB
    ) STRICT;
    CREATE TABLE mark (name TEXT PRIMARY KEY, value INTEGER NOT NULL, checksum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// The store's file, opened for writing.
pub(crate) struct Sqlite {
    path: Arc<PathBuf>,
    log: PathBuf,
    connection: Connection,
    /// Checksum of the set of rows, as recorded in the file.
    content: Content,
    acknowledged: Acknowledged,
    /// True if a commit waits for the disk.
    synced: bool,
    /// True if the bytes of removed rows are overwritten.
    erases: bool,
}

/// Checksum of the set of rows: the sum of a number for each. Rows are added and removed in any order, and each changes
/// the sum independently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content(pub(super) u64);

impl Content {
    pub(super) fn add(&mut self, id: RowId, checksum: u32) {
        self.0 = self.0.wrapping_add(Self::row_number(id, checksum));
    }

    fn remove(&mut self, id: RowId, checksum: u32) {
        self.0 = self.0.wrapping_sub(Self::row_number(id, checksum));
    }

    /// Returns the number of a row: its id and checksum, mixed (the finalizer of SplitMix64), so that no other rows
    /// have the sum of missing ones.
    fn row_number(id: RowId, checksum: u32) -> u64 {
        let mut mixed = id.0.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(checksum);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Check that the ids of rows ascend as the rows are read. [`Content`] does not depend on the order of rows, so it does
/// not detect two exchanged pages of the table.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowOrder {
    last: Option<RowId>,
}

impl RowOrder {
    /// Returns true if the next row comes after all rows before it.
    pub(super) fn ascends_to(&mut self, id: RowId) -> bool {
        let ascends = self.last.is_none_or(|last| last < id);
        self.last = Some(id);
        ascends
    }
}

/// Marks of the file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    Compacted,
    Content,
}

impl Mark {
    fn name(self) -> &'static str {
        match self {
            Self::Compacted => "compacted",
            Self::Content => "content",
        }
    }
}

impl Sqlite {
    /// Opens the file, which may be empty, and reads everything into an empty draft. Returns the file and the compacted
    /// revision.
    ///
    /// # Errors
    /// [`OpenError::Damaged`], with a description, if anything acknowledged is missing. The files are then left
    /// unchanged.
    pub(crate) fn open<X: Indexer>(
        path: &Path,
        draft: &mut Draft<X>,
        transformer: Option<&Arc<dyn Transformer>>,
    ) -> Result<(Self, Revision), OpenError> {
        let acknowledged = Acknowledged::read(path)?;
        let reader = Reader::open(path)?;
        let format = reader.format()?;
        match (format, acknowledged) {
            (None, None) => {
                // The order matters: a file of this format without an acknowledged revision next to it counts as one
                // that has lost it.
                Acknowledged::begin(path, draft.revision())?;
                reader.create()?;
            }
            (None, Some(revision)) if revision <= draft.revision() => reader.create()?,
            (None, Some(revision)) => return Err(reader.damaged(lost("it is empty", revision))),
            (Some(WITHOUT_CONTENT), _) | (Some(_), Some(_)) => {}
            (Some(_), None) => {
                return Err(OpenError::Damaged {
                    path: acknowledged::path(path),
                    detail: "it is missing, so that nothing shows whether the log is whole".to_owned(),
                });
            }
        }
        let (compacted, content) = reader.load(draft, transformer)?;
        let revision = draft.revision();
        if format == Some(WITHOUT_CONTENT) {
            Acknowledged::begin(path, revision)?;
            reader.upgrade(content)?;
        } else {
            reader.check(content, revision, acknowledged)?;
        }
        let sqlite = Self {
            path: Arc::new(path.to_owned()),
            log: log_of(path),
            connection: reader.connection,
            content,
            acknowledged: Acknowledged::begin(path, revision)?,
            synced: true,
            erases: transformer.is_some(),
        };
        if sqlite.erases {
            erase(&sqlite.connection).map_err(|error| open_error(path, &error))?;
        }
        Ok((sqlite, compacted))
    }

    /// Lets the operating system decide when commits reach the disk.
    pub(crate) fn stop_syncing(&mut self) -> Result<(), OpenError> {
        self.synced = false;
        do_not_sync(&self.connection).map_err(|error| open_error(&self.path, &error))
    }

    /// Returns the file that records the acknowledged revision.
    pub(crate) fn acknowledged(&self) -> Arc<Synced> {
        self.acknowledged.file()
    }

    /// Returns the file's path, shared by all errors that name it.
    pub(crate) fn path(&self) -> &Arc<PathBuf> {
        &self.path
    }

    /// Limits the file to this number of pages until it is opened again.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, pages: u32) -> rusqlite::Result<()> {
        self.connection
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
    }

    /// Returns SQLite's `synchronous` setting: 0 if commits do not wait for the disk, 2 if they do.
    #[cfg(test)]
    pub(crate) fn synchronous(&self) -> rusqlite::Result<i64> {
        self.connection.query_row("PRAGMA synchronous", [], |row| row.get(0))
    }

    fn storage_error(&self, error: &rusqlite::Error) -> StorageError {
        storage_error(&self.path, error)
    }

    fn write_step(&mut self, step: Step<'_>) -> rusqlite::Result<()> {
        let connection = &self.connection;
        let mut content = self.content;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        insert(connection, step.rows, &mut content)?;
        if !step.dead.is_empty() {
            let mut delete = connection.prepare_cached("DELETE FROM log WHERE id = ?1 RETURNING checksum")?;
            for id in step.dead {
                let checksum = delete.query_row([id.0], |row| row.get(0)).optional()?;
                checksum.into_iter().for_each(|checksum| content.remove(*id, checksum));
            }
        }
        if let Some(compacted) = step.compacted {
            set_mark(connection, Mark::Compacted, compacted)?;
        }
        set_mark(connection, Mark::Content, content.0)?;
        connection.prepare_cached("COMMIT")?.execute([])?;
        self.content = content;
        Ok(())
    }

    /// Removes the rows above the revision from a reopened file. Returns the checksum of the remaining rows.
    fn cut(connection: &Connection, revision: Revision) -> rusqlite::Result<Content> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut content = Content(mark(connection, Mark::Content)?.map_or(0, |(value, _)| value));
        {
            let mut delete = connection.prepare("DELETE FROM log WHERE id > ?1 RETURNING id, checksum")?;
            let mut rows = delete.query([RowId::last_of(revision).0])?;
            while let Some(row) = rows.next()? {
                content.remove(RowId(row.get(0)?), row.get(1)?);
            }
        }
        set_mark(connection, Mark::Content, content.0)?;
        connection.execute_batch("COMMIT")?;
        Ok(content)
    }

    fn acknowledge(&mut self, revision: Revision) -> Result<(), StorageError> {
        let written = self.acknowledged.advance(revision);
        written.map_err(|error| file_error(self.acknowledged.path(), &error))
    }
}

impl Disk for Sqlite {
    fn write(&mut self, step: Step<'_>) -> Result<(), StorageError> {
        self.write_step(step).map_err(|error| {
            // If this fails too, recovery opens the file again.
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            self.storage_error(&error)
        })?;
        match step.rows.last() {
            Some(last) => self.acknowledge(last.id.revision()),
            None => Ok(()),
        }
    }

    fn recover(&mut self, revision: Revision) -> Result<(), StorageError> {
        // This is first: a revision that is recorded only here would be reported as missing at the next start.
        let reset = self.acknowledged.reset(revision);
        reset.map_err(|error| file_error(self.acknowledged.path(), &error))?;
        let recover = || -> rusqlite::Result<(Connection, Content)> {
            let connection = connect(&self.path)?;
            if !self.synced {
                do_not_sync(&connection)?;
            }
            if self.erases {
                erase(&connection)?;
            }
            let newest: Option<i64> = connection.query_row("SELECT max(id) FROM log", [], |row| row.get(0))?;
            let content = if newest.is_some_and(|newest| RowId(newest) > RowId::last_of(revision)) {
                Self::cut(&connection, revision)?
            } else {
                Content(mark(&connection, Mark::Content)?.map_or(0, |(value, _)| value))
            };
            Ok((connection, content))
        };
        let (connection, content) = recover().map_err(|error| self.storage_error(&error))?;
        self.connection = connection;
        self.content = content;
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), StorageError> {
        checkpoint(&self.connection, "PASSIVE").map_err(|error| self.storage_error(&error))?;
        Ok(())
    }

    fn log_bytes(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |log| log.len())
    }

    fn close(self) -> Result<(), StorageError> {
        let synced = self.acknowledged.file().sync();
        synced.map_err(|error| file_error(self.acknowledged.path(), &error))?;
        close(self.connection).map_err(|error| storage_error(&self.path, &error))
    }
}

/// Moves the whole log into the file, and removes the log.
pub(super) fn close(connection: Connection) -> rusqlite::Result<()> {
    checkpoint(&connection, "TRUNCATE")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    connection.close().map_err(|(_, error)| error)
}

/// A row of a file that may be damaged.
pub(super) enum Sound<'a> {
    /// The row is what was written.
    Yes(Row<'a>),
    /// The row is not what was written.
    No,
}

/// Reads the rows of a file that may be damaged, filtered by `only` (`WHERE …`, or nothing), in the order of their
/// ids (`ASC` or `DESC`), as far as they can be reached and `show` wants more.
pub(super) fn sound_rows(
    connection: &Connection,
    only: &str,
    order: &str,
    mut show: impl FnMut(Sound<'_>) -> bool,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM log {only} ORDER BY id {order}"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let fits = |row: &Row<'_>| {
            let length = row.value.map_or(0, <[u8]>::len);
            !row.key.is_empty() && row.revision_at.is_none_or(|at| at as usize <= length)
        };
        let sound = match row_of(row) {
            Ok((row, checksum)) if row.checksum() == checksum && fits(&row) => Sound::Yes(row),
            _ => Sound::No,
        };
        if !show(sound) {
            break;
        }
    }
    Ok(())
}

/// Summary of the rows of a file, without their keys and values.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) content: Content,
    /// Newest revision; 0 if there is no row.
    pub(super) newest: Revision,
    /// First row that comes after a newer one.
    pub(super) misplaced: Option<RowId>,
}

/// Reads the ids and checksums of all rows.
pub(super) fn contents(connection: &Connection) -> rusqlite::Result<Contents> {
    let mut statement = connection.prepare("SELECT id, checksum FROM log ORDER BY id")?;
    let mut rows = statement.query([])?;
    let (mut contents, mut order) = (Contents::default(), RowOrder::default());
    while let Some(row) = rows.next()? {
        let id = RowId(row.get(0)?);
        contents.content.add(id, row.get(1)?);
        contents.newest = contents.newest.max(id.revision());
        if !order.ascends_to(id) {
            contents.misplaced.get_or_insert(id);
        }
    }
    Ok(contents)
}

/// Returns the compacted revision if it can be read.
pub(super) fn compacted(connection: &Connection) -> Option<Revision> {
    let read = mark(connection, Mark::Compacted).ok().flatten();
    read.filter(|(_, sound)| *sound).map(|(value, _)| value)
}

/// Writes a new file with these rows, without history, at `revision`; durable on return.
pub(super) fn write_anew(path: &Path, rows: &[Row<'_>], revision: Revision) -> Result<(), OpenError> {
    let write = || {
        let connection = connect(path)?;
        create(&connection)?;
        let mut content = Content::default();
        connection.execute_batch("BEGIN IMMEDIATE")?;
        insert(&connection, rows, &mut content)?;
        set_mark(&connection, Mark::Compacted, revision)?;
        set_mark(&connection, Mark::Content, content.0)?;
        connection.execute_batch("COMMIT")?;
        close(connection)
    };
    write().map_err(|error| open_error(path, &error))
}

/// Moves the write-ahead log into the file from a separate thread, concurrently with the writer.
pub(crate) struct Checkpointer {
    path: Arc<PathBuf>,
    connection: Connection,
}

impl Checkpointer {
    pub(crate) fn open(path: &Arc<PathBuf>) -> Result<Self, OpenError> {
        let connection = connect(path).map_err(|error| open_error(path, &error))?;
        Ok(Self {
            path: path.clone(),
            connection,
        })
    }

    /// Moves pages while the writer continues, until only few new ones are left.
    pub(crate) fn run(&self) -> Result<(), StorageError> {
        let mut before = 0;
        for _ in 0..PASSES {
            let pages = checkpoint(&self.connection, "PASSIVE").map_err(|error| storage_error(&self.path, &error))?;
            // The pages are counted from the start of the log, which may have restarted.
            if pages.abs_diff(before) < LITTLE {
                break;
            }
            before = pages;
        }
        Ok(())
    }
}

/// Moves pages of the log into the file, and syncs it. Returns how many of the log's pages have been moved.
fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<u64> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let moved: i64 = connection.prepare_cached(&sql)?.query_row([], |row| row.get(2))?;
    Ok(u64::try_from(moved).unwrap_or(0))
}

pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    // A start that fails leaves the files unchanged.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // The journal mode is set last: it is the first statement to read the file, and the one that gives an empty file
    // its page size.
    connection.execute_batch(
        "PRAGMA page_size = 4096;
         PRAGMA cache_size = -2048;
         PRAGMA cell_size_check = ON;
         PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 16777216;
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 0;",
    )?;
    Ok(connection)
}

/// Lets SQLite overwrite the bytes of removed rows, which may be plain values of a time without encryption.
fn erase(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA secure_delete = ON")
}

fn do_not_sync(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA synchronous = OFF")
}

/// Creates the tables of a store in an empty file.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {WITHOUT_ENCRYPTION};");
    connection.execute_batch(&format!("BEGIN; {SCHEMA} {marks}"))?;
    set_mark(connection, Mark::Content, Content::default().0)?;
    connection.execute_batch("COMMIT")
}

pub(super) fn insert(connection: &Connection, rows: &[Row<'_>], content: &mut Content) -> rusqlite::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    if rows.iter().any(|row| row.value.is_some_and(transform::is_encrypted)) {
        mark_encrypted(connection)?;
    }
    let mut insert = connection.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    for row in rows {
        let checksum = row.checksum();
        insert.execute(params![
            row.id.0,
            row.key,
            row.deleted,
            row.create_revision.cast_signed(),
            row.revision_at,
            row.milliseconds(),
            checksum,
            row.value,
        ])?;
        content.add(row.id, checksum);
    }
    Ok(())
}

/// Raises the format of a file that is about to hold encrypted values, which older programs would misread.
fn mark_encrypted(connection: &Connection) -> rusqlite::Result<()> {
    let version: i64 = connection
        .prepare_cached("PRAGMA user_version")?
        .query_row([], |row| row.get(0))?;
    match version < FORMAT {
        true => connection.execute_batch(&format!("PRAGMA user_version = {FORMAT}")),
        false => Ok(()),
    }
}

/// Returns the value of a mark, and whether its checksum is correct.
fn mark(connection: &Connection, mark: Mark) -> rusqlite::Result<Option<(u64, bool)>> {
    let sql = "SELECT value, checksum FROM mark WHERE name = ?1";
    let read = connection.query_row(sql, [mark.name()], |row| {
        let (value, checksum) = (row.get::<_, i64>(0)?, row.get::<_, u32>(1)?);
        Ok((value.cast_unsigned(), checksum == mark_checksum(value)))
    });
    read.optional()
}

pub(super) fn set_mark(connection: &Connection, mark: Mark, value: u64) -> rusqlite::Result<()> {
    let value = value.cast_signed();
    let mut set = connection.prepare_cached("INSERT OR REPLACE INTO mark VALUES (?1, ?2, ?3)")?;
    set.execute(params![mark.name(), value, mark_checksum(value)])?;
    Ok(())
}

fn mark_checksum(value: i64) -> u32 {
    crc32fast::hash(&value.to_le_bytes())
}

/// Returns the current row of a query of [`COLUMNS`], and its checksum.
fn row_of<'a>(row: &'a rusqlite::Row<'_>) -> rusqlite::Result<(Row<'a>, u32)> {
    let stored = Row {
        id: RowId(row.get(0)?),
        key: row.get_ref(1)?.as_blob()?,
        deleted: row.get(2)?,
        create_revision: row.get::<_, i64>(3)?.cast_unsigned(),
        revision_at: row.get(4)?,
        time: Duration::from_millis(row.get::<_, i64>(5)?.cast_unsigned()),
        value: row.get_ref(7)?.as_blob_or_null()?,
    };
    Ok((stored, row.get(6)?))
}

const COLUMNS: &str = "id, key, deleted, created, revision_at, time, checksum, value";

/// Returns the path of the write-ahead log of the store's file.
pub(super) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

fn file_error(path: &Path, error: &std::io::Error) -> StorageError {
    StorageError {
        path: Arc::new(path.to_owned()),
        detail: error.to_string().into(),
        full: error.kind() == std::io::ErrorKind::StorageFull,
    }
}

/// Describes the loss if the content that was found cannot include all acknowledged writes.
fn lost(found: impl std::fmt::Display, acknowledged: Revision) -> String {
    format!("{found}, while writes up to revision {acknowledged} were acknowledged: those after it are lost")
}

pub(super) fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => OpenError::Damaged {
            path,
            detail: error.to_string(),
        },
        _ => OpenError::Io {
            path,
            detail: error.to_string(),
        },
    }
}

fn storage_error(path: &Arc<PathBuf>, error: &rusqlite::Error) -> StorageError {
    let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
    StorageError {
        path: path.clone(),
        detail: error.to_string().into(),
        full,
    }
}
