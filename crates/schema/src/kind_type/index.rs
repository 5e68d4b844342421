use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use holdfast_value::SmolStr;

use super::{KindType, TableType, TableTypes};
use crate::types::TypeTable;

/// The types of all built-in kinds, those of subresources and options included, by `apiVersion` and kind.
#[derive(Default)]
pub struct KindTypes {
    table: Arc<TypeTable>,
    kinds: HashMap<SmolStr, HashMap<SmolStr, Arc<dyn KindType>>>,
    /// Kinds that the reference knows and does not serve, by `apiVersion`.
    unserved: HashMap<SmolStr, HashSet<SmolStr>>,
}

impl KindTypes {
    /// Creates the index of the kinds in the table of `types`; for served kinds it uses the types in `served`.
    pub fn new(types: &Arc<TableTypes>, served: impl Iterator<Item = Arc<dyn KindType>>) -> Self {
        let mut kinds: HashMap<SmolStr, HashMap<SmolStr, Arc<dyn KindType>>> = HashMap::new();
        for of in served {
            let name = of.name();
            let kinds = kinds.entry(name.api_version.clone()).or_default();
            kinds.entry(name.kind.clone()).or_insert_with(|| Arc::clone(&of));
        }
        for kind in types.table().iter().flat_map(|(_, of)| &of.kinds) {
            let kinds = kinds.entry(kind.group_version.api_version()).or_default();
            if !kinds.contains_key(&kind.kind)
                && let Some(of) = TableType::new(types, kind.clone(), None)
            {
                kinds.insert(kind.kind.clone(), Arc::new(of));
            }
        }
        Self {
            table: Arc::clone(types.table()),
            kinds,
            unserved: HashMap::new(),
        }
    }

    /// Returns the same index, where `kinds` (each the text of an `apiVersion` and a kind) are known too, though not
    /// served: messages distinguish them from unknown kinds.
    #[must_use]
    pub fn with_unserved<'k>(mut self, kinds: impl Iterator<Item = (&'k str, &'k str)>) -> Self {
        for (api_version, kind) in kinds {
            self.unserved.entry(api_version.into()).or_default().insert(kind.into());
        }
        self
    }

    /// Returns the table of built-in types.
    pub fn table(&self) -> &Arc<TypeTable> {
        &self.table
    }

    /// Returns the type of the objects of `kind` in `api_version`, if it is built in.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<&Arc<dyn KindType>> {
        self.kinds.get(api_version)?.get(kind)
    }

    /// Returns true if objects of `kind` in `api_version` have a built-in type.
    pub fn knows(&self, api_version: &str, kind: &str) -> bool {
        self.kind(api_version, kind).is_some()
    }

    /// Returns true if `kind` in `api_version` is known but not served.
    pub fn knows_unserved(&self, api_version: &str, kind: &str) -> bool {
        self.unserved.get(api_version).is_some_and(|kinds| kinds.contains(kind))
    }

    /// Returns true if `kind` is that of a list of objects that are known in `api_version`.
    pub fn knows_list(&self, api_version: &str, kind: &str) -> bool {
        kind.strip_suffix("List").is_some_and(|item| {
            item.is_empty() || self.knows(api_version, item) || self.knows_unserved(api_version, item)
        })
    }

    /// Returns true if any version of `group` has `kind`, or a list of it.
    pub fn knows_in_group(&self, group: &str, kind: &str) -> bool {
        let versions = self.kinds.keys().chain(self.unserved.keys());
        versions
            .filter(|version| version.split_once('/').map_or("", |(group, _)| group) == group)
            .any(|version| {
                self.knows(version, kind) || self.knows_unserved(version, kind) || self.knows_list(version, kind)
            })
    }
}
