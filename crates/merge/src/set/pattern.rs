//! Filters of sets: paths to exclude, or patterns of paths to include.

use super::{Level, Nodes, Set};
use crate::PathElement;

/// Filter of a set.
///
/// ```
/// use holdfast_merge::{Filter, Matcher, PathElement, Set};
///
/// let status = Matcher::path(&[PathElement::field("status")]);
/// let all = Set::from_fields_v1(br#"{"f:spec":{"f:a":{}},"f:status":{"f:b":{}}}"#)?;
/// assert_eq!(Filter::include([status]).apply(&all).to_fields_v1(), r#"{"f:status":{"f:b":{}}}"#);
/// # Ok::<(), holdfast_merge::FieldsError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Filter {
    /// Keeps everything except the paths of this set and their descendants.
    Exclude(Set),
    /// Keeps the paths that match.
    Include(Matcher),
}

/// Pattern of sets. At each level the first member pattern that matches an element decides what to keep of it;
/// wildcards are tried first, then the others in the order of their elements.
///
/// ```
/// use holdfast_merge::{Filter, Matcher, MemberMatcher, PathElement, Set};
///
/// // The field `image` of every item of `containers`.
/// let image = Matcher::members([MemberMatcher {
///     element: None,
///     below: Matcher::path(&[PathElement::field("image")]),
/// }]);
/// let containers = MemberMatcher { element: Some(PathElement::field("containers")), below: image };
/// let all = Set::from_fields_v1(br#"{"f:containers":{"i:0":{"f:image":{},"f:name":{}}}}"#)?;
/// let kept = Filter::include([Matcher::members([containers])]).apply(&all);
/// assert_eq!(kept.to_string(), ".containers[0].image");
/// # Ok::<(), holdfast_merge::FieldsError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    everything: bool,
    members: Vec<MemberMatcher>,
}

/// Pattern of one element, with the pattern of its descendants.
///
/// ```
/// use holdfast_merge::{Matcher, MemberMatcher};
///
/// let any = MemberMatcher { element: None, below: Matcher::everything() };
/// assert!(any.element.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct MemberMatcher {
    /// Element to match; `None` matches any.
    pub element: Option<PathElement>,
    /// Pattern of the descendants.
    pub below: Matcher,
}

impl Filter {
    /// Creates a filter that excludes the paths of a set and their descendants.
    ///
    /// ```
    /// use holdfast_merge::{Filter, Set};
    ///
    /// let status = Set::from_fields_v1(br#"{"f:status":{}}"#)?;
    /// let all = Set::from_fields_v1(br#"{"f:spec":{"f:a":{}},"f:status":{"f:b":{}}}"#)?;
    /// assert_eq!(Filter::exclude(status).apply(&all).to_fields_v1(), r#"{"f:spec":{"f:a":{}}}"#);
    /// # Ok::<(), holdfast_merge::FieldsError>(())
    /// ```
    pub fn exclude(set: Set) -> Self {
        Filter::Exclude(set)
    }

    /// Creates a filter that keeps the paths of the patterns, merged into one pattern by [`Matcher::merge`]. Without
    /// patterns everything is kept.
    pub fn include(matchers: impl IntoIterator<Item = Matcher>) -> Self {
        let merged = matchers.into_iter().reduce(|merged, matcher| merged.merge(&matcher));
        Filter::Include(merged.unwrap_or_else(Matcher::everything))
    }

    /// Returns the paths of a set that the filter keeps.
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
    /// Creates a pattern that keeps everything.
    pub fn everything() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }

    /// Creates a pattern that keeps the matches of the member patterns.
    pub fn members(patterns: impl IntoIterator<Item = MemberMatcher>) -> Self {
        let mut members: Vec<_> = patterns.into_iter().collect();
        members.sort_by(|a, b| a.element.cmp(&b.element));
        Self {
            everything: false,
            members,
        }
    }

    /// Creates a pattern of a path and its descendants.
    pub fn path(path: &[PathElement]) -> Self {
        path.iter().rev().fold(Self::everything(), |below, element| {
            Self::members([MemberMatcher {
                element: Some(element.clone()),
                below,
            }])
        })
    }

    /// Merges two patterns into one that keeps the matches of either, except where the reference misses: it finds the
    /// member pattern to merge with only at some positions, and never finds a wildcard. A pattern that is not found is
    /// appended, and applies if no earlier pattern matches.
    #[expect(clippy::indexing_slicing, reason = "the index was found in this list")]
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

/// Finds a member pattern like the reference: by binary search with the comparison reversed, so that it finds the
/// element only by chance.
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
