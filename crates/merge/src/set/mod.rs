//! Sets of paths: what a manager owns.
//!
//! A set is a tree of path elements, kept flat: one shared vector of nodes in preorder, siblings sorted, each node with
//! the count of the nodes below it. Walks, algebra and text are then one pass over memory, whole subtrees are copied as
//! slices, and what stands below an element is a view of the same vector. A node is in the set itself, has nodes below
//! it, or both; one that is neither does not exist, so two equal sets have one form.

mod algebra;
mod build;
mod fields_v1;
mod from_value;
mod level;
mod named_fields;
mod pattern;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use build::SetBuilder;
pub use fields_v1::FieldsError;
pub(crate) use level::{Entry, Level};
pub use pattern::{Filter, Matcher, MemberMatcher};

use crate::{Path, PathElement};

/// A set of paths. A clone shares it.
///
/// Collect many paths at once rather than [`Set::insert`] them one by one: an insertion moves what stands behind it.
#[derive(Clone, Default)]
pub struct Set {
    nodes: Option<Arc<Vec<Node>>>,
    /// The part of the nodes that is this set: the nodes below one node, or all.
    range: Range<usize>,
}

/// A path element, with what the set says of it.
#[derive(Clone, PartialEq)]
pub(crate) struct Node {
    element: PathElement,
    /// How many nodes stand below this one; they follow it.
    below: u32,
    /// Whether the path that ends here is in the set.
    member: bool,
}

impl Set {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// How many paths are in the set.
    pub fn size(&self) -> usize {
        self.nodes().iter().filter(|node| node.member).count()
    }

    /// Whether both are the very same set in memory.
    pub fn same(&self, other: &Self) -> bool {
        match (&self.nodes, &other.nodes) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) && self.range == other.range,
            _ => self.is_empty() && other.is_empty(),
        }
    }

    /// Adds a path. The empty path, which names the root, is never in a set.
    pub fn insert(&mut self, path: &[PathElement]) {
        if path.is_empty() || self.has(path) {
            return;
        }
        let mut builder = SetBuilder::default();
        for element in path {
            builder.open(element.clone());
        }
        for at in (0..path.len()).rev() {
            builder.close(at, at + 1 == path.len());
        }
        *self = self.union(&builder.finish());
    }

    /// Whether a path is in the set.
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

    /// What the set holds below an element: its paths that go on from there, without that element.
    pub fn with_prefix(&self, element: &PathElement) -> Set {
        self.level()
            .find(element)
            .map(|entry| self.view(entry.below()))
            .unwrap_or_default()
    }

    /// The paths in the set: all members of a level in their order, then what is below them.
    pub fn paths(&self) -> Paths<'_> {
        Paths {
            levels: vec![Listing::new(self.level())],
            path: Path::new(),
        }
    }

    /// The members of the first level.
    pub fn members(&self) -> impl Iterator<Item = &PathElement> {
        self.level()
            .entries()
            .filter(|entry| entry.is_member())
            .map(Entry::element)
    }

    /// The elements of the first level that have paths below them, with those.
    pub fn children(&self) -> impl Iterator<Item = (&PathElement, Set)> {
        let parents = self.level().entries().filter(|entry| !entry.below().is_empty());
        parents.map(|entry| (entry.element(), self.view(entry.below())))
    }

    /// The first level.
    pub(crate) fn level(&self) -> Level<'_> {
        Level(self.nodes())
    }

    fn nodes(&self) -> &[Node] {
        match &self.nodes {
            Some(nodes) => nodes.get(self.range.clone()).unwrap_or_default(),
            None => &[],
        }
    }

    /// A level of this set as a set of its own, which shares the nodes.
    fn view(&self, level: Level<'_>) -> Set {
        let (Some(nodes), Some(first)) = (&self.nodes, level.0.first()) else {
            return Set::new();
        };
        // The level is a slice of the nodes; elements are compared by address to find where it starts.
        let start = nodes.partition_point(|node| std::ptr::from_ref(node) < std::ptr::from_ref(first));
        Set {
            nodes: Some(Arc::clone(nodes)),
            range: start..start + level.0.len(),
        }
    }

    fn from_nodes(nodes: Vec<Node>) -> Self {
        debug_assert!(Level(&nodes).is_well_formed());
        match nodes.is_empty() {
            true => Self::new(),
            false => Self {
                range: 0..nodes.len(),
                nodes: Some(Arc::new(nodes)),
            },
        }
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || self.nodes() == other.nodes()
    }
}

impl Eq for Set {}

impl FromIterator<Path> for Set {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut paths: Vec<_> = paths.into_iter().collect();
        paths.sort_unstable();
        let mut builder = SetBuilder::default();
        let mut open: Vec<usize> = Vec::new();
        for path in paths {
            let shared = open
                .iter()
                .zip(path.iter())
                .take_while(|(at, element)| builder.is_at(**at, element))
                .count();
            while open.len() > shared {
                open.pop().into_iter().for_each(|at| builder.close_parent(at));
            }
            for element in path.into_iter().skip(shared) {
                open.push(builder.open(element));
            }
            open.last().into_iter().for_each(|at| builder.mark_member(*at));
        }
        for at in open.into_iter().rev() {
            builder.close_parent(at);
        }
        builder.finish()
    }
}

/// One printed path a line.
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

/// The paths of a set, from [`Set::paths`].
pub struct Paths<'a> {
    levels: Vec<Listing<'a>>,
    path: Path,
}

/// How far a level has been listed: first its members, then what is below each entry.
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
