//! Keeps the registry in step with the store: resources that objects define (CustomResourceDefinitions) are served as
//! soon as those objects define them, and no longer.
//!
//! One task follows the defining objects in the order of revisions and makes the next [`holdfast_resource::Registry`]
//! of the one before and the change. The writer of a defining object is answered when the registry has caught up
//! (`CrdRegistry::committed`), and an unknown path is looked up again once it has (`CrdRegistry::caught_up`). So every
//! acknowledged resource is served, to every client.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use holdfast_resource::{Defines, DefiningObject, Registry, Resource};
use holdfast_schema::types::TypeTable;
use holdfast_value::SmolStr;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::objects::informers::{self, Difference, InformerHandler, InformerScope};
use crate::objects::{self, Entry, Store};
use crate::runtime::background::{self, Background};
use crate::runtime::shutdown::Shutdown;

/// Maximum wait for the registry to catch up. This needs milliseconds; a bug must not block writes forever.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(5);

/// The registry that follows the CRDs, and its progress behind the store.
pub struct CrdRegistry {
    /// The resources that are served now.
    registry: Arc<ArcSwap<Registry>>,
    /// Store of all objects, including those that define resources.
    store: Arc<Store>,
    /// Number of writes of defining objects in progress: their objects are visible before their revision is known here.
    pending_writes: AtomicUsize,
    /// The newest revision at which a defining object was written.
    written: AtomicU64,
    /// Revision up to which the registry is current.
    followed: watch::Sender<u64>,
    /// Waiters for the end of a state of a CRD, by its serial. They are woken when the sender is dropped.
    ends: Mutex<HashMap<u64, watch::Sender<()>>>,
}

/// Write of a defining object in progress.
pub(crate) struct PendingWrite<'a>(&'a CrdRegistry);

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        self.0.pending_writes.fetch_sub(1, Ordering::Release);
    }
}

impl CrdRegistry {
    /// Tracks the defining objects in `store`, which change `registry`.
    pub fn new(registry: Arc<ArcSwap<Registry>>, store: Arc<Store>) -> Self {
        Self {
            registry,
            store,
            pending_writes: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            followed: watch::Sender::new(0),
            ends: Mutex::default(),
        }
    }

    /// Announces that a defining object is about to be stored; keep the result until it is
    /// [`committed`](Self::committed).
    pub(crate) fn begin_write(&self) -> PendingWrite<'_> {
        self.pending_writes.fetch_add(1, Ordering::AcqRel);
        PendingWrite(self)
    }

    /// Waits until the registry reflects a defining object that was written at `revision`.
    pub(crate) async fn committed(&self, revision: u64) {
        self.written.fetch_max(revision, Ordering::AcqRel);
        self.reached(revision).await;
    }

    /// Waits until the registry reflects all defining objects that are stored now, so that a client that has seen one
    /// can use the resource that it defines. Returns true if it had to wait for any.
    pub(crate) async fn caught_up(&self) -> bool {
        // The order matters: a write records its revision before it ends.
        let pending_writes = self.pending_writes.load(Ordering::Acquire) > 0;
        let mut newest = self.written.load(Ordering::Acquire);
        if pending_writes {
            newest = newest.max(self.newest_stored());
        }
        if *self.followed.borrow() >= newest {
            return false;
        }
        self.reached(newest).await;
        true
    }

    /// Waits until the registry reflects a defining object that was stored at `revision`. Returns false on a timeout.
    pub(crate) async fn reached(&self, revision: u64) -> bool {
        let mut followed = self.followed.subscribe();
        let reached = tokio::time::timeout(REGISTRY_TIMEOUT, followed.wait_for(|at| *at >= revision)).await;
        if reached.is_err() {
            tracing::error!(revision, "served resources lag behind their CRDs");
        }
        reached.is_ok()
    }

    /// Waits until the resource is no longer served in this state; waits forever for a built-in one.
    pub(crate) async fn changed(&self, resource: &Resource) {
        let Some(crd) = &resource.crd else {
            return std::future::pending().await;
        };
        let (serial, name) = (crd.serial, resource.group_resource());
        let ends = &self.ends;
        loop {
            let mut end = ends.lock().entry(serial).or_default().subscribe();
            let registry = self.registry.load();
            let now = registry.resource(&name).and_then(|resource| resource.crd.as_ref());
            if now.is_none_or(|now| now.serial != serial) {
                ends.lock().remove(&serial);
                return;
            }
            // Nothing is ever sent: this ends when the sender is dropped.
            let _ = end.changed().await;
        }
    }

    fn end(&self, serial: u64) {
        self.ends.lock().remove(&serial);
    }

    /// Returns the newest revision of a defining object that is stored now.
    fn newest_stored(&self) -> u64 {
        self.stored_revisions().into_iter().max().unwrap_or_default()
    }

    /// Returns the revisions of the defining objects that are stored now.
    pub(crate) fn stored_revisions(&self) -> Vec<u64> {
        let registry = self.registry.load();
        let kinds = registry
            .resources()
            .filter(|resource| resource.capabilities.defines.is_some());
        let prefixes = kinds.filter_map(|kind| kind.storage.as_ref().map(|storage| &storage.prefix));
        let snapshot = self.store.snapshot();
        let revisions = prefixes.flat_map(|prefix| snapshot.range(prefix.as_bytes()));
        revisions.map(|entry| entry.mod_revision()).collect()
    }
}

/// Serves the resources that the stored objects define, and applies their changes for as long as the server runs. Calls
/// `replaced` with each resource whose served state was replaced.
pub(crate) fn follow(
    crds: &Arc<CrdRegistry>,
    types: &Arc<TypeTable>,
    background: &Background,
    shutdown: &Shutdown,
    replaced: impl Fn(&Arc<Resource>) + Send + 'static,
) {
    let registry = crds.registry.load_full();
    let defining = |resource: &Arc<Resource>| {
        let kind = resource.capabilities.defines.clone()?;
        Some((kind, resource.storage.as_ref()?.prefix.clone()))
    };
    let Some((kind, prefix)) = registry.resources().find_map(defining) else {
        return;
    };
    let scope = InformerScope {
        prefix,
        check: background::DEFINITIONS,
    };
    let handler = CrdHandler {
        crds: Arc::clone(crds),
        types: Arc::clone(types),
        kind,
        defined: HashMap::new(),
        replaced,
    };
    informers::start(&crds.store, background, shutdown, scope, handler);
}

/// Builds the served registry from the objects that define resources.
struct CrdHandler<F> {
    crds: Arc<CrdRegistry>,
    types: Arc<TypeTable>,
    /// The kind whose objects define resources.
    kind: Arc<dyn Defines>,
    /// Defined resources, by the names of the defining objects.
    defined: HashMap<SmolStr, Arc<Resource>>,
    /// Called with each resource whose served state was replaced.
    replaced: F,
}

/// Changes of the registry that are published together.
struct Step {
    registry: Registry,
    /// Resources whose served state was replaced.
    replaced: Vec<Arc<Resource>>,
    changed: bool,
}

impl<F: Fn(&Arc<Resource>) + Send + 'static> InformerHandler for CrdHandler<F> {
    fn apply(&mut self, differences: &[Difference], revision: u64) {
        let mut step = self.step();
        for difference in differences {
            let Some(entry) = difference.now.as_ref().or(difference.before.as_ref()) else {
                continue;
            };
            let name = objects::name_of_key(entry.key());
            let before = self.defined.remove(name);
            let now = difference
                .now
                .as_ref()
                .and_then(|entry| self.define(entry, before.as_ref()));
            match (now, before) {
                (Some(resource), before) => {
                    self.defined.insert(name.into(), Arc::clone(&resource));
                    step.serve(resource, before);
                }
                (None, Some(before)) => step.take_away(before),
                (None, None) => {}
            }
        }
        self.publish(step, revision);
    }
}

impl<F: Fn(&Arc<Resource>)> CrdHandler<F> {
    fn step(&self) -> Step {
        Step {
            registry: Registry::clone(&self.crds.registry.load()),
            replaced: Vec::new(),
            changed: false,
        }
    }

    /// Returns the resource that a stored object defines. An object that cannot be read leaves the resource `before`.
    fn define(&self, entry: &Arc<Entry>, before: Option<&Arc<Resource>>) -> Option<Arc<Resource>> {
        let Some(object) = objects::readable(entry) else {
            tracing::error!(key = %entry.key(), "CRD cannot be read; its last readable version stays in force");
            return before.cloned();
        };
        let kept = Arc::clone(entry);
        let defining = DefiningObject {
            object,
            revision: entry.mod_revision(),
            create_revision: entry.create_revision(),
            read: Arc::new(move || objects::tree(&kept)),
            types: Arc::clone(&self.types),
        };
        self.kind.define(&defining, before)
    }

    fn publish(&self, step: Step, revision: u64) {
        let crds = &self.crds;
        if step.changed {
            crds.registry.store(Arc::new(step.registry));
            for resource in step.replaced {
                (self.replaced)(&resource);
                if let Some(crd) = &resource.crd {
                    crds.end(crd.serial);
                }
            }
        }
        crds.followed.send_replace(revision);
    }
}

impl Step {
    fn serve(&mut self, resource: Arc<Resource>, before: Option<Arc<Resource>>) {
        if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, &resource)) {
            return;
        }
        self.changed = true;
        if let Some(before) = before {
            if before.group_resource() != resource.group_resource() {
                self.registry.undefine(&before.group_resource());
            }
            self.replaced.push(before);
        }
        self.registry.define(resource);
    }

    fn take_away(&mut self, resource: Arc<Resource>) {
        self.changed = true;
        self.registry.undefine(&resource.group_resource());
        self.replaced.push(resource);
    }
}
