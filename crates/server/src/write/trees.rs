//! Which stored objects are kept parsed: those that are written again and again, as those are the ones that are written
//! next. Keeping what is written once would only have it dropped later, when it is cold.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use holdfast_value::Value;
use parking_lot::Mutex;

use crate::objects::Entry;

/// How many parsed objects are kept, and within how many writes an object must be written again to be among them.
const KEPT: usize = 512;

/// Remembers the trees of the objects that are written often.
#[derive(Default)]
pub struct Trees(Mutex<VecDeque<Weak<Entry>>>);

impl Trees {
    /// Keeps the tree of `entry`, which takes the place of `replaced`, if that was written lately. The tree bears any
    /// resource version.
    pub(super) fn remember(&self, entry: &Arc<Entry>, mut tree: Value, replaced: Option<&Entry>) {
        let Some(replaced) = replaced else { return };
        replaced.index().forget();
        if entry.mod_revision() - replaced.mod_revision() > KEPT as u64 {
            return;
        }
        tree.set_at(
            &["metadata", "resourceVersion"],
            entry.mod_revision().to_string().into(),
        );
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
