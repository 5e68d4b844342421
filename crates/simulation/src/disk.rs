//! A simulated disk, on the level of the rows of the embedded store.
//!
//! The durable content is separate from the written one. A step can succeed, fail without effect, fail after it was written
//! (the answer of the sync is lost), find the disk full, or end the process. A step whose sync failed is durable or not;
//! that is decided when the disk is read next: by the recovery, or by the next process. In each case the step is there
//! completely or not at all, because SQLite's log gives this guarantee: it ignores a transaction whose commit frame is
//! missing. Torn pages within the file are therefore not simulated; tests of the file cover them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use holdfast_store::testing::{Content, Disk, Row, RowId, Step};
use holdfast_store::{Revision, StorageError};
use parking_lot::Mutex;

use crate::{PlantedBug, World};

/// Maximum time that a disk is full.
const LONGEST_FULL: u64 = 5_000;

/// Frequencies of the faults of a disk: each occurs once in this number of steps; never if it is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// A step fails without effect.
    pub lost_step: u64,
    /// A step is written but its sync fails.
    pub lost_sync: u64,
    /// The disk becomes full for some seconds.
    pub full: u64,
    /// The process ends during a step.
    pub crash: u64,
    /// A recovery fails.
    pub failed_recovery: u64,
}

/// One version of a key on the disk.
#[derive(Clone, Debug)]
struct StoredRow {
    key: Vec<u8>,
    deleted: bool,
    create_revision: Revision,
    revision_at: Option<u32>,
    time: Duration,
    value: Option<Vec<u8>>,
}

impl StoredRow {
    fn copy(row: &Row<'_>) -> Self {
        Self {
            key: row.key.to_vec(),
            deleted: row.deleted,
            create_revision: row.create_revision,
            revision_at: row.revision_at,
            time: Duration::from_millis(u64::try_from(row.time.as_millis()).unwrap_or(u64::MAX)),
            value: row.value.map(<[u8]>::to_vec),
        }
    }

    fn row(&self, id: RowId) -> Row<'_> {
        Row {
            id,
            key: &self.key,
            deleted: self.deleted,
            create_revision: self.create_revision,
            revision_at: self.revision_at,
            time: self.time,
            value: self.value.as_deref(),
        }
    }
}

/// Changes of a step that is written.
#[derive(Clone, Debug, Default)]
struct WrittenStep {
    rows: Vec<(RowId, StoredRow)>,
    dead: Vec<RowId>,
    compacted: Option<Revision>,
}

/// Content of a disk, which outlives the process.
#[derive(Debug, Default)]
struct Platter {
    rows: BTreeMap<RowId, StoredRow>,
    compacted: Option<Revision>,
    /// Step that was written and whose sync failed.
    unsynced: Option<WrittenStep>,
    /// Time at which the disk has space again.
    full_until: Duration,
    /// Number of the process that uses the disk. An earlier one cannot write any more.
    process: u64,
    faults: DiskFaults,
}

impl Platter {
    fn apply(&mut self, step: WrittenStep) {
        self.rows.extend(step.rows);
        for id in step.dead {
            self.rows.remove(&id);
        }
        self.compacted = step.compacted.or(self.compacted);
    }
}

/// A disk and its content, from which processes are started one after the other.
#[derive(Clone)]
pub struct SimulatedDisk {
    world: Arc<World>,
    platter: Arc<Mutex<Platter>>,
}

impl SimulatedDisk {
    /// Creates an empty disk.
    pub fn new(world: &Arc<World>) -> Self {
        Self {
            world: Arc::clone(world),
            platter: Arc::default(),
        }
    }

    /// Sets how often the disk fails. A disk that does not become full has space at once.
    pub fn set_faults(&self, faults: DiskFaults) {
        let mut platter = self.platter.lock();
        platter.faults = faults;
        if faults.full == 0 {
            platter.full_until = Duration::ZERO;
        }
    }

    /// Decides the fate of a step whose sync failed, and passes what is durable to `read`. Processes that opened the
    /// disk before can no longer write to it.
    pub fn open<T>(&self, read: impl FnOnce(OpenDisk, Content<'_>) -> T) -> T {
        let mut platter = self.platter.lock();
        self.decide(&mut platter);
        platter.process += 1;
        let disk = OpenDisk {
            disk: self.clone(),
            process: platter.process,
        };
        let rows: Vec<Row<'_>> = platter.rows.iter().map(|(id, row)| row.row(*id)).collect();
        let compacted = platter.compacted;
        read(disk, Content { rows: &rows, compacted })
    }

    fn decide(&self, platter: &mut Platter) {
        let Some(mut step) = platter.unsynced.take() else {
            return;
        };
        let is_there = !self.world.has_bug(PlantedBug::AcknowledgesBeforeSync) && self.world.once_in(2);
        self.world.note(format!("disk: the unsynced step is there: {is_there}"));
        if is_there {
            if self.world.has_bug(PlantedBug::TearsSteps) && step.rows.len() > 1 {
                step.rows.pop();
            }
            platter.apply(step);
        }
    }

    fn occurs(&self, frequency: u64) -> bool {
        frequency > 0 && self.world.once_in(frequency)
    }
}

/// The disk of one process.
pub struct OpenDisk {
    disk: SimulatedDisk,
    process: u64,
}

impl OpenDisk {
    fn fail(&self, detail: &str, full: bool) -> StorageError {
        self.disk.world.note(format!("disk: {detail}"));
        StorageError {
            path: Arc::new(PathBuf::from("simulated disk")),
            detail: detail.into(),
            full,
        }
    }
}

impl Disk for OpenDisk {
    fn write(&mut self, step: Step<'_>) -> Result<(), StorageError> {
        let SimulatedDisk { world, platter } = &self.disk;
        let mut platter = platter.lock();
        if platter.process != self.process {
            return Err(self.fail("the process has ended", false));
        }
        let faults = platter.faults;
        if world.time() < platter.full_until {
            return Err(self.fail("full", true));
        }
        if self.disk.occurs(faults.full) {
            platter.full_until = world.time() + Duration::from_millis(world.below(LONGEST_FULL));
            return Err(self.fail("full", true));
        }
        if self.disk.occurs(faults.lost_step) {
            return Err(self.fail("a step is lost", false));
        }
        let written = WrittenStep {
            rows: step.rows.iter().map(|row| (row.id, StoredRow::copy(row))).collect(),
            dead: step.dead.to_vec(),
            compacted: step.compacted,
        };
        if self.disk.occurs(faults.crash) {
            platter.unsynced = Some(written);
            platter.process += 1;
            world.crash();
            return Err(self.fail("the process ends during a step", false));
        }
        if self.disk.occurs(faults.lost_sync) {
            platter.unsynced = Some(written);
            return Err(self.fail("a sync fails", false));
        }
        if world.has_bug(PlantedBug::AcknowledgesBeforeSync) {
            if let Some(earlier) = platter.unsynced.replace(written) {
                platter.apply(earlier);
            }
            return Ok(());
        }
        world.note(format!(
            "disk: {} rows, {} dead",
            written.rows.len(),
            written.dead.len()
        ));
        platter.apply(written);
        Ok(())
    }

    fn recover(&mut self, revision: Revision) -> Result<(), StorageError> {
        let mut platter = self.disk.platter.lock();
        if platter.process != self.process {
            return Err(self.fail("the process has ended", false));
        }
        if self.disk.occurs(platter.faults.failed_recovery) {
            return Err(self.fail("a recovery fails", false));
        }
        if self.disk.world.has_bug(PlantedBug::SkipsRecovery) {
            self.disk.decide(&mut platter);
            return Ok(());
        }
        self.disk.decide(&mut platter);
        platter.rows.retain(|id, _| id.revision() <= revision);
        self.disk.world.note(format!("disk: recovered to revision {revision}"));
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    fn log_bytes(&self) -> u64 {
        0
    }

    fn close(self) -> Result<(), StorageError> {
        Ok(())
    }
}
