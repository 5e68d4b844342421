//! Tests of the engine with a disk that fails on demand, and of its history with a test clock.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;

use super::acknowledged::Acknowledged;
use super::disk::{Disk, Row, RowId, Step};
use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::entry::Value;
use crate::error::HistoryError;
use crate::history::EventKind;
use crate::key::Revision;
use crate::state::{HistoryLimits, State};
use crate::store::Store;

/// Failure of the next steps of a [`FailingDisk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The step fails and nothing of it reaches the file.
    Lost,
    /// The step reaches the file, but is reported as failed, as after a failed sync.
    Unsure,
}

#[derive(Default)]
struct Faults {
    step: Option<Fault>,
    recovery: bool,
    recoveries: usize,
}

/// A real file whose steps and recoveries fail on the test's command.
struct FailingDisk {
    inner: Sqlite,
    faults: Arc<Mutex<Faults>>,
}

impl FailingDisk {
    fn error() -> StorageError {
        StorageError {
            path: Arc::new(PathBuf::from("store.db")),
            detail: "injected".into(),
            full: false,
        }
    }
}

impl Disk for FailingDisk {
    fn write(&mut self, step: Step<'_>) -> Result<(), StorageError> {
        match self.faults.lock().step {
            None => self.inner.write(step),
            Some(Fault::Lost) => Err(Self::error()),
            Some(Fault::Unsure) => self.inner.write(step).and(Err(Self::error())),
        }
    }

    fn recover(&mut self, revision: Revision) -> Result<(), StorageError> {
        let mut faults = self.faults.lock();
        faults.recoveries += 1;
        if faults.recovery {
            Err(Self::error())
        } else {
            self.inner.recover(revision)
        }
    }

    fn checkpoint(&mut self) -> Result<(), StorageError> {
        self.inner.checkpoint()
    }

    fn log_bytes(&self) -> u64 {
        self.inner.log_bytes()
    }

    fn close(self) -> Result<(), StorageError> {
        self.inner.close()
    }
}

struct ManualClock(AtomicU64);

impl ManualClock {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_700_000_000)))
    }

    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

fn config(directory: &TempDir, clock: &Arc<ManualClock>) -> Config {
    Config {
        clock: clock.clone(),
        ..Config::new(directory.path())
    }
}

/// Messages that the writer logs.
#[derive(Clone, Default)]
struct WriterLog(Arc<Mutex<Vec<String>>>);

impl WriterLog {
    fn count(&self, message: &str) -> usize {
        self.0.lock().iter().filter(|logged| logged.contains(message)).count()
    }
}

impl tracing::Subscriber for WriterLog {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            if field.name() == "message" {
                self.0.lock().push(format!("{value:?}"));
            }
        });
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

fn open_failing(directory: &TempDir) -> (Store<()>, Arc<Mutex<Faults>>) {
    open_failing_logged(directory, WriterLog::default())
}

fn open_failing_logged(directory: &TempDir, log: WriterLog) -> (Store<()>, Arc<Mutex<Faults>>) {
    let taken = Directory::take(directory.path()).unwrap();
    let (state, mut publisher) = State::new((), HistoryLimits::default());
    let inner = load(&taken.store_file().unwrap(), &mut publisher, None).unwrap();
    let faults = Arc::new(Mutex::new(Faults::default()));
    let (commands, received) = mpsc::channel(WAITING);
    let mut writer = Writer::new(
        FailingDisk {
            inner,
            faults: faults.clone(),
        },
        publisher,
        ManualClock::new(),
    );
    writer.directory = Some(taken);
    thread::spawn(move || tracing::subscriber::with_default(log, || writer.run(received)));
    (
        Store::with_engine(
            state,
            Box::new(Embedded {
                commands,
                files: Default::default(),
                transformer: None,
            }),
        ),
        faults,
    )
}

async fn put(store: &Store<()>, key: &str, text: &str) -> Result<Revision, CommitError> {
    let transaction = Transaction::new().put(key, Value::plain(text.as_bytes().to_vec()));
    store.commit(transaction).await.map(|committed| committed.revision)
}

fn text(store: &Store<()>, key: &str) -> Option<String> {
    store
        .snapshot()
        .get(key.as_bytes())
        .map(|entry| String::from_utf8_lossy(entry.bytes()).into_owned())
}

fn rows(directory: &TempDir) -> i64 {
    let connection = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
    connection
        .query_row("SELECT count(*) FROM log", [], |row| row.get(0))
        .unwrap()
}

#[tokio::test]
async fn written_entries_are_present_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    assert_eq!(store.revision(), 1);
    assert_eq!(put(&store, "/registry/pods/a/x", "one").await.unwrap(), 2);
    assert_eq!(put(&store, "/registry/pods/a/x", "two").await.unwrap(), 3);
    store
        .commit(Transaction::new().delete("/registry/pods/a/x"))
        .await
        .unwrap();
    put(&store, "/registry/pods/a/y", "three").await.unwrap();
    store.close().await.unwrap();

    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    assert_eq!(store.revision(), 5);
    assert_eq!(text(&store, "/registry/pods/a/x"), None);
    assert_eq!(text(&store, "/registry/pods/a/y").as_deref(), Some("three"));
    let mut watcher = store.watch("/registry/pods/", 1).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = watcher.try_next().unwrap() {
        seen.push((
            event.revision(),
            event.kind(),
            event.current().bytes().clone(),
            event.previous().is_some(),
        ));
    }
    assert_eq!(
        seen,
        [
            (2, EventKind::Put, "one".into(), false),
            (3, EventKind::Put, "two".into(), true),
            (4, EventKind::Delete, "two".into(), true),
            (5, EventKind::Put, "three".into(), false)
        ]
    );
    assert_eq!(
        store
            .snapshot_at(3)
            .unwrap()
            .get(b"/registry/pods/a/x")
            .unwrap()
            .bytes(),
        "two"
    );
}

#[tokio::test]
async fn a_store_that_does_not_sync_keeps_what_was_written_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let config = || Config {
        sync: false,
        ..Config::new(directory.path())
    };
    let store = Store::open(config(), ()).unwrap();
    let revision = put(&store, "/a", "x").await.unwrap();
    store.close().await.unwrap();
    assert_eq!(Store::open(config(), ()).unwrap().revision(), revision);
}

#[test]
fn commits_wait_for_the_disk_unless_configured_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    let taken = Directory::take(directory.path()).unwrap();
    let (_, mut publisher) = State::new((), HistoryLimits::default());
    let mut disk = load(&taken.store_file().unwrap(), &mut publisher, None).unwrap();
    assert_eq!(disk.synchronous().unwrap(), 2);
    disk.stop_syncing().unwrap();
    assert_eq!(disk.synchronous().unwrap(), 0);
    disk.recover(publisher.draft().revision()).unwrap();
    assert_eq!(disk.synchronous().unwrap(), 0);
}

#[tokio::test]
async fn objects_get_their_revision_again_when_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let object = |text: &str, at| Value::object(text.as_bytes().to_vec(), at);
    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    store
        .commit(
            Transaction::new()
                .put("/a", object("{v:,n:1}", 3))
                .put("/b", object("{v:}", 3)),
        )
        .await
        .unwrap();
    store
        .commit(Transaction::new().delete_as("/a", object("{gone:,v:}", 9)).delete("/b"))
        .await
        .unwrap();
    store.close().await.unwrap();

    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    let mut watcher = store.watch("/", 1).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = watcher.try_next().unwrap() {
        seen.push(String::from_utf8(event.current().bytes().to_vec()).unwrap());
    }
    assert_eq!(seen, ["{v:2,n:1}", "{v:2}", "{gone:,v:3}", "{v:3}"]);
}

#[tokio::test]
async fn concurrent_creates_of_one_key_have_one_winner() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(Config::new(directory.path()), ()).unwrap());
    let create = || {
        let store = store.clone();
        async move {
            store
                .commit(Transaction::new().guard("/k", 0).put("/k", Value::plain("v")))
                .await
        }
    };
    let tasks: Vec<_> = (0..32).map(|_| tokio::spawn(create())).collect();
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => won += 1,
            Err(CommitError::GuardFailed {
                expected: 0,
                current: 2,
                ..
            }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn a_transaction_that_changes_nothing_takes_no_revision() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    let committed = store
        .commit(Transaction::new().guard("/a", 0).delete("/a"))
        .await
        .unwrap();
    assert_eq!((committed.revision, committed.entries.len()), (1, 1));
    assert!(committed.entries[0].is_none());
    assert_eq!(put(&store, "/a", "x").await.unwrap(), 2);
}

#[tokio::test]
async fn failed_step_fails_its_writers_only() {
    for fault in [Fault::Lost, Fault::Unsure] {
        let directory = tempfile::tempdir().unwrap();
        let (store, faults) = open_failing(&directory);
        put(&store, "/a", "kept").await.unwrap();
        faults.lock().step = Some(fault);
        for _ in 0..3 {
            assert!(
                matches!(put(&store, "/a", "lost").await, Err(CommitError::Storage(_))),
                "{fault:?}"
            );
            assert_eq!((text(&store, "/a").as_deref(), store.revision()), (Some("kept"), 2));
            assert!(store.is_failing());
        }
        faults.lock().step = None;
        assert_eq!(put(&store, "/b", "later").await.unwrap(), 3);
        assert!(!store.is_failing());
        store.close().await.unwrap();

        let store = Store::open(Config::new(directory.path()), ()).unwrap();
        assert_eq!(text(&store, "/a").as_deref(), Some("kept"), "{fault:?}");
        assert_eq!((text(&store, "/b").as_deref(), store.revision()), (Some("later"), 3));
    }
}

#[tokio::test]
async fn recovered_disk_is_logged_after_a_write_succeeds() {
    let directory = tempfile::tempdir().unwrap();
    let log = WriterLog::default();
    let (store, faults) = open_failing_logged(&directory, log.clone());
    put(&store, "/a", "kept").await.unwrap();
    faults.lock().step = Some(Fault::Lost);
    for _ in 0..2 {
        // The file can be opened again after each failure, but not written to.
        assert!(put(&store, "/a", "lost").await.is_err());
    }
    assert!(faults.lock().recoveries > 0);
    faults.lock().step = None;
    for _ in 0..2 {
        put(&store, "/a", "kept").await.unwrap();
    }
    let (failed, works) = ("a write to the store failed", "the store's disk works again");
    assert_eq!((log.count(failed), log.count(works)), (2, 1));
    let messages = log.0.lock();
    assert!(messages.last().is_some_and(|last| last.contains(works)), "{messages:?}");
}

#[tokio::test]
async fn nothing_is_written_before_the_disk_is_sure_again() {
    let directory = tempfile::tempdir().unwrap();
    let (store, faults) = open_failing(&directory);
    *faults.lock() = Faults {
        step: Some(Fault::Unsure),
        recovery: true,
        recoveries: 0,
    };
    assert!(put(&store, "/a", "lost").await.is_err());
    faults.lock().step = None;
    assert!(matches!(
        put(&store, "/b", "refused").await,
        Err(CommitError::Storage(_))
    ));
    assert_eq!((store.revision(), faults.lock().recoveries), (1, 2));
    faults.lock().recovery = false;
    assert_eq!(put(&store, "/c", "kept").await.unwrap(), 2);
    store.close().await.unwrap();

    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    assert_eq!(
        (text(&store, "/a"), text(&store, "/b"), text(&store, "/c")),
        (None, None, Some("kept".into()))
    );
}

#[tokio::test]
async fn guard_on_failed_write_reports_storage_failure() {
    let directory = tempfile::tempdir().unwrap();
    let (store, faults) = open_failing(&directory);
    put(&store, "/a", "first").await.unwrap();
    faults.lock().step = Some(Fault::Lost);
    // One group: the first write makes the second's guard fail, and then fails itself.
    let update = || store.commit(Transaction::new().guard("/a", 2).put("/a", Value::plain("second")));
    let stale = || store.commit(Transaction::new().guard("/a", 9).put("/a", Value::plain("stale")));
    let (one, two, stale) = tokio::join!(update(), update(), stale());
    assert!(matches!(one, Err(CommitError::Storage(_))));
    assert!(matches!(two, Err(CommitError::Storage(_))));
    assert!(matches!(
        stale,
        Err(CommitError::GuardFailed {
            expected: 9,
            current: 2,
            ..
        } | CommitError::Storage(_))
    ));
}

#[tokio::test]
async fn a_file_without_room_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("store.db");
    std::fs::write(&file, "").unwrap();
    let (_, mut publisher) = State::new((), HistoryLimits::default());
    let mut disk = load(&file, &mut publisher, None).unwrap();
    disk.limit_pages(64).unwrap();
    let value = vec![b'x'; 10_000];
    let mut revision = 1;
    let error = loop {
        revision += 1;
        let row = disk::Row {
            id: disk::RowId::new(revision, 0),
            key: b"/a",
            deleted: false,
            create_revision: 2,
            revision_at: None,
            time: Duration::ZERO,
            value: Some(&value),
        };
        if let Err(error) = disk.write(Step {
            rows: &[row],
            ..Step::default()
        }) {
            break error;
        }
    };
    assert!(error.full, "{error}");
    assert!(error.to_string().contains("store.db"), "{error}");
    disk.recover(revision - 1).unwrap();
}

#[tokio::test]
async fn history_is_let_go_by_age_in_memory_and_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::open(config(&directory, &clock), ()).unwrap();
    for n in 0..10 {
        put(&store, "/registry/pods/a/x", &n.to_string()).await.unwrap();
    }
    store
        .commit(Transaction::new().delete("/registry/pods/a/x"))
        .await
        .unwrap();
    clock.advance(301);
    put(&store, "/registry/pods/a/y", "new").await.unwrap();
    assert_eq!(store.oldest_revision(), 12);
    let compacted = HistoryError::Compacted {
        requested: 11,
        oldest: 12,
    };
    assert_eq!(store.watch("/registry/pods/", 11).unwrap_err(), compacted);
    assert_eq!(store.snapshot_at(11).unwrap_err(), compacted);
    assert_eq!(
        store
            .watch("/registry/pods/", 12)
            .unwrap()
            .next()
            .await
            .unwrap()
            .revision(),
        13
    );
    store.close().await.unwrap();
    assert_eq!(rows(&directory), 1);

    let store = Store::open(config(&directory, &clock), ()).unwrap();
    assert_eq!((store.oldest_revision(), store.revision()), (12, 13));
}

#[tokio::test]
async fn revisions_do_not_go_back_when_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::open(config(&directory, &clock), ()).unwrap();
    put(&store, "/a", "x").await.unwrap();
    store.commit(Transaction::new().delete("/a")).await.unwrap();
    clock.advance(301);
    // A transaction without effect leaves the writer time to sweep.
    store.commit(Transaction::new().delete("/a")).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(rows(&directory), 0);

    let store = Store::open(config(&directory, &clock), ()).unwrap();
    assert_eq!((store.revision(), store.oldest_revision()), (3, 3));
    assert_eq!(put(&store, "/a", "y").await.unwrap(), 4);
}

#[tokio::test]
async fn history_is_bounded_in_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(&directory, &ManualClock::new());
    config.history.bytes = 100_000;
    let store = Store::open(config.clone(), ()).unwrap();
    let value = "x".repeat(1000);
    for _ in 0..300 {
        put(&store, "/registry/pods/a/x", &value).await.unwrap();
    }
    let held = store.revision() - store.oldest_revision();
    assert!((50..100).contains(&held), "{held}");
    store.close().await.unwrap();
    assert!(rows(&directory) < 110, "{}", rows(&directory));
    let store = Store::open(config, ()).unwrap();
    assert_eq!(
        (store.revision(), text(&store, "/registry/pods/a/x")),
        (301, Some(value))
    );
}

#[tokio::test]
async fn a_transaction_of_many_changes_is_trimmed_whole() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::open(config(&directory, &clock), ()).unwrap();
    let all = |text: &'static str| {
        (0..1000).fold(Transaction::new(), |all, n| {
            all.put(format!("/registry/pods/a/{n}"), Value::plain(text))
        })
    };
    store.commit(all("one")).await.unwrap();
    store.commit(all("two")).await.unwrap();
    let gone = (0..1000).fold(Transaction::new(), |all, n| all.delete(format!("/registry/pods/a/{n}")));
    store.commit(gone).await.unwrap();
    clock.advance(301);
    store.close().await.unwrap();
    // Each write removes some of the dead rows; stopping between two writes must leave a file that opens.
    for (n, left) in [(5, 2001), (6, 2), (7, 3)] {
        let store = Store::open(config(&directory, &clock), ()).unwrap();
        assert_eq!(put(&store, "/registry/pods/b/x", "new").await.unwrap(), n);
        assert_eq!(store.snapshot().len(), 1);
        store.close().await.unwrap();
        assert_eq!(rows(&directory), left);
    }
}

#[tokio::test]
async fn the_log_is_bounded_however_small_the_writes() {
    const LIMIT: u64 = 256 << 10;
    let directory = tempfile::tempdir().unwrap();
    let taken = Directory::take(directory.path()).unwrap();
    let (state, mut publisher) = State::new((), HistoryLimits::default());
    let disk = load(&taken.store_file().unwrap(), &mut publisher, None).unwrap();
    let (checkpointer, acknowledged) = (Checkpointer::open(disk.path()).unwrap(), disk.acknowledged());
    let (commands, received) = mpsc::channel(WAITING);
    let mut writer = Writer::new(disk, publisher, ManualClock::new());
    writer.directory = Some(taken);
    writer.log_limit = LIMIT;
    writer.keeper = Some(keep(checkpointer, acknowledged, commands.downgrade()).unwrap());
    thread::spawn(move || writer.run(received));
    let store = Store::with_engine(
        state,
        Box::new(Embedded {
            commands,
            files: Default::default(),
            transformer: None,
        }),
    );
    let log = directory.path().join("store.db-wal");
    let mut longest = 0;
    for n in 0..200 {
        put(&store, "/registry/pods/a/x", &format!("{n:0>3000}")).await.unwrap();
        longest = std::fs::metadata(&log).unwrap().len().max(longest);
    }
    assert!((LIMIT..LIMIT + (64 << 10)).contains(&longest), "{longest}");
    store.close().await.unwrap();
}

/// A disk whose operations panic.
struct PanickingDisk;

impl Disk for PanickingDisk {
    fn write(&mut self, _step: Step<'_>) -> Result<(), StorageError> {
        panic!("a fault")
    }

    fn recover(&mut self, _revision: Revision) -> Result<(), StorageError> {
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

#[tokio::test]
async fn a_writer_that_panics_ends_watches_and_shows_in_the_health() {
    let (state, publisher) = State::new((), HistoryLimits::default());
    let (commands, received) = mpsc::channel(WAITING);
    let writer = Writer::new(PanickingDisk, publisher, ManualClock::new());
    let thread = thread::spawn(move || writer.run(received));
    let store = Store::with_engine(
        state,
        Box::new(Embedded {
            commands,
            files: Default::default(),
            transformer: None,
        }),
    );
    let mut watcher = store.watch("/", 1).unwrap();
    assert!(matches!(put(&store, "/a", "x").await, Err(CommitError::Closed)));
    assert_eq!(watcher.next().await.unwrap_err(), HistoryError::Closed);
    assert!(thread.join().is_err() && store.is_failing());
}

#[tokio::test]
async fn the_size_on_disk_is_that_of_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(Config::new(directory.path()), ()).unwrap();
    assert!(store.size_on_disk().is_some_and(|bytes| bytes > 0));
    store.close().await.unwrap();
}

/// The state of a file as a start reads it.
#[derive(Debug, PartialEq, Eq)]
struct Opened {
    revision: Revision,
    compacted: Revision,
    /// Key, value, creation and modification revision of each entry.
    entries: Vec<(Vec<u8>, Vec<u8>, Revision, Revision)>,
}

fn opened(file: &Path) -> Result<Opened, OpenError> {
    let (state, mut publisher) = State::<()>::new((), HistoryLimits::default());
    load(file, &mut publisher, None)?;
    let snapshot = state.snapshot();
    let entries = snapshot.range(b"").map(|entry| {
        let (key, bytes) = (entry.key().to_vec(), entry.bytes().to_vec());
        (key, bytes, entry.create_revision(), entry.mod_revision())
    });
    Ok(Opened {
        revision: snapshot.revision(),
        compacted: state.compacted(),
        entries: entries.collect(),
    })
}

/// Writes a store of `keys` objects, each changed several times, some deleted, with a part of the history trimmed,
/// and closes it.
async fn write_much_changed(directory: &TempDir, keys: usize, bytes: usize) {
    let clock = ManualClock::new();
    let store = Store::open(config(directory, &clock), ()).unwrap();
    for round in 0..4 {
        for batch in (0..keys).collect::<Vec<_>>().chunks(20) {
            let transaction = batch.iter().fold(Transaction::new(), |transaction, key| {
                let large = if key % 37 == 0 { 3 * disk::Row::PAGE } else { bytes };
                let value = Value::object(format!("{{\"\":{round}{}}}", "x".repeat(large)).into_bytes(), 2);
                transaction.put(format!("/registry/pods/a/{key}").as_str(), value)
            });
            store.commit(transaction).await.unwrap();
        }
        if round == 2 {
            // Rows of the earlier rounds die and leave free pages and rows in unusual places.
            clock.advance(301);
        }
    }
    for key in (0..keys).step_by(9) {
        let removal = Transaction::new().delete(format!("/registry/pods/a/{key}").as_str());
        store.commit(removal).await.unwrap();
    }
    store.close().await.unwrap();
}

/// Exchanges the pages of each pair in a copy of a store's file and opens it. Returns the number of rejected files.
fn open_with_exchanged_pages(directory: &TempDir, pairs: impl Iterator<Item = (usize, usize)>) -> usize {
    let file = directory.path().join("store.db");
    let (whole, expected) = (std::fs::read(&file).unwrap(), opened(&file).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("store.db");
    let mut rejected = 0;
    for (one, other) in pairs {
        let page = disk::Row::PAGE;
        let mut changed = whole.clone();
        changed[one * page..][..page].copy_from_slice(&whole[other * page..][..page]);
        changed[other * page..][..page].copy_from_slice(&whole[one * page..][..page]);
        std::fs::write(&copy, &changed).unwrap();
        std::fs::copy(acknowledged::path(&file), acknowledged::path(&copy)).unwrap();
        match opened(&copy) {
            Err(OpenError::Damaged { .. }) => rejected += 1,
            Err(error) => panic!("pages {one} and {other}: {error}"),
            Ok(opened) => assert!(opened == expected, "pages {one} and {other}: other objects"),
        }
        for ending in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(folder.path().join(format!("store.db{ending}")));
        }
    }
    rejected
}

fn page_count(directory: &TempDir) -> usize {
    let length = std::fs::metadata(directory.path().join("store.db")).unwrap().len();
    usize::try_from(length).unwrap() / disk::Row::PAGE
}

#[tokio::test]
async fn every_pair_of_exchanged_pages_is_found_at_opening() {
    let directory = tempfile::tempdir().unwrap();
    write_much_changed(&directory, 60, 300).await;
    let pages = page_count(&directory);
    let pairs = (0..pages).flat_map(|one| (one + 1..pages).map(move |other| (one, other)));
    let rejected = open_with_exchanged_pages(&directory, pairs);
    // Free pages may be exchanged.
    assert!(
        pages > 20 && rejected > pages,
        "{rejected} of the pairs of {pages} pages"
    );
}

#[tokio::test]
async fn exchanged_pages_of_a_deep_table_are_found_at_opening() {
    let directory = tempfile::tempdir().unwrap();
    write_much_changed(&directory, 700, 1500).await;
    let pages = page_count(&directory);
    let mut seed = 24_u64;
    let mut random = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % pages
    };
    let pairs = std::iter::repeat_with(move || (random(), random())).filter(|(one, other)| one != other);
    let rejected = open_with_exchanged_pages(&directory, pairs.take(150));
    assert!(pages > 600 && rejected > 75, "{rejected} of 150 pairs of {pages} pages");
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Returns the lowest processor time of some runs.
fn lowest_time(mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let before = thread_time();
        run();
        thread_time() - before
    };
    (0..5).map(time).min().unwrap()
}

#[test]
fn checks_take_at_most_a_fifth_of_opening() {
    const ROWS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let value = vec![b'x'; 2000];
    let keys: Vec<String> = (0..ROWS).map(|at| format!("/registry/pods/default/pod-{at}")).collect();
    let mut rows = Vec::new();
    for (at, key) in (2..).zip(&keys) {
        rows.push(Row {
            id: RowId::new(at, 0),
            key: key.as_bytes(),
            deleted: false,
            create_revision: at,
            revision_at: None,
            time: Duration::ZERO,
            value: Some(&value),
        });
    }
    directory::private(&path).unwrap();
    sqlite::write_anew(&path, &rows, ROWS + 1).unwrap();
    drop(Acknowledged::begin(&path, ROWS + 1).unwrap());
    let opening = lowest_time(|| {
        let (_, publisher) = State::new((), HistoryLimits::default());
        drop(Sqlite::open(&path, &mut publisher.draft(), None).unwrap());
    });
    let checks = lowest_time(|| {
        let (mut content, mut order) = (sqlite::Content::default(), sqlite::RowOrder::default());
        for row in &rows {
            assert!(order.ascends_to(row.id));
            content.add(row.id, row.checksum());
        }
        std::hint::black_box(content);
    });
    assert!(checks * 5 <= opening, "checks take {checks:?} of {opening:?}");
}

#[tokio::test]
async fn consecutive_changes_are_published_together() {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::open(config(&directory, &clock), ()).unwrap();
    let first = put(&store, "/a/x", "1").await.unwrap();
    let mut watcher = store.watch("/a/", first).unwrap();
    let object = |text: &str| Value::object(format!(r#"{{"resourceVersion":"","v":"{text}"}}"#), 20);
    let transaction = || {
        let puts = Transaction::new()
            .guard("/a/x", first)
            .put("/a/y", object("1"))
            .delete("/a/x");
        puts.put("/a/z", object("1")).with_consecutive_revisions()
    };
    let committed = store.commit(transaction()).await.unwrap();
    assert_eq!(committed.revision, first + 3);
    let revisions = |entries: &[Option<Arc<crate::entry::Entry<()>>>]| {
        let revision = |entry: &Option<Arc<crate::entry::Entry<()>>>| entry.as_ref().unwrap().mod_revision();
        entries.iter().map(revision).collect::<Vec<_>>()
    };
    assert_eq!(revisions(&committed.entries), [first + 1, first + 2, first + 3]);
    for expected in first + 1..=first + 3 {
        assert_eq!(watcher.next().await.unwrap().revision(), expected);
    }
    let between = store.snapshot_at(first + 1).unwrap();
    assert!(between.get(b"/a/x").is_some() && between.get(b"/a/z").is_none());
    // A guard that fails rejects all of them.
    assert!(matches!(
        store.commit(transaction()).await,
        Err(CommitError::GuardFailed { .. })
    ));
    assert_eq!(store.revision(), first + 3);
    store.close().await.unwrap();
    drop(store);
    let again = Store::open(config(&directory, &clock), ()).unwrap();
    assert_eq!(again.revision(), first + 3);
    assert_eq!(again.snapshot().get(b"/a/z").unwrap().mod_revision(), first + 3);
}
