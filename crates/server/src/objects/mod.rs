//! Stored objects: their encoding, and the index that is kept with their bytes in memory.
//!
//! The embedded store keeps objects as the JSON that is served, in their storage version. kube-apiserver keeps built-in
//! kinds as protobuf. Here a write encodes once, and the disk, the cache, the response and every watcher share those
//! bytes; a second form would cost each write a second encoding and each start a decoding of everything. Keys are those
//! of kube-apiserver. Only `metadata.resourceVersion` is missing from the stored bytes: it is known when the write is
//! done, so the store inserts it then.

mod authorized;
pub mod claims;
pub mod crd_registry;
mod encoded_events;
mod encoding;
pub mod expiry;
pub(crate) mod informers;
pub mod lookup;
pub(crate) mod noop_applies;
mod selection;
pub(crate) mod sharding;
mod trees;

pub(crate) use authorized::AuthorizedObjects;
pub(crate) use encoded_events::{Converted, EventForm, EventType};
pub use encoded_events::{EncodedEvent, EventCache};
pub(crate) use encoding::write_in_order;
pub use encoding::{
    encode, encode_answer, encode_with_suffix, is_of_version, list_item, metadata_place, without_managed_fields,
};
pub use selection::Selection;
pub use trees::Trees;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use holdfast_resource::{Registry, Resource, selectable_fields};
use holdfast_schema::StoredFacts;
use holdfast_schema::metadata::formats;
use holdfast_schema::types::OWNED_FIELDS;
use holdfast_store::{CodecError, Completion, Indexer, Key, StoredForm, Transaction};
use holdfast_value::json::Selected;
use holdfast_value::{Limits, Map, SmolStr, Value, json};
use parking_lot::Mutex;

use self::noop_applies::{Fingerprint, NoopApplies, NoopApply};
use crate::http::ApiError;

/// A stored object as it is served.
pub type Entry = holdfast_store::Entry<Objects>;
/// The objects at one revision.
pub type Snapshot = holdfast_store::Snapshot<Objects>;
/// The store of all objects.
pub type Store = holdfast_store::Store<Objects>;

/// The index of an object, with which selectors need no parsing.
#[derive(Debug, Default)]
pub struct Index {
    labels: Map,
    /// The selectable fields beyond name and namespace, with their text.
    fields: Vec<(SmolStr, SmolStr)>,
    /// True if the object cannot be read.
    unreadable: bool,
    /// True if the object is being deleted.
    terminating: bool,
    /// Facts that this process found when it stored the object.
    facts: StoredFacts,
    /// Serial of the CRD whose form the object is known to have; 0 for built-in kinds, and if it is unknown.
    crd_serial: AtomicU64,
    /// The parsed object, while it is cached; see [`Index::remember`].
    tree: Mutex<Option<Value>>,
    /// The applies that are known to change nothing.
    noop_applies: Mutex<Option<Box<NoopApplies>>>,
}

impl Index {
    /// Returns the index of an object in its storage version. Resources that share the object's key each contribute
    /// their fields.
    pub fn for_object<'a>(resources: impl Iterator<Item = &'a Arc<Resource>>, object: &Value) -> Self {
        let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map).cloned();
        let mut fields = Vec::new();
        for resource in resources {
            fields.extend(selectable_fields(resource, object));
        }
        Self {
            labels: labels.unwrap_or_default(),
            fields,
            unreadable: false,
            terminating: object.at(&["metadata", "deletionTimestamp"]).is_some(),
            facts: StoredFacts::UNPROVEN,
            crd_serial: AtomicU64::new(0),
            tree: Mutex::new(None),
            noop_applies: Mutex::new(None),
        }
    }

    /// Adds facts about the object to the index.
    #[must_use]
    pub fn with_facts(self, facts: StoredFacts) -> Self {
        Self { facts, ..self }
    }

    /// Returns the facts about the object; none if this process did not store it.
    pub fn facts(&self) -> StoredFacts {
        self.facts
    }

    /// Returns true if the object is known to have the form in which the resource serves it in its storage version. An
    /// object of a built-in kind always has it.
    fn is_current(&self, resource: &Resource) -> bool {
        self.crd_serial.load(Ordering::Relaxed) == resource.serial()
    }

    fn set_current(&self, resource: &Resource) {
        self.crd_serial.store(resource.serial(), Ordering::Relaxed);
    }

    /// Returns the labels.
    pub fn labels(&self) -> &Map {
        &self.labels
    }

    /// Returns true if the object is being deleted: it has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// Caches the parsed object for the next reader.
    pub fn remember(&self, tree: Value) {
        *self.tree.lock() = Some(tree);
    }

    /// Drops the cached object.
    pub fn forget(&self) {
        *self.tree.lock() = None;
    }

    /// Remembers an apply that changed nothing.
    pub(crate) fn remember_apply(&self, apply: NoopApply) {
        self.noop_applies.lock().get_or_insert_default().insert(apply);
    }

    /// Returns the warnings of an apply that is known to change nothing in the state of `snapshot`.
    pub(crate) fn noop_warnings(
        &self,
        fingerprint: impl FnOnce() -> Fingerprint,
        resource: &Arc<Resource>,
        snapshot: &Snapshot,
    ) -> Option<Vec<String>> {
        if self.noop_applies.lock().is_none() {
            return None;
        }
        // Hashing a long text is slow, so no lock is held meanwhile.
        let fingerprint = fingerprint();
        let applies = self.noop_applies.lock();
        applies.as_ref()?.warnings(fingerprint, resource, snapshot)
    }

    /// Returns true if the parsed object is cached.
    pub fn is_remembered(&self) -> bool {
        self.tree.lock().is_some()
    }

    /// Returns the parsed object, if it is cached.
    pub fn remembered(&self) -> Option<Value> {
        self.tree.lock().clone()
    }
}

/// Indexer of stored objects, by the descriptors of their resources.
pub struct Objects {
    registry: Arc<ArcSwap<Registry>>,
    /// Prefixes of the keys of objects with claims. Only built-in resources have any, so that the list never changes.
    claiming: Vec<SmolStr>,
}

impl Objects {
    /// Creates an indexer for the resources that `registry` has at the time an index is made.
    pub fn new(registry: Arc<ArcSwap<Registry>>) -> Self {
        let claiming = claims::prefixes(&registry.load());
        Self { registry, claiming }
    }
}

impl Indexer for Objects {
    type Index = Index;
    type Encodings = EncodedEvent;

    fn index(&self, key: &Key, value: &[u8]) -> Index {
        let registry = self.registry.load();
        match json::parse(value, &Limits::TRUSTED) {
            Ok(object) => Index::for_object(registry.stored_around(key).iter(), &object),
            Err(error) => {
                // The engine has already reported objects that its codec cannot decode.
                if CodecError::of_placeholder(value).is_none() {
                    tracing::error!(%key, %error, "stored object cannot be read");
                }
                Index {
                    unreadable: true,
                    ..Index::default()
                }
            }
        }
    }
}

impl Completion for Objects {
    fn complete(&self, transaction: Transaction<Self>, state: &Snapshot, is_shared: bool) -> Transaction<Self> {
        claims::complete(&self.registry.load(), transaction, state, is_shared)
    }

    fn has_claims(&self, key: &[u8]) -> bool {
        self.claiming.iter().any(|prefix| key.starts_with(prefix.as_bytes()))
    }
}

/// Returns the index of an object that is about to be stored. `api_version` is the version in which the object was
/// made.
pub fn index_of(registry: &Registry, resource: &Resource, object: &Value, api_version: &str) -> Index {
    let prefix = key_prefix(resource);
    if !resource.conventions.form_changes {
        return Index::for_object(registry.stored_at(prefix).iter(), object);
    }
    let index = Index {
        fields: selectable_fields(resource, object),
        ..Index::for_object(std::iter::empty(), object)
    };
    let stored_as_made = resource.storage.as_ref().is_some_and(|storage| {
        storage.api_version == api_version && object.str_at(&["apiVersion"]) == Some(api_version)
    });
    // An object that was made in another version may lack defaults of this one.
    if stored_as_made {
        index.set_current(resource);
    }
    index
}

/// Returns true if the stored bytes are the object as the resource serves it in `api_version`. Custom objects that were
/// stored under an older CRD, or before the start of the server, are checked once.
pub fn serves_stored_bytes(resource: &Resource, api_version: &str, entry: &Entry) -> bool {
    let stored_so = resource
        .storage
        .as_ref()
        .is_some_and(|storage| storage.api_version == api_version);
    if !stored_so || !resource.conventions.form_changes {
        return stored_so;
    }
    let index = entry.index();
    if index.is_current(resource) {
        return true;
    }
    let stored = tree(entry);
    let current = resource
        .convert(stored.clone(), api_version)
        .is_ok_and(|converted| converted == stored);
    if current {
        index.set_current(resource);
    }
    current
}

/// Rejects names under which no object of the resource can be stored: the empty name, and names with a meaning in
/// paths.
///
/// # Errors
/// If the name is one of these (400).
pub(crate) fn check_key(resource: &Resource, namespace: &str, name: &str) -> Result<(), ApiError> {
    formats::check_key(resource.namespaced(), namespace, name).map_err(ApiError::bad_request)
}

/// Returns the key prefix of the objects of a resource; empty if it stores none.
pub(crate) fn key_prefix(resource: &Resource) -> &str {
    resource.storage.as_ref().map_or("", |storage| storage.prefix.as_str())
}

/// Returns the name of the object that is stored at `key`.
#[expect(clippy::indexing_slicing, reason = "the place was found in this very key")]
pub fn name_of_key(key: &[u8]) -> &str {
    let start = key.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    std::str::from_utf8(&key[start..]).unwrap_or_default()
}

/// Returns the namespace of the object that is stored at `key`; empty if its resource is cluster-scoped.
#[expect(clippy::indexing_slicing, reason = "the place was found in this very key")]
pub fn namespace_of_key<'a>(resource: &Resource, key: &'a [u8]) -> &'a str {
    let rest = key.get(key_prefix(resource).len()..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or_default();
    std::str::from_utf8(&rest[..end]).unwrap_or_default()
}

/// Returns true if a stored object cannot be read, as far as this is visible without parsing it. Lists and watches
/// leave the object out, so that they can serve the others.
///
/// Only a bug of the server or a change of the file from outside causes this; the store checks its own bytes.
pub fn is_unreadable(entry: &Entry) -> bool {
    // Its index decides if the first and last bytes are not those of an object.
    match entry.known_index() {
        Some(index) => index.unreadable,
        None => {
            let whole = matches!(entry.bytes_once()[..], [b'{', b'"', .., b'}']);
            !whole && entry.index().unreadable
        }
    }
}

/// Returns the tree of a stored object that is requested by name.
///
/// # Errors
/// If it cannot be read (500 with its key).
pub fn tree_or_rejection(entry: &Entry) -> Result<Value, ApiError> {
    if let Some(tree) = entry.known_index().and_then(Index::remembered) {
        return Ok(tree);
    }
    let bytes = entry.bytes_once();
    json::parse_deferring(&bytes, &Limits::TRUSTED, OWNED_FIELDS).map_err(|error| {
        if let Err(untransformable) = check_transformable(entry) {
            return untransformable;
        }
        match CodecError::of_placeholder(&bytes) {
            Some(why) => unreadable(entry, &why),
            None => unreadable(entry, &error),
        }
    })
}

/// Rejects a stored object that is known to be unreadable.
///
/// # Errors
/// If it is unreadable (500 with its key).
pub fn check_readable(entry: &Entry) -> Result<(), ApiError> {
    if is_unreadable(entry) {
        tree_or_rejection(entry)?;
    }
    Ok(())
}

/// Rejects a stored object that the engine cannot transform, for example because no key decrypts it. A list without the
/// object would show it as absent.
///
/// # Errors
/// If it cannot be transformed (500 with its key).
pub(crate) fn check_transformable(entry: &Entry) -> Result<(), ApiError> {
    if entry.form() != StoredForm::UNREADABLE {
        return Ok(());
    }
    let bytes = entry.bytes_once();
    let why = CodecError::of_untransformable(&bytes).unwrap_or_default();
    Err(ApiError::unclassified(why))
}

fn unreadable(entry: &Entry, why: &dyn std::fmt::Display) -> ApiError {
    ApiError::unclassified(format!(
        "StorageError: corrupt object, Code: 7, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: object not decodable \
         revision={}: {why}",
        entry.key(),
        entry.mod_revision()
    ))
}

/// Adds the resource version to `tree`, which is otherwise the content of `entry`.
pub(crate) fn at_revision(mut tree: Value, entry: &Entry) -> Value {
    let revision = entry.mod_revision().to_string();
    tree.set_at(&["metadata", "resourceVersion"], revision.into());
    tree
}

/// Returns the tree of a stored object; null if it cannot be read.
pub fn tree(entry: &Entry) -> Value {
    readable(entry).unwrap_or_default()
}

/// Returns the uid of a stored object without reading the rest of it; empty if it cannot be read.
pub(crate) fn uid(entry: &Entry) -> SmolStr {
    let mut selected = Selected::nothing();
    selected.add(UID.into_iter());
    let parsed = json::parse_selected(&entry.bytes_once(), &selected);
    let cut = parsed.unwrap_or_else(|| tree(entry));
    cut.str_at(&UID).unwrap_or_default().into()
}

/// Path of the uid in an object.
const UID: [&str; 2] = ["metadata", "uid"];

/// Returns the tree of a stored object, if it can be read.
pub fn readable(entry: &Entry) -> Option<Value> {
    tree_or_rejection(entry).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_keys() {
        assert_eq!(name_of_key(b"/registry/pods/default/web"), "web");
        assert_eq!(name_of_key(b"/registry/namespaces/default"), "default");
    }
}
