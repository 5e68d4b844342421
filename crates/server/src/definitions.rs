//! The registry follows the store: resources that objects define (CustomResourceDefinitions) are served as soon as those
//! objects say so, and no longer than they do.
//!
//! One task follows the defining objects in the order of revisions and swaps the [`holdfast_resource::Registry`] whole. Whoever writes a
//! defining object is answered when the registry has followed (`Definitions::committed`), and a path that nothing is
//! known of is looked up again once it has (`Definitions::caught_up`): so what was acknowledged is served, to everyone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_resource::schema::TypeTable;
use holdfast_resource::{DefiningObject, Resource};
use holdfast_store::{EventKind, HistoryError, Watcher};
use holdfast_value::SmolStr;
use tokio::sync::watch;

use crate::objects::{self, Entry, Objects, Snapshot};
use crate::state::Context;

/// How long anyone waits for the registry to follow. It takes milliseconds; a fault must not hold up writes for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// How far the registry has followed the store.
pub struct Definitions {
    /// The newest revision at which a defining object was written.
    written: AtomicU64,
    /// The revision up to which the registry has followed.
    followed: watch::Sender<u64>,
}

impl Default for Definitions {
    fn default() -> Self {
        Self {
            written: AtomicU64::new(0),
            followed: watch::Sender::new(0),
        }
    }
}

impl Definitions {
    /// Waits until the registry knows of a defining object that was written at `revision`.
    pub(crate) async fn committed(&self, revision: u64) {
        self.written.fetch_max(revision, Ordering::Relaxed);
        self.reached(revision).await;
    }

    /// Waits until the registry knows of all defining objects that were written; whether there were any left to wait for.
    pub(crate) async fn caught_up(&self) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        if *self.followed.borrow() >= written {
            return false;
        }
        self.reached(written).await;
        true
    }

    async fn reached(&self, revision: u64) {
        let mut followed = self.followed.subscribe();
        let reached = tokio::time::timeout(PATIENCE, followed.wait_for(|at| *at >= revision)).await;
        if reached.is_err() {
            tracing::error!(revision, "the served resources do not follow their definitions");
        }
    }

    /// Waits until the resource is no longer served as it was, and for ever where it is built in.
    pub(crate) async fn changed(context: &Context, resource: &Resource) {
        let Some(definition) = &resource.definition else {
            return std::future::pending().await;
        };
        let mut followed = context.definitions.followed.subscribe();
        let name = resource.group_resource();
        loop {
            let registry = context.registry();
            let now = registry
                .resource(&name)
                .and_then(|resource| resource.definition.as_ref());
            if now.is_none_or(|now| now.serial != definition.serial) || followed.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Serves what the stored objects define, and follows their changes in a task that ends with the store.
pub(crate) fn follow(context: &Arc<Context>, types: &Arc<TypeTable>) {
    let registry = context.registry();
    let Some(kind) = registry.resources().iter().find(|resource| resource.strategy.defines()) else {
        return;
    };
    let Some(storage) = kind.storage.clone() else { return };
    let mut follower = Follower {
        context: Arc::clone(context),
        types: Arc::clone(types),
        kind: Arc::clone(kind),
        prefix: storage.prefix,
        defined: BTreeMap::new(),
    };
    let snapshot = context.store.snapshot();
    follower.begin(&snapshot);
    tokio::spawn(async move { follower.run(snapshot.revision()).await });
}

struct Follower {
    context: Arc<Context>,
    types: Arc<TypeTable>,
    /// The kind whose objects define resources.
    kind: Arc<Resource>,
    prefix: SmolStr,
    /// What is defined, by the names of the defining objects.
    defined: BTreeMap<SmolStr, Arc<Resource>>,
}

impl Follower {
    /// Begins with all objects of a state.
    fn begin(&mut self, snapshot: &Snapshot) {
        let before = std::mem::take(&mut self.defined);
        for entry in snapshot.range(self.prefix.as_bytes()) {
            let name = objects::name_of_key(entry.key());
            self.put(entry, before.get(name));
        }
        self.publish(snapshot.revision());
    }

    async fn run(mut self, mut after: u64) {
        while let Ok(watcher) = self.context.store.watch(self.prefix.as_str(), after) {
            match self.changes(watcher).await {
                // Too much happened at once: begin again with what there is now.
                HistoryError::Compacted { .. } => {
                    let snapshot = self.context.store.snapshot();
                    self.begin(&snapshot);
                    after = snapshot.revision();
                }
                _ => return,
            }
        }
    }

    /// Follows changes for as long as that can be done; those that are there already are followed together.
    async fn changes(&mut self, mut watcher: Watcher<Objects>) -> HistoryError {
        loop {
            let mut next = match watcher.next().await {
                Ok(event) => Some(event),
                Err(error) => return error,
            };
            let mut revision = 0;
            while let Some(event) = next {
                revision = event.revision();
                let current = event.current();
                let before = self.defined.remove(objects::name_of_key(current.key()));
                if event.kind() != EventKind::Delete {
                    self.put(current, before.as_ref());
                }
                next = match watcher.try_next() {
                    Ok(next) => next,
                    Err(error) => return error,
                };
            }
            self.publish(revision);
        }
    }

    fn put(&mut self, entry: &Arc<Entry>, before: Option<&Arc<Resource>>) {
        let kept = Arc::clone(entry);
        let defining = DefiningObject {
            object: objects::tree(entry),
            revision: entry.mod_revision(),
            read: Arc::new(move || objects::tree(&kept)),
            types: Arc::clone(&self.types),
        };
        if let Some(resource) = self.kind.strategy.define(&defining, before) {
            let name = SmolStr::new(objects::name_of_key(entry.key()));
            self.defined.insert(name, resource);
        }
    }

    fn publish(&self, revision: u64) {
        let before = self.context.registry();
        let unchanged = {
            let defined = before
                .resources()
                .iter()
                .filter(|resource| resource.definition.is_some());
            let mut now: Vec<_> = self.defined.values().map(Arc::as_ptr).collect();
            let mut then: Vec<_> = defined.map(Arc::as_ptr).collect();
            now.sort_unstable();
            then.sort_unstable();
            now == then
        };
        if !unchanged {
            let registry = before.rebuild().defined(self.defined.values().cloned()).build();
            self.context.field_managers.retain(&registry);
            self.context.registry.store(Arc::new(registry));
        }
        self.context.definitions.followed.send_replace(revision);
    }
}
