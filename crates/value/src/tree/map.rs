use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::source::MadeOf;
use super::tags::Tags;
use crate::tree::{Source, Value};
use smol_str::SmolStr;

/// A key and its value.
///
/// ```
/// use holdfast_value::{Entry, Map, Value};
///
/// let entry: Entry = ("a".into(), Value::Int(1));
/// assert_eq!(Map::from_sorted(vec![entry]).get("a"), Some(&Value::Int(1)));
/// ```
pub type Entry = (SmolStr, Value);

/// Map with text keys, sorted by the keys' UTF-8 bytes. A clone shares the entries; the first change of a shared map
/// copies them (their subtrees stay shared).
///
/// It dereferences to a slice of entries, so that two maps can be walked in parallel.
///
/// ```
/// use holdfast_value::{Map, Value};
///
/// let mut labels = Map::new();
/// labels.insert("tier", "web");
/// labels.insert("app", "shop");
/// let keys: Vec<_> = labels.iter().map(|(key, _)| key.as_str()).collect();
/// assert_eq!(keys, ["app", "tier"]);
/// assert_eq!(labels.remove("app"), Some(Value::from("shop")));
/// ```
#[derive(Clone, Default)]
// Empty maps are frequent (each leaf of a field set is one), so `None` represents them without an allocation.
pub struct Map(Option<Arc<Contents>>);

#[derive(Clone, Default)]
struct Contents {
    /// Entries, computed on first use if the map has a source.
    entries: Vec<Entry>,
    made_of: Option<Box<MadeOf>>,
    /// Tags of the keys of `entries`.
    tags: Tags,
}

impl Contents {
    fn from_entries(entries: Vec<Entry>) -> Self {
        Self {
            entries,
            ..Self::default()
        }
    }

    /// Returns the entries for modification; computes those of a map with a source now.
    fn make_entries(&mut self) -> &mut Vec<Entry> {
        if let Some(made_of) = self.made_of.take() {
            self.entries = made_of.into_entries();
        }
        &mut self.entries
    }
}

impl Map {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a map from entries in any order. The last entry of a repeated key wins.
    ///
    /// ```
    /// use holdfast_value::{Map, Value};
    ///
    /// let map = Map::from_unsorted(vec![("b".into(), Value::Int(1)), ("a".into(), Value::Int(2)), ("b".into(), Value::Int(3))]);
    /// assert_eq!(Value::Map(map).to_string(), r#"{"a":2,"b":3}"#);
    /// ```
    pub fn from_unsorted(mut entries: Vec<Entry>) -> Self {
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            // A stable sort keeps the order of entries with the same key, so that the last of them wins.
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    std::mem::swap(later, earlier);
                }
                same
            });
        }
        Self::wrap(entries)
    }

    /// Creates a map from entries that are sorted by key, with each key once. The caller guarantees the order; debug
    /// builds check it.
    pub fn from_sorted(entries: Vec<Entry>) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
        Self::wrap(entries)
    }

    /// Creates a map that computes its entries from `source` on first use.
    pub fn made_of(source: Arc<dyn Source>) -> Self {
        Self(Some(Arc::new(Contents {
            made_of: Some(Box::new(MadeOf::new(source))),
            ..Contents::default()
        })))
    }

    /// Returns the source of the map, unless the map has changed since it was created.
    pub fn source(&self) -> Option<&dyn Source> {
        Some(self.0.as_ref()?.made_of.as_ref()?.source())
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        let contents = self.0.as_ref();
        contents.is_none_or(|contents| contents.entries.is_empty() && contents.made_of.is_none())
    }

    /// Returns the value of `key`.
    #[expect(clippy::indexing_slicing, reason = "`find` returns indices of entries")]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).map(|at| &self[at].1)
    }

    /// True if the map has `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Returns the value of `key` for modification; copies the entries first if they are shared.
    #[expect(clippy::indexing_slicing, reason = "`find` returns indices of entries")]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = self.find(key)?;
        Some(&mut self.contents_mut().make_entries()[at].1)
    }

    /// Returns the value of `key` for modification; inserts `null` first if the key is missing.
    #[expect(clippy::indexing_slicing, reason = "`position` returns indices of entries")]
    pub fn get_or_insert_null(&mut self, key: &str) -> &mut Value {
        let found = self.position(key);
        let entries = self.make_mut();
        let at = match found {
            Ok(at) => at,
            Err(at) => {
                entries.insert(at, (SmolStr::new(key), Value::Null));
                at
            }
        };
        &mut entries[at].1
    }

    /// Sets `key` and returns its previous value.
    #[expect(clippy::indexing_slicing, reason = "`position` returns indices of entries")]
    pub fn insert(&mut self, key: impl Into<SmolStr>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        let found = self.position(&key);
        let entries = self.make_mut();
        match found {
            Ok(at) => Some(std::mem::replace(&mut entries[at].1, value)),
            Err(at) => {
                entries.insert(at, (key, value));
                None
            }
        }
    }

    /// Removes `key` and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.find(key)?;
        Some(self.make_mut().remove(at).1)
    }

    /// Keeps the entries for which `keep` returns true; `keep` may change their values.
    pub fn retain(&mut self, mut keep: impl FnMut(&SmolStr, &mut Value) -> bool) {
        self.make_mut().retain_mut(|(key, value)| keep(key, value));
    }

    /// Returns the values for modification, in key order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = (&SmolStr, &mut Value)> {
        let entries = self.contents_mut().make_entries();
        entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Returns the entries, copied if they are shared.
    pub fn into_entries(self) -> Vec<Entry> {
        let contents = self.0.map(Arc::unwrap_or_clone).unwrap_or_default();
        match contents.made_of {
            Some(made_of) => made_of.into_entries(),
            None => contents.entries,
        }
    }

    /// True if both are the same map in memory, which implies equality without comparing the entries.
    pub fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn wrap(entries: Vec<Entry>) -> Self {
        Self((!entries.is_empty()).then(|| Arc::new(Contents::from_entries(entries))))
    }

    fn contents_mut(&mut self) -> &mut Contents {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    /// Returns the entries for modification, including the keys.
    fn make_mut(&mut self) -> &mut Vec<Entry> {
        let contents = self.contents_mut();
        contents.tags = Tags::default();
        contents.make_entries()
    }

    /// Returns the index of `key`. In a small map, testing for equal keys is faster than comparing by order.
    fn find(&self, key: &str) -> Option<usize> {
        match self.0.as_deref()? {
            Contents {
                entries,
                made_of: None,
                tags,
            } if entries.len() <= Tags::MAX_KEYS => tags.find(entries, key),
            _ => self.position(key).ok(),
        }
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.binary_search_by(|(name, _)| order_of_names(name, key))
    }
}

/// Compares two names. Most differ in their first byte, and comparing it inline is cheaper than a call to `memcmp`.
fn order_of_names(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    match (left.first(), right.first()) {
        (Some(first), Some(other)) if first != other => first.cmp(other),
        _ => left.cmp(right),
    }
}

impl Deref for Map {
    type Target = [Entry];

    #[inline]
    fn deref(&self) -> &[Entry] {
        match self.0.as_deref() {
            None => &[],
            Some(Contents {
                entries, made_of: None, ..
            }) => entries,
            Some(Contents {
                made_of: Some(made_of), ..
            }) => made_of.entries(),
        }
    }
}

impl FromIterator<Entry> for Map {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        Self::from_unsorted(entries.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = &'a Entry;
    type IntoIter = std::slice::Iter<'a, Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(key, value)| (key, value)))
            .finish()
    }
}
