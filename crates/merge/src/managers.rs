//! Who owns what.

use std::collections::BTreeMap;

use holdfast_value::SmolStr;

use crate::Set;

/// The paths that a manager owns, in the terms of one API version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The paths.
    pub set: Set,
    /// The API version in which the paths are written.
    pub api_version: SmolStr,
    /// Whether the manager applies; else it updates.
    pub applied: bool,
}

/// The managers of an object, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(BTreeMap<SmolStr, VersionedSet>);

impl Managers {
    /// No managers.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a manager owns.
    pub fn get(&self, name: &str) -> Option<&VersionedSet> {
        self.0.get(name)
    }

    /// Sets what a manager owns, and gives back what it owned.
    pub fn insert(&mut self, name: impl Into<SmolStr>, owned: VersionedSet) -> Option<VersionedSet> {
        self.0.insert(name.into(), owned)
    }

    /// Takes a manager out.
    pub fn remove(&mut self, name: &str) -> Option<VersionedSet> {
        self.0.remove(name)
    }

    /// The managers in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&SmolStr, &VersionedSet)> {
        self.0.iter()
    }

    /// The managers in order of their names, for change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&SmolStr, &mut VersionedSet)> {
        self.0.iter_mut()
    }

    /// Keeps the managers that `keep` says yes to.
    pub fn retain(&mut self, keep: impl FnMut(&SmolStr, &mut VersionedSet) -> bool) {
        self.0.retain(keep);
    }

    /// How many managers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no manager.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What differs from other managers: what one side alone has, and for those on both sides the paths that one side
    /// alone has, or all of the other side's where the version or operation differs.
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
