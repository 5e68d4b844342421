//! Applies that are known to change nothing in an object; see `write/noop_applies.rs`.

use std::sync::{Arc, Weak};

use holdfast_resource::Resource;
use holdfast_store::{Key, Revision};

use crate::objects::Snapshot;

/// Maximum number of applies that are remembered for one object: those of managers that alternate.
const MAX_APPLIES: usize = 4;

/// Fingerprint of an apply: its text, its sender and its options.
pub(crate) type Fingerprint = [u64; 2];

/// An apply that changed nothing, with the state that this depended on.
#[derive(Debug)]
pub(crate) struct NoopApply {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) resource: Weak<Resource>,
    /// Other objects that were looked up, by their keys, with the revisions at which they were written; 0 for missing
    /// ones.
    pub(crate) seen: Box<[(Key, Revision)]>,
    /// Warnings for the client.
    pub(crate) warnings: Vec<String>,
}

/// The applies of one object, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct NoopApplies(Vec<NoopApply>);

impl NoopApplies {
    /// Remembers an apply.
    pub(crate) fn insert(&mut self, apply: NoopApply) {
        self.0.retain(|known| known.fingerprint != apply.fingerprint);
        if self.0.len() >= MAX_APPLIES {
            self.0.remove(0);
        }
        self.0.push(apply);
    }

    /// Returns the warnings of an apply, if it still changes nothing.
    pub(crate) fn warnings(
        &self,
        fingerprint: Fingerprint,
        resource: &Arc<Resource>,
        snapshot: &Snapshot,
    ) -> Option<Vec<String>> {
        let known = self.0.iter().find(|known| known.fingerprint == fingerprint)?;
        let is_same = |(key, revision): &(Key, Revision)| revision_of(snapshot, key) == *revision;
        let holds = std::ptr::eq(known.resource.as_ptr(), Arc::as_ptr(resource)) && known.seen.iter().all(is_same);
        holds.then(|| known.warnings.clone())
    }
}

/// Returns the revision at which the object at `key` was written; 0 if there is none.
pub(crate) fn revision_of(snapshot: &Snapshot, key: &[u8]) -> Revision {
    snapshot.get(key).map_or(0, |entry| entry.mod_revision())
}
