//! What was found out lately, bounded.

use std::collections::HashMap;
use std::hash::Hash;

/// A map that forgets what was not looked up lately.
///
/// It has two generations. When the younger one is full, the older one goes; what is looked up moves to the younger.
#[derive(Debug)]
pub(super) struct Recent<K, V = ()> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    generation: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// One that remembers at least so many, and at most twice as many.
    pub(super) fn new(generation: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            generation,
        }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get(key)
    }

    /// Remembers a value; whether there was none.
    pub(super) fn insert(&mut self, key: K, value: V) -> bool {
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
    fn what_is_used_stays_and_the_rest_is_forgotten_in_time() {
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
