//! All versions of all objects in the order of their revisions, with the invariants of each version.

use std::collections::BTreeMap;

use bytes::Bytes;
use holdfast_server::objects::{Objects, Store};
use holdfast_store::{EventKind, HistoryError, Revision, Watcher};
use serde_json::Value;

use super::server::{Answer, Call};
use crate::world::{Violation, ensure};

/// Prefix of the keys of ConfigMaps.
pub(super) const CONFIG_MAPS: &str = "/registry/configmaps/";
const NAMESPACES: &str = "/registry/namespaces/";
/// Name of the objects that count.
pub(super) const COUNTER: &str = "counter";

/// One version of an object.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) revision: Revision,
    pub(super) key: String,
    pub(super) deleted: bool,
    pub(super) created: bool,
    bytes: Bytes,
}

impl Version {
    pub(super) fn object(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}

/// The versions of all objects, over all processes.
#[derive(Default)]
pub(super) struct History {
    versions: Vec<Version>,
    /// Position of the newest version of each existing object.
    existing: BTreeMap<String, usize>,
    revision: Revision,
    recorder: Option<Watcher<Objects>>,
}

impl History {
    /// Continues with the store of the next process, which must contain every known version.
    pub(super) fn reopen(&mut self, store: &Store) -> Result<(), Violation> {
        let (revision, oldest) = (store.revision(), store.oldest_revision());
        self.revision = self.revision.max(1);
        ensure!(
            revision >= self.revision,
            "revisions go back from {} to {revision}",
            self.revision
        );
        let watched = store.watch("", self.revision);
        self.recorder = Some(watched.map_err(|error| Violation::new(format!("history from {oldest}: {error}")))?);
        self.observe(store)?;
        self.compare(store)
    }

    /// Adds the versions that are new in the store.
    pub(super) fn observe(&mut self, store: &Store) -> Result<(), Violation> {
        loop {
            let Some(recorder) = &mut self.recorder else {
                return Ok(());
            };
            let event = match recorder.try_next() {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(HistoryError::Compacted { .. }) => {
                    return Err(Violation::new("events were trimmed before the next step"));
                }
                Err(error) => return Err(Violation::new(error.to_string())),
            };
            let version = Version {
                revision: event.revision(),
                key: event.key().to_string(),
                deleted: event.kind() == EventKind::Delete,
                created: event.previous().is_none(),
                bytes: event.current().bytes().clone(),
            };
            let previous = event.previous().map_or(0, |entry| entry.mod_revision());
            self.append(version, previous)?;
        }
        ensure!(
            store.revision() == self.revision,
            "the store is at revision {}, its events end at {}",
            store.revision(),
            self.revision
        );
        Ok(())
    }

    /// Compares the existing objects with those of the store.
    pub(super) fn compare(&self, store: &Store) -> Result<(), Violation> {
        let snapshot = store.snapshot();
        ensure!(
            snapshot.count(b"") == self.existing.len(),
            "the store has {} objects instead of {}",
            snapshot.count(b""),
            self.existing.len()
        );
        for entry in snapshot.range(b"") {
            let key = entry.key().to_string();
            let version = self.newest(&key);
            ensure!(
                version.is_some_and(|version| version.bytes == *entry.bytes()),
                "{key} at {} is not {version:?}",
                entry.mod_revision()
            );
        }
        Ok(())
    }

    fn append(&mut self, version: Version, previous: Revision) -> Result<(), Violation> {
        let revision = version.revision;
        ensure!(
            revision == self.revision + 1 || revision == self.revision && revision > 1,
            "an event of revision {revision} follows revision {}",
            self.revision
        );
        let before = self.newest(&version.key);
        let known = before.map_or(0, |before| before.revision);
        ensure!(
            known == previous,
            "an event of {} at {revision} follows revision {previous} instead of {known}",
            version.key
        );
        if version.key.starts_with(CONFIG_MAPS) {
            self.check_version(&version, before)?;
        }
        self.revision = revision;
        if version.deleted {
            self.existing.remove(&version.key);
        } else {
            self.existing.insert(version.key.clone(), self.versions.len());
        }
        self.versions.push(version);
        Ok(())
    }

    /// Checks the invariants of a ConfigMap's version.
    fn check_version(&self, version: &Version, before: Option<&Version>) -> Result<(), Violation> {
        let object = version.object();
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let key = &version.key;
        ensure!(
            text("/metadata/resourceVersion") == version.revision.to_string(),
            "{key} at {} has the resource version {}",
            version.revision,
            text("/metadata/resourceVersion")
        );
        check_managers(key, &object)?;
        let previous = before.map(Version::object).unwrap_or_default();
        let is_deleting = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
        ensure!(
            version.deleted || !is_deleting(&previous) || is_deleting(&object),
            "the deletion of {key} was undone at {}",
            version.revision
        );
        // The event of a removal shows the object as it was stored, as in the reference: with its last finalizers.
        let finalizers = previous.pointer("/metadata/finalizers").and_then(Value::as_array);
        ensure!(
            !version.deleted || is_deleting(&previous) || finalizers.is_none_or(Vec::is_empty),
            "{key} was removed at {} with the finalizers {finalizers:?} before its deletion began",
            version.revision
        );
        if version.created {
            let namespace = text("/metadata/namespace");
            let owner = self.newest(&format!("{NAMESPACES}{namespace}")).map(Version::object);
            ensure!(
                owner.is_some_and(|owner| !is_deleting(&owner)),
                "{key} was created at {} in a namespace that is absent or being deleted",
                version.revision
            );
        } else if text("/metadata/name") == COUNTER && !version.deleted {
            let count = |object: &Value| {
                let text = object.pointer("/data/count").and_then(Value::as_str);
                text.and_then(|text| text.parse::<u64>().ok()).unwrap_or_default()
            };
            ensure!(
                count(&object) == count(&previous) + 1,
                "an increment of {key} is lost: {} follows {} at {}",
                count(&object),
                count(&previous),
                version.revision
            );
        }
        Ok(())
    }

    /// Checks that the version in the answer to a successful write is in the history.
    pub(super) fn check_answer(&self, call: &Call, answer: &Answer) -> Result<(), Violation> {
        let version = answer.text("/metadata/resourceVersion");
        let is_object = answer.body.pointer("/metadata/uid").is_some();
        if answer.code >= 300 || call.method == "GET" || !is_object {
            return Ok(());
        }
        let revision = version.parse::<Revision>().unwrap_or_default();
        let name = answer.text("/metadata/name");
        let is_there = self.at(revision).any(|found| found.key.ends_with(&format!("/{name}")));
        ensure!(
            is_there,
            "the answer to {call:?} is {name} at {version}, which is not in the store"
        );
        Ok(())
    }

    fn at(&self, revision: Revision) -> impl Iterator<Item = &Version> {
        let from = self.versions.partition_point(|version| version.revision < revision);
        let rest = self.versions.get(from..).unwrap_or_default();
        rest.iter().take_while(move |version| version.revision == revision)
    }

    /// Returns the newest version of an existing object.
    pub(super) fn newest(&self, key: &str) -> Option<&Version> {
        self.versions.get(*self.existing.get(key)?)
    }

    /// Returns the keys of the existing objects.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.existing.keys().map(String::as_str)
    }

    /// Returns the current revision.
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns `NAMESPACE/NAME@VERSION` of the objects with a prefix that existed at a revision, in the order of their
    /// keys.
    pub(super) fn state_at(&self, revision: Revision, prefix: &str) -> Vec<String> {
        let until = self.versions.partition_point(|version| version.revision <= revision);
        let mut state = BTreeMap::new();
        for version in self.versions.iter().take(until) {
            let Some(name) = version.key.strip_prefix(prefix) else {
                continue;
            };
            match version.deleted {
                true => state.remove(name),
                false => state.insert(name, version.revision),
            };
        }
        state
            .iter()
            .map(|(name, version)| format!("{name}@{version}"))
            .collect()
    }

    /// Returns the versions after a revision, in order.
    pub(super) fn after(&self, revision: Revision) -> &[Version] {
        let from = self.versions.partition_point(|version| version.revision <= revision);
        self.versions.get(from..).unwrap_or_default()
    }

    /// Returns the versions of an object from the one at `revision` on.
    pub(super) fn versions_since<'a>(&'a self, key: &'a str, revision: Revision) -> impl Iterator<Item = &'a Version> {
        let of_key = move |version: &&Version| version.key == key;
        let at = self.versions.partition_point(|version| version.revision <= revision);
        let (earlier, later) = self.versions.split_at(at);
        let current = earlier.iter().rev().find(of_key);
        current.into_iter().chain(later.iter().filter(of_key))
    }
}

/// Checks that field managers own only fields that exist.
fn check_managers(key: &str, object: &Value) -> Result<(), Violation> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    for entry in entries.into_iter().flatten() {
        for field in data_fields(entry) {
            ensure!(
                object.pointer(&format!("/data/{field}")).is_some(),
                "{} owns the field {field} of {key}, which does not exist",
                entry["manager"]
            );
        }
    }
    Ok(())
}

/// Returns the names of the fields of `data` that an entry of the managed fields owns.
pub(super) fn data_fields(entry: &Value) -> Vec<&str> {
    let fields = entry.pointer("/fieldsV1/f:data").and_then(Value::as_object);
    let names = fields.into_iter().flat_map(|fields| fields.keys());
    names.filter_map(|name| name.strip_prefix("f:")).collect()
}
