//! The state at one revision, and the ways to read it.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use crate::entry::{Entry, Indexer, StoredForm, Value, Version};
use crate::history::Event;
use crate::key::{Key, Revision, end_of_prefix};

pub(super) type Table<X> = OrdMap<Key, Arc<Entry<X>>>;

/// Tables at one revision.
pub(super) struct Root<X: Indexer> {
    pub(super) revision: Revision,
    pub(super) tables: OrdMap<Key, Table<X>>,
    /// Number of keys of a table with the same next segment (the objects of a namespace), by their common prefix.
    pub(super) groups: OrdMap<Key, usize>,
    /// True if this or an earlier root held an entry that cannot be transformed.
    pub(super) untransformable: bool,
}

impl<X: Indexer> Clone for Root<X> {
    fn clone(&self) -> Self {
        Self {
            revision: self.revision,
            tables: self.tables.clone(),
            groups: self.groups.clone(),
            untransformable: self.untransformable,
        }
    }
}

/// Returns the part of `key` that its group has in common: its table and the next segment with its final slash. `None`
/// if no segment ends after the table.
fn group_of(table: usize, key: &[u8]) -> Option<&[u8]> {
    let slash = key.get(table..)?.iter().position(|byte| *byte == b'/')?;
    key.get(..=table + slash)
}

impl<X: Indexer> Root<X> {
    pub(super) fn get(&self, table: &[u8], key: &[u8]) -> Option<&Arc<Entry<X>>> {
        self.tables.get(table)?.get(key)
    }

    #[expect(clippy::indexing_slicing, reason = "the table of a key is a beginning of it")]
    pub(super) fn insert(&mut self, table: usize, entry: &Arc<Entry<X>>) -> Option<Arc<Entry<X>>> {
        let key = entry.key();
        self.untransformable |= entry.form() == StoredForm::UNREADABLE;
        let replaced = match self.tables.get_mut(&key[..table]) {
            Some(entries) => entries.insert(key.clone(), Arc::clone(entry)),
            None => {
                let entries = OrdMap::unit(key.clone(), Arc::clone(entry));
                self.tables.insert(key[..table].into(), entries);
                None
            }
        };
        if replaced.is_none() {
            self.enter_group(table, key);
        }
        replaced
    }

    fn enter_group(&mut self, table: usize, key: &[u8]) {
        let Some(group) = group_of(table, key) else { return };
        match self.groups.get_mut(group) {
            Some(count) => *count += 1,
            None => drop(self.groups.insert(group.into(), 1)),
        }
    }

    fn leave_group(&mut self, table: usize, key: &[u8]) {
        let Some(group) = group_of(table, key) else { return };
        match self.groups.get_mut(group) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.groups.remove(group)),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the table of a key is a beginning of it")]
    pub(super) fn remove(&mut self, table: usize, key: &[u8]) -> Option<Arc<Entry<X>>> {
        let entries = self.tables.get_mut(&key[..table])?;
        let removed = entries.remove(key);
        if entries.is_empty() {
            self.tables.remove(&key[..table]);
        }
        if removed.is_some() {
            self.leave_group(table, key);
        }
        removed
    }

    /// Reverts the change of `event`.
    pub(super) fn undo(&mut self, table: usize, event: &Event<X>) {
        match event.previous() {
            Some(previous) => self.insert(table, previous),
            None => self.remove(table, event.key()),
        };
    }
}

/// The whole store at one revision. Cheap to create, clone and keep; it never changes.
pub struct Snapshot<X: Indexer> {
    pub(super) root: Arc<Root<X>>,
    pub(super) indexer: Arc<X>,
    /// Snapshots of separate stores, with the prefixes of their keys.
    pub(super) overrides: Option<Arc<[(Key, Self)]>>,
}

impl<X: Indexer> Clone for Snapshot<X> {
    fn clone(&self) -> Self {
        Self {
            root: self.root.clone(),
            indexer: self.indexer.clone(),
            overrides: self.overrides.clone(),
        }
    }
}

impl<X: Indexer> std::fmt::Debug for Snapshot<X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot(at {})", self.root.revision)
    }
}

impl<X: Indexer> Snapshot<X> {
    /// Returns the revision of this state.
    pub fn revision(&self) -> Revision {
        self.root.revision
    }

    /// Returns the entry of a key.
    #[expect(clippy::indexing_slicing, reason = "the table of a key is a beginning of it")]
    pub fn get(&self, key: &[u8]) -> Option<&Arc<Entry<X>>> {
        let home = self.home(key);
        home.root.get(&key[..home.indexer.table(key)], key)
    }

    /// Returns true if an entry may be the placeholder of a value that cannot be transformed.
    pub fn may_be_untransformable(&self) -> bool {
        self.root.untransformable || self.others().iter().any(|(_, other)| other.may_be_untransformable())
    }

    /// Adds the snapshots of separate stores, with the prefixes of their keys.
    pub(crate) fn beside(mut self, overrides: impl Iterator<Item = (Key, Self)>) -> Self {
        self.overrides = Some(overrides.collect());
        self
    }

    /// Returns the snapshot of the store whose keys have this prefix.
    fn home(&self, key: &[u8]) -> &Self {
        let others = self.others();
        let home = home_of(others, key).and_then(|at| others.get(at));
        home.map_or(self, |(_, home)| home)
    }

    fn others(&self) -> &[(Key, Self)] {
        self.overrides.as_deref().unwrap_or_default()
    }

    /// Replaces the entry of one key; `None` removes it.
    pub(crate) fn with(mut self, key: &Key, entry: Option<Arc<Entry<X>>>) -> Self {
        let table = self.indexer.table(key);
        let mut root = Root::clone(&self.root);
        match entry {
            Some(entry) => root.insert(table, &entry),
            None => root.remove(table, key),
        };
        self.root = Arc::new(root);
        self
    }

    /// Returns the state after the next write, which stores `value` at `key`. For the evaluation of writes that will be
    /// committed together with it; the revisions of the commit may be others.
    pub fn after_put(mut self, key: &Key, value: &Value) -> Self {
        let revision = self.root.revision + 1;
        let version = Version {
            mod_revision: revision,
            create_revision: self.get(key).map_or(revision, |entry| entry.create_revision()),
            position: 0,
        };
        let entry = Entry::new(&self.indexer, key.clone(), value.into(), version, None);
        self = self.with(key, Some(entry));
        self.at(revision)
    }

    /// Returns the state after the next write, which removes `key`, like [`Snapshot::after_put`].
    pub fn after_delete(self, key: &Key) -> Self {
        let revision = self.root.revision + 1;
        self.with(key, None).at(revision)
    }

    fn at(mut self, revision: Revision) -> Self {
        let mut root = Root::clone(&self.root);
        root.revision = revision;
        self.root = Arc::new(root);
        self
    }

    /// Returns the entries whose keys begin with `prefix`, in key order.
    pub fn range(&self, prefix: &[u8]) -> Range<'_, X> {
        self.range_bounds(prefix, Bound::Included(prefix))
    }

    /// Returns the entries whose keys begin with `prefix`, from `key` on, in key order: the rest of a list.
    pub fn range_from(&self, prefix: &[u8], key: &[u8]) -> Range<'_, X> {
        self.range_bounds(prefix, Bound::Included(key.max(prefix)))
    }

    /// Returns the entries whose keys begin with `prefix` and come after `key`, in key order.
    pub fn range_after(&self, prefix: &[u8], key: &[u8]) -> Range<'_, X> {
        if key < prefix {
            self.range(prefix)
        } else {
            self.range_bounds(prefix, Bound::Excluded(key))
        }
    }

    /// Returns the number of keys that begin with `prefix`: in constant time for a table or a table and the next
    /// segment of its keys, otherwise in some 20 ns for each key.
    pub fn count(&self, prefix: &[u8]) -> usize {
        let table = self.indexer.table(prefix);
        if table == 0 {
            return self.range(prefix).count();
        }
        let root = &self.home(prefix).root;
        if table == prefix.len() {
            return root.tables.get(prefix).map_or(0, OrdMap::len);
        }
        match group_of(table, prefix) {
            Some(group) if group.len() == prefix.len() => root.groups.get(prefix).copied().unwrap_or_default(),
            _ => self.range(prefix).count(),
        }
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        let others: usize = self.others().iter().map(|(_, other)| other.len()).sum();
        self.root.tables.values().map(OrdMap::len).sum::<usize>() + others
    }

    /// Returns true if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[expect(clippy::indexing_slicing, reason = "the table of a key is a beginning of it")]
    fn range_bounds(&self, prefix: &[u8], start: Bound<&[u8]>) -> Range<'_, X> {
        let excluded = end_of_prefix(prefix);
        let end = excluded.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        // imbl panics on empty ranges.
        if let (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) = (start, end)
            && start >= end
        {
            return Range { tables: Vec::new() };
        }
        let table = self.indexer.table(prefix);
        if table > 0 {
            let entries = self.home(prefix).root.tables.get(&prefix[..table]);
            let tables = entries.map(|entries| Cursor::new(entries, start, end));
            return Range {
                tables: tables.into_iter().collect(),
            };
        }
        let home = self.home(prefix);
        let others = home.others().iter().filter(|(of, _)| of.starts_with(prefix));
        let roots = std::iter::once(&home.root).chain(others.map(|(_, other)| &other.root));
        let tables = roots
            .flat_map(|root| root.tables.values())
            .map(|entries| Cursor::new(entries, start, end))
            .collect();
        Range { tables }
    }
}

/// Returns the index in `overrides`, a list of stores and their key prefixes, of the store that holds `key`; `None` if
/// no override does.
pub(crate) fn home_of<T>(overrides: &[(Key, T)], key: &[u8]) -> Option<usize> {
    overrides.iter().position(|(prefix, _)| key.starts_with(prefix))
}

/// Entries in key order; see [`Snapshot::range`].
pub struct Range<'a, X: Indexer> {
    /// Cursors, one for each table in the range; nearly always one.
    tables: Vec<Cursor<'a, X>>,
}

struct Cursor<'a, X: Indexer> {
    next: Option<&'a Arc<Entry<X>>>,
    rest: imbl::ordmap::RangedIter<'a, Key, Arc<Entry<X>>, imbl::shared_ptr::DefaultSharedPtr>,
}

impl<'a, X: Indexer> Cursor<'a, X> {
    fn new(entries: &'a Table<X>, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Self {
        let mut rest = entries.range::<_, [u8]>((start, end));
        Self {
            next: rest.next().map(|(_, entry)| entry),
            rest,
        }
    }

    fn advance(&mut self) -> Option<&'a Arc<Entry<X>>> {
        std::mem::replace(&mut self.next, self.rest.next().map(|(_, entry)| entry))
    }
}

impl<'a, X: Indexer> Iterator for Range<'a, X> {
    type Item = &'a Arc<Entry<X>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let [only] = &mut self.tables[..] {
            return only.advance();
        }
        let least = self
            .tables
            .iter_mut()
            .filter(|cursor| cursor.next.is_some())
            .min_by_key(|cursor| cursor.next.map(|entry| entry.key()));
        least?.advance()
    }
}
