//! The in-memory state: it serves every read and every watch, on top of the engine that makes it durable.
//!
//! The state is a persistent ordered map from table to (ordered map from key to entry). The whole root is swapped at
//! once. A reader gets the current root and keeps it as long as it needs, at the cost of one reference count.
//!
//! Invariants:
//! - There is one [`Publisher`], so changes have one order; revisions never go back.
//! - A root is published only after its changes are durable.
//! - For every revision from the compacted one to the current one, the exact state at that revision is available: for
//!   each later event, the history holds the entry that it replaced.

mod restore;
mod snapshot;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::entry::{Entry, Indexer, Stored, Version};
use crate::error::HistoryError;
use crate::history::{Channel, Event, EventKind};
use crate::key::{Key, Revision};

use self::snapshot::Root;
pub(crate) use self::snapshot::home_of;
pub use self::snapshot::{Range, Snapshot};

/// Number of events from which a publication wakes all watchers of their tables, instead of those of each key.
const MANY_EVENTS: usize = 256;

/// Maximum number of past snapshots that are cached for paged lists in progress.
const RECENT: usize = 64;

/// Maximum age and size of the event history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Maximum age of events; older ones are dropped.
    pub age: Duration,
    /// Approximate maximum of the bytes that the history keeps alive; the oldest events beyond it are dropped.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    /// Returns five minutes, kube-apiserver's interval of compacting etcd, and 128 MiB.
    fn default() -> Self {
        Self {
            age: Duration::from_secs(300),
            bytes: 128 << 20,
        }
    }
}

/// State that readers, watchers and the publisher share.
pub struct State<X: Indexer> {
    indexer: Arc<X>,
    root: ArcSwap<Root<X>>,
    /// Current revision.
    visible: AtomicU64,
    /// Wake-ups of tasks that wait for a revision. They wake in the order in which they began to wait, so that a
    /// simulation can be repeated.
    advanced: Notify,
    /// Oldest revision that can be read or watched from.
    compacted: AtomicU64,
    closed: AtomicBool,
    /// True if the last attempt to store something failed.
    failing: AtomicBool,
    /// Events of all tables; its ring also determines what to trim next.
    all: Arc<Channel<X>>,
    tables: RwLock<HashMap<Key, Arc<Channel<X>>>>,
    /// Roots of recent or upcoming reads; the most recently requested one is last.
    recent: Mutex<VecDeque<Arc<Root<X>>>>,
}

impl<X: Indexer> State<X> {
    /// Creates an empty state and the only handle that can change it.
    pub fn new(indexer: X, limits: HistoryLimits) -> (Arc<Self>, Publisher<X>) {
        const FIRST: Revision = 1;
        let state = Arc::new(Self {
            indexer: Arc::new(indexer),
            root: ArcSwap::from_pointee(Root {
                revision: FIRST,
                tables: OrdMap::new(),
                groups: OrdMap::new(),
                untransformable: false,
            }),
            visible: AtomicU64::new(FIRST),
            advanced: Notify::new(),
            compacted: AtomicU64::new(FIRST),
            closed: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            all: Arc::new(Channel::new(0)),
            tables: RwLock::new(HashMap::new()),
            recent: Mutex::new(VecDeque::new()),
        });
        let publisher = Publisher {
            state: state.clone(),
            limits,
            weight: 0,
        };
        (state, publisher)
    }

    /// Returns the current revision.
    pub fn revision(&self) -> Revision {
        self.visible.load(Ordering::Acquire)
    }

    /// Returns true if the last attempt to store something failed; reads continue nevertheless.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Acquire)
    }

    /// Returns the oldest revision at which the state is available and after which events can be watched.
    pub fn compacted(&self) -> Revision {
        self.compacted.load(Ordering::Acquire)
    }

    /// Returns the current state.
    pub fn snapshot(&self) -> Snapshot<X> {
        Snapshot {
            root: self.root.load_full(),
            indexer: self.indexer.clone(),
            overrides: None,
        }
    }

    /// Creates an entry that is not published.
    pub(crate) fn entry(&self, key: Key, value: Stored<'_>, version: Version) -> Arc<Entry<X>> {
        Entry::new(&self.indexer, key, value, version, None)
    }

    /// Returns the indexer of the values.
    pub(crate) fn indexer(&self) -> &X {
        &self.indexer
    }

    /// Returns the state at `revision`.
    pub fn snapshot_at(&self, revision: Revision) -> Result<Snapshot<X>, HistoryError> {
        let root = self.root_at(revision)?;
        Ok(Snapshot {
            root,
            indexer: self.indexer.clone(),
            overrides: None,
        })
    }

    /// Restarts the history: revisions before the current one can be neither read nor watched from. Open watches
    /// continue.
    pub fn begin_history(&self) {
        self.begin_history_at(self.revision());
    }

    /// Restarts the history at `revision`, as [`State::begin_history`] does at the current one. Later writes, which may
    /// have been made meanwhile, remain part of it.
    pub fn begin_history_at(&self, revision: Revision) {
        self.compacted.fetch_max(revision, Ordering::AcqRel);
    }

    /// Waits until the state is at `revision` or later.
    pub async fn reached(&self, revision: Revision) {
        loop {
            // It is created before the check, so that no wake-up between the check and the wait is missed.
            let advanced = self.advanced.notified();
            if self.revision() >= revision {
                return;
            }
            advanced.await;
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.all.wake_all();
        let mut tables: Vec<_> = self.tables.read().clone().into_iter().collect();
        tables.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        tables.iter().for_each(|(_, channel)| channel.wake_all());
    }

    /// Ends the state of a store whose engine has failed permanently: nothing is stored any more, and watches end.
    pub(crate) fn break_off(&self) {
        self.failing.store(true, Ordering::Release);
        self.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the channel that includes all events of `prefix`.
    #[expect(clippy::indexing_slicing, reason = "the table of a key is a beginning of it")]
    pub(crate) fn channel(&self, prefix: &Key) -> Arc<Channel<X>> {
        let table = self.indexer.table(prefix);
        if table == 0 {
            return self.all.clone();
        }
        if let Some(channel) = self.tables.read().get(&prefix[..table]) {
            return channel.clone();
        }
        self.tables
            .write()
            .entry(prefix[..table].into())
            .or_insert_with(|| Arc::new(Channel::new(table)))
            .clone()
    }

    /// Returns the number of events of a table that this process has seen.
    pub(crate) fn events_of(&self, table: &[u8]) -> u64 {
        let tables = self.tables.read();
        let Some(channel) = tables.get(table) else { return 0 };
        let ring = channel.ring.read();
        ring.first + ring.events.len() as u64
    }

    fn root_at(&self, revision: Revision) -> Result<Arc<Root<X>>, HistoryError> {
        let current = self.root.load_full();
        if revision > current.revision {
            return Err(HistoryError::Future {
                requested: revision,
                current: current.revision,
            });
        }
        if revision == current.revision {
            return Ok(current);
        }
        let recent = self
            .recent
            .lock()
            .iter()
            .filter(|root| root.revision >= revision)
            .min_by_key(|root| root.revision)
            .cloned();
        let base = recent.unwrap_or(current);
        if base.revision == revision && revision >= self.compacted() {
            self.keep_root(&base);
            return Ok(base);
        }
        // Read the events before the check: what has not been compacted after the read was complete before it.
        let events: Vec<Arc<Event<X>>> = {
            let ring = self.all.ring.read();
            let from = ring.events.partition_point(|event| event.revision() <= revision);
            let to = ring.events.partition_point(|event| event.revision() <= base.revision);
            ring.events.range(from..to).cloned().collect()
        };
        let oldest = self.compacted();
        if revision < oldest {
            return Err(HistoryError::Compacted {
                requested: revision,
                oldest,
            });
        }
        let mut root = Root::clone(&base);
        for event in events.iter().rev() {
            root.undo(self.indexer.table(event.key()), event);
        }
        root.revision = revision;
        let root = Arc::new(root);
        self.keep_root(&root);
        Ok(root)
    }

    /// Caches a snapshot that a client will request again by its revision.
    pub fn keep(&self, snapshot: &Snapshot<X>) {
        self.keep_root(&snapshot.root);
    }

    fn keep_root(&self, root: &Arc<Root<X>>) {
        let mut recent = self.recent.lock();
        recent.retain(|kept| kept.revision != root.revision);
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(root.clone());
    }
}

/// The only handle that changes a [`State`]; the engine owns it.
pub struct Publisher<X: Indexer> {
    state: Arc<State<X>>,
    limits: HistoryLimits,
    /// Approximate number of bytes that the history keeps alive.
    weight: usize,
}

/// Changes that are not durable yet. Only the writer sees them.
pub struct Draft<X: Indexer> {
    root: Root<X>,
    events: Vec<Arc<Event<X>>>,
    indexer: Arc<X>,
}

impl<X: Indexer> Draft<X> {
    /// Returns the revision of the last change.
    pub fn revision(&self) -> Revision {
        self.root.revision
    }

    /// Returns the entry of a key, including the draft's changes.
    #[expect(clippy::indexing_slicing, reason = "the table of a key is a beginning of it")]
    pub fn get(&self, key: &[u8]) -> Option<&Arc<Entry<X>>> {
        self.root.get(&key[..self.indexer.table(key)], key)
    }

    /// Returns the changes so far, in order.
    pub fn events(&self) -> &[Arc<Event<X>>] {
        &self.events
    }

    /// Writes a key at the revision of `at`, which is the draft's or later.
    pub(crate) fn put(&mut self, key: Key, value: Stored<'_>, at: At, index: Option<X::Index>) -> Arc<Entry<X>> {
        let create_revision = self.get(&key).map_or(at.revision, |entry| entry.create_revision());
        self.put_created(key, value, at, create_revision, index)
    }

    /// Writes a key with a known creation revision, such as one from the disk.
    pub(crate) fn put_created(
        &mut self,
        key: Key,
        value: Stored<'_>,
        at: At,
        create_revision: Revision,
        index: Option<X::Index>,
    ) -> Arc<Entry<X>> {
        let version = Version {
            mod_revision: at.revision,
            create_revision,
            position: at.position,
        };
        let entry = Entry::new(&self.indexer, key, value, version, index);
        let previous = self.root.insert(self.indexer.table(entry.key()), &entry);
        self.root.revision = at.revision;
        self.events
            .push(Event::new(EventKind::Put, entry.clone(), previous, at.time));
        entry
    }

    /// Removes a key at the revision of `at`. `None`, and no change, if it is absent.
    pub(crate) fn delete(&mut self, key: &Key, last: Option<Stored<'_>>, at: At) -> Option<Arc<Entry<X>>> {
        let previous = self.root.remove(self.indexer.table(key), key)?;
        let removed = match last {
            None => previous.at(at.revision, at.position),
            Some(last) => {
                let create_revision = previous.create_revision();
                let version = Version {
                    mod_revision: at.revision,
                    create_revision,
                    position: at.position,
                };
                Entry::new(&self.indexer, key.clone(), last, version, None)
            }
        };
        self.root.revision = at.revision;
        self.events
            .push(Event::new(EventKind::Delete, removed.clone(), Some(previous), at.time));
        Some(removed)
    }

    /// Inserts an entry without an event: the entry was written before the history begins.
    pub(crate) fn place(&mut self, key: Key, value: Stored<'_>, version: Version) {
        let entry = Entry::new(&self.indexer, key, value, version, None);
        self.root.revision = self.root.revision.max(version.mod_revision);
        self.root.insert(self.indexer.table(entry.key()), &entry);
    }

    /// Advances the draft to `revision`, of which no entry is left.
    pub(crate) fn pass(&mut self, revision: Revision) {
        self.root.revision = self.root.revision.max(revision);
    }
}

/// Revision and time of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) revision: Revision,
    /// Position of the operation in its transaction.
    pub(crate) position: u16,
    /// Wall-clock time since the Unix epoch.
    pub(crate) time: Duration,
}

impl<X: Indexer> Publisher<X> {
    /// Returns the state that this publisher changes.
    pub fn state(&self) -> &Arc<State<X>> {
        &self.state
    }

    /// Records whether the last attempt to store something failed.
    pub fn set_failing(&self, failing: bool) {
        self.state.failing.store(failing, Ordering::Release);
    }

    /// Creates a draft of the current state.
    pub fn draft(&self) -> Draft<X> {
        Draft {
            root: Root::clone(&self.state.root.load()),
            events: Vec::new(),
            indexer: self.state.indexer.clone(),
        }
    }

    /// Makes durable changes visible: to readers at once, then to watchers.
    pub fn publish(&mut self, draft: Draft<X>) {
        let Draft { root, events, .. } = draft;
        let revision = root.revision;
        debug_assert!(revision >= self.state.revision());
        if revision == self.state.revision() && events.is_empty() {
            return;
        }
        if events.len() >= MANY_EVENTS {
            self.publish_many(root, &events);
            return;
        }
        let channels: Vec<_> = events.iter().map(|event| self.append(event)).collect();
        self.state.root.store(Arc::new(root));
        self.state.visible.store(revision, Ordering::Release);
        for (event, channel) in events.iter().zip(&channels) {
            channel.wake(event.key());
            self.state.all.wake(event.key());
        }
        self.state.advanced.notify_waiters();
    }

    /// Does the same as [`Publisher::publish`], with one lock and one wake-up for each table.
    fn publish_many(&mut self, root: Root<X>, events: &[Arc<Event<X>>]) {
        let (state, revision) = (&self.state, root.revision);
        self.weight += events.iter().map(|event| event.weight()).sum::<usize>();
        state.all.append_all(events);
        let table = |event: &Arc<Event<X>>| state.indexer.table(event.key());
        let is_same = |one: &Arc<Event<X>>, other: &Arc<Event<X>>| {
            let (one, other) = (one.key().get(..table(one)), other.key().get(..table(other)));
            one == other
        };
        let mut channels = Vec::new();
        for of_table in events.chunk_by(is_same) {
            let Some(first) = of_table.first() else { continue };
            let channel = state.channel(first.key());
            if !Arc::ptr_eq(&channel, &state.all) {
                channel.append_all(of_table);
                channels.push(channel);
            }
        }
        state.root.store(Arc::new(root));
        state.visible.store(revision, Ordering::Release);
        channels
            .iter()
            .chain([&state.all])
            .for_each(|channel| channel.wake_all());
        state.advanced.notify_waiters();
    }

    fn append(&mut self, event: &Arc<Event<X>>) -> Arc<Channel<X>> {
        self.weight += event.weight();
        self.state.all.append(event.clone());
        let channel = self.state.channel(event.key());
        if !Arc::ptr_eq(&channel, &self.state.all) {
            channel.append(event.clone());
        }
        channel
    }

    /// Sets the state of another store as the first one, before anything is published. The maps are shared.
    pub(crate) fn begin_with(&mut self, snapshot: &Snapshot<X>) {
        let revision = snapshot.revision();
        self.state.root.store(Arc::clone(&snapshot.root));
        self.state.visible.store(revision, Ordering::Release);
        self.state.advanced.notify_waiters();
        self.begin_at(revision);
    }

    /// Sets the compacted revision, before anything is published.
    pub(crate) fn begin_at(&mut self, compacted: Revision) {
        self.state.compacted.fetch_max(compacted, Ordering::AcqRel);
    }

    /// Trims events beyond the limits, but never only a part of the newest revision. Returns the trimmed events, so
    /// that the engine can remove them too.
    pub fn trim(&mut self, now: Duration) -> Vec<Arc<Event<X>>> {
        let mut gone = Vec::new();
        while let Some(revision) = self.overdue(now) {
            self.state.compacted.fetch_max(revision, Ordering::AcqRel);
            while self
                .state
                .all
                .ring
                .read()
                .events
                .front()
                .is_some_and(|event| event.revision() == revision)
            {
                let Some(event) = self.state.all.trim() else { break };
                let channel = self.state.channel(event.key());
                if !Arc::ptr_eq(&channel, &self.state.all) {
                    channel.trim();
                }
                self.weight = self.weight.saturating_sub(event.weight());
                gone.push(event);
            }
        }
        if !gone.is_empty() {
            let compacted = self.state.compacted();
            self.state.recent.lock().retain(|root| root.revision >= compacted);
        }
        gone
    }

    /// Returns the oldest revision of the history if it is beyond the limits.
    fn overdue(&self, now: Duration) -> Option<Revision> {
        let ring = self.state.all.ring.read();
        let oldest = ring.events.front()?;
        // A clock that was set back must not keep events forever; the limit of bytes applies nevertheless.
        let aged = now.saturating_sub(oldest.time()) > self.limits.age;
        (aged || self.weight > self.limits.bytes).then(|| oldest.revision())
    }

    /// Ends all watches, each after its remaining events.
    pub fn close(&mut self) {
        self.state.close();
    }
}
