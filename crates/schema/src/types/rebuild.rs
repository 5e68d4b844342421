//! Changes of a few members of a shared map or list: nothing is copied until the first change.

use holdfast_value::{Entry, List, Map, SmolStr, Value};

/// A map that is walked entry by entry; each is kept, replaced or dropped, and new ones are inserted.
pub struct MapRebuild<'m> {
    source: &'m Map,
    changed: Option<Vec<Entry>>,
}

impl<'m> MapRebuild<'m> {
    /// Starts a walk over the entries of `source`.
    #[inline]
    pub fn new(source: &'m Map) -> Self {
        Self { source, changed: None }
    }

    /// Returns the entries so far, those before `at` copied if this is the first change.
    #[expect(
        clippy::indexing_slicing,
        reason = "called with the place of an entry or item of the source"
    )]
    fn change(&mut self, at: usize) -> &mut Vec<Entry> {
        self.changed.get_or_insert_with(|| {
            let mut entries = Vec::with_capacity(self.source.len() + 4);
            entries.extend_from_slice(&self.source[..at]);
            entries
        })
    }

    /// Keeps the entry at `at`.
    #[expect(
        clippy::indexing_slicing,
        reason = "called with the place of an entry or item of the source"
    )]
    #[inline]
    pub fn keep(&mut self, at: usize) {
        if let Some(entries) = &mut self.changed {
            entries.push(self.source[at].clone());
        }
    }

    /// Replaces the value of the entry at `at`.
    #[expect(
        clippy::indexing_slicing,
        reason = "called with the place of an entry or item of the source"
    )]
    pub fn replace(&mut self, at: usize, value: Value) {
        let key = self.source[at].0.clone();
        self.change(at).push((key, value));
    }

    /// Keeps the entry at `at`, or replaces its value.
    #[inline]
    pub fn keep_or_replace(&mut self, at: usize, value: Option<Value>) {
        match value {
            Some(value) => self.replace(at, value),
            None => self.keep(at),
        }
    }

    /// Drops the entry at `at`.
    pub fn drop(&mut self, at: usize) {
        self.change(at);
    }

    /// Inserts an entry before the one at `at`. Keys must be in ascending order.
    pub fn insert_before(&mut self, at: usize, key: SmolStr, value: Value) {
        self.change(at).push((key, value));
    }

    /// Returns the new map, if anything changed.
    pub fn finish(self) -> Option<Value> {
        self.changed.map(|entries| Value::Map(Map::from_sorted(entries)))
    }
}

/// A list that is walked item by item; each is kept or replaced.
pub struct ListRebuild<'l> {
    source: &'l List,
    changed: Option<Vec<Value>>,
}

impl<'l> ListRebuild<'l> {
    /// Starts a walk over the items of `source`.
    #[inline]
    pub fn new(source: &'l List) -> Self {
        Self { source, changed: None }
    }

    /// Keeps the item at `at`, or replaces it.
    #[expect(
        clippy::indexing_slicing,
        reason = "called with the place of an entry or item of the source"
    )]
    pub fn replace(&mut self, at: usize, value: Option<Value>) {
        match (&mut self.changed, value) {
            (None, None) => {}
            (None, Some(value)) => {
                let mut items = Vec::with_capacity(self.source.len());
                items.extend_from_slice(&self.source[..at]);
                items.push(value);
                self.changed = Some(items);
            }
            (Some(items), value) => items.push(value.unwrap_or_else(|| self.source[at].clone())),
        }
    }

    /// Returns the new list, if anything changed.
    pub fn finish(self) -> Option<Value> {
        self.changed.map(Value::from)
    }
}
