//! The simplest possible store: the contents at each revision, and the list of all events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_store::{Event, EventKind, HistoryError, Op, Revision, Snapshot, Store, Transaction, Value, Watcher};

use crate::world::{Violation, ensure};

/// One version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelEntry {
    pub(super) text: String,
    pub(super) modified: Revision,
    created: Revision,
}

/// Keys and their versions at one revision.
pub(super) type Contents = BTreeMap<String, ModelEntry>;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelEvent {
    pub(super) revision: Revision,
    pub(super) key: String,
    kind: EventKind,
    bytes: String,
}

impl ModelEvent {
    pub(super) fn from_event(event: &Event<()>) -> Self {
        Self {
            revision: event.revision(),
            key: event.key().to_string(),
            kind: event.kind(),
            bytes: String::from_utf8_lossy(event.current().bytes()).into_owned(),
        }
    }
}

/// A change of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Put {
        key: String,
        text: String,
    },
    /// A delete, with the text of the object in its event if that is not the previous one.
    Delete {
        key: String,
        last: Option<String>,
    },
}

/// A transaction that a client sent.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) guards: Vec<(String, Revision)>,
    pub(super) changes: Vec<Change>,
    /// Revision of the store when the client sent the transaction.
    pub(super) sent_at: Revision,
    /// True if the store answered that its disk failed.
    pub(super) failed: bool,
}

impl Operation {
    pub(super) fn transaction(&self) -> Transaction<()> {
        let mut transaction = Transaction::new();
        for (key, expected) in &self.guards {
            transaction = transaction.guard(key.as_str(), *expected);
        }
        for change in &self.changes {
            transaction.ops.push(match change {
                Change::Put { key, text } => Op::Put {
                    key: key.as_str().into(),
                    value: stored(text),
                    index: None,
                },
                Change::Delete { key, last } => Op::Delete {
                    key: key.as_str().into(),
                    last: last.as_deref().map(stored),
                },
            });
        }
        transaction
    }

    fn guards_hold(&self, contents: &Contents) -> bool {
        let modified = |key| contents.get(key).map_or(0, |entry| entry.modified);
        self.guards.iter().all(|(key, expected)| modified(key) == *expected)
    }

    /// Returns the events of the transaction at `revision`, based on the contents before it.
    fn events(&self, before: &Contents, revision: Revision) -> Vec<ModelEvent> {
        let event = |key: &str, kind, text: &str| ModelEvent {
            revision,
            key: key.to_owned(),
            kind,
            bytes: served(text, revision),
        };
        let events = self.changes.iter().filter_map(|change| match change {
            Change::Put { key, text } => Some(event(key, EventKind::Put, text)),
            Change::Delete { key, last } => {
                let text = last.as_ref().or(before.get(key).map(|entry| &entry.text))?;
                before.get(key).map(|_| event(key, EventKind::Delete, text))
            }
        });
        events.collect()
    }

    fn is_at(&self, model: &Model, revision: Revision) -> bool {
        let before = model.contents_at(revision - 1);
        self.guards_hold(before) && self.events(before, revision) == model.events_at(revision)
    }
}

fn stored(text: &str) -> Value {
    Value::object(format!("<>{text}"), 1)
}

fn served(text: &str, revision: Revision) -> String {
    format!("<{revision}>{text}")
}

fn text_of(bytes: &str) -> &str {
    bytes.split_once('>').map_or(bytes, |(_, text)| text)
}

/// Number of an operation.
pub(super) type OperationId = u64;

/// The state of the store as its answers and events have shown it, over all processes.
pub(super) struct Model {
    /// Contents at each revision from 1 on.
    history: Vec<Arc<Contents>>,
    events: Vec<ModelEvent>,
    /// Revisions whose operation was acknowledged, or found after a crash.
    explained: BTreeSet<Revision>,
    /// Operations that may still happen.
    open: BTreeMap<OperationId, Operation>,
    next: OperationId,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            history: vec![Arc::default()],
            events: Vec::new(),
            explained: BTreeSet::from([1]),
            open: BTreeMap::new(),
            next: 0,
        }
    }

    /// Returns the last observed revision.
    pub(super) fn revision(&self) -> Revision {
        self.history.len() as Revision
    }

    /// Returns the contents at a revision; the first ones if it is 0, the newest ones if it is in the future.
    pub(super) fn contents_at(&self, revision: Revision) -> &Arc<Contents> {
        let last = self.history.len() - 1;
        let place = usize::try_from(revision).unwrap_or(last).saturating_sub(1);
        &self.history[place.min(last)]
    }

    fn events_at(&self, revision: Revision) -> &[ModelEvent] {
        let from = self.events.partition_point(|event| event.revision < revision);
        let to = self.events.partition_point(|event| event.revision <= revision);
        &self.events[from..to]
    }

    /// Returns the position of the first event after a revision.
    pub(super) fn position_after(&self, revision: Revision) -> usize {
        self.events.partition_point(|event| event.revision <= revision)
    }

    /// Returns the position of the next event of a prefix.
    pub(super) fn next_of_prefix(&self, position: usize, prefix: &str) -> Option<usize> {
        let rest = self.events.get(position..).unwrap_or_default();
        let found = rest.iter().position(|event| event.key.starts_with(prefix));
        found.map(|at| position + at)
    }

    pub(super) fn event(&self, position: usize) -> Option<&ModelEvent> {
        self.events.get(position)
    }

    /// Registers an operation before it is sent.
    pub(super) fn send(&mut self, operation: Operation) -> OperationId {
        self.next += 1;
        self.open.insert(self.next, operation);
        self.next
    }

    /// Adds the new events of the store and compares its state with the model's.
    pub(super) fn observe(&mut self, store: &Store<()>, recorder: &mut Watcher<()>) -> Result<(), Violation> {
        let before = self.revision();
        let mut fresh: Vec<ModelEvent> = Vec::new();
        loop {
            match recorder.try_next() {
                Ok(Some(event)) => {
                    let event = &*event;
                    let shown = ModelEvent::from_event(event);
                    if fresh.last().is_some_and(|last| last.revision != shown.revision) {
                        self.append(std::mem::take(&mut fresh))?;
                    }
                    let key = &shown.key;
                    let known = self
                        .contents_at(self.revision())
                        .get(key)
                        .map_or(0, |entry| entry.modified);
                    let previous = event.previous().map_or(0, |entry| entry.mod_revision());
                    ensure!(
                        known == previous,
                        "an event of {key} at {} follows revision {previous} instead of {known}",
                        shown.revision
                    );
                    fresh.push(shown);
                }
                Ok(None) => break,
                Err(HistoryError::Compacted { .. }) => {
                    return Err(Violation::new("events were trimmed before the next step"));
                }
                Err(error) => return Err(Violation::new(error.to_string())),
            }
        }
        if !fresh.is_empty() {
            self.append(fresh)?;
        }
        ensure!(
            store.revision() == self.revision(),
            "the store is at revision {}, its events end at {}",
            store.revision(),
            self.revision()
        );
        match self.revision() > before {
            true => self.compare(&store.snapshot(), "", ""),
            false => Ok(()),
        }
    }

    /// Adds the events of the next revision.
    fn append(&mut self, events: Vec<ModelEvent>) -> Result<(), Violation> {
        let next = self.revision() + 1;
        let mut contents = Contents::clone(self.contents_at(next));
        for event in events {
            ensure!(
                event.revision == next,
                "an event has revision {} instead of {next}",
                event.revision
            );
            let created = contents.get(&event.key).map_or(next, |entry| entry.created);
            match event.kind {
                EventKind::Put => {
                    let text = text_of(&event.bytes).to_owned();
                    let entry = ModelEntry {
                        text,
                        modified: next,
                        created,
                    };
                    contents.insert(event.key.clone(), entry);
                }
                EventKind::Delete => {
                    contents.remove(&event.key);
                }
            }
            self.events.push(event);
        }
        self.history.push(Arc::new(contents));
        Ok(())
    }

    /// Compares a snapshot of the store with the contents at its revision: all keys of a prefix after a key.
    pub(super) fn compare(&self, snapshot: &Snapshot<()>, prefix: &str, after: &str) -> Result<(), Violation> {
        let contents = self.contents_at(snapshot.revision());
        let expected = contents
            .range(after.to_owned()..)
            .filter(|(key, _)| key.starts_with(prefix) && key.as_str() > after);
        let mut shown = snapshot.range_after(prefix.as_bytes(), after.as_bytes());
        for (key, entry) in expected {
            let Some(found) = shown.next() else {
                return Err(Violation::new(format!("{key} is missing at {}", snapshot.revision())));
            };
            let bytes = String::from_utf8_lossy(found.bytes());
            let same = **found.key() == *key.as_bytes()
                && bytes == served(&entry.text, entry.modified)
                && (found.mod_revision(), found.create_revision()) == (entry.modified, entry.created);
            ensure!(
                same,
                "at {}, {} is {bytes} instead of {key} with {entry:?}",
                snapshot.revision(),
                found.key()
            );
        }
        match shown.next() {
            None => Ok(()),
            Some(more) => Err(Violation::new(format!(
                "{} is too much at {}",
                more.key(),
                snapshot.revision()
            ))),
        }
    }

    /// Checks the answer to a transaction that was acknowledged.
    pub(super) fn acknowledged(&mut self, id: OperationId, revision: Revision) -> Result<(), Violation> {
        let Some(operation) = self.open.remove(&id) else {
            return Err(Violation::new(format!("operation {id} was answered twice")));
        };
        ensure!(
            operation.sent_at <= revision && revision <= self.revision(),
            "operation {id} of revision {} got revision {revision}, the store is at {}",
            operation.sent_at,
            self.revision()
        );
        let contents = self.contents_at(revision);
        let is_new = !self.explained.contains(&revision);
        if !(is_new && operation.is_at(self, revision)) {
            ensure!(
                operation.guards_hold(contents) && operation.events(contents, revision).is_empty(),
                "revision {revision} is not operation {id}, {operation:?}, or is acknowledged twice: {:?}",
                self.events_at(revision)
            );
            return Ok(());
        }
        self.explained.insert(revision);
        // A step was written, so the disk was restored before: what failed before it cannot happen any more.
        self.open.retain(|_, other| !other.failed);
        Ok(())
    }

    /// Checks the answer that a guard failed.
    pub(super) fn guard_failed(
        &mut self,
        id: OperationId,
        key: &str,
        expected: Revision,
        current: Revision,
    ) -> Result<(), Violation> {
        let Some(operation) = self.open.remove(&id) else {
            return Err(Violation::new(format!("operation {id} was answered twice")));
        };
        let was = |revision| self.contents_at(revision).get(key).map_or(0, |entry| entry.modified) == current;
        ensure!(
            expected != current
                && operation
                    .guards
                    .iter()
                    .any(|(guard, wanted)| guard == key && *wanted == expected)
                && (operation.sent_at..=self.revision()).any(was),
            "{key} was never at {current} while operation {id} ran: {operation:?}"
        );
        Ok(())
    }

    /// Records that the disk failed: the operation may still happen if the process ends before the disk works again.
    pub(super) fn failed(&mut self, id: OperationId) {
        if let Some(operation) = self.open.get_mut(&id) {
            operation.failed = true;
        }
    }

    /// Checks at the end of a process that each failed operation is absent and that each revision has its operation.
    /// After the next process has opened the disk, no operation of this one can happen any more.
    pub(super) fn settle(&mut self, is_reopened: bool) -> Result<(), Violation> {
        for revision in 1..=self.revision() {
            if self.explained.contains(&revision) {
                continue;
            }
            let may = |operation: &Operation| (is_reopened || !operation.failed) && operation.is_at(self, revision);
            let found = self
                .open
                .iter()
                .find(|(_, operation)| may(operation))
                .map(|(id, _)| *id);
            let Some(id) = found else {
                return Err(Violation::new(format!(
                    "no client sent the changes of revision {revision}: {:?}",
                    self.events_at(revision)
                )));
            };
            self.open.remove(&id);
            self.explained.insert(revision);
        }
        if is_reopened {
            self.open.clear();
        }
        Ok(())
    }
}
