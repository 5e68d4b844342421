//! Cache of parsed objects: those that are written again and again, because they are likely to be written next, and
//! those that writes to other objects look up, such as namespaces. An object that is written once would only be dropped
//! later, when it is cold.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use holdfast_value::Value;
use parking_lot::Mutex;

use crate::objects::{self, Entry};

/// Maximum number of parsed objects in either group, and the number of writes within which an object must be written
/// again to be cached.
const MAX_TREES: usize = 512;

/// Maximum size of an object that is cached because it is looked up, in bytes. Objects that many writes look up are
/// small.
const LOOKED_UP_BYTES: usize = 16 << 10;

/// Cache of the trees of objects that are often written or looked up.
#[derive(Default)]
pub struct Trees {
    written: TreeCache,
    looked_up: TreeCache,
}

/// Entries whose trees are cached, the oldest first.
#[derive(Default)]
struct TreeCache(Mutex<VecDeque<Weak<Entry>>>);

impl TreeCache {
    /// Caches `tree` with `entry`, and drops the oldest tree if there are too many.
    fn push(&self, entry: &Arc<Entry>, tree: Value) {
        entry.index().remember(tree);
        let mut cached = self.0.lock();
        if cached.len() >= MAX_TREES
            && let Some(oldest) = cached.pop_front().and_then(|oldest| oldest.upgrade())
        {
            oldest.index().forget();
        }
        cached.push_back(Arc::downgrade(entry));
    }
}

impl Trees {
    /// Caches the tree of `entry`, which replaces `replaced`, if that was written lately. The tree has any resource
    /// version. Returns the tree if it is not cached.
    pub(crate) fn remember(&self, entry: &Arc<Entry>, tree: Value, replaced: Option<&Entry>) -> Option<Value> {
        let Some(replaced) = replaced else { return Some(tree) };
        replaced.index().forget();
        if entry.mod_revision() - replaced.mod_revision() > MAX_TREES as u64 {
            return Some(tree);
        }
        self.written.push(entry, objects::at_revision(tree, entry));
        None
    }

    /// Returns the tree of an object that another write looks up, and caches it for the next lookup.
    pub(crate) fn looked_up(&self, entry: &Arc<Entry>) -> Value {
        if let Some(tree) = entry.index().remembered() {
            return tree;
        }
        let tree = objects::tree(entry);
        if entry.length() <= LOOKED_UP_BYTES {
            self.looked_up.push(entry, tree.clone());
        }
        tree
    }
}
