//! Transactions of the clients, and what etcd's history must show of them.

use std::collections::BTreeMap;

use holdfast_store::simulated_etcd::{SimulatedEtcd, StoredKey};
use holdfast_store::{Revision, Transaction};

use super::codec::value;
use crate::world::{Violation, ensure};

/// A transaction that a client sends. No two puts have the same text.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) guards: Vec<(String, Revision)>,
    /// Keys with their new texts; `None` for deletes.
    pub(super) changes: Vec<(String, Option<String>)>,
    /// Revision of etcd when the client sent the transaction.
    pub(super) sent_at: Revision,
}

/// Knowledge of the client about the outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The client has no answer, or an answer that leaves the outcome open.
    Unknown,
    Acknowledged(Revision),
    GuardFailed,
}

/// All operations of a simulation.
#[derive(Debug, Default)]
pub(super) struct Operations(Vec<(Operation, Outcome)>);

impl Operation {
    pub(super) fn transaction(&self) -> Transaction<()> {
        let guarded = self
            .guards
            .iter()
            .fold(Transaction::new(), |transaction, (key, expected)| {
                transaction.guard(key.as_str(), *expected)
            });
        self.changes
            .iter()
            .fold(guarded, |transaction, (key, text)| match text {
                Some(text) => transaction.put(key.as_str(), value(text)),
                None => transaction.delete(key.as_str()),
            })
    }

    fn guards_hold(&self, keys: &[StoredKey]) -> bool {
        self.guards
            .iter()
            .all(|(key, expected)| mod_revision(keys, key) == *expected)
    }

    /// Checks that etcd executed this operation at `revision`.
    fn check_executed(&self, etcd: &SimulatedEtcd, revision: Revision) -> Result<(), Violation> {
        let before = etcd.keys_at(revision - 1);
        let exists = |key: &str| mod_revision(&before, key) != 0;
        let expected: Vec<_> = self
            .changes
            .iter()
            .filter(|(key, text)| text.is_some() || exists(key))
            .map(|(key, text)| {
                (
                    key.as_bytes().to_vec(),
                    text.as_ref().map(|text| text.as_bytes().to_vec()),
                )
            })
            .collect();
        let changes = etcd.changes_between(revision - 1, revision).into_iter();
        let found: Vec<_> = changes
            .map(|change| (change.key.to_vec(), change.value.map(|value| value.to_vec())))
            .collect();
        if found == expected && self.guards_hold(&before) {
            return Ok(());
        }
        // An operation that finds nothing to delete gets the current revision.
        let keys = etcd.keys_at(revision);
        let changes_nothing = self
            .changes
            .iter()
            .all(|(key, text)| text.is_none() && mod_revision(&keys, key) == 0);
        ensure!(
            changes_nothing && self.guards_hold(&keys),
            "revision {revision} is not {self:?}"
        );
        Ok(())
    }
}

impl Operations {
    /// Registers an operation before it is sent. Returns its number.
    pub(super) fn send(&mut self, operation: Operation) -> usize {
        self.0.push((operation, Outcome::Unknown));
        self.0.len() - 1
    }

    /// Checks that an acknowledged operation was executed at its revision.
    pub(super) fn acknowledge(
        &mut self,
        number: usize,
        revision: Revision,
        etcd: &SimulatedEtcd,
    ) -> Result<(), Violation> {
        let Some((operation, outcome)) = self.0.get_mut(number) else {
            return Ok(());
        };
        *outcome = Outcome::Acknowledged(revision);
        ensure!(
            operation.sent_at <= revision && revision <= etcd.revision(),
            "operation {number} of revision {} got revision {revision}",
            operation.sent_at
        );
        operation.check_executed(etcd, revision)
    }

    /// Checks that a key was at `current` while an operation ran whose guard failed.
    pub(super) fn fail_guard(
        &mut self,
        number: usize,
        guard: (&str, Revision),
        current: Revision,
        etcd: &SimulatedEtcd,
    ) -> Result<(), Violation> {
        let Some((operation, outcome)) = self.0.get_mut(number) else {
            return Ok(());
        };
        *outcome = Outcome::GuardFailed;
        let (key, expected) = guard;
        let is_guard = operation
            .guards
            .iter()
            .any(|(of, wanted)| of == key && *wanted == expected);
        let was_current = |revision| mod_revision(&etcd.keys_at(revision), key) == current;
        ensure!(
            is_guard && expected != current && (operation.sent_at..=etcd.revision()).any(was_current),
            "{key} was never at {current} while operation {number} ran: {operation:?}"
        );
        Ok(())
    }

    /// Checks that each put of etcd's history is that of one operation, and was executed once. A failed operation has
    /// left no trace.
    pub(super) fn check_history(
        &self,
        etcd: &SimulatedEtcd,
        is_client_key: impl Fn(&str) -> bool,
    ) -> Result<(), Violation> {
        let mut puts: BTreeMap<String, Vec<Revision>> = BTreeMap::new();
        for change in etcd.changes_between(0, etcd.revision()) {
            if let Some(value) = change.value
                && is_client_key(&String::from_utf8_lossy(&change.key))
            {
                let text = String::from_utf8_lossy(&value).into_owned();
                puts.entry(text).or_default().push(change.revision);
            }
        }
        for (number, (operation, outcome)) in self.0.iter().enumerate() {
            for text in operation.changes.iter().filter_map(|(_, text)| text.as_ref()) {
                let revisions = puts.remove(text).unwrap_or_default();
                let is_right = match outcome {
                    Outcome::Unknown => revisions.len() <= 1,
                    Outcome::Acknowledged(revision) => revisions == [*revision],
                    Outcome::GuardFailed => revisions.is_empty(),
                };
                ensure!(
                    is_right,
                    "operation {number} is {outcome:?}, and etcd executed it at {revisions:?}: {operation:?}"
                );
            }
        }
        ensure!(puts.is_empty(), "no client sent {puts:?}");
        Ok(())
    }
}

/// Returns the revision of the last change of a key; 0 if it is absent.
pub(super) fn mod_revision(keys: &[StoredKey], key: &str) -> Revision {
    let found = keys.iter().find(|stored| stored.key == key.as_bytes());
    found.map_or(0, |stored| stored.mod_revision)
}
