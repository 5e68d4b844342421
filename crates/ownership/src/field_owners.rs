//! Owners of given fields of an object, and the managers that made a version from the one before it.

use holdfast_merge::{Path, PathElement, Set};
use holdfast_value::Value;

use crate::blame::Owner;
use crate::entry::{DecodeError, Source};
use crate::managed::Managed;

/// Owners of the fields of one version of an object.
///
/// ```
/// use holdfast_ownership::{FieldOwners, Path};
/// use holdfast_value::{Limits, json};
///
/// let object = json::parse(
///     br#"{"metadata":{"managedFields":[{"manager":"kubectl","operation":"Apply","apiVersion":"v1",
///         "fieldsType":"FieldsV1","fieldsV1":{"f:size":{}}}]},"size":1}"#,
///     &Limits::REQUEST,
/// )?;
/// let owners = FieldOwners::decode(&object)?;
/// let size = owners.of_field(&Path::from_fields(["size"]));
/// assert_eq!(size[0].manager, "kubectl");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FieldOwners(Vec<OwnedFields>);

#[derive(Clone, Debug)]
struct OwnedFields {
    owner: Owner,
    fields: Set,
}

impl FieldOwners {
    /// Reads the owners from `metadata.managedFields` of the object.
    ///
    /// # Errors
    /// If the managed fields cannot be read.
    pub fn decode(object: &Value) -> Result<Self, DecodeError> {
        let managed = Managed::decode(object, Source::Request)?;
        let owned = managed.0.into_values().map(|record| OwnedFields {
            owner: Owner::from(record.entry),
            fields: record.set,
        });
        Ok(Self(owned.collect()))
    }

    /// Returns the owners of the field, or of a container around it that they own as a whole.
    pub fn of_field(&self, path: &Path) -> Vec<&Owner> {
        let owning = self.0.iter().filter(|owned| owns(&owned.fields, path));
        owning.map(|owned| &owned.owner).collect()
    }

    /// Returns the managers that made this version from `before` by a change of the fields `changed`: those that have
    /// become owners of fields or whose entry has another time, otherwise those that own all changed fields. An update
    /// that changes only values leaves the entries as they are, and times have whole seconds.
    pub fn writers_since(&self, before: &Self, changed: &[Path]) -> Vec<&Owner> {
        let has_written = |owned: &&OwnedFields| {
            let known = before.0.iter().find(|known| known.owner.is_same(&owned.owner));
            known.is_none_or(|known| {
                known.owner.time != owned.owner.time || !owned.fields.difference(&known.fields).is_empty()
            })
        };
        let written: Vec<&Owner> = self.0.iter().filter(has_written).map(|owned| &owned.owner).collect();
        if !written.is_empty() || changed.is_empty() {
            return written;
        }
        // A removed field belongs to nobody. It proves a writer only together with a field that is still there.
        let has_changed_all = |owned: &&OwnedFields| {
            let known = before.0.iter().find(|known| known.owner.is_same(&owned.owner));
            let had = |path: &Path| known.is_some_and(|known| owns(&known.fields, path));
            changed.iter().any(|path| owns(&owned.fields, path))
                && changed.iter().all(|path| owns(&owned.fields, path) || had(path))
        };
        self.0
            .iter()
            .filter(has_changed_all)
            .map(|owned| &owned.owner)
            .collect()
    }
}

impl Owner {
    /// Returns true if both are the same entry, perhaps at different times.
    fn is_same(&self, other: &Self) -> bool {
        self.manager == other.manager && self.operation == other.operation && self.subresource == other.subresource
    }
}

/// Returns true if the set contains the path, or a container around it without paths below.
fn owns(fields: &Set, path: &[PathElement]) -> bool {
    let mut below = fields.clone();
    for (at, element) in path.iter().enumerate() {
        let is_member = below.has(std::slice::from_ref(element));
        below = below.with_prefix(element);
        if is_member && (at + 1 == path.len() || below.is_empty()) {
            return true;
        }
        if below.is_empty() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use holdfast_value::{Limits, yaml};

    use super::*;

    fn owners(entries: &[(&str, &str, &str)]) -> FieldOwners {
        let entry = |(manager, time, fields): &(&str, &str, &str)| {
            format!(
                "{{manager: {manager}, operation: Update, apiVersion: v1, time: '1970-01-01T00:00:{time}Z', fieldsType: FieldsV1, \
                 fieldsV1: {fields}}}"
            )
        };
        let entries: Vec<String> = entries.iter().map(entry).collect();
        let text = format!("{{metadata: {{managedFields: [{}]}}}}", entries.join(", "));
        FieldOwners::decode(&yaml::parse(text.as_bytes(), &Limits::default()).unwrap()).unwrap()
    }

    fn names(owners: Vec<&Owner>) -> Vec<&str> {
        owners.into_iter().map(|owner| owner.manager.as_str()).collect()
    }

    #[test]
    fn field_belongs_to_owner_of_whole_container() {
        let owners = owners(&[
            ("a", "01", "{'f:data': {'.': {}, 'f:x': {}}}"),
            ("b", "01", "{'f:data': {'f:y': {}}, 'f:spec': {}}"),
        ]);
        for (path, expected) in [
            (&["data", "x"][..], &["a"][..]),
            (&["data", "y"], &["b"]),
            (&["data", "z"], &[]),
            (&["data"], &["a"]),
            (&["spec", "deep", "er"], &["b"]),
            (&["other"], &[]),
        ] {
            let path = Path::from_fields(path.iter().copied());
            assert_eq!(names(owners.of_field(&path)), expected, "{path}");
        }
    }

    #[test]
    fn writers_are_found_by_entries_and_by_fields() {
        let before = owners(&[("a", "01", "{'f:x': {}}"), ("b", "01", "{'f:x': {}, 'f:y': {}}")]);
        let path = |name| Path::from_fields([name]);
        let writers = |after: &[(&str, &str, &str)], changed: &[Path]| {
            let after = owners(after);
            names(after.writers_since(&before, changed)).join(",")
        };
        let (a, b) = (("a", "01", "{'f:x': {}}"), ("b", "01", "{'f:x': {}, 'f:y': {}}"));
        assert_eq!(writers(&[a, ("b", "01", "{'f:y': {}}")], &[path("x")]), "a", "b lost x");
        assert_eq!(writers(&[a, b, ("c", "02", "{'f:z': {}}")], &[path("z")]), "c");
        assert_eq!(
            writers(&[a, ("b", "02", "{'f:y': {}}")], &[path("x")]),
            "b",
            "b gave x up"
        );
        assert_eq!(writers(&[a, b], &[path("y")]), "b");
        let smaller = ("b", "01", "{'f:y': {}}");
        assert_eq!(
            writers(&[smaller], &[path("x"), path("y")]),
            "b",
            "b removed x and changed y"
        );
        assert_eq!(writers(&[smaller], &[path("x")]), "", "anybody may have removed x");
        assert_eq!(writers(&[a, b], &[path("unowned")]), "");
        assert_eq!(writers(&[a, b], &[]), "");
    }

    #[test]
    fn unreadable_entries_are_an_error() {
        let object = yaml::parse(
            b"{metadata: {managedFields: [{operation: Nonsense}]}}",
            &Limits::default(),
        )
        .unwrap();
        assert!(FieldOwners::decode(&object).is_err());
    }
}
