//! Counts of watches by target: a change costs more the more watchers it has.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_authorization::ResourceTarget;
use holdfast_value::SmolStr;
use parking_lot::RwLock;

/// Target of a watch. Watches that differ only in their selectors count as one target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchKey {
    group: SmolStr,
    resource: SmolStr,
    namespace: SmolStr,
    name: SmolStr,
}

impl WatchKey {
    /// Returns the key of a watch of `target`.
    pub fn new(target: &ResourceTarget<'_>) -> Self {
        Self {
            group: target.group.into(),
            resource: target.resource.into(),
            namespace: target.namespace.into(),
            name: target.name.into(),
        }
    }
}

/// Active watches.
#[derive(Debug, Default)]
pub struct Watches(Arc<RwLock<HashMap<WatchKey, usize>>>);

/// Active watch, until this is dropped.
#[derive(Debug)]
pub struct WatchRegistration {
    watches: Arc<RwLock<HashMap<WatchKey, usize>>>,
    key: WatchKey,
}

impl Watches {
    /// Counts a watch until the result is dropped.
    pub fn register(&self, key: WatchKey) -> WatchRegistration {
        *self.0.write().entry(key.clone()).or_default() += 1;
        WatchRegistration {
            watches: Arc::clone(&self.0),
            key,
        }
    }

    /// Returns the number of watches that may receive a change of `target`: those of all objects, those of its
    /// namespace, and those of the object.
    pub fn interested(&self, target: &ResourceTarget<'_>) -> usize {
        let watches = self.0.read();
        if watches.is_empty() {
            return 0;
        }
        let count = |key: &WatchKey| watches.get(key).copied().unwrap_or_default();
        let everywhere = ResourceTarget {
            namespace: "",
            name: "",
            ..*target
        };
        let mut key = WatchKey::new(&everywhere);
        let mut sum = count(&key);
        if !target.namespace.is_empty() {
            key.namespace = target.namespace.into();
            sum += count(&key);
        }
        if !target.name.is_empty() {
            key.name = target.name.into();
            sum += count(&key);
        }
        sum
    }
}

impl Drop for WatchRegistration {
    fn drop(&mut self) {
        let mut watches = self.watches.write();
        if let Some(count) = watches.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                watches.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(namespace: &'static str, name: &'static str) -> ResourceTarget<'static> {
        ResourceTarget {
            version: "v1",
            resource: "pods",
            namespace,
            name,
            ..ResourceTarget::default()
        }
    }

    #[test]
    fn change_counts_watches_of_all_scopes() {
        let watches = Watches::default();
        let all: Vec<_> = [
            pods("", ""),
            pods("", ""),
            pods("n", ""),
            pods("m", ""),
            pods("n", "a"),
            pods("n", "b"),
        ]
        .iter()
        .map(|target| watches.register(WatchKey::new(target)))
        .collect();
        assert_eq!(watches.interested(&pods("n", "a")), 4);
        assert_eq!(watches.interested(&pods("n", "")), 3);
        assert_eq!(watches.interested(&pods("x", "a")), 2);
        assert_eq!(
            watches.interested(&ResourceTarget {
                group: "apps",
                ..pods("n", "a")
            }),
            0
        );
        drop(all);
        assert_eq!(watches.interested(&pods("n", "a")), 0);
        assert!(watches.0.read().is_empty());
    }
}
