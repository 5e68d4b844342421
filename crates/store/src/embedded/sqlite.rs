//! The log in a SQLite file. `FORMAT.md` describes the file and what is promised of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};

use super::disk::{Disk, Row, RowId, Step};
use crate::entry::{Indexer, Stored, Version};
use crate::error::{OpenError, StorageError};
use crate::key::Revision;
use crate::state::{At, Draft};

/// `PRAGMA application_id` of a store: "Hold".
const APPLICATION: i64 = 0x486f_6c64;
/// `PRAGMA user_version`: raised whenever an older program could misread the file.
const FORMAT: i64 = 1;

/// The most times that a checkpoint goes after what was written during its last pass.
const PASSES: usize = 4;
/// So few pages the writer may move itself without keeping anyone waiting for long.
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

/// The store's file, open for writing.
pub(crate) struct Sqlite {
    path: Arc<PathBuf>,
    connection: Connection,
}

impl Sqlite {
    /// Opens the file, which may be empty, and checks that it is a store that can be read.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let connection = connect(path).map_err(|error| open_error(path, &error))?;
        let sqlite = Self {
            path: Arc::new(path.to_owned()),
            connection,
        };
        sqlite.check_format()?;
        Ok(sqlite)
    }

    /// The file's path, shared by all errors that name it.
    pub(crate) fn path(&self) -> &Arc<PathBuf> {
        &self.path
    }

    /// Leaves the file no room beyond so many pages, until it is opened anew.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, pages: u32) -> rusqlite::Result<()> {
        self.connection
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
    }

    fn check_format(&self) -> Result<(), OpenError> {
        let error = |error| open_error(&self.path, &error);
        let number = |sql: &str| {
            self.connection
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .map_err(error)
        };
        let application = number("PRAGMA application_id")?;
        if application == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 {
            let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};");
            return self
                .connection
                .execute_batch(&format!("BEGIN; {SCHEMA} {marks} COMMIT;"))
                .map_err(error);
        }
        if application != APPLICATION {
            return Err(OpenError::NotAStore {
                path: self.path.to_path_buf(),
            });
        }
        let found = number("PRAGMA user_version")?;
        if found > FORMAT {
            return Err(OpenError::NewerFormat {
                path: self.path.to_path_buf(),
                found,
                supported: FORMAT,
            });
        }
        Ok(())
    }

    /// Reads everything into an empty draft: first what was there before the history begins, then its events. Returns
    /// the revision up to which the history is gone.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] with the key of the first row that is not what was written.
    pub(crate) fn load<X: Indexer>(&self, draft: &mut Draft<X>) -> Result<Revision, OpenError> {
        let error = |error| open_error(&self.path, &error);
        let compacted = self.compacted()?;
        draft.pass(compacted);
        let sql = "SELECT id, key, deleted, created, revision_at, time, checksum, value FROM log ORDER BY id";
        let mut statement = self.connection.prepare(sql).map_err(error)?;
        let mut rows = statement.query([]).map_err(error)?;
        while let Some(row) = rows.next().map_err(error)? {
            let read = || -> rusqlite::Result<(Row<'_>, u32)> {
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
            };
            let (row, checksum) = read().map_err(|error| match error {
                rusqlite::Error::SqliteFailure(..) => open_error(&self.path, &error),
                other => self.damaged(other.to_string()),
            })?;
            if row.checksum() != checksum {
                let key = String::from_utf8_lossy(row.key);
                return Err(self.damaged(format!(
                    "the checksum of {key} at revision {} is wrong",
                    row.id.revision()
                )));
            }
            self.replay(draft, &row, compacted)?;
        }
        Ok(compacted)
    }

    fn replay<X: Indexer>(&self, draft: &mut Draft<X>, row: &Row<'_>, compacted: Revision) -> Result<(), OpenError> {
        let inconsistent = || {
            let key = String::from_utf8_lossy(row.key);
            self.damaged(format!(
                "the row of {key} at revision {} does not fit those before it",
                row.id.revision()
            ))
        };
        let outside = row
            .revision_at
            .is_some_and(|at| at as usize > row.value.map_or(0, <[u8]>::len));
        if outside || row.key.is_empty() || row.id.revision() == 0 {
            return Err(inconsistent());
        }
        let value = row.value.map(|value| Stored::borrowed(value, row.revision_at));
        let at = At {
            revision: row.id.revision(),
            position: row.id.position(),
            time: row.time,
        };
        match (row.deleted, value) {
            (false, Some(value)) if at.revision <= compacted => {
                let create_revision = row.create_revision;
                let version = Version {
                    mod_revision: at.revision,
                    create_revision,
                    position: at.position,
                };
                draft.place(row.key.into(), value, version);
            }
            (false, Some(value)) => {
                draft.put_created(row.key.into(), value, at, row.create_revision, None);
            }
            (true, last) if at.revision > compacted => {
                draft.delete(&row.key.into(), last, at).ok_or_else(inconsistent)?;
            }
            _ => return Err(inconsistent()),
        }
        Ok(())
    }

    fn compacted(&self) -> Result<Revision, OpenError> {
        let sql = "SELECT value, checksum FROM mark WHERE name = 'compacted'";
        let read = self
            .connection
            .query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?)));
        match read.optional().map_err(|error| open_error(&self.path, &error))? {
            None => Ok(1),
            Some((value, checksum)) if checksum == mark_checksum(value) => Ok(value.cast_unsigned()),
            Some(_) => Err(self.damaged("the checksum of the compacted revision is wrong".to_owned())),
        }
    }

    fn damaged(&self, detail: String) -> OpenError {
        OpenError::Damaged {
            path: self.path.to_path_buf(),
            detail,
        }
    }

    fn storage_error(&self, error: &rusqlite::Error) -> StorageError {
        storage_error(&self.path, error)
    }

    fn write_step(&self, step: Step<'_>) -> rusqlite::Result<()> {
        let connection = &self.connection;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        if !step.rows.is_empty() {
            let mut insert = connection.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
            for row in step.rows {
                insert.execute(params![
                    row.id.0,
                    row.key,
                    row.deleted,
                    row.create_revision.cast_signed(),
                    row.revision_at,
                    row.milliseconds(),
                    row.checksum(),
                    row.value,
                ])?;
            }
        }
        if !step.dead.is_empty() {
            let mut delete = connection.prepare_cached("DELETE FROM log WHERE id = ?1")?;
            for id in step.dead {
                delete.execute([id.0])?;
            }
        }
        if let Some(compacted) = step.compacted {
            let value = compacted.cast_signed();
            let sql = "INSERT OR REPLACE INTO mark VALUES ('compacted', ?1, ?2)";
            connection
                .prepare_cached(sql)?
                .execute(params![value, mark_checksum(value)])?;
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Disk for Sqlite {
    fn write(&mut self, step: Step<'_>) -> Result<(), StorageError> {
        self.write_step(step).map_err(|error| {
            // Where this fails too, recovery opens the file anew.
            if !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
            self.storage_error(&error)
        })
    }

    fn recover(&mut self, revision: Revision) -> Result<(), StorageError> {
        let recover = || -> rusqlite::Result<Connection> {
            let connection = connect(&self.path)?;
            let newest: Option<i64> = connection.query_row("SELECT max(id) FROM log", [], |row| row.get(0))?;
            let last = RowId::last_of(revision);
            if newest.is_some_and(|newest| RowId(newest) > last) {
                connection.execute("DELETE FROM log WHERE id > ?1", [last.0])?;
            }
            Ok(connection)
        };
        self.connection = recover().map_err(|error| self.storage_error(&error))?;
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), StorageError> {
        checkpoint(&self.connection, "PASSIVE").map_err(|error| self.storage_error(&error))?;
        Ok(())
    }

    fn close(self) -> Result<(), StorageError> {
        checkpoint(&self.connection, "TRUNCATE").map_err(|error| self.storage_error(&error))?;
        self.connection
            .close()
            .map_err(|(_, error)| storage_error(&self.path, &error))
    }
}

/// Moves the write-ahead log into the file from a thread of its own, beside the writer.
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

    /// Moves what can be moved while the writer goes on, until what came meanwhile is little.
    pub(crate) fn run(&self) -> Result<(), StorageError> {
        let mut before = 0;
        for _ in 0..PASSES {
            let pages = checkpoint(&self.connection, "PASSIVE").map_err(|error| storage_error(&self.path, &error))?;
            // The pages are counted from the start of the log, which may have started over.
            if pages.abs_diff(before) < LITTLE {
                break;
            }
            before = pages;
        }
        Ok(())
    }
}

/// Moves pages of the log into the file, and syncs it. Returns how many of the log's pages are moved by now.
fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<u64> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let moved: i64 = connection.prepare_cached(&sql)?.query_row([], |row| row.get(2))?;
    Ok(u64::try_from(moved).unwrap_or(0))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    // The journal mode last: it is the first to read the file, and to give an empty one its page size.
    connection.execute_batch(
        "PRAGMA page_size = 4096;
         PRAGMA cache_size = -2048;
         PRAGMA cell_size_check = ON;
         PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 33554432;
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 0;",
    )?;
    Ok(connection)
}

fn mark_checksum(value: i64) -> u32 {
    crc32fast::hash(&value.to_le_bytes())
}

fn open_error(path: &Path, error: &rusqlite::Error) -> OpenError {
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
