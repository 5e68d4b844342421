//! The objects of a resource that a user may read.

use std::collections::{BTreeSet, HashMap};

use holdfast_value::SmolStr;

/// The objects of a resource that a user may read, by namespace; that of cluster-scoped objects is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthorizedObjects(HashMap<SmolStr, ReadableNames>);

/// The readable objects of one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReadableNames {
    All,
    These(BTreeSet<SmolStr>),
}

impl AuthorizedObjects {
    /// Adds all objects of a namespace.
    pub(crate) fn add_all(&mut self, namespace: &str) {
        self.0.insert(namespace.into(), ReadableNames::All);
    }

    /// Adds the object `name` of a namespace.
    pub(crate) fn add(&mut self, namespace: &str, name: SmolStr) {
        let names = self.0.entry(namespace.into());
        if let ReadableNames::These(names) = names.or_insert_with(|| ReadableNames::These(BTreeSet::new())) {
            names.insert(name);
        }
    }

    /// Returns true if the user may read no object.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the user may read the object.
    pub(crate) fn contains(&self, namespace: &str, name: &str) -> bool {
        self.0.get(namespace).is_some_and(|names| match names {
            ReadableNames::All => true,
            ReadableNames::These(names) => names.contains(name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_readable_by_namespace_and_name() {
        let mut objects = AuthorizedObjects::default();
        assert!(objects.is_empty());
        objects.add_all("a");
        objects.add("a", "x".into());
        objects.add("b", "x".into());
        for (namespace, name, expected) in [
            ("a", "y", true),
            ("b", "x", true),
            ("b", "y", false),
            ("", "x", false),
            ("c", "x", false),
        ] {
            assert_eq!(objects.contains(namespace, name), expected, "{namespace}/{name}");
        }
    }
}
