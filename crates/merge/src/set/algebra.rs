//! Union, intersection and differences: parallel walks over two sorted trees.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Entry, Level, Nodes, Set};
use crate::PathElement;

impl Set {
    /// Returns the paths in any of the sets. Sets of similar size are combined first, so that each path is visited only
    /// a few times, however many sets there are.
    pub fn union_of_all(sets: impl IntoIterator<Item = Set>) -> Set {
        let mut sets: Vec<Set> = sets.into_iter().collect();
        while sets.len() > 1 {
            let unions = sets.chunks(2).map(|pair| match pair {
                [one, other] => one.union(other),
                rest => rest.first().cloned().unwrap_or_default(),
            });
            sets = unions.collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// Returns the paths in either set.
    pub fn union(&self, other: &Set) -> Set {
        let (Some(ours), Some(theirs)) = (&self.0, &other.0) else {
            return if self.is_empty() { other.clone() } else { self.clone() };
        };
        if self.same(other) {
            return self.clone();
        }
        let (a, b) = (self.level(), other.level());
        let mut union = Union {
            order: Order::new(a, b),
            nodes: Nodes::with_capacity(a.nodes.len() + b.nodes.len()),
            numbers: match Arc::ptr_eq(&ours.elements, &theirs.elements) {
                true => Numbers::Same,
                false => Numbers::Other {
                    elements: ours.elements.to_vec(),
                    known: vec![Numbers::UNKNOWN; theirs.elements.len()],
                },
            },
        };
        union.levels(a, b);
        let elements = match union.numbers {
            Numbers::Same => Arc::clone(&ours.elements),
            Numbers::Other { elements, .. } => Arc::new(elements),
        };
        Set::from_parts(elements, union.nodes)
    }

    /// Returns the paths in both sets. The elements come from `self`.
    pub fn intersection(&self, other: &Set) -> Set {
        if self.same(other) {
            return self.clone();
        }
        let (a, b) = (self.level(), other.level());
        let mut nodes = Nodes::default();
        intersection(&Order::new(a, b), a, b, &mut nodes);
        self.with_nodes(nodes)
    }

    /// Returns the paths of `self` that are not in `other`, path by path.
    ///
    /// ```
    /// use holdfast_merge::Set;
    ///
    /// let both = Set::from_fields_v1(br#"{"f:a":{},"f:b":{}}"#)?;
    /// let one = Set::from_fields_v1(br#"{"f:b":{}}"#)?;
    /// assert_eq!(both.difference(&one).to_fields_v1(), r#"{"f:a":{}}"#);
    /// # Ok::<(), holdfast_merge::FieldsError>(())
    /// ```
    pub fn difference(&self, other: &Set) -> Set {
        let (a, b) = (self.level(), other.level());
        if self.same(other) {
            return Set::new();
        }
        let order = Order::new(a, b);
        if !have_common_path(&order, a, b) {
            return self.clone();
        }
        let mut nodes = Nodes::with_capacity(a.nodes.len());
        difference(&order, a, b, &mut nodes);
        self.with_nodes(nodes)
    }

    /// Returns the paths of `self` that are neither in `other` nor below a path in `other`.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        let (a, b) = (self.level(), other.level());
        if a.is_empty() || b.is_empty() {
            return self.clone();
        }
        let mut nodes = Nodes::with_capacity(a.nodes.len());
        recursive_difference(&Order::new(a, b), a, b, &mut nodes);
        // An entry is either kept unchanged or removed with everything below it.
        match nodes.len() == a.nodes.len() {
            true => self.clone(),
            false => self.with_nodes(nodes),
        }
    }

    /// Returns the paths that have no other path of the set below them.
    pub fn leaves(&self) -> Set {
        let mut nodes = Nodes::with_capacity(self.level().nodes.len());
        leaves(self.level(), &mut nodes);
        self.with_nodes(nodes)
    }

    /// True if every path of `self` is in `other`.
    pub fn is_subset(&self, other: &Set) -> bool {
        let (a, b) = (self.level(), other.level());
        self.same(other) || is_subset(&Order::new(a, b), a, b)
    }
}

/// Comparison of the entries of two sets.
enum Order {
    /// By their elements.
    Elements,
    /// By the ranks of their elements among the elements of both sets: left and right, indexed by number.
    Ranks(Vec<u32>, Vec<u32>),
}

impl Order {
    /// Ranks are worth computing if elements occur many times.
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    fn new(a: Level<'_>, b: Level<'_>) -> Self {
        const OCCURRENCES: usize = 8;
        if a.nodes.len().min(b.nodes.len()) < OCCURRENCES * (a.elements.len() + b.elements.len()) {
            return Order::Elements;
        }
        let mut all: Vec<(&PathElement, usize)> = a.elements.iter().chain(b.elements).zip(0..).collect();
        all.sort_by(|a, b| a.0.cmp(b.0));
        let mut ranks = vec![0; all.len()];
        for (rank, equal) in (0..).zip(all.chunk_by(|a, b| a.0 == b.0)) {
            equal.iter().for_each(|(_, at)| ranks[*at] = rank);
        }
        let right = ranks.split_off(a.elements.len());
        Order::Ranks(ranks, right)
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    fn compare(&self, left: Entry<'_>, right: Entry<'_>) -> Ordering {
        match self {
            Order::Elements => left.element().cmp(right.element()),
            Order::Ranks(a, b) => a[left.node.element()].cmp(&b[right.node.element()]),
        }
    }
}

struct Union {
    order: Order,
    nodes: Nodes,
    numbers: Numbers,
}

/// Numbers of the right set's elements in the union.
enum Numbers {
    /// Unchanged, because both sets share one table.
    Same,
    /// Different, computed one by one. Elements that the left set lacks are added to its table.
    Other {
        elements: Vec<PathElement>,
        known: Vec<u32>,
    },
}

impl Numbers {
    const UNKNOWN: u32 = u32::MAX;

    /// Records that a right element equals a left one.
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    fn note(&mut self, left: Entry<'_>, right: Entry<'_>) {
        if let Numbers::Other { known, .. } = self {
            known[right.node.element()] = left.number();
        }
    }

    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    fn number_of(&mut self, number: usize, right: &[PathElement]) -> u32 {
        match self {
            Numbers::Same => u32::try_from(number).unwrap_or(Self::UNKNOWN),
            Numbers::Other { elements, known } => {
                if known[number] == Self::UNKNOWN {
                    known[number] = u32::try_from(elements.len()).unwrap_or(Self::UNKNOWN);
                    elements.push(right[number].clone());
                }
                known[number]
            }
        }
    }
}

impl Union {
    fn levels(&mut self, mut a: Level<'_>, mut b: Level<'_>) {
        while let (Some(left), Some(right)) = (a.first(), b.first()) {
            match self.order.compare(left, right) {
                Ordering::Less => {
                    self.nodes.push_entry(left);
                    a.next();
                }
                Ordering::Greater => {
                    b.next();
                    self.push_right(Level {
                        nodes: &[right.node],
                        ..b
                    });
                    self.push_right(right.below());
                }
                Ordering::Equal => {
                    self.numbers.note(left, right);
                    let at = self.nodes.open(left.number());
                    self.levels(left.below(), right.below());
                    self.nodes.close(at, left.is_member() || right.is_member());
                    a.next();
                    b.next();
                }
            }
        }
        self.nodes.push_level(a);
        self.push_right(b);
    }

    /// Adds nodes of the right set unchanged.
    #[inline]
    fn push_right(&mut self, level: Level<'_>) {
        let numbers = &mut self.numbers;
        let renumbered = |node: &super::Node| node.renumbered(numbers.number_of(node.element(), level.elements));
        self.nodes.extend(level.nodes.iter().map(renumbered));
    }
}

fn intersection(order: &Order, a: Level<'_>, mut b: Level<'_>, nodes: &mut Nodes) {
    for left in a.entries() {
        let Some(right) = advance(order, &mut b, left) else {
            continue;
        };
        let both = left.is_member() && right.is_member();
        if both || !(left.below().is_empty() || right.below().is_empty()) {
            let at = nodes.open(left.number());
            intersection(order, left.below(), right.below(), nodes);
            nodes.close(at, both);
        }
    }
}

fn difference(order: &Order, a: Level<'_>, mut b: Level<'_>, nodes: &mut Nodes) {
    for left in a.entries() {
        let Some(right) = advance(order, &mut b, left) else {
            nodes.push_entry(left);
            continue;
        };
        let at = nodes.open(left.number());
        difference(order, left.below(), right.below(), nodes);
        nodes.close(at, left.is_member() && !right.is_member());
    }
}

fn recursive_difference(order: &Order, a: Level<'_>, mut b: Level<'_>, nodes: &mut Nodes) {
    for left in a.entries() {
        match advance(order, &mut b, left) {
            None => nodes.push_entry(left),
            Some(right) if right.is_member() => {}
            Some(right) => {
                let at = nodes.open(left.number());
                recursive_difference(order, left.below(), right.below(), nodes);
                nodes.close(at, left.is_member());
            }
        }
    }
}

fn leaves(level: Level<'_>, nodes: &mut Nodes) {
    for entry in level.entries() {
        let at = nodes.open(entry.number());
        leaves(entry.below(), nodes);
        nodes.close(at, entry.below().is_empty());
    }
}

fn have_common_path(order: &Order, a: Level<'_>, mut b: Level<'_>) -> bool {
    !b.is_empty()
        && a.entries().any(|left| {
            advance(order, &mut b, left).is_some_and(|right| {
                (left.is_member() && right.is_member()) || have_common_path(order, left.below(), right.below())
            })
        })
}

fn is_subset(order: &Order, a: Level<'_>, mut b: Level<'_>) -> bool {
    a.entries().all(|left| {
        advance(order, &mut b, left).is_some_and(|right| {
            (right.is_member() || !left.is_member()) && is_subset(order, left.below(), right.below())
        })
    })
}

/// Skips the right entries before a left one; returns the right entry with the same element, if any.
#[inline]
fn advance<'b>(order: &Order, b: &mut Level<'b>, left: Entry<'_>) -> Option<Entry<'b>> {
    b.advance(|right| order.compare(left, right).reverse())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Path;

    #[test]
    fn the_union_of_many_sets_is_that_of_one_after_another() {
        for count in [0, 1, 2, 3, 7, 100] {
            let set = |number: usize| -> Set {
                let own = format!("own{number}");
                [Path::from_fields(["shared"]), Path::from_fields(["spec", own.as_str()])]
                    .into_iter()
                    .collect()
            };
            let one_by_one = (0..count).fold(Set::new(), |union, number| union.union(&set(number)));
            assert_eq!(Set::union_of_all((0..count).map(set)), one_by_one);
        }
    }
}
