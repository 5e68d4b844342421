//! Conflicts of an apply with other managers.

use std::fmt;

use holdfast_gotext::quote::quote;
use holdfast_value::SmolStr;

use crate::{Managers, Path, Set};

/// Path that an apply would change and another manager owns.
///
/// ```
/// use holdfast_merge::{Conflict, Path};
///
/// let conflict = Conflict { manager: "alice".into(), path: Path::from_fields(["spec", "replicas"]) };
/// assert_eq!(conflict.to_string(), r#"conflict with "alice": .spec.replicas"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Manager that owns the path.
    pub manager: SmolStr,
    /// Path in the API version of that manager.
    pub path: Path,
}

/// Conflicts of an apply, sorted by manager, and within a manager in the order of its set.
///
/// ```
/// use holdfast_merge::{Conflict, Conflicts, Path};
///
/// let paths = ["image", "replicas"].map(|name| Path::from_fields([name]));
/// let conflicts: Conflicts = paths.into_iter().map(|path| Conflict { manager: "alice".into(), path }).collect();
/// assert_eq!(conflicts.len(), 2);
/// assert_eq!(conflicts.to_set().to_fields_v1(), r#"{"f:image":{},"f:replicas":{}}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    /// Creates conflicts from the conflicting paths of each manager.
    pub fn from_managers(managers: &Managers) -> Self {
        managers
            .iter()
            .flat_map(|(manager, owned)| {
                owned.set.paths().map(|path| Conflict {
                    manager: manager.clone(),
                    path,
                })
            })
            .collect()
    }

    /// Returns the paths of all conflicts.
    pub fn to_set(&self) -> Set {
        self.0.iter().map(|conflict| conflict.path.clone()).collect()
    }

    /// Iterates over the conflicts.
    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter()
    }

    /// Returns the number of conflicts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no conflict.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Conflict> for Conflicts {
    fn from_iter<I: IntoIterator<Item = Conflict>>(conflicts: I) -> Self {
        let mut conflicts: Vec<_> = conflicts.into_iter().collect();
        conflicts.sort_by(|a, b| a.manager.cmp(&b.manager));
        Self(conflicts)
    }
}

impl IntoIterator for Conflicts {
    type Item = Conflict;
    type IntoIter = std::vec::IntoIter<Conflict>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "conflict with {}: {}", quote(&self.manager), self.path)
    }
}

/// Formats one conflict as one line, several grouped by manager.
impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [conflict] = self.0.as_slice() {
            return conflict.fmt(out);
        }
        for (at, group) in self.0.chunk_by(|a, b| a.manager == b.manager).enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            let manager = group.first().map_or("", |conflict| conflict.manager.as_str());
            write!(out, "{separator}conflicts with {}:", quote(manager))?;
            group
                .iter()
                .try_for_each(|conflict| write!(out, "\n- {}", conflict.path))?;
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}
