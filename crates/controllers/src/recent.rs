//! A bounded cache of recent results.

use std::collections::HashMap;
use std::hash::Hash;

/// A map that forgets entries that were not used recently.
///
/// It has two generations. When the younger one is full, the older one is dropped; entries move to the younger one when
/// they are used.
#[derive(Debug)]
pub(crate) struct Recent<K, V = ()> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    generation: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// Creates a map that remembers at least `generation` entries, and at most twice as many.
    pub(crate) fn new(generation: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            generation,
        }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get(key)
    }

    /// Inserts a value. Returns true if there was none.
    pub(crate) fn insert(&mut self, key: K, value: V) -> bool {
        if self.young.len() >= self.generation && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        let aged = self.old.remove(&key);
        self.young.insert(key, value).or(aged).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_entries_are_kept_and_others_are_evicted() {
        let mut recent = Recent::new(10);
        assert!(recent.insert(0, "kept"));
        for n in 1..1_000 {
            assert!(recent.insert(n, "new"));
            assert_eq!(recent.get(&0), Some(&"kept"));
            assert!(recent.young.len() + recent.old.len() <= 20);
        }
        assert!(!recent.insert(999, "again"));
        assert_eq!(recent.get(&999), Some(&"again"));
        assert_eq!(recent.get(&1), None);
    }
}
