//! Newer entries of keys that etcd returned when it rejected a write, and that the state does not show yet.
//!
//! A write that lost a race is evaluated again with the content of the rejection, and need not wait for the watch to
//! deliver it. Readers never see these entries: they see only what is published in the order of revisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::entry::{Entry, Indexer};
use crate::key::{Key, Revision};
use crate::state::Snapshot;

/// Maximum number of keys; the watch reports the others.
const MAX_KEYS: usize = 1024;

/// A key as etcd held it at a revision.
pub(crate) struct KnownKey<X: Indexer> {
    pub(crate) key: Key,
    /// Revision at which etcd held it.
    pub(crate) revision: Revision,
    /// Entry; `None` if the key is absent.
    pub(crate) entry: Option<Arc<Entry<X>>>,
}

/// Keys with newer entries than those in the state.
pub(crate) struct Ahead<X: Indexer> {
    /// True if there is any key, so that the empty case costs one load.
    any: AtomicBool,
    known: Mutex<Vec<KnownKey<X>>>,
}

impl<X: Indexer> Default for Ahead<X> {
    fn default() -> Self {
        Self {
            any: AtomicBool::new(false),
            known: Mutex::new(Vec::new()),
        }
    }
}

impl<X: Indexer> Ahead<X> {
    /// Keeps entries until the state, which is at `current`, shows them. Returns true if there is room for all.
    pub(crate) fn learn(&self, learned: Vec<KnownKey<X>>, current: Revision) -> bool {
        let mut known = self.known.lock();
        known.retain(|one| one.revision > current);
        for new in learned {
            if let Some(there) = known.iter_mut().find(|one| one.key == new.key) {
                if there.revision < new.revision {
                    *there = new;
                }
            } else if known.len() < MAX_KEYS {
                known.push(new);
            } else {
                return false;
            }
        }
        self.any.store(!known.is_empty(), Ordering::Release);
        true
    }

    /// Returns the snapshot with the newer entries.
    pub(crate) fn over(&self, snapshot: Snapshot<X>) -> Snapshot<X> {
        if !self.any.load(Ordering::Acquire) {
            return snapshot;
        }
        let mut known = self.known.lock();
        known.retain(|one| one.revision > snapshot.revision());
        self.any.store(!known.is_empty(), Ordering::Release);
        known
            .iter()
            .fold(snapshot, |snapshot, one| snapshot.with(&one.key, one.entry.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Value, Version};
    use crate::state::{HistoryLimits, State};

    fn known(name: &str, revision: Revision, there: bool) -> KnownKey<()> {
        let key = Key::from(format!("/registry/things/{name}").as_str());
        let version = Version {
            mod_revision: revision,
            create_revision: 1,
            position: 0,
        };
        let value = Value::plain(format!("{name} at {revision}"));
        let entry = there.then(|| Entry::new(&Arc::new(()), key.clone(), (&value).into(), version, None));
        KnownKey { key, revision, entry }
    }

    #[test]
    fn learned_entries_are_shown_until_state_has_them() {
        let (state, mut publisher) = State::new((), HistoryLimits::default());
        let ahead = Ahead::default();
        assert!(ahead.learn(vec![known("a", 5, true), known("b", 7, true)], 1));
        // An older entry adds nothing.
        assert!(ahead.learn(vec![known("a", 4, false)], 1));
        let shown = |snapshot: Snapshot<()>, name: &str| {
            let key = format!("/registry/things/{name}");
            snapshot.get(key.as_bytes()).map(|entry| entry.mod_revision())
        };
        assert_eq!(shown(ahead.over(state.snapshot()), "a"), Some(5));
        assert_eq!(shown(ahead.over(state.snapshot()), "b"), Some(7));
        assert_eq!(shown(state.snapshot(), "a"), None, "readers see it too");
        assert!(ahead.learn(vec![known("b", 8, false)], 1));
        assert_eq!(shown(ahead.over(state.snapshot()), "b"), None);
        let mut draft = publisher.draft();
        draft.pass(6);
        publisher.publish(draft);
        assert_eq!(shown(ahead.over(state.snapshot()), "a"), None, "it has gone since");
        let mut draft = publisher.draft();
        draft.pass(8);
        publisher.publish(draft);
        assert_eq!(ahead.over(state.snapshot()).revision(), 8);
        assert!(!ahead.any.load(Ordering::Acquire));
    }
}
