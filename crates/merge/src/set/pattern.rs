//! Filters of sets: what to leave out, or patterns of what to keep.

use super::{Level, Nodes, Set};
use crate::PathElement;

/// What a filter keeps of a set.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Everything but the paths of this set and all below them.
    Exclude(Set),
    /// The paths that match.
    Include(Matcher),
}

/// A pattern of sets. At each level the first member pattern that fits an element decides what of it is kept; wildcards
/// are tried first, then the others in the order of their elements.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    everything: bool,
    members: Vec<MemberMatcher>,
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

    /// Keeps what the patterns keep, merged into one as [`Matcher::merge`] says. Without patterns everything is kept.
    pub fn include(matchers: impl IntoIterator<Item = Matcher>) -> Self {
        let merged = matchers.into_iter().reduce(|merged, matcher| merged.merge(&matcher));
        Filter::Include(merged.unwrap_or_else(Matcher::everything))
    }

    /// What the filter keeps of a set.
    pub fn apply(&self, set: &Set) -> Set {
        match self {
            Filter::Exclude(excluded) => set.recursive_difference(excluded),
            Filter::Include(matcher) if matcher.everything => set.clone(),
            Filter::Include(matcher) => {
                let mut out = Nodes::default();
                matcher.keep(set.level(), &mut out);
                set.with_nodes(out)
            }
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
        let mut members: Vec<_> = patterns.into_iter().collect();
        members.sort_by(|a, b| a.element.cmp(&b.element));
        Self {
            everything: false,
            members,
        }
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

    /// A pattern that keeps what either keeps, but for what the reference misses: of several member patterns it finds
    /// the one to merge with only in some places, and never a wildcard. What is not found is added, and counts where no
    /// earlier pattern fits.
    #[expect(clippy::indexing_slicing, reason = "the index was found in this very list")]
    pub fn merge(&self, other: &Matcher) -> Matcher {
        if self.everything || other.everything {
            return Self::everything();
        }
        let mut members = self.members.clone();
        for added in &other.members {
            match find_as_reference(&members, added.element.as_ref()) {
                Some(at) => members[at].below = members[at].below.merge(&added.below),
                None => {
                    members.push(added.clone());
                    members.sort_by(|a, b| a.element.cmp(&b.element));
                }
            }
        }
        Self {
            everything: false,
            members,
        }
    }

    fn keep(&self, level: Level<'_>, out: &mut Nodes) {
        if self.everything {
            return out.push_level(level);
        }
        for entry in level.entries() {
            let fitting = self.members.iter().find(|member| match &member.element {
                None => true,
                Some(element) => element == entry.element(),
            });
            if let Some(fitting) = fitting {
                let at = out.open(entry.number());
                fitting.below.keep(entry.below(), out);
                out.close(at, entry.is_member());
            }
        }
    }
}

/// Where the reference finds a member pattern: by halving, but with the order the wrong way round, so that it ends where
/// the element is not unless it comes to it by chance.
#[expect(clippy::indexing_slicing, reason = "a binary search stays between its ends")]
fn find_as_reference(members: &[MemberMatcher], element: Option<&PathElement>) -> Option<usize> {
    let (mut low, mut high) = (0, members.len());
    while low < high {
        let middle = (low + high) / 2;
        match members[middle].element.as_ref() > element {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    let found = members.get(low)?;
    (element.is_some() && found.element.as_ref() == element).then_some(low)
}
