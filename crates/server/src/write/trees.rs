//! Which stored objects are kept parsed: those written last, as those are the ones that are written next.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use holdfast_value::Value;
use parking_lot::Mutex;

use crate::objects::Entry;

/// How many parsed objects are kept.
const KEPT: usize = 512;

/// Remembers the trees of the objects that were written last.
#[derive(Default)]
pub struct Trees(Mutex<VecDeque<Weak<Entry>>>);

impl Trees {
    /// Keeps the tree of `entry`, which takes the place of `replaced`. The tree bears any resource version.
    pub(super) fn remember(&self, entry: &Arc<Entry>, mut tree: Value, replaced: Option<&Entry>) {
        tree.set_at(
            &["metadata", "resourceVersion"],
            entry.mod_revision().to_string().into(),
        );
        if let Some(replaced) = replaced {
            replaced.index().forget();
        }
        entry.index().remember(tree);
        let mut kept = self.0.lock();
        if kept.len() >= KEPT
            && let Some(oldest) = kept.pop_front().and_then(|oldest| oldest.upgrade())
        {
            oldest.index().forget();
        }
        kept.push_back(Arc::downgrade(entry));
    }
}
