//! Images: the newest version of each key at one revision, without history. An image is read from a store's file, even
//! while a server uses it, and written as a file of the same format.
//!
//! One read transaction sees one revision, whatever the server writes meanwhile. Memory is bounded, because rows are
//! processed one by one and SQLite sorts on the disk. A written file gets its name only when it is complete, synced and
//! verified.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::acknowledged::Acknowledged;
use super::directory::{Directory, STORE, private, sync_folder_of};
use super::disk::{Row, RowId};
use super::sqlite::{self, Content, Contents, Mark, Sound};
use crate::entry::{Entry, Indexer};
use crate::error::OpenError;
use crate::key::Revision;
use crate::state::Snapshot;

/// The newest rows of their keys, without removals. SQLite reads the other columns of `max(id)` from the same row.
const NEWEST: &str = "SELECT id FROM (SELECT max(id) AS id, deleted FROM log GROUP BY key) WHERE NOT deleted";

/// Number of entries between two progress reports of a copy.
const REPORT: u64 = 1000;

/// Summary of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Revision of the state.
    pub revision: Revision,
    /// Number of keys.
    pub entries: u64,
}

/// One key of an image.
#[derive(Clone, Copy, Debug)]
pub struct ImageEntry<'a> {
    /// Key.
    pub key: &'a [u8],
    /// Value without its revision.
    pub value: &'a [u8],
    /// Byte of `value` at which the decimal revision is inserted when it is served.
    pub revision_at: Option<u32>,
    /// Creation revision of the key.
    pub create_revision: Revision,
    /// Revision of this version.
    pub mod_revision: Revision,
}

/// The state of a store at one revision, in its file.
pub struct Image {
    path: PathBuf,
    connection: Connection,
    summary: Summary,
    /// Directory that no other process may use meanwhile.
    _directory: Option<Directory>,
}

impl Image {
    /// Opens the present state of a data directory, whether or not a server has it open. Checks that every row is
    /// present.
    ///
    /// # Errors
    /// If there is no store, or its content is not what was written.
    pub fn of_directory(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join(STORE);
        // Read before the transaction begins, so that the transaction sees everything acknowledged until now.
        let acknowledged = Acknowledged::read(&path)?;
        Self::read(path, acknowledged)
    }

    /// Opens the state of a data directory that no server has open, and keeps others from opening it.
    ///
    /// # Errors
    /// See [`Image::of_directory`]; also if another process has it open.
    pub fn of_idle_directory(directory: &Path) -> Result<Self, OpenError> {
        if !directory.join(STORE).exists() {
            return Err(absent(&directory.join(STORE)));
        }
        let locked = Directory::take(directory)?;
        let mut image = Self::of_directory(directory)?;
        image._directory = Some(locked);
        Ok(image)
    }

    /// Opens a file that [`Image::write`] created.
    ///
    /// # Errors
    /// If it is not such a file, or incomplete.
    pub fn of_file(path: &Path) -> Result<Self, OpenError> {
        Self::read(path.to_owned(), None)
    }

    fn read(path: PathBuf, acknowledged: Option<Revision>) -> Result<Self, OpenError> {
        if !path.is_file() {
            return Err(absent(&path));
        }
        let io_error = |error| sqlite::open_error(&path, &error);
        let connection = connect(&path).map_err(io_error)?;
        let reader = sqlite::Reader::around(&path, connection);
        let format = reader.format()?.ok_or_else(|| absent(&path))?;
        reader.connection.execute_batch("BEGIN").map_err(io_error)?;
        let Contents {
            content,
            newest,
            misplaced,
        } = sqlite::contents(&reader.connection).map_err(io_error)?;
        if let Some(id) = misplaced {
            return Err(reader.misplaced(id));
        }
        let compacted = reader.mark(Mark::Compacted)?.unwrap_or(1);
        let revision = compacted.max(newest);
        if format != sqlite::WITHOUT_CONTENT {
            reader.check(content, revision, acknowledged)?;
        }
        let entries = reader
            .connection
            .query_row(&format!("SELECT count(*) FROM ({NEWEST})"), [], |row| {
                row.get::<_, i64>(0)
            })
            .map_err(io_error)?;
        let summary = Summary {
            revision,
            entries: entries.cast_unsigned(),
        };
        Ok(Self {
            connection: reader.connection,
            path,
            summary,
            _directory: None,
        })
    }

    /// Returns a summary of the image.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Returns true if both hold the same versions of the same keys.
    ///
    /// # Errors
    /// If an entry is not what was written.
    pub fn equals(&self, other: &Self) -> Result<bool, OpenError> {
        let sum = |image: &Self| {
            let mut content = Content::default();
            image.rows(|row| {
                content.add(row.id, row.checksum());
                Ok::<_, OpenError>(())
            })?;
            Ok::<_, OpenError>(content)
        };
        Ok(self.summary.entries == other.summary.entries && sum(self)? == sum(other)?)
    }

    /// Reads and checks every entry, in the order of writing.
    ///
    /// # Errors
    /// If an entry is not what was written, or `visit` returns an error.
    pub fn entries<E: From<OpenError>>(&self, mut visit: impl FnMut(ImageEntry<'_>) -> Result<(), E>) -> Result<(), E> {
        self.rows(|row| {
            visit(ImageEntry {
                key: row.key,
                value: row.value.unwrap_or_default(),
                revision_at: row.revision_at,
                create_revision: row.create_revision,
                mod_revision: row.id.revision(),
            })
        })
    }

    /// Reads every entry and reports its progress.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] if an entry is not what was written.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<Summary, OpenError> {
        let mut read = 0;
        self.rows(|_| {
            read += 1;
            report(read, &mut progress);
            Ok::<_, OpenError>(())
        })?;
        if read != self.summary.entries {
            return Err(self.damaged(format!("{read} of {} entries can be read", self.summary.entries)));
        }
        Ok(self.summary)
    }

    fn rows<E: From<OpenError>>(&self, mut visit: impl FnMut(&Row<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut outcome = Ok(());
        let only = format!("WHERE id IN ({NEWEST})");
        let read = sqlite::sound_rows(&self.connection, &only, "ASC", |sound| {
            outcome = match sound {
                Sound::Yes(row) if row.value.is_some() => visit(&row),
                _ => Err(self.damaged("the checksum of an entry is wrong".to_owned()).into()),
            };
            outcome.is_ok()
        });
        outcome?;
        read.map_err(|error| sqlite::open_error(&self.path, &error).into())
    }

    /// Writes these entries to a file at `revision`, which is at least the image's own revision. Reports the number of
    /// entries written so far.
    ///
    /// # Errors
    /// If `path` exists or cannot be written, or an entry is not what was written.
    pub fn write(&self, path: &Path, revision: Revision, progress: impl FnMut(u64)) -> Result<Summary, OpenError> {
        if path.exists() {
            return Err(OpenError::Occupied { path: path.to_owned() });
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let draft = PathBuf::from(name);
        let summary = write_draft(self, &draft, revision, progress)?;
        let named = fs::rename(&draft, path).and_then(|()| sync_folder_of(path));
        named.map_err(OpenError::io(path))?;
        Ok(summary)
    }

    /// Creates a data directory with these entries, whose store is at `revision`. Starts again if an earlier attempt
    /// was not finished.
    ///
    /// # Errors
    /// See [`Image::write`]; also if the directory holds a store or is in use.
    pub fn restore(
        &self,
        directory: &Path,
        revision: Revision,
        progress: impl FnMut(u64),
    ) -> Result<Summary, OpenError> {
        restore(self, directory, revision, progress)
    }

    /// Creates a data directory, as [`Image::restore`] does, with other bytes for the values.
    ///
    /// # Errors
    /// See [`Image::restore`]; also if `recode` fails.
    pub fn restore_recoded(
        &self,
        directory: &Path,
        revision: Revision,
        recode: &Recode<'_>,
        progress: impl FnMut(u64),
    ) -> Result<Summary, OpenError> {
        let recoded = Recoded {
            source: self,
            path: &self.path,
            recode,
        };
        restore(&recoded, directory, revision, progress)
    }

    fn damaged(&self, detail: String) -> OpenError {
        OpenError::Damaged {
            path: self.path.clone(),
            detail,
        }
    }
}

/// Function that returns the bytes to store instead of the value of a key, or `None` for the same bytes; its error is a
/// description.
pub type Recode<'a> = dyn Fn(&[u8], &[u8]) -> Result<Option<Vec<u8>>, String> + 'a;

/// Entries of a source whose values are stored in other bytes.
struct Recoded<'a, S> {
    source: &'a S,
    path: &'a Path,
    recode: &'a Recode<'a>,
}

impl<S: Source> Source for Recoded<'_, S> {
    fn count(&self) -> u64 {
        self.source.count()
    }

    fn rows(&self, take: &mut dyn FnMut(&Row<'_>) -> Result<(), OpenError>) -> Result<(), OpenError> {
        self.source.rows(&mut |row| {
            let outcome = (self.recode)(row.key, row.value.unwrap_or_default());
            let recoded = outcome.map_err(|detail| OpenError::Io {
                path: self.path.to_owned(),
                detail,
            })?;
            take(&Row {
                value: recoded.as_deref().or(row.value),
                ..*row
            })
        })
    }
}

/// Source of the entries of a file.
trait Source {
    /// Returns the number of entries.
    fn count(&self) -> u64;

    /// Passes each entry to `visit`, once.
    fn rows(&self, visit: &mut dyn FnMut(&Row<'_>) -> Result<(), OpenError>) -> Result<(), OpenError>;
}

impl Source for Image {
    fn count(&self) -> u64 {
        self.summary.entries
    }

    fn rows(&self, visit: &mut dyn FnMut(&Row<'_>) -> Result<(), OpenError>) -> Result<(), OpenError> {
        Image::rows(self, |row| visit(row))
    }
}

/// The selected entries of a state. `kept` returns `None` for others, and true for entries that were updated after their
/// creation whatever their revisions are.
struct KeptEntries<'a, X: Indexer, F> {
    snapshot: &'a Snapshot<X>,
    kept: F,
}

impl<X: Indexer, F: Fn(&[u8]) -> Option<bool>> KeptEntries<'_, X, F> {
    fn entries(&self) -> impl Iterator<Item = (&Arc<Entry<X>>, bool)> {
        let entries = self.snapshot.range(b"");
        entries.filter_map(|entry| Some((entry, (self.kept)(entry.key())?)))
    }
}

impl<X: Indexer, F: Fn(&[u8]) -> Option<bool>> Source for KeptEntries<'_, X, F> {
    fn count(&self) -> u64 {
        self.entries().count() as u64
    }

    fn rows(&self, visit: &mut dyn FnMut(&Row<'_>) -> Result<(), OpenError>) -> Result<(), OpenError> {
        // A state that was read from elsewhere does not know the positions of entries in their transactions.
        let mut written: HashMap<Revision, u16> = HashMap::new();
        self.entries().try_for_each(|(entry, is_updated)| {
            let value = entry.value();
            let position = written.entry(entry.mod_revision()).or_default();
            let id = RowId::new(entry.mod_revision(), *position);
            if id > RowId::last_of(entry.mod_revision()) {
                return Err(OpenError::Etcd {
                    detail: format!("too many keys have the revision {}", entry.mod_revision()),
                });
            }
            *position += 1;
            visit(&Row {
                id,
                key: entry.key().as_bytes(),
                deleted: false,
                // An entry whose revisions are equal counts as new.
                create_revision: match is_updated {
                    true => entry.create_revision().min(entry.mod_revision() - 1),
                    false => entry.create_revision(),
                },
                revision_at: value.revision_at(),
                time: Duration::ZERO,
                value: Some(value.bytes()),
            })
        })
    }
}

/// Creates a data directory with the selected entries of a state and their revisions; its store is at the revision of
/// the state. `kept` returns `None` for entries that are left out, and true for those that were updated after their
/// creation whatever their revisions are: they get an earlier creation. `recode` returns the bytes to store for each value.
///
/// # Errors
/// See [`Image::restore`]; also if `recode` fails.
pub fn image_of_snapshot<X: Indexer>(
    snapshot: &Snapshot<X>,
    kept: impl Fn(&[u8]) -> Option<bool>,
    directory: &Path,
    recode: &Recode<'_>,
    progress: impl FnMut(u64),
) -> Result<Summary, OpenError> {
    let kept = KeptEntries { snapshot, kept };
    let recoded = Recoded {
        source: &kept,
        path: directory,
        recode,
    };
    restore(&recoded, directory, snapshot.revision(), progress)
}

fn restore(
    source: &impl Source,
    directory: &Path,
    revision: Revision,
    progress: impl FnMut(u64),
) -> Result<Summary, OpenError> {
    let _locked = Directory::take(directory)?;
    let store = directory.join(STORE);
    let draft = directory.join(format!("{STORE}.restoring"));
    // An attempt that ended between these two steps left a draft.
    let begun = draft.exists();
    for leftover in [store.clone(), sqlite::log_of(&store), super::acknowledged::path(&store)] {
        let own = begun && leftover == super::acknowledged::path(&store);
        // Readers of a store leave an empty log behind.
        let there = fs::metadata(&leftover).is_ok_and(|file| file.len() > 0 || leftover == store);
        if there && !own {
            return Err(OpenError::Occupied { path: leftover });
        }
    }
    let summary = write_draft(source, &draft, revision, progress)?;
    Acknowledged::begin(&store, revision)?;
    let named = fs::rename(&draft, &store).and_then(|()| sync_folder_of(&store));
    named.map_err(OpenError::io(&store))?;
    Ok(summary)
}

/// Writes a file, syncs it, and reads it back.
fn write_draft(
    source: &impl Source,
    draft: &Path,
    revision: Revision,
    mut progress: impl FnMut(u64),
) -> Result<Summary, OpenError> {
    let io_error = OpenError::io(draft);
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
        _ => {}
    }
    private(draft).map_err(io_error)?;
    let written = fill(source, draft, revision, &mut progress)?;
    File::open(draft).and_then(|file| file.sync_all()).map_err(io_error)?;
    let back = Image::of_file(draft)?;
    let summary = back.verify(|_| {})?;
    if summary
        != (Summary {
            revision,
            entries: written,
        })
        || written != source.count()
    {
        return Err(back.damaged(format!(
            "it holds {summary:?} and not the {written} entries that were written"
        )));
    }
    Ok(summary)
}

fn fill(
    source: &impl Source,
    draft: &Path,
    revision: Revision,
    progress: &mut impl FnMut(u64),
) -> Result<u64, OpenError> {
    let error = |error| sqlite::open_error(draft, &error);
    let target = Connection::open_with_flags(draft, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(error)?;
    // No other process knows the file, and an unfinished one is discarded.
    target
        .execute_batch("PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        .map_err(error)?;
    sqlite::create(&target).map_err(error)?;
    target.execute_batch("BEGIN").map_err(error)?;
    let (mut content, mut written) = (Content::default(), 0);
    source.rows(&mut |row| {
        sqlite::insert(&target, std::slice::from_ref(row), &mut content).map_err(error)?;
        written += 1;
        report(written, progress);
        Ok(())
    })?;
    let finish = || {
        sqlite::set_mark(&target, Mark::Compacted, revision)?;
        sqlite::set_mark(&target, Mark::Content, content.0)?;
        target.execute_batch("COMMIT")
    };
    finish().map_err(error)?;
    target.close().map_err(|(_, closing)| error(closing))?;
    Ok(written)
}

/// Opens a file for reading while others may write to it.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Writable, because readers also share the index of the write-ahead log.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch(
        "PRAGMA cache_size = -8192; PRAGMA cell_size_check = ON; PRAGMA temp_store = FILE; PRAGMA query_only = ON;",
    )?;
    Ok(connection)
}

fn report(done: u64, progress: &mut impl FnMut(u64)) {
    if done.is_multiple_of(REPORT) {
        progress(done);
    }
}

fn absent(path: &Path) -> OpenError {
    OpenError::Io {
        path: path.to_owned(),
        detail: "there is no store".to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::config::Config;
    use crate::entry::Value;
    use crate::store::Store;
    use crate::transaction::Transaction;

    async fn filled(directory: &Path, keys: usize) -> Store<()> {
        let store = Store::open(Config::new(directory), ()).unwrap();
        for number in 0..keys {
            let value = Value::object(format!("{{\"\":{number}}}").into_bytes(), 2);
            let transaction = Transaction::new().put(format!("/a/{number}"), value);
            store.commit(transaction).await.unwrap();
        }
        store.commit(Transaction::new().delete("/a/1")).await.unwrap();
        store
            .commit(Transaction::new().put("/a/0", Value::plain("again")))
            .await
            .unwrap();
        store
    }

    fn shown(store: &Store<()>) -> Vec<(Vec<u8>, Vec<u8>, Revision, Revision)> {
        let snapshot = store.snapshot();
        let entries = snapshot.range(b"/");
        entries
            .map(|entry| {
                let (key, bytes) = (entry.key().to_vec(), entry.bytes().to_vec());
                (key, bytes, entry.create_revision(), entry.mod_revision())
            })
            .collect()
    }

    #[tokio::test]
    async fn an_image_beside_the_store_is_restored_with_all_its_revisions() {
        let folder = tempfile::tempdir().unwrap();
        let (data, file, other) = (
            folder.path().join("data"),
            folder.path().join("file"),
            folder.path().join("other"),
        );
        let store = filled(&data, 3000).await;
        let expected = shown(&store);
        let revision = store.revision();
        let image = Image::of_directory(&data).unwrap();
        // Later writes are not in it.
        store
            .commit(Transaction::new().put("/a/later", Value::plain("x")))
            .await
            .unwrap();
        let mut reports = Vec::new();
        let saved = image
            .write(&file, image.summary().revision, |done| reports.push(done))
            .unwrap();
        assert_eq!((saved.revision, saved.entries), (revision, 2999));
        assert_eq!(reports, [1000, 2000]);
        assert!(matches!(
            image.write(&file, revision, |_| {}),
            Err(OpenError::Occupied { .. })
        ));
        store.close().await.unwrap();

        let image = Image::of_file(&file).unwrap();
        image.restore(&other, revision + 7, |_| {}).unwrap();
        assert!(matches!(
            image.restore(&other, revision, |_| {}),
            Err(OpenError::Occupied { .. })
        ));
        let restored = Store::open(Config::new(&other), ()).unwrap();
        assert_eq!(shown(&restored), expected);
        assert_eq!(restored.revision(), revision + 7);
        assert_eq!(restored.oldest_revision(), revision + 7);
        restored.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_is_made_of_what_is_kept_of_a_state() {
        let folder = tempfile::tempdir().unwrap();
        let (data, other) = (folder.path().join("data"), folder.path().join("other"));
        let store = filled(&data, 10).await;
        let two = Transaction::new()
            .put("/a/x", Value::plain("x"))
            .put("/a/y", Value::object("{\"\":}", 5));
        store.commit(two).await.unwrap();
        let snapshot = store.snapshot();
        let kept = |key: &[u8]| (key != b"/a/5").then_some(false);
        image_of_snapshot(&snapshot, kept, &other, &|_, _| Ok(None), |_| {}).unwrap();
        let expected: Vec<_> = shown(&store).into_iter().filter(|entry| entry.0 != b"/a/5").collect();
        let made = Store::open(Config::new(&other), ()).unwrap();
        assert_eq!(shown(&made), expected);
        assert_eq!(made.revision(), store.revision());
        store.close().await.unwrap();
        made.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_restore_that_broke_off_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (data, other) = (folder.path().join("data"), folder.path().join("other"));
        filled(&data, 10).await.close().await.unwrap();
        let image = Image::of_idle_directory(&data).unwrap();
        assert!(matches!(Image::of_idle_directory(&data), Err(OpenError::InUse { .. })));
        fs::create_dir(&other).unwrap();
        // The state after a kill between the last two steps.
        fs::write(other.join("store.db.restoring"), "torn").unwrap();
        Acknowledged::begin(&other.join(STORE), 5).unwrap();
        image.restore(&other, 100, |_| {}).unwrap();
        let restored = Store::open(Config::new(&other), ()).unwrap();
        assert_eq!(restored.revision(), 100);
        assert_eq!(restored.snapshot().len(), 9);
        restored.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_changed_or_missing_part_of_a_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (data, file) = (folder.path().join("data"), folder.path().join("file"));
        filled(&data, 500).await.close().await.unwrap();
        let image = Image::of_idle_directory(&data).unwrap();
        image.write(&file, image.summary().revision, |_| {}).unwrap();
        let whole = fs::read(&file).unwrap();
        let verify = || Image::of_file(&file).and_then(|image| image.verify(|_| {}));
        verify().unwrap();
        let mut changed = whole.clone();
        // Free parts of pages may hold copies.
        for at in 0..whole.len() - 7 {
            if whole[at..].starts_with(b"{\"\":77}") {
                changed[at + 4] = b'8';
            }
        }
        for bytes in [&changed[..], &whole[..whole.len() / 2], &whole[..0], b"something else"] {
            File::create(&file).unwrap().write_all(bytes).unwrap();
            assert!(verify().is_err(), "{} bytes", bytes.len());
        }
    }
}
