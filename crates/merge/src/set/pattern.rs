//! Filters of sets: what to leave out, or patterns of what to keep.

use std::collections::BTreeMap;

use super::{Entries, Set, algebra};
use crate::PathElement;

/// What a filter keeps of a set.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Everything but the paths of this set and all below them.
    Exclude(Set),
    /// The paths that match.
    Include(Matcher),
}

/// A pattern of sets. At each level the first member pattern that fits an element decides what of it is kept; the
/// wildcard is tried first, then the others in the order of their elements.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    everything: bool,
    wildcard: Option<Box<Matcher>>,
    members: BTreeMap<PathElement, Matcher>,
}

/// A pattern of one element, with the pattern of what is below it.
#[derive(Clone, Debug)]
pub struct MemberMatcher {
    /// The element; `None` fits each.
    pub element: Option<PathElement>,
    /// What is kept below it.
    pub below: Matcher,
}

impl Filter {
    /// Leaves out the paths of a set and all below them.
    pub fn exclude(set: Set) -> Self {
        Filter::Exclude(set)
    }

    /// Keeps what any of the patterns keeps; patterns with equal elements are merged.
    pub fn include(matchers: impl IntoIterator<Item = Matcher>) -> Self {
        let merged = matchers.into_iter().reduce(Matcher::merge);
        Filter::Include(merged.unwrap_or_default())
    }

    /// What the filter keeps of a set.
    pub fn apply(&self, set: &Set) -> Set {
        match self {
            Filter::Exclude(excluded) => set.recursive_difference(excluded),
            Filter::Include(matcher) => matcher.keep(set),
        }
    }
}

impl Matcher {
    /// Keeps everything.
    pub fn everything() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }

    /// Keeps what the member patterns keep.
    pub fn members(patterns: impl IntoIterator<Item = MemberMatcher>) -> Self {
        patterns.into_iter().fold(Self::default(), |mut matcher, pattern| {
            matcher.add(pattern.element, pattern.below);
            matcher
        })
    }

    /// A pattern of a path and all below it.
    pub fn path(path: &[PathElement]) -> Self {
        path.iter().rev().fold(Self::everything(), |below, element| {
            Self::members([MemberMatcher {
                element: Some(element.clone()),
                below,
            }])
        })
    }

    fn add(&mut self, element: Option<PathElement>, below: Matcher) {
        match element {
            None => {
                self.wildcard = Some(Box::new(match self.wildcard.take() {
                    Some(present) => present.merge(below),
                    None => below,
                }));
            }
            Some(element) => {
                let merged = match self.members.remove(&element) {
                    Some(present) => present.merge(below),
                    None => below,
                };
                self.members.insert(element, merged);
            }
        }
    }

    fn merge(mut self, other: Matcher) -> Matcher {
        if self.everything || other.everything {
            return Self::everything();
        }
        if let Some(wildcard) = other.wildcard {
            self.add(None, *wildcard);
        }
        for (element, below) in other.members {
            self.add(Some(element), below);
        }
        self
    }

    fn keep(&self, set: &Set) -> Set {
        if self.everything {
            return set.clone();
        }
        let mut out = Entries::new();
        for entry in set.entries() {
            let below = self.wildcard.as_deref().or_else(|| self.members.get(&entry.element));
            if let Some(below) = below {
                algebra::push(&mut out, entry, entry.member, below.keep(&entry.children));
            }
        }
        Set::from_entries(out)
    }
}
