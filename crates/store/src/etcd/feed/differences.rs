//! The changes that convert the state to etcd's content after the watch missed some.

use std::collections::HashMap;

use super::Change;
use crate::entry::Indexer;
use crate::etcd::prefix::Prefix;
use crate::etcd::proto;
use crate::key::{Key, Revision};
use crate::state::Snapshot;

/// Differences between the state and etcd's content.
pub(super) struct Differences {
    pub(super) changes: Vec<Change>,
}

impl Differences {
    pub(super) fn new<X: Indexer>(
        before: &Snapshot<X>,
        prefix: &Prefix,
        entries: &[proto::KeyValue],
        revision: Revision,
    ) -> Self {
        let mut there = HashMap::with_capacity(entries.len());
        for kv in entries {
            if let Some(key) = prefix.key(&kv.key) {
                there.insert(key, kv);
            }
        }
        let mut changes = Vec::new();
        let mut free = Free::new(
            there.values().map(|kv| kv.mod_revision.unsigned_abs()),
            before.revision(),
        );
        let mut gone = |key: &Key, until: Revision| Change {
            key: key.clone(),
            mod_revision: free.take(until),
            create_revision: 0,
            stored: None,
            value: None,
        };
        for entry in before.range(b"") {
            match there.get(entry.key()) {
                None => changes.push(gone(entry.key(), revision)),
                // It was deleted and created again.
                Some(kv) if kv.create_revision.unsigned_abs() != entry.create_revision() => {
                    changes.push(gone(entry.key(), kv.create_revision.unsigned_abs().saturating_sub(1)));
                }
                Some(_) => {}
            }
        }
        for (key, kv) in there {
            let mod_revision = kv.mod_revision.unsigned_abs();
            if before
                .get(&key)
                .is_none_or(|entry| entry.mod_revision() != mod_revision)
            {
                changes.push(Change {
                    key,
                    mod_revision,
                    create_revision: kv.create_revision.unsigned_abs(),
                    stored: Some(kv.value.clone()),
                    value: None,
                });
            }
        }
        changes.sort_by(|one, other| {
            let order = |change: &Change| (change.mod_revision, change.stored.is_some());
            order(one).cmp(&order(other)).then_with(|| one.key.cmp(&other.key))
        });
        Self { changes }
    }
}

/// Revisions for deletions whose own revisions are unknown: each gets a unique one, so that a watcher that resumes
/// after any event has missed none of the same revision.
struct Free {
    /// Maps a used revision to a lower one that may be free.
    below: HashMap<Revision, Revision>,
    /// Lower bound of the revisions of all changes.
    after: Revision,
}

impl Free {
    fn new(taken: impl Iterator<Item = Revision>, after: Revision) -> Self {
        let below = taken.map(|revision| (revision, revision.saturating_sub(1)));
        Self {
            below: below.collect(),
            after,
        }
    }

    /// Returns and marks as used the highest free revision that is not above `until`; `until` itself if there is none.
    fn take(&mut self, until: Revision) -> Revision {
        let (mut found, mut passed) = (until, Vec::new());
        while let Some(below) = self.below.get(&found) {
            passed.push(found);
            found = *below;
        }
        if found <= self.after {
            return until;
        }
        // Shorten the path for the next search.
        for taken in passed {
            self.below.insert(taken, found - 1);
        }
        self.below.insert(found, found - 1);
        found
    }
}
