//! The acknowledged revision, stored separately from the log so that a log that lost its end is detected.
//!
//! The file has two slots of one sector each, which are written alternately; the newer one is valid. A slot is written
//! after each durable group, before any write of the group is acknowledged, and not synced with it: the page cache
//! outlives the process, and after a power cut the file may be older than the log, but never newer. `FORMAT.md`
//! explains the consequences.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::OpenError;
use crate::key::Revision;

const NAME: &str = "acknowledged";
const MAGIC: [u8; 8] = *b"HoldAck\x01";
const RECORD: usize = 20;
/// Offsets of the slots, further apart than any sector or page.
const SLOTS: [u64; 2] = [0, 4096];

/// The file, opened for writing.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    file: Arc<Synced>,
    /// Index of the slot to write next.
    next: usize,
}

/// The file, and a flag for writes since the last sync.
#[derive(Debug)]
pub(crate) struct Synced {
    path: PathBuf,
    file: File,
    written: AtomicBool,
}

impl Synced {
    /// Syncs the file if it was written.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.written.swap(false, Ordering::AcqRel) {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

impl Acknowledged {
    /// Reads the file next to the store's: the revision up to which writes were acknowledged; `None` if there is no
    /// such file.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] if it does not contain what was written.
    pub(crate) fn read(store: &Path) -> Result<Option<Revision>, OpenError> {
        let path = store.with_file_name(NAME);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::io(&path)(error)),
        };
        let slots: Option<Vec<Revision>> = SLOTS.iter().map(|at| revision(&bytes, *at)).collect();
        let newest = slots.and_then(|slots| slots.into_iter().max());
        newest.map(Some).ok_or_else(|| OpenError::Damaged {
            path,
            detail: "it does not say up to which revision writes were acknowledged".to_owned(),
        })
    }

    /// Creates the file next to the store's again, recording that writes up to `revision` were acknowledged; durable on
    /// return. It replaces the previous file atomically, so that no crash leaves an unreadable one.
    pub(crate) fn begin(store: &Path, revision: Revision) -> Result<Self, OpenError> {
        let path = store.with_file_name(NAME);
        let begin = || -> io::Result<Self> {
            let beginning = path.with_extension("new");
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&beginning)?;
            let file = Synced {
                path: path.clone(),
                file,
                written: AtomicBool::new(false),
            };
            let mut acknowledged = Self {
                file: Arc::new(file),
                next: 0,
            };
            acknowledged.reset(revision)?;
            std::fs::rename(&beginning, &path)?;
            super::directory::sync_folder_of(&path)?;
            Ok(acknowledged)
        };
        begin().map_err(OpenError::io(&path))
    }

    /// Records that writes up to `revision` are about to be acknowledged.
    #[expect(clippy::indexing_slicing, reason = "`next` alternates between the two slots")]
    pub(crate) fn advance(&mut self, revision: Revision) -> io::Result<()> {
        self.file.file.write_all_at(&record(revision), SLOTS[self.next])?;
        self.file.written.store(true, Ordering::Release);
        self.next = 1 - self.next;
        Ok(())
    }

    /// Records that writes up to `revision`, and none beyond, were acknowledged, whatever the file contained; durable
    /// on return.
    pub(crate) fn reset(&mut self, revision: Revision) -> io::Result<()> {
        for at in SLOTS {
            self.file.file.write_all_at(&record(revision), at)?;
        }
        self.file.file.sync_all()
    }

    /// Returns the file for the task that syncs it.
    pub(crate) fn file(&self) -> Arc<Synced> {
        Arc::clone(&self.file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }
}

/// Returns the path of the file next to the store's.
pub(crate) fn path(store: &Path) -> PathBuf {
    store.with_file_name(NAME)
}

fn record(revision: Revision) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&revision.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[..16]);
    bytes[16..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns the revision of the slot at offset `at`, if the slot is valid.
fn revision(bytes: &[u8], at: u64) -> Option<Revision> {
    let slot = bytes.get(usize::try_from(at).ok()?..)?.get(..RECORD)?;
    let revision = Revision::from_le_bytes(slot.get(8..16)?.try_into().ok()?);
    (slot == record(revision)).then_some(revision)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;

    #[test]
    fn the_newest_revision_is_read_and_a_changed_byte_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.db");
        assert_eq!(Acknowledged::read(&store).unwrap(), None);
        let mut acknowledged = Acknowledged::begin(&store, 1).unwrap();
        for revision in 2..=4 {
            acknowledged.advance(revision).unwrap();
            assert_eq!(Acknowledged::read(&store).unwrap(), Some(revision));
        }
        let whole = std::fs::read(path(&store)).unwrap();
        for at in SLOTS.iter().flat_map(|slot| *slot as usize..*slot as usize + RECORD) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(path(&store), &bytes).unwrap();
            assert!(matches!(Acknowledged::read(&store), Err(OpenError::Damaged { .. })));
        }
        for length in [0, 10, 4096] {
            std::fs::write(path(&store), &whole[..length]).unwrap();
            assert!(matches!(Acknowledged::read(&store), Err(OpenError::Damaged { .. })));
        }
        acknowledged.reset(3).unwrap();
        assert_eq!(Acknowledged::read(&store).unwrap(), Some(3));
        Acknowledged::begin(&store, 9).unwrap();
        assert_eq!(Acknowledged::read(&store).unwrap(), Some(9));
    }
}
