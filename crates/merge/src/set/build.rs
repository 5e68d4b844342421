//! Building sets in the order of their nodes.

use super::{Entry, Level, Node, Set};
use crate::PathElement;

/// Collects the nodes of a set in preorder: [`SetBuilder::open`] an element, add what is below it, and
/// [`SetBuilder::close`] it. Siblings must come in order, or be put in order with [`SetBuilder::sort_level`] before their
/// parent is closed.
#[derive(Default)]
pub(crate) struct SetBuilder {
    nodes: Vec<Node>,
}

impl SetBuilder {
    /// A builder with room for some nodes.
    pub(crate) fn with_capacity(nodes: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(nodes),
        }
    }

    /// How many nodes there are: where the next one will stand.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.nodes.len()
    }

    /// Adds an element; what is added until it is closed stands below it. Gives the position to close it with.
    #[inline]
    pub(crate) fn open(&mut self, element: PathElement) -> usize {
        let at = self.nodes.len();
        self.nodes.push(Node {
            element,
            below: 0,
            member: false,
        });
        at
    }

    /// Ends what stands below the element opened at `at`. One that is neither member nor parent is dropped.
    #[inline]
    pub(crate) fn close(&mut self, at: usize, member: bool) {
        let below = self.nodes.len() - at - 1;
        if !member && below == 0 {
            self.nodes.truncate(at);
        } else if let Some(node) = self.nodes.get_mut(at) {
            node.below = u32::try_from(below).unwrap_or(u32::MAX);
            node.member = member;
        }
    }

    /// Adds a member with nothing below it.
    #[inline]
    pub(crate) fn push_leaf(&mut self, element: PathElement) {
        self.nodes.push(Node {
            element,
            below: 0,
            member: true,
        });
    }

    /// Adds an entry of another set with all below it.
    #[inline]
    pub(super) fn push_entry(&mut self, entry: Entry<'_>) {
        self.nodes.push(entry.node().clone());
        self.nodes.extend_from_slice(entry.below().0);
    }

    /// Adds all entries of a level.
    pub(crate) fn push_level(&mut self, level: Level<'_>) {
        self.nodes.extend_from_slice(level.0);
    }

    /// Whether the node at a position is of this element.
    pub(super) fn is_at(&self, at: usize, element: &PathElement) -> bool {
        self.nodes.get(at).is_some_and(|node| node.element == *element)
    }

    /// Makes the node at a position a member.
    pub(super) fn mark_member(&mut self, at: usize) {
        if let Some(node) = self.nodes.get_mut(at) {
            node.member = true;
        }
    }

    /// Ends what stands below a node whose membership is already marked.
    pub(super) fn close_parent(&mut self, at: usize) {
        let member = self.nodes.get(at).is_some_and(|node| node.member);
        self.close(at, member);
    }

    /// The element of the node at a position.
    pub(crate) fn element(&self, at: usize) -> Option<&PathElement> {
        self.nodes.get(at).map(|node| &node.element)
    }

    /// Puts the siblings from a position on in order. Of siblings with one element the memberships add up, and the last
    /// that has something below it gives that.
    pub(crate) fn sort_level(&mut self, from: usize) {
        let unsorted: Vec<Node> = self.nodes.drain(from..).collect();
        let mut entries: Vec<_> = Level(&unsorted).entries().collect();
        entries.sort_by(|a, b| a.element().cmp(b.element()));
        for same in entries.chunk_by(|a, b| a.element() == b.element()) {
            let Some(first) = same.first() else { continue };
            let member = same.iter().any(|entry| entry.is_member());
            let below = same
                .iter()
                .rev()
                .map(|entry| entry.below())
                .find(|below| !below.is_empty());
            let at = self.open(first.element().clone());
            self.push_level(below.unwrap_or_default());
            self.close(at, member);
        }
    }

    /// Takes the nodes from a position on as a set of their own.
    pub(crate) fn split_off(&mut self, from: usize) -> Set {
        Set::from_nodes(self.nodes.split_off(from))
    }

    /// The set.
    pub(crate) fn finish(self) -> Set {
        Set::from_nodes(self.nodes)
    }
}
