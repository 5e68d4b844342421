//! Clients of the store: writers, lists in pages, and watchers that continue after a crash.

use std::sync::Arc;
use std::time::Duration;

use holdfast_store::{CommitError, HistoryError, Revision};
use parking_lot::Mutex;

use super::Process;
use super::model::{Change, Model, ModelEvent, Operation};
use crate::world::{Violation, ensure};
use crate::{PlantedBug, World};

/// Few keys, so that clients meet; with and without tables, some a prefix of others.
const KEYS: [&str; 10] = [
    "/registry/pods/a/x",
    "/registry/pods/a/y",
    "/registry/pods/ab/x",
    "/registry/pods/b/x",
    "/registry/services/specs/a/x",
    "/registry/services/endpoints/a/x",
    "/registry/example.com/widgets/a/x",
    "/registry/pods",
    "/registry",
    "other",
];

const PREFIXES: [&str; 7] = [
    "",
    "/registry/",
    "/registry/pods/",
    "/registry/pods/a/",
    "/registry/pods/a/x",
    "/registry/services/",
    "o",
];

/// Maximum number of transactions of one writer.
const MAX_WRITES: u64 = 30;
/// Maximum number of lists of one client.
const MAX_LISTS: u64 = 10;
/// Longest pause of a client.
const PAUSE: Duration = Duration::from_millis(300);
/// Longest pause of a slow watcher.
const SLOW_WATCH_PAUSE: Duration = Duration::from_secs(5);

/// Sends transactions and checks the answers.
pub(super) async fn write(process: Arc<Process>, client: u64) {
    let world = &process.world;
    for _ in 0..1 + world.below(MAX_WRITES) {
        if world.once_in(2) {
            world.pause(PAUSE).await;
        }
        let operation = choose_operation(world, &process);
        let transaction = operation.transaction();
        let Some(id) = process.with_model(|model| Ok(model.send(operation))) else {
            return;
        };
        let answer = process.store.commit(transaction).await;
        match answer {
            Ok(committed) => {
                world.note(format!(
                    "client {client}: {id} is acknowledged at {}",
                    committed.revision
                ));
                process.with_model(|model| model.acknowledged(id, committed.revision));
            }
            Err(CommitError::GuardFailed { key, expected, current }) => {
                world.note(format!(
                    "client {client}: {id} fails, {key} is at {current}, not {expected}"
                ));
                process.with_model(|model| model.guard_failed(id, &key.to_string(), expected, current));
            }
            Err(error @ CommitError::Storage(_)) => {
                world.note(format!("client {client}: {id} fails, {error}"));
                process.with_model(|model| {
                    model.failed(id);
                    Ok(())
                });
            }
            Err(error) => world.report(format!("operation {id} got an answer that nothing explains: {error}")),
        }
    }
}

fn choose_operation(world: &World, process: &Process) -> Operation {
    let snapshot = process.store.snapshot();
    let mut keys: Vec<&str> = (0..1 + world.below(3)).map(|_| world.pick(&KEYS, KEYS[0])).collect();
    keys.sort_unstable();
    keys.dedup();
    let modified = |key: &str| snapshot.get(key.as_bytes()).map_or(0, |entry| entry.mod_revision());
    let guarded = world.below(1 + keys.len() as u64) as usize;
    let guards = keys.iter().take(guarded).map(|key| {
        let expected = match world.below(10) {
            0 => 0,
            1 => modified(key) + 1,
            _ => modified(key),
        };
        ((*key).to_owned(), expected)
    });
    let guards = guards.collect();
    let changes = keys.iter().map(|key| {
        let key = (*key).to_owned();
        let text = format!("{:x}", world.below(u64::MAX));
        match world.below(10) {
            0 | 1 => Change::Delete { key, last: None },
            2 => Change::Delete { key, last: Some(text) },
            _ => Change::Put { key, text },
        }
    });
    let changes = changes.collect();
    Operation {
        guards,
        changes,
        sent_at: snapshot.revision(),
        failed: false,
    }
}

/// Reads snapshots of past revisions, and lists in pages.
pub(super) async fn list(process: Arc<Process>) {
    let world = &process.world;
    for _ in 0..1 + world.below(MAX_LISTS) {
        world.pause(PAUSE).await;
        let current = process.store.revision();
        let revision = match world.below(3) {
            0 => world.below(current + 2),
            _ => current,
        };
        if world.once_in(2) {
            process.store.keep(&process.store.snapshot());
        }
        let prefix = world.pick(&PREFIXES, "");
        let mut after = String::new();
        loop {
            match read_page(&process, revision, prefix, &after) {
                Ok(Some(last)) => after = last,
                Ok(None) => break,
                Err(violation) => return world.report(violation.to_string()),
            }
            world.pause(PAUSE).await;
        }
    }
}

/// Reads and checks one page of a list. Returns the last key of the page if there are more.
fn read_page(process: &Process, revision: Revision, prefix: &str, after: &str) -> Result<Option<String>, Violation> {
    let (current, oldest) = (process.store.revision(), process.store.oldest_revision());
    let read = match process.world.has_bug(PlantedBug::ListsNewestState) {
        true => process.store.snapshot_at(current),
        false => process.store.snapshot_at(revision),
    };
    let snapshot = match read {
        Ok(snapshot) => snapshot,
        Err(HistoryError::Compacted { .. }) => {
            ensure!(
                revision < oldest,
                "revision {revision} is gone, the history begins at {oldest}"
            );
            return Ok(None);
        }
        Err(error) => {
            ensure!(
                revision > current,
                "revision {revision} of {current} cannot be read: {error}"
            );
            return Ok(None);
        }
    };
    ensure!(
        snapshot.revision() == revision,
        "a page of revision {revision} is one of {}",
        snapshot.revision()
    );
    process.with_model(|model| model.compare(&snapshot, prefix, after));
    let mut rest = snapshot.range_after(prefix.as_bytes(), after.as_bytes());
    let size = process.world.below(3) as usize;
    Ok(rest.nth(size).map(|entry| entry.key().to_string()))
}

/// Position of a watcher in the events of the model.
pub(super) struct WatchPosition {
    prefix: &'static str,
    /// Longest pause between two events.
    pause: Duration,
    /// Position of the first event that may be next.
    next: usize,
}

impl WatchPosition {
    pub(super) fn choose(world: &World) -> Self {
        Self {
            prefix: world.pick(&PREFIXES, ""),
            pause: world.pick(&[Duration::ZERO, PAUSE, SLOW_WATCH_PAUSE], PAUSE),
            next: 0,
        }
    }

    /// Returns the revision to watch from: the latest one whose events were delivered completely. After that revision,
    /// some events may be delivered again.
    fn revision(&self, model: &Model) -> Revision {
        match model.event(self.next) {
            Some(event) => event.revision - 1,
            None => model.revision(),
        }
    }

    /// Checks the next event, and moves the position after it.
    fn advance(&mut self, model: &Model, event: &ModelEvent) -> Result<(), Violation> {
        let next = model.next_of_prefix(self.next, self.prefix);
        let expected = next.and_then(|next| model.event(next));
        ensure!(
            expected == Some(event),
            "a watcher of {:?} got {event:?} instead of {expected:?}",
            self.prefix
        );
        self.next = next.map_or(self.next, |next| next + 1);
        Ok(())
    }

    /// Checks that no event is left.
    pub(super) fn check_complete(&self, model: &Model) -> Result<(), Violation> {
        let missed = model.next_of_prefix(self.next, self.prefix);
        ensure!(
            missed.is_none() || self.pause > PAUSE,
            "a watcher of {:?} did not get {:?}",
            self.prefix,
            missed.and_then(|next| model.event(next))
        );
        Ok(())
    }
}

/// Watches until the store closes.
pub(super) async fn watch(process: Arc<Process>, position: Arc<Mutex<WatchPosition>>) {
    loop {
        let started = process.with_model(|model| {
            let mut position = position.lock();
            let after = position.revision(model);
            position.next = model.position_after(after);
            Ok(after)
        });
        let Some(after) = started else { return };
        let prefix = position.lock().prefix;
        let mut watcher = match process.store.watch(prefix, after) {
            Ok(watcher) => watcher,
            Err(error) => match restart(&process, &position, after, error) {
                true => continue,
                false => return,
            },
        };
        loop {
            let error = match watcher.next().await {
                Ok(event) => {
                    if process.world.has_bug(PlantedBug::SkipsEvents) && process.world.once_in(20) {
                        continue;
                    }
                    process
                        .world
                        .note(format!("watch of {prefix:?}: {} {}", event.revision(), event.key()));
                    let event = ModelEvent::from_event(&event);
                    process.with_model(|model| position.lock().advance(model, &event));
                    let pause = position.lock().pause;
                    if pause > Duration::ZERO {
                        process.world.pause(pause).await;
                    }
                    continue;
                }
                Err(error) => error,
            };
            match restart(&process, &position, watcher.progress(), error) {
                true => break,
                false => return,
            }
        }
    }
}

/// Checks the end of a watch that has delivered everything up to `done`. Returns true if the client watches again.
fn restart(process: &Process, position: &Mutex<WatchPosition>, done: Revision, error: HistoryError) -> bool {
    process.world.note(format!("watch ends at {done}: {error}"));
    let oldest = process.store.oldest_revision();
    let checked = process.with_model(|model| {
        let mut position = position.lock();
        match error {
            HistoryError::Compacted { .. } => {
                ensure!(
                    done < oldest,
                    "a watch at {done} ended although the history begins at {oldest}"
                );
                position.next = model.position_after(model.revision());
                Ok(true)
            }
            HistoryError::Closed => {
                ensure!(
                    model.next_of_prefix(position.next, position.prefix).is_none(),
                    "a watch was closed before its last event"
                );
                Ok(false)
            }
            HistoryError::Future { .. } => Err(Violation::new(format!("a watch was ended: {error}"))),
        }
    });
    checked.unwrap_or(false)
}
