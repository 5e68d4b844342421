//! Construction of sets in the order of their nodes.

use std::sync::Arc;

use super::intern::{Index, hash_element};
use super::{Nodes, Set};
use crate::{Path, PathElement};

/// Builder that collects the nodes of a set in preorder, with their elements: [`SetBuilder::open`] an element, add the
/// nodes below it, and [`SetBuilder::close`] it. Siblings must come in order, or be sorted with
/// [`SetBuilder::sort_level`] before their parent is closed.
#[derive(Default)]
pub(crate) struct SetBuilder {
    elements: Elements,
    nodes: Nodes,
}

/// Table of elements under construction.
#[derive(Default)]
pub(super) struct Elements {
    table: Vec<PathElement>,
    /// Created with the second element.
    index: Option<Index>,
}

impl Elements {
    /// Returns the number of an element.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    pub(super) fn number(&mut self, element: PathElement) -> u32 {
        let table = &mut self.table;
        let index = self.index.get_or_insert_default();
        let known = index.find_or_add(hash_element(&element), |number| table[number] == element);
        known.unwrap_or_else(|| {
            table.push(element);
            last_number(table)
        })
    }
}

/// Returns the number of the last element of a table.
fn last_number(table: &[PathElement]) -> u32 {
    u32::try_from(table.len() - 1).unwrap_or(u32::MAX)
}

impl SetBuilder {
    /// Creates a builder with capacity for the paths of most objects.
    pub(crate) fn with_room() -> Self {
        Self {
            elements: Elements {
                table: Vec::with_capacity(64),
                index: None,
            },
            nodes: Nodes::with_capacity(128),
        }
    }

    /// Returns the position of the next node.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.nodes.len()
    }

    /// Adds an element. Nodes added until it is closed are below it. Returns the position to close it with.
    #[inline]
    pub(crate) fn open(&mut self, element: PathElement) -> usize {
        let number = self.elements.number(element);
        self.nodes.open(number)
    }

    /// Closes the element opened at `at`. An element that is neither member nor parent is dropped.
    #[inline]
    pub(crate) fn close(&mut self, at: usize, member: bool) {
        self.nodes.close(at, member);
    }

    /// Adds a member without children.
    #[inline]
    pub(crate) fn push_leaf(&mut self, element: PathElement) {
        let number = self.elements.number(element);
        self.nodes.push_leaf(number);
    }

    /// Returns the element of the node at a position.
    pub(crate) fn element(&self, at: usize) -> Option<&PathElement> {
        self.nodes
            .get(at)
            .and_then(|node| self.elements.table.get(node.element()))
    }

    /// Sorts the siblings from a position on. Siblings with the same element are combined: the result is a member if
    /// one of them is, and has the children of the last one that has any.
    pub(crate) fn sort_level(&mut self, from: usize) {
        self.nodes.sort_level(from, &self.elements.table);
    }

    /// Builds the set.
    pub(crate) fn finish(self) -> Set {
        Set::from_parts(Arc::new(self.elements.table), self.nodes)
    }
}

/// Sorts paths as sequences of numbers, which are in the order of the elements.
impl FromIterator<Path> for Set {
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut elements = Elements::default();
        let mut steps: Vec<u32> = Vec::new();
        let mut ends: Vec<usize> = Vec::new();
        for path in paths {
            steps.extend(path.into_iter().map(|element| elements.number(element)));
            ends.push(steps.len());
        }
        let (table, ranks) = sorted_table(elements.table);
        for step in &mut steps {
            *step = ranks[*step as usize];
        }
        let mut start = 0;
        let mut paths: Vec<(u64, &[u32])> = Vec::with_capacity(ends.len());
        for end in ends {
            let path = &steps[start..end];
            paths.push((leading_steps(path), path));
            start = end;
        }
        paths.sort_unstable();
        Set::from_parts(Arc::new(table), nodes_of(&paths))
    }
}

/// Returns a table of the distinct elements in order, and for each element the new number by its old one.
#[expect(
    clippy::indexing_slicing,
    reason = "nodes hold numbers of the elements of their own table"
)]
fn sorted_table(table: Vec<PathElement>) -> (Vec<PathElement>, Vec<u32>) {
    let mut order: Vec<(usize, PathElement)> = table.into_iter().enumerate().collect();
    order.sort_by(|a, b| a.1.cmp(&b.1));
    let mut ranks = vec![0; order.len()];
    let mut sorted: Vec<PathElement> = Vec::with_capacity(order.len());
    for (number, element) in order {
        if sorted.last() != Some(&element) {
            sorted.push(element);
        }
        ranks[number] = last_number(&sorted);
    }
    (sorted, ranks)
}

/// Returns the first four steps of a path as one number with the same order, as far as the steps are small.
fn leading_steps(path: &[u32]) -> u64 {
    let step = |at: usize| {
        path.get(at).map_or(0, |step| {
            u64::from(u16::try_from(*step).map_or(u16::MAX, |step| step.saturating_add(1)))
        })
    };
    // Steps after one that is too large must not count.
    (0..4)
        .fold((0, true), |(leading, exact), at| {
            let step = if exact { step(at) } else { 0 };
            ((leading << 16) | step, exact && step < u64::from(u16::MAX))
        })
        .0
}

/// Creates the nodes of sorted paths.
#[expect(
    clippy::indexing_slicing,
    reason = "nodes hold numbers of the elements of their own table"
)]
fn nodes_of(paths: &[(u64, &[u32])]) -> Nodes {
    let mut nodes = Nodes::with_capacity(paths.len() * 2);
    let mut open: Vec<usize> = Vec::new();
    let mut previous: &[u32] = &[];
    for (_, path) in paths {
        let shared = path
            .iter()
            .zip(previous)
            .take_while(|(step, before)| step == before)
            .count();
        for at in open.drain(shared..).rev() {
            nodes.close_marked(at);
        }
        for step in &path[shared..] {
            open.push(nodes.open(*step));
        }
        if let Some(at) = open.last() {
            nodes.mark_member(*at);
        }
        previous = path;
    }
    for at in open.into_iter().rev() {
        nodes.close_marked(at);
    }
    nodes
}
