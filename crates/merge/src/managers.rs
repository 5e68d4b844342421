//! Field ownership: managers and their field sets.

use std::collections::BTreeMap;

use holdfast_value::SmolStr;

use crate::Set;

/// Paths that a manager owns, in one API version.
///
/// ```
/// use holdfast_merge::{Set, VersionedSet};
///
/// let set = Set::from_fields_v1(br#"{"f:spec":{"f:replicas":{}}}"#)?;
/// let owned = VersionedSet { set, api_version: "apps/v1".into(), applied: true };
/// assert_eq!(owned.set.size(), 1);
/// # Ok::<(), holdfast_merge::FieldsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The paths.
    pub set: Set,
    /// API version of the paths.
    pub api_version: SmolStr,
    /// True if the manager applies, false if it updates.
    pub applied: bool,
}

/// Managers of an object, by name.
///
/// ```
/// use holdfast_merge::{Managers, Set, VersionedSet};
///
/// let owned = |text: &str| -> Result<_, holdfast_merge::FieldsError> {
///     Ok(VersionedSet { set: Set::from_fields_v1(text.as_bytes())?, api_version: "v1".into(), applied: true })
/// };
/// let mut before = Managers::new();
/// before.insert("alice", owned(r#"{"f:a":{}}"#)?);
/// let mut after = before.clone();
/// after.insert("bob", owned(r#"{"f:b":{}}"#)?);
/// let difference = before.difference(&after);
/// assert!(difference.get("bob").is_some() && difference.get("alice").is_none());
/// # Ok::<(), holdfast_merge::FieldsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(BTreeMap<SmolStr, VersionedSet>);

impl Managers {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the paths that a manager owns.
    pub fn get(&self, name: &str) -> Option<&VersionedSet> {
        self.0.get(name)
    }

    /// Sets the paths that a manager owns; returns the previous ones.
    pub fn insert(&mut self, name: impl Into<SmolStr>, owned: VersionedSet) -> Option<VersionedSet> {
        self.0.insert(name.into(), owned)
    }

    /// Removes a manager.
    pub fn remove(&mut self, name: &str) -> Option<VersionedSet> {
        self.0.remove(name)
    }

    /// Iterates over the managers in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&SmolStr, &VersionedSet)> {
        self.0.iter()
    }

    /// Iterates over the managers in order of their names, for modification.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&SmolStr, &mut VersionedSet)> {
        self.0.iter_mut()
    }

    /// Keeps the managers for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&SmolStr, &mut VersionedSet) -> bool) {
        self.0.retain(keep);
    }

    /// Returns the number of managers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no manager.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the differences between two collections: managers that only one side has; for a manager on both sides
    /// the paths that only one side has, or all paths of `other` if the version or operation differs.
    pub fn difference(&self, other: &Managers) -> Managers {
        let mut out = Managers::new();
        for (name, left) in &self.0 {
            let difference = match other.0.get(name) {
                None => left.clone(),
                Some(right) if left.api_version != right.api_version || left.applied != right.applied => right.clone(),
                Some(right) => VersionedSet {
                    set: left.set.difference(&right.set).union(&right.set.difference(&left.set)),
                    ..left.clone()
                },
            };
            if !difference.set.is_empty() || !other.0.contains_key(name) {
                out.insert(name.clone(), difference);
            }
        }
        for (name, right) in &other.0 {
            if !self.0.contains_key(name) {
                out.insert(name.clone(), right.clone());
            }
        }
        out
    }
}

impl FromIterator<(SmolStr, VersionedSet)> for Managers {
    fn from_iter<I: IntoIterator<Item = (SmolStr, VersionedSet)>>(managers: I) -> Self {
        Self(managers.into_iter().collect())
    }
}

impl IntoIterator for Managers {
    type Item = (SmolStr, VersionedSet);
    type IntoIter = std::collections::btree_map::IntoIter<SmolStr, VersionedSet>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Managers {
    type Item = (&'a SmolStr, &'a VersionedSet);
    type IntoIter = std::collections::btree_map::Iter<'a, SmolStr, VersionedSet>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
