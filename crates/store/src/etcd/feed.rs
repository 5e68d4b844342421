//! Publishes the changes in etcd: each once, in the order of revisions, whichever client made it.
//!
//! A change becomes known in two ways: this server made it and etcd has returned its revision, or the watch delivers
//! it. The first way is faster and avoids decoding what was just encoded: the change is published at once if nothing
//! can lie between it and the last published one. Otherwise it waits for the watch, which delivers the changes in
//! between and the change itself.
//!
//! Invariants:
//! - At revision R the state holds exactly what etcd holds at R under the prefix. The next published revision is R + 1,
//!   or the one that the watch delivers next.
//! - While the state is read again nothing else is published.

mod differences;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use self::differences::Differences;
use super::ahead::KnownKey;
use super::metrics::Observer;
use super::prefix::Prefix;
use super::proto;
use crate::clock::Clock;
use crate::codec::Codec;
use crate::entry::{Entry, Indexer, Value, Version};
use crate::key::{Key, Revision, table_by_segments};
use crate::state::{At, Draft, Publisher, State};
use crate::transaction::Op;

/// Entries that the operations of a transaction created.
pub(crate) type Made<X> = Vec<Option<Arc<Entry<X>>>>;

/// The publisher of changes in etcd.
pub(crate) struct Feed<X: Indexer> {
    pub(crate) state: Arc<State<X>>,
    pub(crate) prefix: Prefix,
    pub(crate) codec: Arc<dyn Codec>,
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner<X>>,
}

struct Inner<X: Indexer> {
    publisher: Publisher<X>,
    /// Transactions of this server whose outcome is unknown or not fetched yet.
    under_way: HashMap<u64, UnderWay<X>>,
    next: u64,
    /// Pending transactions by the keys that they change.
    by_key: HashMap<Key, u64>,
    /// Committed transactions by revision that do not directly follow the published one yet.
    early: BTreeMap<Revision, u64>,
    /// True if events were lost and the state is being read again.
    broken: bool,
}

enum UnderWay<X: Indexer> {
    /// The operations that were sent, with the bytes of each put.
    Sent(Vec<Op<X>>, Vec<Option<Bytes>>),
    /// The entries of a transaction that was published at this revision. Without an answer of etcd, the revision is that of
    /// an event with the same changes, which another transaction may have made.
    Made(Revision, Made<X>),
}

/// A change from the watch or from a first read.
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) mod_revision: Revision,
    pub(crate) create_revision: Revision,
    /// Bytes in etcd; `None` for a delete.
    stored: Option<Bytes>,
    /// Value; `None` for a delete, and if the change seems to be this server's own.
    value: Option<Value>,
}

impl Change {
    /// Converts an event of etcd; `None` for keys that are not objects.
    pub(crate) fn from_event(event: proto::Event, prefix: &Prefix) -> Option<Self> {
        let kv = event.kv?;
        let key = prefix.key(&kv.key)?;
        Some(Self {
            key,
            mod_revision: kv.mod_revision.unsigned_abs(),
            create_revision: kv.create_revision.unsigned_abs(),
            stored: (event.kind == 0).then_some(kv.value),
            value: None,
        })
    }
}

impl<X: Indexer> Feed<X> {
    pub(crate) fn new(publisher: Publisher<X>, prefix: Prefix, codec: Arc<dyn Codec>, clock: Arc<dyn Clock>) -> Self {
        Self {
            state: Arc::clone(publisher.state()),
            prefix,
            codec,
            clock,
            inner: Mutex::new(Inner {
                publisher,
                under_way: HashMap::new(),
                next: 0,
                by_key: HashMap::new(),
                early: BTreeMap::new(),
                broken: false,
            }),
        }
    }

    /// Records a transaction that is about to be sent.
    pub(crate) fn begin(&self, ops: Vec<Op<X>>, encoded: Vec<Option<Bytes>>) -> u64 {
        let mut inner = self.inner.lock();
        let id = inner.next;
        inner.next += 1;
        for op in &ops {
            inner.by_key.insert(op.key().clone(), id);
        }
        inner.under_way.insert(id, UnderWay::Sent(ops, encoded));
        id
    }

    /// Forgets a transaction that failed or whose outcome is unknown.
    pub(crate) fn forget(&self, id: u64) {
        self.inner.lock().forget(id);
    }

    /// Records that a transaction was committed at `revision`. Returns its entries if they can be published at once;
    /// otherwise [`Feed::made`] completes when the state has reached the revision.
    pub(crate) fn committed(&self, id: u64, revision: Revision) -> Option<Made<X>> {
        let time = self.clock.now();
        let mut inner = self.inner.lock();
        let current = self.state.revision();
        if revision <= current && !inner.broken {
            drop(inner);
            return Some(self.made(id, revision));
        }
        if revision != current + 1 || inner.broken {
            inner.early.insert(revision, id);
            return None;
        }
        let mut draft = inner.publisher.draft();
        if inner.apply_own(&mut draft, id, revision, time) {
            inner.apply_early(&mut draft, time);
        }
        inner.publisher.publish(draft);
        inner.fetch(id, revision)
    }

    /// Returns the entries of a transaction that the state already shows.
    pub(crate) fn made(&self, id: u64, revision: Revision) -> Made<X> {
        let mut inner = self.inner.lock();
        inner.early.remove(&revision);
        if let Some(made) = inner.fetch(id, revision) {
            return made;
        }
        // The watch delivered other bytes than were sent, or the same changes at another revision, or the state was read
        // again: the state has the entries.
        let keys: Vec<Option<Key>> = match inner.under_way.get(&id) {
            Some(UnderWay::Sent(ops, _)) => ops.iter().map(|op| Some(op.key().clone())).collect(),
            Some(UnderWay::Made(_, made)) => {
                let key = |entry: &Option<Arc<Entry<X>>>| entry.as_ref().map(|entry| entry.key().clone());
                made.iter().map(key).collect()
            }
            None => Vec::new(),
        };
        inner.forget(id);
        drop(inner);
        let then = self
            .state
            .snapshot_at(revision)
            .unwrap_or_else(|_| self.state.snapshot());
        let entry = |key: &Option<Key>| key.as_ref().and_then(|key| then.get(key).cloned());
        keys.iter().map(entry).collect()
    }

    /// Publishes the changes from the watch, in the order of revisions; those of one revision are together.
    pub(crate) fn watched(&self, mut changes: Vec<Change>, observer: &dyn Observer) {
        self.decode(&mut changes, observer);
        let time = self.clock.now();
        let mut inner = self.inner.lock();
        let mut draft = inner.publisher.draft();
        let mut changes = changes.into_iter().peekable();
        while let Some(first) = changes.next() {
            let revision = first.mod_revision;
            let mut group = vec![first];
            while let Some(next) = changes.next_if(|change| change.mod_revision == revision) {
                group.push(next);
            }
            if revision <= draft.revision() {
                continue;
            }
            let own = inner.early.remove(&revision).or_else(|| inner.sender(&draft, &group));
            if !own.is_some_and(|id| inner.apply_own(&mut draft, id, revision, time)) {
                let at = At {
                    revision,
                    position: 0,
                    time,
                };
                self.apply(&mut draft, group, at, observer);
            }
            draft.pass(revision);
            inner.apply_early(&mut draft, time);
        }
        inner.publisher.publish(draft);
    }

    /// Records that the watch has delivered everything up to `revision`.
    pub(crate) fn passed(&self, revision: Revision) {
        let mut inner = self.inner.lock();
        if revision <= self.state.revision() {
            return;
        }
        let mut draft = inner.publisher.draft();
        draft.pass(revision);
        inner.apply_early(&mut draft, self.clock.now());
        inner.publisher.publish(draft);
    }

    /// Trims old history.
    pub(crate) fn trim(&self) {
        let now = self.clock.now();
        drop(self.inner.lock().publisher.trim(now));
    }

    /// Stops publishing until [`Feed::reread`].
    pub(crate) fn broke(&self) {
        self.inner.lock().broken = true;
    }

    /// Records whether etcd fails.
    pub(crate) fn set_failing(&self, failing: bool) {
        self.inner.lock().publisher.set_failing(failing);
    }

    /// Ends all watches.
    pub(crate) fn close(&self) {
        self.inner.lock().publisher.close();
    }

    /// Creates the first state: everything in etcd at `revision`.
    pub(crate) fn first(
        &self,
        entries: impl Iterator<Item = proto::KeyValue>,
        draft: &mut Draft<X>,
        observer: &dyn Observer,
    ) {
        let mut run: Option<Run> = None;
        for kv in entries {
            let Some(key) = self.prefix.key(&kv.key) else { continue };
            match &mut run {
                Some(run) if run.has(&key) => run.objects += 1,
                run => {
                    let ended = run.replace(Run::new(&key));
                    ended.into_iter().for_each(|ended| ended.report(observer));
                }
            }
            let version = Version {
                mod_revision: kv.mod_revision.unsigned_abs(),
                create_revision: kv.create_revision.unsigned_abs(),
                position: 0,
            };
            let value = self.value(&key, &kv.value, version.mod_revision, observer);
            draft.place(key, (&value).into(), version);
        }
        run.into_iter().for_each(|run| run.report(observer));
    }

    /// Creates a draft of the published state.
    pub(crate) fn draft(&self) -> Draft<X> {
        self.inner.lock().publisher.draft()
    }

    /// Publishes the first state, which is that of `revision`. The history begins there.
    pub(crate) fn begin_at(&self, mut draft: Draft<X>, revision: Revision) {
        draft.pass(revision);
        let mut inner = self.inner.lock();
        inner.publisher.begin_at(revision);
        inner.publisher.publish(draft);
    }

    /// Publishes, after events were lost, the differences between the state and `entries`, which are all entries in
    /// etcd at `revision`. The events in between are incomplete, so the history restarts; open watches get the
    /// differences.
    pub(crate) fn reread(&self, entries: &[proto::KeyValue], revision: Revision, observer: &dyn Observer) {
        let before = self.state.snapshot();
        let mut changes = Differences::new(&before, &self.prefix, entries, revision).changes;
        self.decode_all(&mut changes, observer);
        let time = self.clock.now();
        let mut inner = self.inner.lock();
        let mut draft = inner.publisher.draft();
        for change in changes {
            let at = At {
                revision: change.mod_revision,
                position: 0,
                time,
            };
            self.apply(&mut draft, vec![change], at, observer);
        }
        draft.pass(revision);
        inner.broken = false;
        // This server's own changes meanwhile are in the entries that were read, or follow.
        inner.early.retain(|early, _| *early > revision);
        inner.apply_early(&mut draft, time);
        inner.publisher.begin_at(revision);
        inner.publisher.publish(draft);
    }

    /// Decodes changes outside of the lock, except for this server's own.
    fn decode(&self, changes: &mut [Change], observer: &dyn Observer) {
        let own: Vec<bool> = {
            let inner = self.inner.lock();
            let current = self.state.revision();
            let own = |change: &Change| {
                change.mod_revision <= current
                    || inner.early.contains_key(&change.mod_revision)
                    || inner.is_under_way(change)
            };
            changes.iter().map(own).collect()
        };
        for (change, own) in changes.iter_mut().zip(own) {
            if !own {
                self.decode_one(change, observer);
            }
        }
    }

    fn decode_all(&self, changes: &mut [Change], observer: &dyn Observer) {
        for change in changes {
            self.decode_one(change, observer);
        }
    }

    fn decode_one(&self, change: &mut Change, observer: &dyn Observer) {
        if let Some(stored) = &change.stored {
            change.value = Some(self.value(&change.key, stored, change.mod_revision, observer));
        }
    }

    /// Decodes stored bytes. Undecodable bytes are reported and kept unchanged: a reader of the object gets the
    /// decoding error.
    fn value(&self, key: &Key, stored: &Bytes, revision: Revision, observer: &dyn Observer) -> Value {
        self.codec.decode(key, stored).unwrap_or_else(|error| {
            tracing::error!(%error, revision, "an object in etcd cannot be read");
            observer.unreadable(key);
            error.placeholder(stored, None)
        })
    }

    /// Returns the entry of a key in etcd as of `revision` if the state does not show it yet.
    pub(crate) fn known(
        &self,
        key: Key,
        found: Option<proto::KeyValue>,
        revision: Revision,
        observer: &dyn Observer,
    ) -> Option<KnownKey<X>> {
        let Some(kv) = found else {
            let is_news = self.state.revision() < revision;
            return is_news.then_some(KnownKey {
                key,
                revision,
                entry: None,
            });
        };
        let version = Version {
            mod_revision: kv.mod_revision.unsigned_abs(),
            create_revision: kv.create_revision.unsigned_abs(),
            position: 0,
        };
        let revision = version.mod_revision;
        if self.state.revision() >= revision {
            return None;
        }
        let value = self.value(&key, &kv.value, revision, observer);
        let entry = Some(self.state.entry(key.clone(), (&value).into(), version));
        Some(KnownKey { key, revision, entry })
    }

    fn apply(&self, draft: &mut Draft<X>, group: Vec<Change>, at: At, observer: &dyn Observer) {
        for (position, mut change) in group.into_iter().enumerate() {
            let at = At {
                position: u16::try_from(position).unwrap_or(u16::MAX),
                ..at
            };
            if change.stored.is_some() && change.value.is_none() {
                // The change looked like this server's own, which has been abandoned since.
                self.decode_one(&mut change, observer);
            }
            match change.value {
                Some(value) => {
                    draft.put_created(change.key, (&value).into(), at, change.create_revision, None);
                }
                None => {
                    draft.delete(&change.key, None, at);
                }
            }
        }
    }
}

impl<X: Indexer> Inner<X> {
    fn forget(&mut self, id: u64) {
        if let Some(UnderWay::Sent(ops, _)) = self.under_way.remove(&id) {
            self.unlist(&ops, id);
        }
        self.early.retain(|_, early| *early != id);
    }

    fn unlist(&mut self, ops: &[Op<X>], id: u64) {
        for op in ops {
            if self.by_key.get(op.key()) == Some(&id) {
                self.by_key.remove(op.key());
            }
        }
    }

    /// Removes and returns the entries of a transaction that was published at `revision`.
    fn fetch(&mut self, id: u64, revision: Revision) -> Option<Made<X>> {
        match self.under_way.remove(&id)? {
            UnderWay::Made(published, made) if published == revision => Some(made),
            other => {
                self.under_way.insert(id, other);
                None
            }
        }
    }

    /// Returns true if a change looks like one that this server has sent.
    fn is_under_way(&self, change: &Change) -> bool {
        let sent = self.by_key.get(&change.key).and_then(|id| self.under_way.get(id));
        let Some(UnderWay::Sent(ops, encoded)) = sent else {
            return false;
        };
        ops.iter()
            .zip(encoded)
            .any(|(op, bytes)| *op.key() == change.key && *bytes == change.stored)
    }

    /// Returns the pending transaction that would make exactly the changes of `group` in the draft.
    fn sender(&self, draft: &Draft<X>, group: &[Change]) -> Option<u64> {
        let id = group.iter().find_map(|change| self.by_key.get(&change.key))?;
        let Some(UnderWay::Sent(ops, encoded)) = self.under_way.get(id) else {
            return None;
        };
        let same = |change: &Change| {
            ops.iter()
                .zip(encoded)
                .any(|(op, bytes)| *op.key() == change.key && *bytes == change.stored)
        };
        // A deletion of an absent key has no event.
        let changes = ops.iter().filter(|op| match op {
            Op::Put { .. } => true,
            Op::Delete { key, .. } => draft.get(key).is_some(),
        });
        (changes.count() == group.len() && group.iter().all(same)).then_some(*id)
    }

    /// Applies a transaction of this server, committed at `revision`, to the draft. Returns false if it was published before,
    /// for an event with the same changes: the watch delivers the event of this revision.
    fn apply_own(&mut self, draft: &mut Draft<X>, id: u64, revision: Revision, time: std::time::Duration) -> bool {
        let ops = match self.under_way.remove(&id) {
            Some(UnderWay::Sent(ops, _)) => ops,
            Some(published @ UnderWay::Made(..)) => {
                self.under_way.insert(id, published);
                return false;
            }
            None => return false,
        };
        self.unlist(&ops, id);
        let mut made = Vec::with_capacity(ops.len());
        for (position, op) in ops.into_iter().enumerate() {
            let at = At {
                revision,
                position: u16::try_from(position).unwrap_or(u16::MAX),
                time,
            };
            made.push(match op {
                Op::Put { key, value, index } => Some(draft.put(key, (&value).into(), at, index)),
                Op::Delete { key, last } => draft.delete(&key, last.as_ref().map(Into::into), at),
            });
        }
        draft.pass(revision);
        self.under_way.insert(id, UnderWay::Made(revision, made));
        true
    }

    /// Applies the transactions that directly follow the draft.
    fn apply_early(&mut self, draft: &mut Draft<X>, time: std::time::Duration) {
        while let Some(entry) = self.early.first_entry() {
            let (revision, id) = (*entry.key(), *entry.get());
            if self.broken || revision > draft.revision() + 1 {
                return;
            }
            entry.remove();
            if revision == draft.revision() + 1 && !self.apply_own(draft, id, revision, time) {
                return;
            }
        }
    }
}

/// Consecutive objects of one table.
struct Run {
    table: Key,
    objects: usize,
}

impl Run {
    fn new(key: &Key) -> Self {
        let table = key.get(..table_by_segments(key)).unwrap_or_default();
        Self {
            table: table.into(),
            objects: 1,
        }
    }

    fn has(&self, key: &Key) -> bool {
        !self.table.is_empty() && key.starts_with(&self.table)
    }

    fn report(&self, observer: &dyn Observer) {
        observer.listed(&self.table, self.objects);
    }
}
