//! Field sets: the paths that a manager owns.
//!
//! A set is a tree of path elements, stored flat: one vector of nodes in preorder, siblings sorted, each node with the
//! number of its element in a table and the number of nodes below it. Most elements occur many times in a set but once
//! in its table, so a node has eight bytes, and walks, algebra and text are single passes over little memory. The part
//! below an element is a view of the same vector; an operation that only removes nodes shares the table. A node is in
//! the set itself, has nodes below it, or both; one that is neither does not exist.

mod algebra;
mod build;
mod fields_v1;
mod from_value;
mod intern;
mod level;
mod named_fields;
mod nodes;
mod pattern;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use build::SetBuilder;
pub(crate) use fields_v1::written;
pub use fields_v1::{FieldsError, fields_v1_source, fields_v1_text};
pub(crate) use level::{Entry, Level};
use nodes::{Node, Nodes};
pub use pattern::{Filter, Matcher, MemberMatcher};

use crate::{Path, PathElement};

/// Set of paths. A clone shares it.
///
/// Collect many paths at once rather than [`Set::insert`] them one by one: an insertion copies the set.
///
/// ```
/// use holdfast_merge::{Path, Set};
///
/// let alice = Set::from_fields_v1(br#"{"f:a":{},"f:b":{}}"#)?;
/// let bob = Set::from_fields_v1(br#"{"f:b":{},"f:c":{}}"#)?;
/// assert_eq!(alice.union(&bob).size(), 3);
/// assert_eq!(alice.intersection(&bob).to_string(), ".b");
/// assert_eq!(alice.difference(&bob).to_string(), ".a");
/// assert!(alice.has(&Path::from_fields(["b"])));
/// # Ok::<(), holdfast_merge::FieldsError>(())
/// ```
#[derive(Clone, Default)]
pub struct Set(Option<Contents>);

/// Content of a set that is not empty.
#[derive(Clone)]
struct Contents {
    /// Elements of the nodes, in any order; an element may occur more than once.
    elements: Arc<Vec<PathElement>>,
    nodes: Arc<Vec<Node>>,
    /// Range of the nodes of this set: the nodes below one node, or all. Never empty.
    range: Range<usize>,
}

impl Set {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// True if the set has no paths.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the number of paths in the set.
    pub fn size(&self) -> usize {
        self.level().nodes.iter().filter(|node| node.is_member()).count()
    }

    /// True if both are the same set in memory.
    pub fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a.nodes, &b.nodes) && a.range == b.range,
            (None, None) => true,
            _ => false,
        }
    }

    /// Adds a path. The empty path, which identifies the root, is never in a set.
    pub fn insert(&mut self, path: &[PathElement]) {
        if path.is_empty() || self.has(path) {
            return;
        }
        let path = path.iter().cloned().collect();
        *self = self.union(&Set::from_iter([path]));
    }

    /// True if a path is in the set.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else {
            return false;
        };
        parents
            .iter()
            .try_fold(self.level(), |level, element| level.find(element).map(Entry::below))
            .and_then(|level| level.find(last))
            .is_some_and(Entry::is_member)
    }

    /// Returns the set below an element: its paths without that first element.
    pub fn with_prefix(&self, element: &PathElement) -> Set {
        self.level()
            .find(element)
            .map(|entry| self.view(entry.below()))
            .unwrap_or_default()
    }

    /// Iterates over the paths: all members of a level in order, then their descendants.
    pub fn paths(&self) -> Paths<'_> {
        Paths {
            levels: vec![Listing::new(self.level())],
            path: Path::new(),
        }
    }

    /// Iterates over the members of the first level.
    pub fn members(&self) -> impl Iterator<Item = &PathElement> {
        self.level()
            .entries()
            .filter(|entry| entry.is_member())
            .map(Entry::element)
    }

    /// Iterates over the elements of the first level that have paths below them, with these paths.
    pub fn children(&self) -> impl Iterator<Item = (&PathElement, Set)> {
        let parents = self.level().entries().filter(|entry| !entry.below().is_empty());
        parents.map(|entry| (entry.element(), self.view(entry.below())))
    }

    /// Returns the first level.
    #[inline]
    pub(crate) fn level(&self) -> Level<'_> {
        match &self.0 {
            Some(contents) => Level {
                elements: &contents.elements,
                nodes: contents.nodes.get(contents.range.clone()).unwrap_or_default(),
            },
            None => Level::default(),
        }
    }

    /// Returns a level of this set as a set that shares the nodes.
    fn view(&self, level: Level<'_>) -> Set {
        let (Some(contents), Some(first)) = (&self.0, level.nodes.first()) else {
            return Set::new();
        };
        // The level is a slice of the nodes; the addresses give its start.
        let start = contents
            .nodes
            .partition_point(|node| std::ptr::from_ref(node) < std::ptr::from_ref(first));
        Set(Some(Contents {
            range: start..start + level.nodes.len(),
            ..contents.clone()
        }))
    }

    /// Returns a set of a subset of this set's nodes, with the same elements.
    fn with_nodes(&self, nodes: Nodes) -> Set {
        match &self.0 {
            Some(contents) if !nodes.is_empty() => Set::from_parts(Arc::clone(&contents.elements), nodes),
            _ => Set::new(),
        }
    }

    fn from_parts(elements: Arc<Vec<PathElement>>, nodes: Nodes) -> Set {
        debug_assert!(nodes.level(&elements).is_well_formed());
        match nodes.is_empty() {
            true => Set::new(),
            false => Set(Some(Contents {
                elements,
                range: 0..nodes.len(),
                nodes: Arc::new(nodes.into_vec()),
            })),
        }
    }
}

impl PartialEq for Set {
    #[expect(
        clippy::indexing_slicing,
        reason = "nodes hold numbers of the elements of their own table"
    )]
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.level(), other.level());
        self.same(other)
            || (a.nodes.len() == b.nodes.len()
                && a.nodes.iter().zip(b.nodes).all(|(left, right)| {
                    left.below() == right.below()
                        && left.is_member() == right.is_member()
                        && a.elements[left.element()] == b.elements[right.element()]
                }))
    }
}

impl Eq for Set {}

/// Formats one path per line.
impl fmt::Display for Set {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, path) in self.paths().enumerate() {
            if at > 0 {
                out.write_str("\n")?;
            }
            path.fmt(out)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set()
            .entries(self.paths().map(|path| path.to_string()))
            .finish()
    }
}

/// Iterator over the paths of a set, from [`Set::paths`].
///
/// ```
/// use holdfast_merge::Set;
///
/// let set = Set::from_fields_v1(br#"{"f:spec":{"f:image":{},"f:replicas":{}}}"#)?;
/// let paths: Vec<_> = set.paths().map(|path| path.to_string()).collect();
/// assert_eq!(paths, [".spec.image", ".spec.replicas"]);
/// # Ok::<(), holdfast_merge::FieldsError>(())
/// ```
pub struct Paths<'a> {
    levels: Vec<Listing<'a>>,
    path: Path,
}

/// Progress within a level: first its members, then the descendants of each entry.
struct Listing<'a> {
    members: Level<'a>,
    parents: Level<'a>,
}

impl<'a> Listing<'a> {
    fn new(level: Level<'a>) -> Self {
        Self {
            members: level,
            parents: level,
        }
    }
}

impl Iterator for Paths<'_> {
    type Item = Path;

    fn next(&mut self) -> Option<Path> {
        loop {
            let listing = self.levels.last_mut()?;
            if let Some(entry) = listing.members.next() {
                if entry.is_member() {
                    let mut path = self.path.clone();
                    path.push(entry.element().clone());
                    return Some(path);
                }
            } else if let Some(entry) = listing.parents.next() {
                if !entry.below().is_empty() {
                    self.path.push(entry.element().clone());
                    self.levels.push(Listing::new(entry.below()));
                }
            } else {
                self.levels.pop();
                self.path.pop();
            }
        }
    }
}
