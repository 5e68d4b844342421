//! What is kept for keys that clients choose: so much, and of that what was used last.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};

/// Things by keys. A key is kept as its hash, since it may be as long as an object.
pub(super) struct Recent<T> {
    hashers: [RandomState; 2],
    things: HashMap<[u64; 2], (T, u64)>,
    /// The keys by when they were used.
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
    /// What is kept for `key`, or else is made for it. Of more than `most` the one goes that was not used for the longest time.
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
    fn what_was_not_used_for_the_longest_time_goes() {
        let mut recent = Recent::default();
        for (key, found) in [("a", 0), ("b", 1), ("a", 0), ("c", 3), ("a", 0), ("b", 5)] {
            let next = recent.uses;
            assert_eq!(*recent.get_or_make(key, 2, || next), found, "{key}");
        }
        assert_eq!((recent.things.len(), recent.used.len()), (2, 2));
    }
}
