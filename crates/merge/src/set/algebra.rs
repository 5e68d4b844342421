//! Union, intersection and differences: walks of two sorted trees side by side.

use std::cmp::Ordering;

use super::{Level, Set, SetBuilder};

impl Set {
    /// The paths in either set.
    pub fn union(&self, other: &Set) -> Set {
        if other.is_empty() || self.same(other) {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let mut out = SetBuilder::with_capacity(self.nodes().len() + other.nodes().len());
        union(self.level(), other.level(), &mut out);
        out.finish()
    }

    /// The paths in both sets. Elements are taken from `self`.
    pub fn intersection(&self, other: &Set) -> Set {
        if self.same(other) {
            return self.clone();
        }
        let mut out = SetBuilder::default();
        intersection(self.level(), other.level(), &mut out);
        out.finish()
    }

    /// The paths of `self` that are not in `other`, path by path.
    pub fn difference(&self, other: &Set) -> Set {
        if self.same(other) {
            return Set::new();
        }
        if !have_common_path(self.level(), other.level()) {
            return self.clone();
        }
        let mut out = SetBuilder::with_capacity(self.nodes().len());
        difference(self.level(), other.level(), &mut out);
        out.finish()
    }

    /// The paths of `self` that are neither in `other` nor below a path in `other`.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        let mut out = SetBuilder::with_capacity(self.nodes().len());
        recursive_difference(self.level(), other.level(), &mut out);
        // An entry is kept as it is or lost with all below it.
        match out.position() == self.nodes().len() {
            true => self.clone(),
            false => out.finish(),
        }
    }

    /// The paths that have no other path of the set below them.
    pub fn leaves(&self) -> Set {
        let mut out = SetBuilder::with_capacity(self.nodes().len());
        leaves(self.level(), &mut out);
        out.finish()
    }

    /// Whether every path of `self` is in `other`.
    pub fn is_subset(&self, other: &Set) -> bool {
        self.same(other) || is_subset(self.level(), other.level())
    }
}

fn union(mut a: Level<'_>, mut b: Level<'_>, out: &mut SetBuilder) {
    while let (Some(left), Some(right)) = (a.first(), b.first()) {
        match left.element().cmp(right.element()) {
            Ordering::Less => {
                out.push_entry(left);
                a.next();
            }
            Ordering::Greater => {
                out.push_entry(right);
                b.next();
            }
            Ordering::Equal => {
                let at = out.open(left.element().clone());
                union(left.below(), right.below(), out);
                out.close(at, left.is_member() || right.is_member());
                a.next();
                b.next();
            }
        }
    }
    out.push_level(a);
    out.push_level(b);
}

fn intersection(a: Level<'_>, mut b: Level<'_>, out: &mut SetBuilder) {
    for left in a.entries() {
        let Some(right) = b.advance_to(left.element()) else {
            continue;
        };
        let both = left.is_member() && right.is_member();
        if both || !(left.below().is_empty() || right.below().is_empty()) {
            let at = out.open(left.element().clone());
            intersection(left.below(), right.below(), out);
            out.close(at, both);
        }
    }
}

fn difference(a: Level<'_>, mut b: Level<'_>, out: &mut SetBuilder) {
    for left in a.entries() {
        let Some(right) = b.advance_to(left.element()) else {
            out.push_entry(left);
            continue;
        };
        let at = out.open(left.element().clone());
        difference(left.below(), right.below(), out);
        out.close(at, left.is_member() && !right.is_member());
    }
}

fn recursive_difference(a: Level<'_>, mut b: Level<'_>, out: &mut SetBuilder) {
    for left in a.entries() {
        match b.advance_to(left.element()) {
            None => out.push_entry(left),
            Some(right) if right.is_member() => {}
            Some(right) => {
                let at = out.open(left.element().clone());
                recursive_difference(left.below(), right.below(), out);
                out.close(at, left.is_member());
            }
        }
    }
}

fn leaves(level: Level<'_>, out: &mut SetBuilder) {
    for entry in level.entries() {
        let at = out.open(entry.element().clone());
        leaves(entry.below(), out);
        out.close(at, entry.below().is_empty());
    }
}

fn have_common_path(a: Level<'_>, mut b: Level<'_>) -> bool {
    !b.is_empty()
        && a.entries().any(|left| {
            b.advance_to(left.element()).is_some_and(|right| {
                (left.is_member() && right.is_member()) || have_common_path(left.below(), right.below())
            })
        })
}

fn is_subset(a: Level<'_>, mut b: Level<'_>) -> bool {
    a.entries().all(|left| {
        b.advance_to(left.element())
            .is_some_and(|right| (right.is_member() || !left.is_member()) && is_subset(left.below(), right.below()))
    })
}
