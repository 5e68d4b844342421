//! Reads the file at a start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

use super::{
    APPLICATION, COLUMNS, Content, FORMAT, Mark, RowOrder, WITHOUT_ENCRYPTION, connect, create, lost, mark, open_error,
    row_of, set_mark,
};
use crate::embedded::disk::{Row, RowId};
use crate::embedded::replay::{Inconsistent, replay};
use crate::entry::Indexer;
use crate::error::OpenError;
use crate::key::Revision;
use crate::state::Draft;
use crate::transform::Transformer;

/// The store's file as it is read at a start.
pub(crate) struct Reader {
    path: PathBuf,
    pub(crate) connection: Connection,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let connection = connect(path).map_err(|error| open_error(path, &error))?;
        Ok(Self::around(path, connection))
    }

    /// Creates a reader of the file at `path` that uses this connection.
    pub(crate) fn around(path: &Path, connection: Connection) -> Self {
        Self {
            path: path.to_owned(),
            connection,
        }
    }

    /// Returns the version of the file's format; `None` if the file is empty.
    pub(crate) fn format(&self) -> Result<Option<i64>, OpenError> {
        let number = |sql: &str| {
            let read = self.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
            read.map_err(|error| self.error(&error))
        };
        let application = number("PRAGMA application_id")?;
        if application == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 {
            return Ok(None);
        }
        let path = self.path.clone();
        if application != APPLICATION {
            return Err(OpenError::NotAStore { path });
        }
        let found = number("PRAGMA user_version")?;
        let supported = FORMAT;
        if found > supported {
            return Err(OpenError::NewerFormat { path, found, supported });
        }
        Ok(Some(found))
    }

    pub(super) fn create(&self) -> Result<(), OpenError> {
        create(&self.connection).map_err(|error| self.error(&error))
    }

    /// Upgrades the file to the current format.
    pub(super) fn upgrade(&self, content: Content) -> Result<(), OpenError> {
        let upgrade = || {
            self.connection.execute_batch("BEGIN IMMEDIATE")?;
            set_mark(&self.connection, Mark::Content, content.0)?;
            let finish = format!("PRAGMA user_version = {WITHOUT_ENCRYPTION}; COMMIT");
            self.connection.execute_batch(&finish)
        };
        upgrade().map_err(|error| self.error(&error))
    }

    /// Checks that the rows that were read are the ones that the file records, and include all acknowledged writes.
    pub(crate) fn check(
        &self,
        read: Content,
        revision: Revision,
        acknowledged: Option<Revision>,
    ) -> Result<(), OpenError> {
        if let Some(acknowledged) = acknowledged.filter(|acknowledged| revision < *acknowledged) {
            let found = format!("it and its write-ahead log end at revision {revision}");
            return Err(self.damaged(lost(found, acknowledged)));
        }
        if self.mark(Mark::Content)? != Some(read.0) {
            return Err(self.damaged(format!(
                "rows are missing or back that were removed, up to revision {revision}: a part of the file or of its \
                 write-ahead log is gone"
            )));
        }
        Ok(())
    }

    pub(crate) fn mark(&self, wanted: Mark) -> Result<Option<u64>, OpenError> {
        match mark(&self.connection, wanted).map_err(|error| self.error(&error))? {
            None => Ok(None),
            Some((value, true)) => Ok(Some(value)),
            Some((_, false)) => Err(self.damaged(format!("the checksum of its mark {:?} is wrong", wanted.name()))),
        }
    }

    fn error(&self, error: &rusqlite::Error) -> OpenError {
        open_error(&self.path, error)
    }

    /// Reads everything into an empty draft: first the entries before the history begins, then the events. Returns the
    /// compacted revision, and the checksum of the set of rows.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] with the key of the first row that is not what was written.
    pub(super) fn load<X: Indexer>(
        &self,
        draft: &mut Draft<X>,
        transformer: Option<&Arc<dyn Transformer>>,
    ) -> Result<(Revision, Content), OpenError> {
        let error = |error| self.error(&error);
        let compacted = self.mark(Mark::Compacted)?.unwrap_or(1);
        draft.pass(compacted);
        let sql = format!("SELECT {COLUMNS} FROM log ORDER BY id");
        let mut statement = self.connection.prepare(&sql).map_err(error)?;
        let mut rows = statement.query([]).map_err(error)?;
        let (mut content, mut order) = (Content::default(), RowOrder::default());
        while let Some(row) = rows.next().map_err(error)? {
            let (row, checksum) = row_of(row).map_err(|error| match error {
                rusqlite::Error::SqliteFailure(..) => self.error(&error),
                other => self.damaged(other.to_string()),
            })?;
            if row.checksum() != checksum {
                let key = String::from_utf8_lossy(row.key);
                return Err(self.damaged(format!(
                    "the checksum of {key} at revision {} is wrong",
                    row.id.revision()
                )));
            }
            if !order.ascends_to(row.id) {
                return Err(self.misplaced(row.id));
            }
            content.add(row.id, checksum);
            replay(draft, &row, compacted, transformer).map_err(|Inconsistent| self.inconsistent(&row))?;
        }
        Ok((compacted, content))
    }

    fn inconsistent(&self, row: &Row<'_>) -> OpenError {
        let key = String::from_utf8_lossy(row.key);
        self.damaged(format!(
            "the row of {key} at revision {} does not fit those before it",
            row.id.revision()
        ))
    }

    /// Returns the error of a row that comes after a newer one.
    pub(crate) fn misplaced(&self, id: RowId) -> OpenError {
        self.damaged(format!(
            "a row of revision {} comes after newer rows: pages of the file are in the wrong places",
            id.revision()
        ))
    }

    pub(crate) fn damaged(&self, detail: String) -> OpenError {
        OpenError::Damaged {
            path: self.path.clone(),
            detail,
        }
    }
}
