//! Tests damage of every kind to the files of a store whose process was killed: it is opened with all acknowledged
//! writes, or not at all; and the readable content is available if the operator accepts the loss.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use holdfast_store::{Config, OpenError, Revision, Store, Transaction, Value};
use tempfile::TempDir;

const FILE: &str = "store.db";
const LOG: &str = "store.db-wal";
const ACKNOWLEDGED: &str = "acknowledged";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// The files of a store at one moment, as a kill would leave them.
#[derive(Clone, Default)]
struct Files(BTreeMap<&'static str, Vec<u8>>);

impl Files {
    fn read(directory: &Path) -> Self {
        let read = |name: &&'static str| Some((*name, fs::read(directory.join(name)).ok()?));
        Self([FILE, LOG, ACKNOWLEDGED].iter().filter_map(read).collect())
    }

    /// Writes the files to a separate directory.
    fn laid_out(&self) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes) in &self.0 {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        directory
    }

    fn with(&self, name: &'static str, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut changed = self.clone();
        change(changed.0.get_mut(name).unwrap());
        changed
    }

    fn without(&self, name: &'static str) -> Self {
        let mut changed = self.clone();
        changed.0.remove(name);
        changed
    }
}

/// Content of a store.
type Contents = BTreeMap<String, Vec<u8>>;

fn contents(store: &Store<()>) -> Contents {
    let snapshot = store.snapshot();
    let entries = snapshot.range(b"/");
    entries
        .map(|entry| (entry.key().to_string(), entry.bytes().to_vec()))
        .collect()
}

/// A running store.
struct Running {
    directory: TempDir,
    store: Store<()>,
    /// All values that any key ever had.
    ever: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Running {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Config::new(directory.path()), ()).unwrap();
        Self {
            directory,
            store,
            ever: BTreeMap::new(),
        }
    }

    /// Writes, overwrites and removes keys; some values span several pages.
    fn write(&mut self, from: u32, to: u32) {
        let runtime = runtime();
        for n in from..to {
            let key = format!("/registry/pods/a/p{}", n % 13);
            let transaction = if n % 7 == 6 {
                Transaction::new().delete(key)
            } else {
                let value = format!("{n} {}", "x".repeat([10, 900, 4_100, 9_000][n as usize % 4])).into_bytes();
                self.ever.entry(key.clone()).or_default().push(value.clone());
                Transaction::new().put(key, Value::plain(value))
            };
            runtime.block_on(self.store.commit(transaction)).unwrap();
        }
    }

    fn files(&self) -> Files {
        Files::read(self.directory.path())
    }

    /// Moves the log into the file, but leaves the log unchanged.
    fn checkpoint(&self) {
        let connection = rusqlite::Connection::open(self.directory.path().join(FILE)).unwrap();
        let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
        connection.query_row(checkpoint, [], |_| Ok(())).unwrap();
    }

    fn acknowledged(&self) -> (Revision, Contents) {
        (self.store.revision(), contents(&self.store))
    }
}

fn open(directory: &Path, accept_data_loss: bool) -> Result<Store<()>, OpenError> {
    let config = Config {
        accept_data_loss,
        ..Config::new(directory)
    };
    Store::open(config, ())
}

/// Returns true if the files are rejected; if they are not, checks that all acknowledged writes are present.
fn is_refused(files: &Files, acknowledged: &(Revision, Contents), what: &str) -> bool {
    let directory = files.laid_out();
    match open(directory.path(), false) {
        Ok(store) => {
            let found = (store.revision(), contents(&store));
            assert_eq!(found.0, acknowledged.0, "{what}");
            assert!(found.1 == acknowledged.1, "{what}: other contents at the same revision");
            false
        }
        Err(OpenError::Damaged { .. }) => {
            let after = Files::read(directory.path());
            for name in [LOG, ACKNOWLEDGED] {
                // An empty log may be created if there was none.
                let bytes = |files: &Files| files.0.get(name).cloned().unwrap_or_default();
                assert!(bytes(&after) == bytes(files), "{what}: {name} was changed");
            }
            true
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

/// Accepts the loss: all remaining content was stored before, and no revision is reused.
fn accept(files: &Files, running: &Running, what: &str) -> Contents {
    let directory = files.laid_out();
    let store = open(directory.path(), true).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = contents(&store);
    for (key, value) in &found {
        assert!(running.ever[key].contains(value), "{what}: {key}");
    }
    let put = Transaction::new().put("/registry/pods/a/new", Value::plain("new"));
    let runtime = runtime();
    let next = runtime.block_on(store.commit(put)).unwrap().revision;
    assert!(next > running.store.revision(), "{what}: revision {next} again");
    runtime.block_on(store.close()).unwrap();
    let store = open(directory.path(), false).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert_eq!((store.revision(), contents(&store).len()), (next, found.len() + 1));
    found
}

#[test]
fn changed_byte_in_log_is_detected_or_harmless() {
    let mut running = Running::start();
    running.write(0, 40);
    // If the log has been moved into the file already, older pages of a damaged log hide newer pages of the file.
    for checkpointed in [false, true] {
        if checkpointed {
            running.checkpoint();
        }
        let (files, acknowledged) = (running.files(), running.acknowledged());
        let length = files.0[LOG].len();
        let (mut refused, mut tried) = (0, 0);
        for at in (0..32).chain((32..length).step_by(2_311)).chain(length - 30..length) {
            let what = format!("byte {at} of {length}, checkpointed: {checkpointed}");
            let damaged = files.with(LOG, |log| log[at] ^= 0x41);
            tried += 1;
            if is_refused(&damaged, &acknowledged, &what) {
                refused += 1;
                if tried % 16 == 0 {
                    accept(&damaged, &running, &what);
                }
            }
        }
        // If the file holds everything, damage to the header or the last pages leaves nothing of the log that hides any
        // of it.
        let least = if checkpointed { tried - 50 } else { tried };
        assert!(refused >= least, "{refused} of {tried}, checkpointed: {checkpointed}");
    }
}

#[test]
fn a_log_that_was_cut_or_is_gone_is_found() {
    let mut running = Running::start();
    running.write(0, 40);
    let (files, acknowledged) = (running.files(), running.acknowledged());
    let length = files.0[LOG].len();
    for to in (0..length).step_by(4_099) {
        let what = format!("cut to {to} of {length}");
        let damaged = files.with(LOG, |log| log.truncate(to));
        assert!(is_refused(&damaged, &acknowledged, &what), "{what}");
    }
    assert!(is_refused(&files.without(LOG), &acknowledged, "no log"));
    assert!(!is_refused(&files, &acknowledged, "as it was"));
    running.checkpoint();
    assert!(!is_refused(
        &running.files().without(LOG),
        &acknowledged,
        "all is in the file"
    ));
}

#[test]
fn an_old_copy_of_any_file_is_found() {
    let mut running = Running::start();
    running.write(0, 20);
    running.checkpoint();
    let old = running.files();
    running.write(20, 40);
    let (files, acknowledged) = (running.files(), running.acknowledged());
    for name in [FILE, LOG] {
        let mixed = files.with(name, |bytes| bytes.clone_from(&old.0[name]));
        // The log may contain everything that the old file lacks.
        let refused = is_refused(&mixed, &acknowledged, name);
        assert!(refused || name == FILE, "{name}");
    }
    let backup = old.with(ACKNOWLEDGED, |bytes| bytes.clone_from(&files.0[ACKNOWLEDGED]));
    assert!(is_refused(&backup, &acknowledged, "all but what was acknowledged"));
    accept(&backup, &running, "an old backup");
}

#[test]
fn a_file_that_is_gone_is_found_and_reported_by_name() {
    let mut running = Running::start();
    running.write(0, 10);
    let (files, acknowledged) = (running.files(), running.acknowledged());
    let message = |files: &Files| {
        let directory = files.laid_out();
        let error = open(directory.path(), false).map(|_| ()).unwrap_err();
        error.to_string()
    };
    let newest = acknowledged.0;
    let gone = message(&files.without(FILE).without(LOG));
    let reported = format!("writes up to revision {newest} were acknowledged");
    assert!(
        gone.contains("store.db is damaged: it is empty") && gone.contains(&reported),
        "{gone}"
    );
    let cut = message(&files.without(LOG));
    assert!(cut.contains("store.db is damaged") || cut.contains(&reported), "{cut}");
    let unknown = message(&files.without(ACKNOWLEDGED));
    assert!(unknown.contains("acknowledged is damaged: it is missing"), "{unknown}");
    let found = accept(&files.without(ACKNOWLEDGED), &running, "without what was acknowledged");
    assert_eq!(found, acknowledged.1, "all of it could be read");
    let unreadable = files.with(ACKNOWLEDGED, |bytes| bytes[9] ^= 1);
    assert!(is_refused(&unreadable, &acknowledged, "acknowledged"));
    assert!(accept(&files.without(FILE), &running, "without the file").len() <= 13);
}

#[test]
fn a_kill_between_a_write_and_its_acknowledgement_is_no_damage() {
    let mut running = Running::start();
    running.write(0, 20);
    let (before, acknowledged) = (running.files(), running.acknowledged());
    running.write(20, 21);
    let (after, newer) = (running.files(), running.acknowledged());
    // The log holds the last write, completely or in part, and no client received its acknowledgement.
    let killed = before.with(LOG, |log| log.clone_from(&after.0[LOG]));
    assert!(!is_refused(&killed, &newer, "whole"));
    let (from, to) = (before.0[LOG].len(), after.0[LOG].len());
    assert!(from < to);
    for at in (from..to).step_by(411) {
        let torn = killed.with(LOG, |log| log.truncate(at));
        assert!(!is_refused(&torn, &acknowledged, "torn"), "torn at {at}");
        let lost = killed.with(LOG, |log| log[at] ^= 0x20);
        assert!(!is_refused(&lost, &acknowledged, "lost"), "lost at {at}");
    }
    // A power cut may lose more of `acknowledged` than of the log.
    let power = after.with(ACKNOWLEDGED, |bytes| bytes.clone_from(&before.0[ACKNOWLEDGED]));
    assert!(!is_refused(&power, &newer, "power cut"));
}

#[test]
fn a_file_of_the_format_before_is_taken_over() {
    let mut running = Running::start();
    running.write(0, 20);
    let acknowledged = running.acknowledged();
    let Running { directory, store, .. } = running;
    runtime().block_on(store.close()).unwrap();
    let change = "DELETE FROM mark WHERE name = 'content'; PRAGMA user_version = 1";
    let connection = rusqlite::Connection::open(directory.path().join(FILE)).unwrap();
    connection.execute_batch(change).unwrap();
    connection.close().unwrap();
    fs::remove_file(directory.path().join(ACKNOWLEDGED)).unwrap();
    let store = open(directory.path(), false).unwrap();
    assert_eq!((store.revision(), contents(&store)), acknowledged);
    runtime().block_on(store.close()).unwrap();
    let files = Files::read(directory.path());
    assert!(!is_refused(&files, &acknowledged, "taken over"));
    assert!(is_refused(&files.without(ACKNOWLEDGED), &acknowledged, "from now on"));
}

#[test]
fn a_row_that_vanished_without_trace_is_found() {
    let mut running = Running::start();
    running.write(0, 20);
    let acknowledged = running.acknowledged();
    let Running { directory, store, .. } = running;
    runtime().block_on(store.close()).unwrap();
    let connection = rusqlite::Connection::open(directory.path().join(FILE)).unwrap();
    let vanish = "DELETE FROM log WHERE id = (SELECT min(id) FROM log)";
    connection.execute(vanish, []).unwrap();
    connection.close().unwrap();
    assert!(is_refused(&Files::read(directory.path()), &acknowledged, "a row"));
}

#[test]
fn a_salvage_that_was_interrupted_is_finished_at_the_next_start() {
    let mut running = Running::start();
    running.write(0, 20);
    let directory = running.files().without(LOG).laid_out();
    let store = open(directory.path(), true).unwrap();
    let found = (store.revision(), contents(&store));
    runtime().block_on(store.close()).unwrap();
    let path = |name: &str| directory.path().join(name);
    assert!(fs::exists(path("store.db.damaged")).unwrap());
    // The state after a kill before the last step, with the damaged file still in its position or already moved away.
    for damaged_is_there in [true, false] {
        fs::rename(path(FILE), path("store.db.salvaged")).unwrap();
        if damaged_is_there {
            fs::copy(path("store.db.damaged"), path(FILE)).unwrap();
        }
        let store = open(directory.path(), false).unwrap();
        assert_eq!((store.revision(), contents(&store)), found);
        runtime().block_on(store.close()).unwrap();
    }
}
