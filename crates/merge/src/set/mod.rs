//! Sets of paths: what a manager owns.
//!
//! A set is a tree whose nodes hold their entries sorted. An entry is a member (the path to it is in the set), has a set
//! below it, or both; an entry that is neither does not exist, so two equal sets have one form. Nodes are shared: a clone
//! costs one reference count, and the algebra gives back whole subtrees of its operands where it can.

mod algebra;
mod build;
mod fields_v1;
mod from_value;
mod named_fields;
mod pattern;

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

pub(crate) use build::{Mark, SetBuilder};
pub use fields_v1::FieldsError;
pub use pattern::{Filter, Matcher, MemberMatcher};

use crate::{Path, PathElement};

/// A set of paths. A clone shares it.
#[derive(Clone, Default)]
pub struct Set(Option<Arc<Node>>);

/// One level of a set. Never empty.
#[derive(Clone)]
struct Node {
    entries: Entries,
}

/// Most nodes of a hand-made path have one entry, which needs no allocation of its own.
type Entries = SmallVec<[Entry; 1]>;

/// What a set says of one path element.
#[derive(Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) element: PathElement,
    /// Whether the path that ends here is in the set.
    pub(crate) member: bool,
    /// The paths that go on from here.
    pub(crate) children: Set,
}

impl Set {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How many paths are in the set.
    pub fn size(&self) -> usize {
        self.entries()
            .iter()
            .map(|entry| usize::from(entry.member) + entry.children.size())
            .sum()
    }

    /// Whether both are the very same set in memory.
    pub fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }

    /// Adds a path. The empty path, which names the root, is never in a set.
    pub fn insert(&mut self, path: &[PathElement]) {
        let mut set = self;
        for (at, element) in path.iter().enumerate() {
            let last = at + 1 == path.len();
            if set.is_empty() {
                *set = Self::chain(&path[at..]);
                return;
            }
            let Some(node) = &mut set.0 else { return };
            let entries = &mut Arc::make_mut(node).entries;
            match entries.binary_search_by(|entry| entry.element.cmp(element)) {
                Ok(found) => {
                    let entry = &mut entries[found];
                    entry.member |= last;
                    set = &mut entry.children;
                }
                Err(place) => {
                    let below = Self::chain(&path[at + 1..]);
                    entries.insert(place, Entry::new(element.clone(), last, below));
                    return;
                }
            }
        }
    }

    /// The set of one path.
    fn chain(path: &[PathElement]) -> Self {
        let mut set = Set::new();
        for (at, element) in path.iter().enumerate().rev() {
            let entry = Entry::new(element.clone(), at + 1 == path.len(), set);
            set = Self::from_entries(SmallVec::from_buf([entry]));
        }
        set
    }

    /// Whether a path is in the set.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else {
            return false;
        };
        parents
            .iter()
            .try_fold(self, |set, element| set.entry(element).map(|entry| &entry.children))
            .and_then(|set| set.entry(last))
            .is_some_and(|entry| entry.member)
    }

    /// What the set holds below an element: its paths that go on from there, without that element.
    pub fn with_prefix(&self, element: &PathElement) -> Set {
        self.entry(element)
            .map(|entry| entry.children.clone())
            .unwrap_or_default()
    }

    /// The paths in the set: all members of a level in their order, then what is below them.
    pub fn paths(&self) -> Paths<'_> {
        Paths {
            levels: vec![Level::new(self.entries())],
            path: Path::new(),
        }
    }

    /// The members of the first level.
    pub fn members(&self) -> impl Iterator<Item = &PathElement> {
        self.entries()
            .iter()
            .filter(|entry| entry.member)
            .map(|entry| &entry.element)
    }

    /// The elements of the first level that have paths below them, with those.
    pub fn children(&self) -> impl Iterator<Item = (&PathElement, &Set)> {
        self.entries()
            .iter()
            .filter(|entry| !entry.children.is_empty())
            .map(|entry| (&entry.element, &entry.children))
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        self.0.as_ref().map_or(&[], |node| &node.entries)
    }

    pub(crate) fn entry(&self, element: &PathElement) -> Option<&Entry> {
        let entries = self.entries();
        let at = entries.binary_search_by(|entry| entry.element.cmp(element)).ok()?;
        entries.get(at)
    }

    /// The entry of a field, found without making an element.
    pub(crate) fn field_entry(&self, name: &str) -> Option<&Entry> {
        let entries = self.entries();
        let at = entries
            .binary_search_by(|entry| match &entry.element {
                PathElement::Field(field) => field.as_str().cmp(name),
                _ => std::cmp::Ordering::Greater,
            })
            .ok()?;
        entries.get(at)
    }

    /// A set of entries that are sorted, hold each element once, and are none of them empty.
    fn from_entries(entries: Entries) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.element < b.element));
        debug_assert!(entries.iter().all(|entry| entry.member || !entry.children.is_empty()));
        match entries.is_empty() {
            true => Self(None),
            false => Self(Some(Arc::new(Node { entries }))),
        }
    }
}

impl Entry {
    pub(crate) fn new(element: PathElement, member: bool, children: Set) -> Self {
        Self {
            element,
            member,
            children,
        }
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || self.entries() == other.entries()
    }
}

impl Eq for Set {}

impl FromIterator<Path> for Set {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Set::new();
        for path in paths {
            set.insert(&path);
        }
        set
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
    levels: Vec<Level<'a>>,
    path: Path,
}

/// How far a level has been listed: first its members, then what is below each entry.
struct Level<'a> {
    entries: &'a [Entry],
    next_member: usize,
    next_parent: usize,
}

impl<'a> Level<'a> {
    fn new(entries: &'a [Entry]) -> Self {
        Self {
            entries,
            next_member: 0,
            next_parent: 0,
        }
    }
}

impl Iterator for Paths<'_> {
    type Item = Path;

    fn next(&mut self) -> Option<Path> {
        loop {
            let level = self.levels.last_mut()?;
            if let Some(entry) = level.entries.get(level.next_member) {
                level.next_member += 1;
                if entry.member {
                    let mut path = self.path.clone();
                    path.push(entry.element.clone());
                    return Some(path);
                }
            } else if let Some(entry) = level.entries.get(level.next_parent) {
                level.next_parent += 1;
                if !entry.children.is_empty() {
                    self.path.push(entry.element.clone());
                    self.levels.push(Level::new(entry.children.entries()));
                }
            } else {
                self.levels.pop();
                self.path.pop();
            }
        }
    }
}
