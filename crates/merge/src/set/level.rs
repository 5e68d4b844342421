//! Views of parts of a set.

use std::cmp::Ordering;

use holdfast_value::Value;

use super::nodes::Node;
use crate::PathElement;

/// Sibling entries with their descendants: a set, or the part of a set below an element.
#[derive(Clone, Copy, Default)]
pub(crate) struct Level<'a> {
    pub(super) elements: &'a [PathElement],
    pub(super) nodes: &'a [Node],
}

/// Element of a level with its descendants.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    elements: &'a [PathElement],
    pub(super) node: Node,
    below: &'a [Node],
}

impl<'a> Level<'a> {
    pub(crate) fn is_empty(self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the first entry.
    #[inline]
    pub(crate) fn first(self) -> Option<Entry<'a>> {
        let (node, rest) = self.nodes.split_first()?;
        Some(Entry {
            elements: self.elements,
            node: *node,
            below: rest.get(..node.below()).unwrap_or(rest),
        })
    }

    /// Removes and returns the first entry.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Entry<'a>> {
        let entry = self.first()?;
        self.nodes = self.nodes.get(entry.below.len() + 1..).unwrap_or_default();
        Some(entry)
    }

    /// Iterates over the entries in order.
    pub(crate) fn entries(mut self) -> impl Iterator<Item = Entry<'a>> {
        std::iter::from_fn(move || self.next())
    }

    /// Returns the entry of an element.
    pub(crate) fn find(mut self, element: &PathElement) -> Option<Entry<'a>> {
        self.advance(|entry| entry.element().cmp(element))
    }

    /// True if `value` may contain one of the paths. Every list counts as containing them.
    pub(crate) fn touches(self, value: &Value) -> bool {
        self.entries().any(|entry| match entry.element() {
            PathElement::Field(name) => value
                .get(name)
                .is_some_and(|value| entry.is_member() || entry.below().touches(value)),
            _ => true,
        })
    }

    /// Skips all entries before a field; returns the field's entry if there is one. A walk with names in ascending
    /// order visits each entry once.
    #[inline]
    pub(crate) fn advance_to_field(&mut self, name: &str) -> Option<Entry<'a>> {
        self.advance(|entry| match entry.element() {
            PathElement::Field(field) => field.as_str().cmp(name),
            _ => Ordering::Greater,
        })
    }

    /// Skips all entries that are less than the target; returns the one that is equal, if there is one.
    #[inline]
    pub(super) fn advance(&mut self, order: impl Fn(Entry<'a>) -> Ordering) -> Option<Entry<'a>> {
        while let Some(entry) = self.first() {
            match order(entry) {
                Ordering::Less => self.next(),
                Ordering::Equal => return Some(entry),
                Ordering::Greater => return None,
            };
        }
        None
    }

    /// True if siblings are sorted and distinct, counts are consistent, and every entry is a member or has children.
    pub(super) fn is_well_formed(self) -> bool {
        let entries: Vec<_> = self.entries().collect();
        let counted: usize = entries.iter().map(|entry| entry.below.len() + 1).sum();
        counted == self.nodes.len()
            && entries.is_sorted_by(|a, b| a.element() < b.element())
            && entries.iter().all(|entry| {
                entry.below.len() == entry.node.below()
                    && (entry.is_member() || !entry.below.is_empty())
                    && entry.below().is_well_formed()
            })
    }
}

impl<'a> Entry<'a> {
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    pub(crate) fn element(self) -> &'a PathElement {
        &self.elements[self.node.element()]
    }

    /// True if the path that ends here is in the set.
    #[inline]
    pub(crate) fn is_member(self) -> bool {
        self.node.is_member()
    }

    /// Returns the paths below this element.
    #[inline]
    pub(crate) fn below(self) -> Level<'a> {
        Level {
            elements: self.elements,
            nodes: self.below,
        }
    }

    /// Returns the number of the element in its table.
    #[inline]
    pub(super) fn number(self) -> u32 {
        u32::try_from(self.node.element()).unwrap_or_default()
    }
}
