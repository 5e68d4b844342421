//! Map of a bounded size that evicts the least recently used entry.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, Hash, RandomState};

/// Map of at most `capacity` entries. A new entry evicts the least recently used one.
///
/// ```
/// use holdfast_limits::LruMap;
///
/// let mut map = LruMap::new(2);
/// map.insert("a", 1);
/// map.insert("b", 2);
/// assert_eq!(map.get(&"a"), Some(&1));
/// map.insert("c", 3);
/// assert_eq!(map.get(&"b"), None);
/// ```
#[derive(Clone, Debug)]
pub struct LruMap<K, V = ()> {
    entries: HashMap<K, Entry<V>>,
    /// Keys in the order of their last use.
    by_use: BTreeMap<u64, K>,
    uses: u64,
    capacity: usize,
}

#[derive(Clone, Debug)]
struct Entry<V> {
    value: V,
    last_use: u64,
}

impl<K: Clone + Eq + Hash, V> LruMap<K, V> {
    /// Creates a map of at most `capacity` entries, and at least one.
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            capacity: capacity.max(1),
        }
    }

    /// Returns a value, which is then the most recently used one.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        let used = self.by_use.remove(&entry.last_use).unwrap_or_else(|| key.clone());
        self.by_use.insert(self.uses, used);
        entry.last_use = self.uses;
        Some(&entry.value)
    }

    /// Inserts a value. Returns the one that the key had before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let before = self.remove(&key);
        self.add(key, value);
        before
    }

    /// Returns the value of a key, which is made if there is none. It is then the most recently used one.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let value = self.remove(&key).unwrap_or_else(make);
        self.add(key, value)
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.last_use);
        Some(entry.value)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a key that the map does not have.
    fn add(&mut self, key: K, value: V) -> &mut V {
        if self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.uses += 1;
        let last_use = self.uses;
        self.by_use.insert(last_use, key.clone());
        &mut self.entries.entry(key).or_insert(Entry { value, last_use }).value
    }
}

/// Hash in place of a key that may be as long as an object. Clients cannot choose keys with equal hashes.
pub type KeyHash = [u64; 2];

/// Hasher of keys with seeds of its own.
#[derive(Clone, Debug, Default)]
pub struct KeyHasher([RandomState; 2]);

impl KeyHasher {
    /// Returns the hash of a key.
    pub fn hash(&self, key: &(impl Hash + ?Sized)) -> KeyHash {
        self.0.each_ref().map(|hasher| hasher.hash_one(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_entry_is_evicted() {
        let mut map = LruMap::new(2);
        for (key, found) in [("a", 0), ("b", 1), ("a", 0), ("c", 3), ("a", 0), ("b", 5)] {
            let next = map.uses;
            assert_eq!(*map.get_or_insert_with(key, || next), found, "{key}");
        }
        assert_eq!((map.len(), map.by_use.len()), (2, 2));
    }

    #[test]
    fn used_entry_outlives_many_others() {
        let mut map = LruMap::new(10);
        assert_eq!(map.insert(0, "kept"), None);
        for n in 1..1_000 {
            assert_eq!(map.insert(n, "new"), None);
            assert_eq!(map.get(&0), Some(&"kept"));
            assert!(map.len() <= 10 && map.by_use.len() == map.len());
        }
        assert_eq!(map.insert(999, "again"), Some("new"));
        assert_eq!(map.get(&999), Some(&"again"));
        assert_eq!(map.get(&1), None);
        assert_eq!(map.remove(&999), Some("again"));
        assert!(!map.is_empty() && map.get(&999).is_none());
    }

    #[test]
    fn hashes_of_two_hashers_differ() {
        let (one, other) = (KeyHasher::default(), KeyHasher::default());
        assert_eq!(one.hash("a"), one.hash("a"));
        assert_ne!(one.hash("a"), one.hash("b"));
        assert_ne!(one.hash("a"), other.hash("a"));
    }
}
