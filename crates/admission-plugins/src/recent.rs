//! Bounded cache for keys that clients choose, with eviction of the least recently used entry.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};

/// Values by keys. Only the hash of a key is stored, since a key may be as long as an object.
pub(super) struct Recent<T> {
    hashers: [RandomState; 2],
    things: HashMap<[u64; 2], (T, u64)>,
    /// Keys in the order of their last use.
    used: BTreeMap<u64, [u64; 2]>,
    uses: u64,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            hashers: Default::default(),
            things: HashMap::new(),
            used: BTreeMap::new(),
            uses: 0,
        }
    }
}

impl<T> Recent<T> {
    /// Returns the value for `key`, or creates it. If there are `most` values, the least recently used one is evicted.
    pub(super) fn get_or_make(&mut self, key: &str, most: usize, make: impl FnOnce() -> T) -> &mut T {
        let key = self.hashers.each_ref().map(|hasher| hasher.hash_one(key));
        if !self.things.contains_key(&key)
            && self.things.len() >= most.max(1)
            && let Some((_, oldest)) = self.used.pop_first()
        {
            self.things.remove(&oldest);
        }
        self.uses += 1;
        let (thing, used) = self.things.entry(key).or_insert_with(|| (make(), 0));
        self.used.remove(&*used);
        *used = self.uses;
        self.used.insert(self.uses, key);
        thing
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn least_recently_used_entry_is_evicted() {
        let mut recent = Recent::default();
        for (key, found) in [("a", 0), ("b", 1), ("a", 0), ("c", 3), ("a", 0), ("b", 5)] {
            let next = recent.uses;
            assert_eq!(*recent.get_or_make(key, 2, || next), found, "{key}");
        }
        assert_eq!((recent.things.len(), recent.used.len()), (2, 2));
    }
}
