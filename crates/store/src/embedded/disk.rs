//! The writer's interface to a disk: a log of versions, written in durable steps. It is a trait so that tests can use a
//! failing disk.

use std::time::Duration;

use crate::error::StorageError;
use crate::key::Revision;

/// Bits of a row's id for the position of the operation in its transaction; [`crate::MAX_OPS`] fits.
const POSITION_BITS: u32 = 10;

/// Id of one version of one key: its revision and its position in the transaction. Ids have the order of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowId(pub(crate) i64);

impl RowId {
    /// Creates the id of the version that an operation at this position of its transaction writes.
    pub fn new(revision: Revision, position: u16) -> Self {
        Self((revision << POSITION_BITS | u64::from(position)).cast_signed())
    }

    /// Returns the highest id that a row of `revision` can have.
    pub fn last_of(revision: Revision) -> Self {
        Self::new(revision, (1 << POSITION_BITS) - 1)
    }

    /// Returns the revision.
    pub fn revision(self) -> Revision {
        self.0.cast_unsigned() >> POSITION_BITS
    }

    /// Returns the position of the operation in its transaction.
    pub fn position(self) -> u16 {
        (self.0 & ((1 << POSITION_BITS) - 1)) as u16
    }
}

/// One version, or the removal of a key.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Identity of the version.
    pub id: RowId,
    /// Key of the version.
    pub key: &'a [u8],
    /// True if the key was removed.
    pub deleted: bool,
    /// Revision at which the key was created.
    pub create_revision: Revision,
    /// Offset in the value at which its revision is served.
    pub revision_at: Option<u32>,
    /// Wall-clock time since the Unix epoch; stored in milliseconds.
    pub time: Duration,
    /// Value; `None` for a removal whose event shows the previous version.
    pub value: Option<&'a [u8]>,
}

impl Row<'_> {
    /// Page size of the file.
    pub(crate) const PAGE: usize = 4096;

    /// Computes the CRC-32 over all fields of the row.
    pub(crate) fn checksum(&self) -> u32 {
        let mut head = [0; 45];
        head[..8].copy_from_slice(&self.id.0.to_le_bytes());
        head[8..16].copy_from_slice(&self.create_revision.to_le_bytes());
        head[16..24].copy_from_slice(&self.milliseconds().to_le_bytes());
        head[24..32].copy_from_slice(&self.revision_at.map_or(-1, i64::from).to_le_bytes());
        head[32..36].copy_from_slice(&(self.key.len() as u32).to_le_bytes());
        head[36..44].copy_from_slice(&self.value.map_or(-1, |value| value.len() as i64).to_le_bytes());
        head[44] = u8::from(self.deleted);
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        hasher.update(self.key);
        hasher.update(self.value.unwrap_or_default());
        hasher.finalize()
    }

    /// Returns the approximate number of bytes that the row adds to the write-ahead log: whole pages, including
    /// interior pages.
    pub(crate) fn logged(&self) -> usize {
        (3 + (self.key.len() + self.value.map_or(0, <[u8]>::len)) / Self::PAGE) * Self::PAGE
    }

    pub(crate) fn milliseconds(&self) -> i64 {
        i64::try_from(self.time.as_millis()).unwrap_or(i64::MAX)
    }
}

/// The changes of one durable step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step<'a> {
    /// Versions to add, in order.
    pub rows: &'a [Row<'a>],
    /// Versions to remove; some may be removed already.
    pub dead: &'a [RowId],
    /// Compacted revision after the dead versions are removed.
    pub compacted: Option<Revision>,
}

/// A log of versions that is written in durable steps, by one writer.
pub trait Disk: Send + 'static {
    /// True if it stores values. A disk that keeps nothing gets rows without values.
    fn stores_values(&self) -> bool {
        true
    }

    /// Makes a step durable: completely on `Ok`. After an error the content of the disk is unknown, and
    /// [`Disk::recover`] must succeed before the next step.
    fn write(&mut self, step: Step<'_>) -> Result<(), StorageError>;

    /// Durably restores the disk to the acknowledged state: nothing of a revision above `revision` is left.
    fn recover(&mut self, revision: Revision) -> Result<(), StorageError>;

    /// Moves the content of the write-ahead log into the main file, as far as possible without waiting.
    fn checkpoint(&mut self) -> Result<(), StorageError>;

    /// Returns the number of bytes in the write-ahead log.
    fn log_bytes(&self) -> u64;

    /// Empties the write-ahead log and closes the file.
    fn close(self) -> Result<(), StorageError>;
}
