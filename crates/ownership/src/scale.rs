//! Ownership of a Scale, which is stored in the entries of the scaled object.
//!
//! During a write a Scale has its own entries: those of its parent that own the number of replicas, in the Scale's
//! version. The resulting entries are transferred back to the parent.

use holdfast_merge::{Path, Set};
use holdfast_value::{SmolStr, Value};

use crate::entry::{DecodeError, Entry, Source};
use crate::managed::{Managed, Record};

/// `apiVersion` of a Scale.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Transfer of entries between a scaled object and its Scale.
///
/// ```
/// use holdfast_ownership::ScaleOwnership;
/// use holdfast_value::{Limits, json};
///
/// let path = vec!["spec".into(), "replicas".into()];
/// let scale = ScaleOwnership::new("apps/v1", [("apps/v1".into(), Some(path))]);
/// let deployment = json::parse(
///     br#"{"metadata":{"managedFields":[{"manager":"kubectl","operation":"Apply","apiVersion":"apps/v1",
///         "fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]}}"#,
///     &Limits::REQUEST,
/// )?;
/// let entries = scale.to_scale(&deployment)?.unwrap();
/// assert!(entries.to_string().contains(r#""apiVersion":"autoscaling/v1""#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScaleOwnership {
    api_version: SmolStr,
    /// Path of the number of replicas by `apiVersion`; `None` if a version has no Scale.
    replicas: Vec<(SmolStr, Option<Path>)>,
}

impl ScaleOwnership {
    /// Creates the transfer for writes to the Scale of an object through its `api_version`. `replicas` contains for
    /// each version of the object the names of the fields on the path of the number of replicas (`spec`, `replicas`),
    /// or `None` if it has no Scale.
    pub fn new(
        api_version: impl Into<SmolStr>,
        replicas: impl IntoIterator<Item = (SmolStr, Option<Vec<SmolStr>>)>,
    ) -> Self {
        let path = |fields: Vec<SmolStr>| Path::from_fields(fields.iter().map(SmolStr::as_str));
        Self {
            api_version: api_version.into(),
            replicas: (replicas.into_iter())
                .map(|(version, fields)| (version, fields.map(path)))
                .collect(),
        }
    }

    /// Returns the entries of the Scale of `parent`: those that own the number of replicas. `None` if there are none.
    ///
    /// # Errors
    /// Fails if the entries of the parent cannot be read.
    pub fn to_scale(&self, parent: &Value) -> Result<Option<Value>, DecodeError> {
        let parent = Managed::decode(parent, Source::Stored)?;
        let owners = parent.0.into_iter().filter_map(|(identifier, record)| {
            let path = self.path_in(&record.entry.api_version)??;
            let entry = Entry {
                api_version: SmolStr::new_static(SCALE_VERSION),
                ..record.entry
            };
            (record.set.has(path)).then(|| (identifier, Record::new(entry, replicas_of_scale())))
        });
        Ok(Managed(owners.collect()).encode_list())
    }

    /// Transfers the ownership of the number of replicas from the entries of `scale` to those of `parent`: managers
    /// that lost or gained it there lose or gain it here.
    ///
    /// # Errors
    /// Fails if the entries of either object cannot be read.
    pub fn to_parent(&self, parent: &mut Value, scale: &Value) -> Result<(), DecodeError> {
        let mut scale = Managed::decode(scale, Source::Stored)?.0;
        let mut managed = Managed::decode(parent, Source::Stored)?;
        managed.0.retain(|identifier, record| {
            // Entries of versions that no longer exist are dropped.
            let Some(path) = self.path_in(&record.entry.api_version) else {
                return false;
            };
            let Some(path) = path.filter(|path| record.set.has(path)) else {
                return true;
            };
            if scale.remove(identifier).is_some() {
                return true;
            }
            record.set = record.set.difference(&Set::from_iter([path.clone()]));
            !record.set.is_empty()
        });
        let path = self.path_in(&self.api_version).flatten();
        for (identifier, record) in scale {
            let Some(path) = path.filter(|_| record.set.has(&replicas_in_scale())) else {
                continue;
            };
            let entry = Entry {
                api_version: self.api_version.clone(),
                // The reference looks up the time among the parent's entries, in which an entry of the Scale has none.
                time: None,
                ..record.entry
            };
            let record = Record::new(entry, Set::from_iter([path.clone()]));
            managed.0.insert(identifier, record);
        }
        managed.encode_into(parent);
        Ok(())
    }

    fn path_in(&self, api_version: &str) -> Option<Option<&Path>> {
        self.replicas
            .iter()
            .find(|(version, _)| version == api_version)
            .map(|(_, path)| path.as_ref())
    }
}

fn replicas_in_scale() -> Path {
    Path::from_fields(["spec", "replicas"])
}

fn replicas_of_scale() -> Set {
    Set::from_iter([replicas_in_scale()])
}
