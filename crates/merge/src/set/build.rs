//! Building sets level by level, in one buffer for all levels.

use smallvec::SmallVec;

use super::{Entry, Set};
use crate::PathElement;

/// Collects the entries of nested levels on one stack. A level begins with [`SetBuilder::begin`], takes entries with
/// [`SetBuilder::push`], and becomes a set with [`SetBuilder::finish`], innermost first.
#[derive(Default)]
pub(crate) struct SetBuilder {
    stack: Vec<Entry>,
}

/// Where a level began.
#[derive(Clone, Copy)]
pub(crate) struct Mark(usize);

impl SetBuilder {
    pub(crate) fn begin(&self) -> Mark {
        Mark(self.stack.len())
    }

    /// Adds an entry to the innermost level; one that says nothing is left out.
    #[inline]
    pub(crate) fn push(&mut self, element: PathElement, member: bool, children: Set) {
        if member || !children.is_empty() {
            self.stack.push(Entry::new(element, member, children));
        }
    }

    /// Adds the entries of a set to the innermost level.
    pub(crate) fn push_all(&mut self, set: &Set) {
        self.stack.extend(set.entries().iter().cloned());
    }

    /// Whether no element occurs twice in the level begun at `mark`; sorts it to see.
    pub(crate) fn has_unlike_elements(&mut self, mark: Mark) -> bool {
        let level = &mut self.stack[mark.0..];
        if level.is_sorted_by(|a, b| a.element < b.element) {
            return true;
        }
        level.sort_by(|a, b| a.element.cmp(&b.element));
        level.is_sorted_by(|a, b| a.element < b.element)
    }

    /// Drops the entries of the level begun at `mark`.
    pub(crate) fn discard(&mut self, mark: Mark) {
        self.stack.truncate(mark.0);
    }

    /// Ends the innermost level, begun at `mark`. Entries may come in any order; of entries with one element the
    /// memberships add up, and the last that has children gives them.
    pub(crate) fn finish(&mut self, mark: Mark) -> Set {
        let level = &mut self.stack[mark.0..];
        if level.is_empty() {
            return Set::new();
        }
        if !level.is_sorted_by(|a, b| a.element < b.element) {
            level.sort_by(|a, b| a.element.cmp(&b.element));
            self.combine_equal(mark);
        }
        let level = self.stack.drain(mark.0..);
        let mut entries = SmallVec::with_capacity(level.len());
        entries.extend(level);
        Set::from_entries(entries)
    }

    fn combine_equal(&mut self, mark: Mark) {
        let mut kept = mark.0;
        for at in mark.0 + 1..self.stack.len() {
            if self.stack[at].element != self.stack[kept].element {
                kept += 1;
                self.stack.swap(kept, at);
                continue;
            }
            let children = std::mem::take(&mut self.stack[at].children);
            let member = self.stack[at].member;
            let entry = &mut self.stack[kept];
            entry.member |= member;
            if !children.is_empty() {
                entry.children = children;
            }
        }
        self.stack.truncate(kept + 1);
    }
}
