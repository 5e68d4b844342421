//! What stands in the way of an apply.

use std::fmt;

use holdfast_gotext::quote::quote;
use holdfast_value::SmolStr;

use crate::{Managers, Path, Set};

/// A path that an apply would change and that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager that owns the path.
    pub manager: SmolStr,
    /// The path, in the terms of that manager's version.
    pub path: Path,
}

/// All conflicts of an apply: sorted by manager, and within a manager as its set lists its paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    /// The conflicts that sets of paths by manager stand for.
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

    /// The paths of all conflicts.
    pub fn to_set(&self) -> Set {
        self.0.iter().map(|conflict| conflict.path.clone()).collect()
    }

    /// The conflicts one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
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

/// One conflict as one line, several grouped by manager.
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
