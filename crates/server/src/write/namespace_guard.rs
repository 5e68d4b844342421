//! The namespace of a new object. It must still be there when the object comes to be: otherwise that could happen after the
//! namespace was emptied, and the object would outlive it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_store::Transaction;
use holdfast_writes::{Target, metadata};

use crate::objects::{self, Entry, Objects, Snapshot};

/// The namespace that an object is made in.
pub(super) struct NamespaceGuard {
    key: String,
    /// The namespace as the run of the write saw it.
    entry: Arc<Entry>,
    /// At which revision it was seen last.
    revision: AtomicU64,
}

impl NamespaceGuard {
    /// The namespace of a new object of `target`; `None` for what is in none.
    pub(super) fn of(target: &Target, snapshot: &Snapshot) -> Option<Self> {
        if target.namespace.is_empty() {
            return None;
        }
        let storage = target.registry.namespaces()?.storage.as_ref()?;
        let key = storage.key("", &target.namespace);
        let entry = snapshot.get(key.as_bytes())?;
        Some(Self {
            revision: AtomicU64::new(entry.mod_revision()),
            entry: Arc::clone(entry),
            key,
        })
    }

    /// The transaction, which goes through only if the namespace is as it was last seen.
    pub(super) fn guard(&self, transaction: Transaction<Objects>) -> Transaction<Objects> {
        transaction.guard(self.key.as_str(), self.revision.load(Ordering::Relaxed))
    }

    /// Whether `key` is that of the namespace.
    pub(super) fn is_at(&self, key: &[u8]) -> bool {
        self.key.as_bytes() == key
    }

    /// Looks at the namespace again, which has changed. Whether it is the same and is not to go, so that the object may come
    /// to be.
    pub(super) fn is_still_there(&self, snapshot: &Snapshot) -> bool {
        let Some(entry) = snapshot.get(self.key.as_bytes()) else {
            return false;
        };
        self.revision.store(entry.mod_revision(), Ordering::Relaxed);
        let (before, now) = (objects::tree(&self.entry), objects::tree(entry));
        metadata::uid(&before) == metadata::uid(&now) && now.at(&["metadata", "deletionTimestamp"]).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::super::delete;
    use super::super::testing::{CONFIG, NAMESPACE, World};
    use super::*;

    fn guard(world: &World) -> Option<NamespaceGuard> {
        NamespaceGuard::of(&world.target(CONFIG, ""), &world.snapshot())
    }

    #[tokio::test]
    async fn a_namespace_that_changed_is_still_there() {
        let world = World::new();
        world.create(NAMESPACE).await;
        let guard = guard(&world).unwrap();
        world.patch(NAMESPACE, "", "{metadata: {labels: {a: b}}}").await;
        let stale = guard.guard(Transaction::new().delete("/registry/configmaps/default/a"));
        assert!(world.context.shared.store.commit(stale).await.is_err());
        assert!(guard.is_still_there(&world.snapshot()));
        let renewed = guard.guard(Transaction::new().delete("/registry/configmaps/default/a"));
        assert!(world.context.shared.store.commit(renewed).await.is_ok());
    }

    #[tokio::test]
    async fn a_namespace_that_is_to_go_is_not() {
        let world = World::new();
        world.create(NAMESPACE).await;
        let guard = guard(&world).unwrap();
        let deleted = delete(&world.context, world.target(NAMESPACE, ""), Default::default()).await;
        assert!(deleted.is_ok_and(|written| !written.removed));
        assert!(!guard.is_still_there(&world.snapshot()));
    }

    #[tokio::test]
    async fn what_is_in_no_namespace_that_is_stored_needs_none() {
        let world = World::new();
        assert!(guard(&world).is_none(), "who minds that is a matter of admission");
        let of_cluster = NamespaceGuard::of(&world.target(NAMESPACE, ""), &world.snapshot());
        assert!(of_cluster.is_none());
    }
}
