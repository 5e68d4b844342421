//! Union, intersection and differences: walks of two sorted trees side by side.

use std::cmp::Ordering;

use super::{Entries, Entry, Set};

impl Set {
    /// The paths in either set.
    pub fn union(&self, other: &Set) -> Set {
        if other.is_empty() || self.same(other) {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let (mut a, mut b) = (self.entries(), other.entries());
        let mut out = Entries::with_capacity(a.len().max(b.len()));
        while let (Some(left), Some(right)) = (a.first(), b.first()) {
            match left.element.cmp(&right.element) {
                Ordering::Less => {
                    out.push(left.clone());
                    a = &a[1..];
                }
                Ordering::Greater => {
                    out.push(right.clone());
                    b = &b[1..];
                }
                Ordering::Equal => {
                    out.push(Entry::new(
                        left.element.clone(),
                        left.member || right.member,
                        left.children.union(&right.children),
                    ));
                    (a, b) = (&a[1..], &b[1..]);
                }
            }
        }
        out.extend(a.iter().cloned());
        out.extend(b.iter().cloned());
        Set::from_entries(out)
    }

    /// The paths in both sets. Elements are taken from `self`.
    pub fn intersection(&self, other: &Set) -> Set {
        if self.same(other) {
            return self.clone();
        }
        let mut out = Entries::new();
        for_each_pair(self, other, |left, right| {
            if let Some(right) = right {
                let member = left.member && right.member;
                push(&mut out, left, member, left.children.intersection(&right.children));
            }
        });
        Set::from_entries(out)
    }

    /// The paths of `self` that are not in `other`, path by path.
    pub fn difference(&self, other: &Set) -> Set {
        if other.is_empty() || self.is_empty() {
            return self.clone();
        }
        if self.same(other) {
            return Set::new();
        }
        self.keep_entries(other, |left, right| {
            (left.member && !right.member, left.children.difference(&right.children))
        })
    }

    /// The paths of `self` that are neither in `other` nor below a path in `other`.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        if other.is_empty() || self.is_empty() {
            return self.clone();
        }
        self.keep_entries(other, |left, right| match right.member {
            true => (false, Set::new()),
            false => (left.member, left.children.recursive_difference(&right.children)),
        })
    }

    /// The paths that have no other path of the set below them.
    pub fn leaves(&self) -> Set {
        let mut out = Entries::with_capacity(self.entries().len());
        for entry in self.entries() {
            let member = entry.member && entry.children.is_empty();
            push(&mut out, entry, member, entry.children.leaves());
        }
        Set::from_entries(out)
    }

    /// Whether every path of `self` is in `other`.
    pub fn is_subset(&self, other: &Set) -> bool {
        if self.is_empty() || self.same(other) {
            return true;
        }
        let mut subset = true;
        for_each_pair(self, other, |left, right| {
            subset = subset
                && right
                    .is_some_and(|right| (!left.member || right.member) && left.children.is_subset(&right.children));
        });
        subset
    }

    /// Rebuilds the set with `keep` applied to each entry that `other` has as well; the others stay. What does not
    /// change is shared.
    fn keep_entries(&self, other: &Set, keep: impl Fn(&Entry, &Entry) -> (bool, Set)) -> Set {
        let mut out = Entries::new();
        let mut changed = false;
        let mut unchanged = 0;
        for_each_pair(self, other, |left, right| {
            let (member, children) = match right {
                None if changed => (left.member, left.children.clone()),
                None => {
                    unchanged += 1;
                    return;
                }
                Some(right) => keep(left, right),
            };
            if !changed {
                if member == left.member && children.same(&left.children) {
                    unchanged += 1;
                    return;
                }
                changed = true;
                out = self.entries()[..unchanged].iter().cloned().collect();
            }
            push(&mut out, left, member, children);
        });
        if changed { Set::from_entries(out) } else { self.clone() }
    }
}

/// Calls `visit` with each entry of `a` and the entry of `b` that has the same element.
fn for_each_pair<'a>(a: &'a Set, b: &'a Set, mut visit: impl FnMut(&'a Entry, Option<&'a Entry>)) {
    let mut rest = b.entries();
    for left in a.entries() {
        let mut found = None;
        while let Some(right) = rest.first() {
            match right.element.cmp(&left.element) {
                Ordering::Less => rest = &rest[1..],
                Ordering::Equal => {
                    found = Some(right);
                    rest = &rest[1..];
                    break;
                }
                Ordering::Greater => break,
            }
        }
        visit(left, found);
    }
}

pub(super) fn push(out: &mut Entries, entry: &Entry, member: bool, children: Set) {
    if member || !children.is_empty() {
        out.push(Entry::new(entry.element.clone(), member, children));
    }
}
