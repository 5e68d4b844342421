//! Clients of the servers: writers, readers of the most recent state, and watchers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_store::{CommitError, Event, EventKind, HistoryError, Revision, Snapshot};
use parking_lot::Mutex;

use super::codec::served;
use super::operations::Operation;
use super::{Server, is_object};
use crate::World;
use crate::world::{Violation, ensure};

/// Few keys, so that clients meet. Those of events expire.
const KEYS: [&str; 8] = [
    "/registry/pods/a/x",
    "/registry/pods/a/y",
    "/registry/pods/ab/x",
    "/registry/services/specs/a/x",
    "/registry/services/endpoints/a/x",
    "/registry/example.com/widgets/a/x",
    "/registry/events/a/x",
    "/registry/events/a/y",
];

const PREFIXES: [&str; 5] = [
    "/registry/",
    "/registry/pods/",
    "/registry/pods/a/",
    "/registry/services/",
    "/registry/events/",
];

/// Maximum number of transactions of one writer.
const MAX_WRITES: u64 = 20;
/// Maximum number of reads of one client.
const MAX_READS: u64 = 12;
/// Maximum number of compactions by another client of etcd.
const MAX_COMPACTIONS: u64 = 8;
/// Longest pause of a client.
const PAUSE: Duration = Duration::from_millis(400);
/// Longest pause of a slow watcher.
const SLOW_WATCH_PAUSE: Duration = Duration::from_secs(3);

/// Sends transactions and checks the answers.
pub(super) async fn write(server: Arc<Server>, client: u64) {
    let world = &server.world;
    for _ in 0..1 + world.below(MAX_WRITES) {
        if world.once_in(2) {
            world.pause(PAUSE).await;
        }
        let operation = choose_operation(&server);
        let transaction = operation.transaction();
        let number = server.operations.lock().send(operation);
        let answer = server.store.commit(transaction).await;
        let name = format!("server {}, client {client}: operation {number}", server.number);
        match answer {
            Ok(committed) => {
                world.note(format!("{name} is acknowledged at {}", committed.revision));
                let mut operations = server.operations.lock();
                server.check(operations.acknowledge(number, committed.revision, &server.etcd));
                server.check(check_shown(&server, committed.revision));
            }
            Err(CommitError::GuardFailed { key, expected, current }) => {
                world.note(format!("{name} fails: {key} is at {current}, not {expected}"));
                let (key, mut operations) = (key.to_string(), server.operations.lock());
                server.check(operations.fail_guard(number, (&key, expected), current, &server.etcd));
            }
            Err(error @ (CommitError::Refused(_) | CommitError::Unanswered)) => {
                world.note(format!("{name} has an unknown outcome: {error}"));
            }
            Err(error) => world.report(format!("{name} got an answer that nothing explains: {error}")),
        }
    }
}

fn choose_operation(server: &Server) -> Operation {
    let world = &server.world;
    let snapshot = server.store.newest();
    let mut keys: Vec<&str> = (0..1 + world.below(3)).map(|_| world.pick(&KEYS, KEYS[0])).collect();
    keys.sort_unstable();
    keys.dedup();
    let modified = |key: &str| snapshot.get(key.as_bytes()).map_or(0, |entry| entry.mod_revision());
    let guarded = world.below(1 + keys.len() as u64) as usize;
    let guards = keys.iter().take(guarded).map(|key| {
        let expected = match world.below(10) {
            0 => 0,
            _ => modified(key),
        };
        ((*key).to_owned(), expected)
    });
    let guards = guards.collect();
    let changes = keys.iter().map(|key| {
        let text = (world.below(4) > 0).then(|| format!("{:x}", world.below(u64::MAX)));
        ((*key).to_owned(), text)
    });
    Operation {
        guards,
        changes: changes.collect(),
        sent_at: server.etcd.revision(),
    }
}

/// Checks that a server shows a revision, and that its state is the one of etcd.
fn check_shown(server: &Server, revision: Revision) -> Result<(), Violation> {
    let snapshot = server.store.snapshot();
    ensure!(
        snapshot.revision() >= revision,
        "server {} is at {} and must show {revision}",
        server.number,
        snapshot.revision()
    );
    check_state(server, &snapshot)
}

/// Checks that a snapshot is what etcd held at its revision.
pub(super) fn check_state(server: &Server, snapshot: &Snapshot<()>) -> Result<(), Violation> {
    let revision = snapshot.revision();
    ensure!(
        revision <= server.etcd.revision(),
        "server {} is at revision {revision} before etcd",
        server.number
    );
    let stored = server.etcd.keys_at(revision);
    let expected = stored.iter().filter(|stored| is_object(&stored.key));
    let mut found = snapshot.range(b"");
    for stored in expected {
        let Some(entry) = found.next() else {
            return Err(Violation::new(format!("{stored:?} is missing at {revision}")));
        };
        let is_same = **entry.key() == *stored.key
            && entry.bytes()[..] == served(&stored.value, stored.mod_revision)[..]
            && (entry.mod_revision(), entry.create_revision()) == (stored.mod_revision, stored.create_revision);
        ensure!(
            is_same,
            "server {} shows {} at {} instead of {stored:?} at revision {revision}",
            server.number,
            entry.key(),
            entry.mod_revision()
        );
    }
    match found.next() {
        None => Ok(()),
        Some(more) => Err(Violation::new(format!("{} is too much at {revision}", more.key()))),
    }
}

/// Reads the most recent state and past states.
pub(super) async fn read(server: Arc<Server>) {
    let world = &server.world;
    for _ in 0..1 + world.below(MAX_READS) {
        world.pause(PAUSE).await;
        let before = server.etcd.revision();
        match server.store.latest().await {
            Ok(snapshot) => {
                let revision = snapshot.revision();
                world.note(format!("server {} reads revision {revision}", server.number));
                if revision < before {
                    world.report(format!("a read that began at {before} shows {revision}"));
                }
                server.check(check_state(&server, &snapshot));
            }
            Err(error) => world.note(format!("server {} cannot read: {error}", server.number)),
        }
        let current = server.store.revision();
        let past = current.saturating_sub(world.below(20));
        if let Ok(snapshot) = server.store.snapshot_at(past) {
            server.check(check_state(&server, &snapshot));
        }
    }
}

/// Compacts etcd's history now and then, so that watches lose their next events.
pub(super) async fn compact(server: Arc<Server>) {
    let world = &server.world;
    for _ in 0..world.below(MAX_COMPACTIONS) {
        world.pause(PAUSE).await;
        let revision = server.etcd.revision().saturating_sub(world.below(4));
        world.note(format!("etcd is compacted at {revision}"));
        server.etcd.compact(revision);
    }
}

/// Objects of a prefix, as the events of a watcher show them.
pub(super) struct WatchRecord {
    prefix: &'static str,
    /// Longest pause after an event.
    pause: Duration,
    /// Revision after which the watch began, and number of events since then.
    begin: Revision,
    delivered: usize,
    /// Revision of the last event.
    last: Revision,
    /// Revisions of the keys, as the events show them.
    keys: BTreeMap<String, Revision>,
}

impl WatchRecord {
    pub(super) fn choose(world: &World) -> Self {
        Self {
            prefix: world.pick(&PREFIXES, PREFIXES[0]),
            pause: world.pick(&[Duration::ZERO, PAUSE, SLOW_WATCH_PAUSE], PAUSE),
            begin: 0,
            delivered: 0,
            last: 0,
            keys: BTreeMap::new(),
        }
    }

    /// Begins at a snapshot.
    fn restart(&mut self, snapshot: &Snapshot<()>) {
        self.begin = snapshot.revision();
        self.last = snapshot.revision();
        self.delivered = 0;
        let entries = snapshot.range(self.prefix.as_bytes());
        self.keys = entries
            .map(|entry| (entry.key().to_string(), entry.mod_revision()))
            .collect();
    }

    /// Checks the next event. After a compaction, a server shows the differences instead of each change.
    fn advance(&mut self, server: &Server, event: &Event<()>) -> Result<(), Violation> {
        let (key, revision, etcd) = (event.key().to_string(), event.revision(), &server.etcd);
        ensure!(
            revision >= self.last && key.starts_with(self.prefix),
            "a watcher of {} at {} got {key} at {revision}",
            self.prefix,
            self.last
        );
        let is_put = event.kind() == EventKind::Put;
        let bytes = event.current().bytes().clone();
        let is_shown = |value: &Option<bytes::Bytes>| match value {
            Some(text) => is_put && bytes[..] == served(text, revision)[..],
            None => !is_put,
        };
        if server.shows_each_change() {
            let changes = etcd.changes_between(self.begin, etcd.revision());
            let mut of_prefix = changes
                .iter()
                .filter(|change| is_object(&change.key) && change.key.starts_with(self.prefix.as_bytes()));
            let next = of_prefix.nth(self.delivered);
            let is_next = next
                .is_some_and(|next| next.revision == revision && next.key == key.as_bytes() && is_shown(&next.value));
            ensure!(
                is_next,
                "a watcher of {} got {key} at {revision} instead of {next:?}",
                self.prefix
            );
        } else if is_put {
            let changes = etcd.changes_between(revision - 1, revision);
            let is_real = changes
                .iter()
                .any(|change| change.key == key.as_bytes() && is_shown(&change.value));
            ensure!(is_real, "etcd has no change of {key} at {revision}");
        } else {
            ensure!(self.keys.contains_key(&key), "{key} was deleted before");
        }
        match is_put {
            true => drop(self.keys.insert(key, revision)),
            false => drop(self.keys.remove(&key)),
        }
        self.last = revision;
        self.delivered += 1;
        Ok(())
    }

    /// Checks, when all messages have arrived, that the watcher knows etcd's keys.
    pub(super) fn check_complete(&self, server: &Server) -> Result<(), Violation> {
        let stored = server.etcd.keys_at(server.etcd.revision());
        let expected: BTreeMap<String, Revision> = stored
            .iter()
            .filter(|stored| is_object(&stored.key) && stored.key.starts_with(self.prefix.as_bytes()))
            .map(|stored| (String::from_utf8_lossy(&stored.key).into_owned(), stored.mod_revision))
            .collect();
        ensure!(
            self.keys == expected,
            "a watcher of {} knows {:?} instead of {expected:?}",
            self.prefix,
            self.keys
        );
        Ok(())
    }
}

/// Watches until the store closes.
pub(super) async fn watch(server: Arc<Server>, record: Arc<Mutex<WatchRecord>>) {
    let (prefix, pause) = {
        let record = record.lock();
        (record.prefix, record.pause)
    };
    loop {
        let Ok((snapshot, mut watcher)) = server.store.snapshot_and_watch(prefix) else {
            return;
        };
        record.lock().restart(&snapshot);
        loop {
            match watcher.next().await {
                Ok(event) => {
                    let (number, key, revision) = (server.number, event.key(), event.revision());
                    server
                        .world
                        .note(format!("server {number}, watch of {prefix}: {revision} {key}"));
                    server.check(record.lock().advance(&server, &event));
                    if pause > Duration::ZERO && server.is_busy() {
                        server.world.pause(pause).await;
                    }
                }
                Err(HistoryError::Closed) => return,
                Err(error) => {
                    server.world.note(format!("watch of {prefix} ends: {error}"));
                    break;
                }
            }
        }
    }
}
