//! Guards on the parents of a new object: its namespace, and the CRD that defines its kind. The deletion of a parent
//! deletes its objects too, so an object must not be stored after that deletion began: nothing would delete it.
//!
//! The transaction of a creation compares the revisions of the parents. Deleting a parent marks it first
//! (`metadata.deletionTimestamp`), which changes its revision, so the creation commits before the mark or not at all.
//! The controller that empties a marked parent therefore finds all of its objects.

use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_store::Transaction;
use holdfast_writes::{Error, Target};

use crate::objects::{Entry, Objects, Snapshot};

/// The message of the 403 for an object whose CRD is being deleted, in the words of the reference.
const TERMINATING_DEFINITION: &str = "create not allowed while custom resource definition is terminating";

/// Guards on the parents of one new object.
#[derive(Default)]
pub(super) struct ParentGuards {
    namespace: Option<ParentGuard>,
    crd: Option<ParentGuard>,
}

/// A guard on one parent.
struct ParentGuard {
    key: String,
    /// The revision at which the parent was created: another object of the same name is another parent.
    create_revision: u64,
    /// Revision at which the parent was last seen.
    revision: AtomicU64,
}

impl ParentGuards {
    /// Returns the guards for a new object `name` of `target`. Admission has checked the namespace in `snapshot`; the
    /// CRD is checked here, because `target` may come from an older snapshot.
    ///
    /// # Errors
    /// If the CRD is being deleted or was replaced (403).
    pub(super) fn new(target: &Target, name: &str, snapshot: &Snapshot) -> Result<Self, Error> {
        Ok(Self {
            namespace: namespace_guard(target, snapshot),
            crd: crd_guard(target, name, snapshot)?,
        })
    }

    /// Adds the guards to a transaction, which then commits only if each parent still has its last seen revision.
    pub(super) fn guard(&self, transaction: Transaction<Objects>) -> Transaction<Objects> {
        self.iter().fold(transaction, |transaction, parent| {
            transaction.guard(parent.key.as_str(), parent.revision.load(Ordering::Relaxed))
        })
    }

    /// Renews the guard on `key` after it failed. Returns true if `key` is a parent that still exists and is not being
    /// deleted, so that the creation can be retried unchanged.
    pub(super) fn renew(&self, key: &[u8], snapshot: &Snapshot) -> bool {
        let failed = self.iter().find(|parent| parent.key.as_bytes() == key);
        failed.is_some_and(|parent| parent.renew(snapshot))
    }

    /// Returns the keys of the parents with their revisions.
    pub(super) fn revisions(&self) -> impl Iterator<Item = (&str, u64)> {
        self.iter()
            .map(|parent| (parent.key.as_str(), parent.revision.load(Ordering::Relaxed)))
    }

    fn iter(&self) -> impl Iterator<Item = &ParentGuard> {
        self.namespace.iter().chain(&self.crd)
    }
}

impl ParentGuard {
    fn new(key: String, entry: &Entry) -> Self {
        Self {
            key,
            create_revision: entry.create_revision(),
            revision: AtomicU64::new(entry.mod_revision()),
        }
    }

    fn renew(&self, snapshot: &Snapshot) -> bool {
        let Some(entry) = snapshot.get(self.key.as_bytes()) else {
            return false;
        };
        self.revision.store(entry.mod_revision(), Ordering::Relaxed);
        entry.create_revision() == self.create_revision && !entry.index().is_terminating()
    }
}

/// Returns the guard on the namespace; `None` if the object has none, or none that is stored.
fn namespace_guard(target: &Target, snapshot: &Snapshot) -> Option<ParentGuard> {
    if target.namespace.is_empty() {
        return None;
    }
    let storage = target.registry.outside_run().namespaces()?.storage.as_ref()?;
    let key = storage.key("", &target.namespace);
    let entry = snapshot.get(key.as_bytes())?;
    Some(ParentGuard::new(key, entry))
}

/// Returns the guard on the CRD; `None` for built-in kinds.
fn crd_guard(target: &Target, name: &str, snapshot: &Snapshot) -> Result<Option<ParentGuard>, Error> {
    let crds = target
        .registry
        .outside_run()
        .definitions()
        .and_then(|kind| kind.storage.as_ref());
    let (Some(crd), Some(storage)) = (&target.resource.crd, crds) else {
        return Ok(None);
    };
    let key = storage.key("", &crd.name);
    match snapshot.get(key.as_bytes()) {
        Some(entry) if entry.create_revision() == crd.create_revision && !entry.index().is_terminating() => {
            Ok(Some(ParentGuard::new(key, entry)))
        }
        _ => {
            let resource = target.resource.group_resource();
            Err(Error::forbidden(&resource, name, TERMINATING_DEFINITION))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::delete;
    use super::super::testing::{CONFIG, NAMESPACE, World};
    use super::*;

    fn guards(world: &World) -> ParentGuards {
        ParentGuards::new(&world.target(CONFIG, ""), "a", &world.snapshot())
            .ok()
            .unwrap()
    }

    const KEY: &[u8] = b"/registry/namespaces/default";

    #[tokio::test]
    async fn guard_on_changed_namespace_is_renewed() {
        let world = World::new();
        world.create(NAMESPACE).await;
        let guards = guards(&world);
        world.patch(NAMESPACE, "", "{metadata: {labels: {a: b}}}").await;
        let stale = guards.guard(Transaction::new().delete("/registry/configmaps/default/a"));
        assert!(world.context.shared.store.commit(stale).await.is_err());
        assert!(guards.renew(KEY, &world.snapshot()));
        let renewed = guards.guard(Transaction::new().delete("/registry/configmaps/default/a"));
        assert!(world.context.shared.store.commit(renewed).await.is_ok());
    }

    #[tokio::test]
    async fn guard_on_terminating_namespace_is_not_renewed() {
        let world = World::new();
        world.create(NAMESPACE).await;
        let guards = guards(&world);
        let deleted = delete(&world.context, world.target(NAMESPACE, ""), Default::default()).await;
        assert!(deleted.is_ok_and(|written| !written.removed));
        assert!(!guards.renew(KEY, &world.snapshot()));
    }

    #[tokio::test]
    async fn guard_on_replaced_namespace_is_not_renewed() {
        let world = World::new();
        world.create(NAMESPACE).await;
        let guards = guards(&world);
        let store = &world.context.shared.store;
        let value = world.entry(NAMESPACE).unwrap().value();
        store.commit(Transaction::new().delete(KEY)).await.unwrap();
        assert!(!guards.renew(KEY, &world.snapshot()));
        store.commit(Transaction::new().put(KEY, value)).await.unwrap();
        assert!(!guards.renew(KEY, &world.snapshot()));
    }

    #[tokio::test]
    async fn object_without_stored_namespace_has_no_guard() {
        let world = World::new();
        assert_eq!(guards(&world).iter().count(), 0, "admission rejects it");
        let cluster_scoped = ParentGuards::new(&world.target(NAMESPACE, ""), "default", &world.snapshot());
        assert_eq!(cluster_scoped.ok().unwrap().iter().count(), 0);
    }
}
