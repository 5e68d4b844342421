//! The nodes of a set in preorder.

use super::{Entry, Level};
use crate::PathElement;

/// Path element with its state in the set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    /// Number of the element in the table.
    element: u32,
    /// Number of nodes below this one, which follow it, shifted by one bit. The lowest bit is set if the path that ends
    /// here is in the set.
    below_and_member: u32,
}

impl Node {
    #[inline]
    pub(super) fn element(self) -> usize {
        self.element as usize
    }

    #[inline]
    pub(super) fn below(self) -> usize {
        (self.below_and_member >> 1) as usize
    }

    #[inline]
    pub(super) fn is_member(self) -> bool {
        self.below_and_member & 1 == 1
    }

    /// Returns the same node with another element number.
    #[inline]
    pub(super) fn renumbered(self, element: u32) -> Self {
        Self { element, ..self }
    }
}

/// Nodes under construction: [`Nodes::open`] an element, add the nodes below it, and [`Nodes::close`] it. Siblings must
/// come in order.
#[derive(Default)]
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    pub(super) fn with_capacity(nodes: usize) -> Self {
        Self(Vec::with_capacity(nodes))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an element. Nodes added until it is closed are below it. Returns the position to close it with.
    #[inline]
    pub(super) fn open(&mut self, element: u32) -> usize {
        let at = self.0.len();
        self.0.push(Node {
            element,
            below_and_member: 0,
        });
        at
    }

    /// Closes the element opened at `at`. An element that is neither member nor parent is dropped.
    #[inline]
    pub(super) fn close(&mut self, at: usize, member: bool) {
        let below = self.0.len() - at - 1;
        if !member && below == 0 {
            self.0.truncate(at);
        } else if let Some(node) = self.0.get_mut(at) {
            // Inputs are bounded far below this limit.
            node.below_and_member = (u32::try_from(below).unwrap_or(u32::MAX) << 1) | u32::from(member);
        }
    }

    /// Adds a member without children.
    #[inline]
    pub(super) fn push_leaf(&mut self, element: u32) {
        self.0.push(Node {
            element,
            below_and_member: 1,
        });
    }

    /// Adds an entry with its descendants; its elements have the same numbers here.
    #[inline]
    pub(super) fn push_entry(&mut self, entry: Entry<'_>) {
        self.0.push(entry.node);
        self.0.extend_from_slice(entry.below().nodes);
    }

    /// Adds all entries of a level; its elements have the same numbers here.
    #[inline]
    pub(super) fn push_level(&mut self, level: Level<'_>) {
        self.0.extend_from_slice(level.nodes);
    }

    /// Adds complete subtrees of nodes unchanged.
    #[inline]
    pub(super) fn extend(&mut self, nodes: impl IntoIterator<Item = Node>) {
        self.0.extend(nodes);
    }

    pub(super) fn get(&self, at: usize) -> Option<Node> {
        self.0.get(at).copied()
    }

    /// Makes the node at a position a member.
    pub(super) fn mark_member(&mut self, at: usize) {
        if let Some(node) = self.0.get_mut(at) {
            node.below_and_member |= 1;
        }
    }

    /// Closes a node whose membership is already set.
    pub(super) fn close_marked(&mut self, at: usize) {
        let member = self.get(at).is_some_and(Node::is_member);
        self.close(at, member);
    }

    /// Sorts the siblings from a position on. Siblings with the same element are combined: the result is a member if
    /// one of them is, and has the children of the last one that has any.
    pub(super) fn sort_level(&mut self, from: usize, elements: &[PathElement]) {
        let unsorted = self.0.split_off(from);
        let level = Level {
            elements,
            nodes: &unsorted,
        };
        let mut entries: Vec<_> = level.entries().collect();
        entries.sort_by(|a, b| a.element().cmp(b.element()));
        for same in entries.chunk_by(|a, b| a.element() == b.element()) {
            let Some(first) = same.first() else { continue };
            let member = same.iter().any(|entry| entry.is_member());
            let below = same
                .iter()
                .rev()
                .map(|entry| entry.below())
                .find(|below| !below.is_empty());
            let at = self.open(first.node.element);
            self.push_level(below.unwrap_or_default());
            self.close(at, member);
        }
    }

    pub(super) fn level<'a>(&'a self, elements: &'a [PathElement]) -> Level<'a> {
        Level {
            elements,
            nodes: &self.0,
        }
    }

    pub(super) fn into_vec(self) -> Vec<Node> {
        self.0
    }
}
