//! Paths into an object.

use std::fmt;
use std::ops::Deref;

use crate::PathElement;

/// Path into an object: its elements from the root down. Paths are ordered element by element, a prefix first.
///
/// ```
/// use holdfast_merge::{Path, PathElement};
///
/// let mut path = Path::from_fields(["spec", "containers"]);
/// path.push(PathElement::key([("name", "web")]));
/// path.push(PathElement::field("image"));
/// assert_eq!(path.to_string(), r#".spec.containers[name="web"].image"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<PathElement>);

impl Path {
    /// Creates the path of the root.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a path of field names.
    ///
    /// ```
    /// assert_eq!(holdfast_merge::Path::from_fields(["spec", "replicas"]).to_string(), ".spec.replicas");
    /// ```
    pub fn from_fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        names.into_iter().map(PathElement::field).collect()
    }

    /// Appends an element.
    pub fn push(&mut self, element: PathElement) {
        self.0.push(element);
    }

    /// Removes and returns the last element.
    pub fn pop(&mut self) -> Option<PathElement> {
        self.0.pop()
    }
}

impl Deref for Path {
    type Target = [PathElement];

    fn deref(&self) -> &[PathElement] {
        &self.0
    }
}

impl From<Vec<PathElement>> for Path {
    fn from(elements: Vec<PathElement>) -> Self {
        Self(elements)
    }
}

impl FromIterator<PathElement> for Path {
    fn from_iter<I: IntoIterator<Item = PathElement>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

impl IntoIterator for Path {
    type Item = PathElement;
    type IntoIter = std::vec::IntoIter<PathElement>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Formats the path as in conflict messages: `.spec.containers[name="a"].image`.
impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|element| element.fmt(out))
    }
}
