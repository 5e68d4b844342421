//! Views of parts of a set.

use std::cmp::Ordering;

use super::Node;
use crate::PathElement;

/// Sibling entries with all below them: a set, or what a set has below an element.
#[derive(Clone, Copy, Default)]
pub(crate) struct Level<'a>(pub(super) &'a [Node]);

/// An element of a level with all below it. Never without a node.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a>(&'a Node, &'a [Node]);

impl<'a> Level<'a> {
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The first entry.
    #[inline]
    pub(crate) fn first(self) -> Option<Entry<'a>> {
        let (node, rest) = self.0.split_first()?;
        Some(Entry(node, rest.get(..node.below as usize).unwrap_or(rest)))
    }

    /// Takes the first entry off.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Entry<'a>> {
        let entry = self.first()?;
        self.0 = self.0.get(entry.1.len() + 1..).unwrap_or_default();
        Some(entry)
    }

    /// The entries in order.
    pub(crate) fn entries(mut self) -> impl Iterator<Item = Entry<'a>> {
        std::iter::from_fn(move || self.next())
    }

    /// The entry of an element.
    pub(crate) fn find(mut self, element: &PathElement) -> Option<Entry<'a>> {
        self.advance_to(element)
    }

    /// Takes off all entries before an element, and gives the element's own if it is there. A walk that asks for
    /// elements in ascending order passes each entry once.
    #[inline]
    pub(crate) fn advance_to(&mut self, element: &PathElement) -> Option<Entry<'a>> {
        self.advance(|entry| entry.cmp(element))
    }

    /// The same for a field, without making an element.
    #[inline]
    pub(crate) fn advance_to_field(&mut self, name: &str) -> Option<Entry<'a>> {
        self.advance(|element| match element {
            PathElement::Field(field) => field.as_str().cmp(name),
            _ => Ordering::Greater,
        })
    }

    #[inline]
    fn advance(&mut self, order: impl Fn(&PathElement) -> Ordering) -> Option<Entry<'a>> {
        while let Some(entry) = self.first() {
            match order(entry.element()) {
                Ordering::Less => self.next(),
                Ordering::Equal => return Some(entry),
                Ordering::Greater => return None,
            };
        }
        None
    }

    /// Whether siblings are sorted and differ, counts fit, and no entry says nothing.
    pub(super) fn is_well_formed(self) -> bool {
        let entries: Vec<_> = self.entries().collect();
        let counted: usize = entries.iter().map(|entry| entry.1.len() + 1).sum();
        counted == self.0.len()
            && entries.is_sorted_by(|a, b| a.element() < b.element())
            && entries.iter().all(|entry| {
                entry.1.len() == entry.0.below as usize
                    && (entry.is_member() || !entry.below().is_empty())
                    && entry.below().is_well_formed()
            })
    }
}

impl<'a> Entry<'a> {
    #[inline]
    pub(crate) fn element(self) -> &'a PathElement {
        &self.0.element
    }

    /// Whether the path that ends here is in the set.
    #[inline]
    pub(crate) fn is_member(self) -> bool {
        self.0.member
    }

    /// The paths that go on from here.
    #[inline]
    pub(crate) fn below(self) -> Level<'a> {
        Level(self.1)
    }

    pub(super) fn node(self) -> &'a Node {
        self.0
    }
}
