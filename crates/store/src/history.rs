//! The event history: recent events in memory, shared by all watchers.
//!
//! There is one channel for each table and one for the whole store. Each holds its events in a ring, in the order of
//! their revisions. A watcher has no queue of its own, only a position in a ring.
//!
//! Watchers of one prefix form a group. Groups make ten thousand idle watchers free: a write wakes only the groups
//! whose prefix its key has. Each group also remembers the newest trimmed event of its prefix, so that the trimming of
//! *other* prefixes' events does not end a watcher whose position it overtakes.
//!
//! Invariants:
//! - Only the [`Publisher`](crate::state::Publisher) appends, wakes and trims.
//! - An event is appended before its revision becomes current, and its groups are woken afterwards; watchers deliver
//!   nothing beyond the current revision. So a snapshot that is created after an event was delivered contains it.
//! - The compacted revision rises before events are trimmed. So a watcher that registers, under the ring's lock, at or
//!   above the compacted revision misses nothing.
//! - Events of one revision are trimmed together.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::entry::{Entry, Indexer};
use crate::key::{Key, Revision};

/// Kind of a change to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The key was written: created if the event has no previous entry, updated if it has one.
    Put,
    /// The key was removed.
    Delete,
}

/// One change of one key. Shared by all watchers.
pub struct Event<X: Indexer> {
    kind: EventKind,
    current: Arc<Entry<X>>,
    previous: Option<Arc<Entry<X>>>,
    time: Duration,
    encodings: X::Encodings,
}

impl<X: Indexer> Event<X> {
    pub(crate) fn new(
        kind: EventKind,
        current: Arc<Entry<X>>,
        previous: Option<Arc<Entry<X>>>,
        time: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            kind,
            current,
            previous,
            time,
            encodings: X::Encodings::default(),
        })
    }

    /// Returns the kind of the change.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// Returns the revision of the change.
    pub fn revision(&self) -> Revision {
        self.current.mod_revision()
    }

    /// Returns the key that changed.
    pub fn key(&self) -> &Key {
        self.current.key()
    }

    /// Returns the written entry; for a delete, the object at its removal, with the revision of the delete.
    pub fn current(&self) -> &Arc<Entry<X>> {
        &self.current
    }

    /// Returns the previous entry of the key.
    pub fn previous(&self) -> Option<&Arc<Entry<X>>> {
        self.previous.as_ref()
    }

    /// Returns the encodings of this event that watchers share.
    pub fn encodings(&self) -> &X::Encodings {
        &self.encodings
    }

    /// Returns the time of the change since the Unix epoch.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Returns the approximate memory that only this event keeps alive: the version that it replaced, or the removed
    /// one.
    pub(crate) fn weight(&self) -> usize {
        let removed = if self.kind == EventKind::Delete {
            self.current.weight()
        } else {
            0
        };
        size_of::<Self>() + removed + self.previous.as_ref().map_or(0, |previous| previous.weight())
    }
}

impl<X: Indexer> std::fmt::Debug for Event<X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} at {}", self.kind, self.key(), self.revision())
    }
}

/// Events of one table, or of all tables.
pub(crate) struct Channel<X: Indexer> {
    /// Length of the table's prefix in its keys.
    table: usize,
    pub(crate) ring: RwLock<Ring<X>>,
}

pub(crate) struct Ring<X: Indexer> {
    /// Sequence number of the oldest event in the ring; events are numbered from 0 as they are appended.
    pub(crate) first: u64,
    pub(crate) events: VecDeque<Arc<Event<X>>>,
    groups: HashMap<Key, Arc<Group>>,
}

/// Number of lists of wake-ups in a group.
const WAKE_LISTS: usize = 8;

/// Watchers of one prefix.
pub(crate) struct Group {
    prefix: Key,
    /// Wake-ups of the watchers, which are spread over several lists so that they do not all wait for one lock. Within a
    /// list they wake in the order in which they began to wait, so that a simulation can be repeated.
    wakes: [Notify; WAKE_LISTS],
    /// Number of watchers that have ever joined.
    joined: AtomicUsize,
    /// Number of watchers.
    watchers: AtomicUsize,
    /// Sequence number after the newest event of the prefix that is no longer in the ring.
    pub(crate) trimmed: AtomicU64,
}

impl Group {
    /// Adds a watcher. Returns the list of wake-ups that it belongs to.
    pub(crate) fn subscribe(&self) -> usize {
        self.watchers.fetch_add(1, Ordering::AcqRel);
        self.joined.fetch_add(1, Ordering::Relaxed)
    }

    /// Removes a watcher.
    pub(crate) fn unsubscribe(&self) {
        self.watchers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns a future that is ready after the next wake-up after this call.
    #[expect(clippy::indexing_slicing, reason = "a remainder is less than the divisor")]
    pub(crate) fn woken(&self, list: usize) -> Notified<'_> {
        self.wakes[list % WAKE_LISTS].notified()
    }

    fn wake(&self) {
        self.wakes.iter().for_each(Notify::notify_waiters);
    }
}

impl<X: Indexer> Channel<X> {
    pub(crate) fn new(table: usize) -> Self {
        Self {
            table,
            ring: RwLock::new(Ring {
                first: 0,
                events: VecDeque::new(),
                groups: HashMap::new(),
            }),
        }
    }

    pub(crate) fn append(&self, event: Arc<Event<X>>) {
        self.ring.write().events.push_back(event);
    }

    /// Appends several events.
    pub(crate) fn append_all(&self, events: &[Arc<Event<X>>]) {
        self.ring.write().events.extend(events.iter().cloned());
    }

    /// Joins the group of the watchers of `prefix` in this channel; creates the group if necessary. Prefixes that end
    /// within a segment belong to the group of the previous segment, unless they are `exact` keys.
    #[expect(clippy::indexing_slicing, reason = "the ends of the groups of a key lie within it")]
    pub(crate) fn join(&self, ring: &mut Ring<X>, prefix: &Key, exact: bool) -> Arc<Group> {
        let segment = || prefix.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let end = if exact { prefix.len() } else { segment().max(self.table) };
        if let Some(group) = ring.groups.get(&prefix[..end]) {
            return group.clone();
        }
        let prefix: Key = if end == prefix.len() {
            prefix.clone()
        } else {
            prefix[..end].into()
        };
        let group = Arc::new(Group {
            prefix: prefix.clone(),
            wakes: Default::default(),
            joined: AtomicUsize::new(0),
            watchers: AtomicUsize::new(0),
            trimmed: AtomicU64::new(0),
        });
        ring.groups.insert(prefix, group.clone());
        group
    }

    /// Wakes all watchers.
    pub(crate) fn wake_all(&self) {
        let mut groups: Vec<_> = self.ring.read().groups.values().cloned().collect();
        groups.sort_unstable_by(|one, other| one.prefix.cmp(&other.prefix));
        groups.iter().for_each(|group| group.wake());
    }

    /// Wakes the watchers that wait for events of this key.
    pub(crate) fn wake(&self, key: &[u8]) {
        let ring = self.ring.read();
        ring.groups_of(self.table, key).for_each(|group| group.wake());
    }

    /// Removes the oldest event.
    pub(crate) fn trim(&self) -> Option<Arc<Event<X>>> {
        let mut ring = self.ring.write();
        let event = ring.events.pop_front()?;
        ring.first += 1;
        for group in ring.groups_of(self.table, event.key()) {
            group.trimmed.store(ring.first, Ordering::Release);
        }
        if ring.events.capacity() > 1024 && ring.events.len() < ring.events.capacity() / 4 {
            let half = ring.events.capacity() / 2;
            ring.events.shrink_to(half);
        }
        Some(event)
    }

    /// Removes a group when its last watcher leaves. If two watchers leave at once, the first removes it. Before the
    /// second one gets the lock, others may have created a new group of that prefix, which remains.
    pub(crate) fn leave(&self, group: &Arc<Group>) {
        let mut ring = self.ring.write();
        let known = ring.groups.get(&group.prefix);
        if group.watchers.load(Ordering::Acquire) == 0 && known.is_some_and(|known| Arc::ptr_eq(known, group)) {
            ring.groups.remove(&group.prefix);
        }
    }
}

impl<X: Indexer> Ring<X> {
    /// Returns the groups that match `key`: one for each of its prefixes that ends a segment, and one for the key
    /// itself.
    #[expect(clippy::indexing_slicing, reason = "the ends of the groups of a key lie within it")]
    fn groups_of<'a>(&'a self, table: usize, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Group>> {
        let none = self.groups.is_empty();
        let boundaries = key
            .iter()
            .enumerate()
            .skip(table)
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| at + 1);
        std::iter::once(table)
            .chain(boundaries)
            .chain(std::iter::once(key.len()))
            .take_while(move |_| !none)
            .filter_map(|end| self.groups.get(&key[..end]))
    }

    /// Returns the sequence number of the first event after `revision`.
    pub(crate) fn after(&self, revision: Revision) -> u64 {
        self.first + self.events.partition_point(|event| event.revision() <= revision) as u64
    }

    /// Returns the event with this sequence number, if it is in the ring.
    pub(crate) fn get(&self, sequence: u64) -> Option<&Arc<Event<X>>> {
        self.events
            .get(usize::try_from(sequence.checked_sub(self.first)?).ok()?)
    }
}
