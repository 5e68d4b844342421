//! The stored objects that controllers read, parsed on demand.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_resource::Resource;
use holdfast_store::{Revision, table_by_segments};
use holdfast_value::Value;

use super::{Client, RequestError};
use crate::http::ApiError;
use crate::objects::{self, Entry, Snapshot};

/// An object in one stored state. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Object {
    entry: Arc<Entry>,
}

impl Object {
    pub(super) fn new(entry: &Arc<Entry>) -> Self {
        Self {
            entry: Arc::clone(entry),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        objects::name_of_key(self.entry.key())
    }

    /// Returns the namespace, given the object's resource; empty if it has none.
    pub fn namespace(&self, resource: &Resource) -> &str {
        objects::namespace_of_key(resource, self.entry.key())
    }

    /// Returns the revision at which it was written: its resource version.
    pub fn revision(&self) -> Revision {
        self.entry.mod_revision()
    }

    /// Returns true if this is an object of `resource`.
    pub fn is_of(&self, resource: &Resource) -> bool {
        let storage = resource.storage.as_ref();
        storage.is_some_and(|storage| self.entry.key().starts_with(storage.prefix.as_bytes()))
    }

    /// Returns the object as JSON in its storage version, without parsing.
    pub fn bytes(&self) -> Bytes {
        self.entry.bytes_once()
    }

    /// Returns the parsed object in its storage version.
    pub fn tree(&self) -> Value {
        objects::tree(&self.entry)
    }

    /// Returns the part of the object's key that identifies its resource.
    #[expect(clippy::indexing_slicing, reason = "the table of a key is a beginning of it")]
    fn prefix(&self) -> &str {
        let key = self.entry.key();
        std::str::from_utf8(&key[..table_by_segments(key)]).unwrap_or_default()
    }
}

/// The objects at one moment.
pub struct Objects {
    snapshot: Snapshot,
    prefix: String,
}

impl Objects {
    pub(super) fn new(snapshot: Snapshot, prefix: String) -> Self {
        Self { snapshot, prefix }
    }

    /// Returns the objects, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = Object> + '_ {
        self.after(None)
    }

    /// Returns the objects after `last`, in the order of their keys; all objects if it is `None`.
    pub fn after(&self, last: Option<&Object>) -> impl Iterator<Item = Object> + '_ {
        let range = match last {
            Some(last) => self.snapshot.range_after(self.prefix.as_bytes(), last.entry.key()),
            None => self.snapshot.range(self.prefix.as_bytes()),
        };
        range.filter(|entry| !objects::is_unreadable(entry)).map(Object::new)
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.snapshot.count(self.prefix.as_bytes())
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Client {
    /// Returns the current object of that name, if it can be read.
    pub fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Object> {
        let key = resource.storage.as_ref()?.key(namespace, name);
        self.service
            .context
            .shared
            .store
            .for_key(key.as_bytes())
            .snapshot()
            .get(key.as_bytes())
            .filter(|entry| !objects::is_unreadable(entry))
            .map(Object::new)
    }

    /// Returns true if an object of that name is stored and cannot be read, for example because no key decrypts it.
    /// [`Client::get`] returns `None` for it, but it exists.
    pub fn is_unreadable(&self, resource: &Resource, namespace: &str, name: &str) -> bool {
        let Some(storage) = &resource.storage else { return false };
        let key = storage.key(namespace, name);
        let snapshot = self.service.context.shared.store.for_key(key.as_bytes()).snapshot();
        snapshot
            .get(key.as_bytes())
            .is_some_and(|entry| objects::is_unreadable(entry))
    }

    /// Returns the current objects of a resource in `namespace`, or in all namespaces if it is empty.
    pub fn list(&self, resource: &Resource, namespace: &str) -> Objects {
        let storage = resource.storage.as_ref();
        // A resource that is not stored has no objects, and no key begins with a zero byte.
        let prefix = storage.map_or_else(|| "\0".to_owned(), |storage| storage.namespace_prefix(namespace));
        let store = self.service.context.shared.store.for_key(prefix.as_bytes());
        Objects::new(store.snapshot(), prefix)
    }

    /// Returns the most recent revision of the store that holds the objects of a resource: later calls of
    /// [`Client::list`] return no older state.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn latest_revision(&self, resource: &Resource) -> Result<Revision, RequestError> {
        let (context, prefix) = (&self.service.context, objects::key_prefix(resource).as_bytes());
        let store = &context.shared.store;
        let latest = store.latest_with(prefix).await;
        latest.map_err(|error| RequestError::from(ApiError::from(error)))?;
        Ok(store.for_key(prefix).revision())
    }

    /// Returns the resource of an object; `None` if it is no longer served.
    pub fn resource_of(&self, object: &Object) -> Option<Arc<Resource>> {
        self.registry().stored_below(object.prefix()).cloned()
    }
}
