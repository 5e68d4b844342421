//! Selection of the objects of a resource for a list or a watch.

use std::sync::Arc;

use holdfast_resource::selector::LabelSelector;
use holdfast_resource::{FieldSelector, Resource, selectable_fields};
use holdfast_value::{Map, SmolStr, Value};
use prometheus::IntCounter;

use super::authorized::AuthorizedObjects;
use super::sharding::{ShardField, ShardSelector};
use super::{Entry, UID, is_unreadable, name_of_key, namespace_of_key, tree, uid};

/// The name and namespace of an object.
#[derive(Clone, Copy)]
struct Identity<'o> {
    name: &'o str,
    namespace: &'o str,
}

impl<'o> Identity<'o> {
    fn of_key(resource: &Resource, key: &'o [u8]) -> Self {
        Self {
            name: name_of_key(key),
            namespace: namespace_of_key(resource, key),
        }
    }
}

/// Selection of the objects of a resource for a list or a watch.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// By labels.
    pub labels: LabelSelector,
    /// By fields.
    pub fields: FieldSelector,
    /// By name, if the path names one object.
    pub name: Option<SmolStr>,
    /// By the permissions of the user.
    pub(crate) authorized: Option<Arc<AuthorizedObjects>>,
    /// By shard.
    pub(crate) shard: Option<ShardSelector>,
    /// Counter of the objects that are in other shards, for a watch.
    pub(crate) passed_over: Option<IntCounter>,
}

impl Selection {
    /// Returns true if every object is selected.
    pub fn is_everything(&self) -> bool {
        self.is_every_attribute() && self.shard.is_none()
    }

    /// Returns true if every object is selected, or every object of a shard.
    pub(crate) fn is_every_attribute(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none() && self.authorized.is_none()
    }

    /// Returns true if the permissions of the user include the object with this key. Nothing about other objects may
    /// appear in an answer, errors included.
    pub(crate) fn may_show(&self, resource: &Resource, key: &[u8]) -> bool {
        self.authorized.as_ref().is_none_or(|authorized| {
            let Identity { name, namespace } = Identity::of_key(resource, key);
            authorized.contains(namespace, name)
        })
    }

    /// Returns true if an object is in the shard. Calls `uid` only if the uid decides.
    fn is_in_shard(&self, namespace: &str, uid: impl FnOnce() -> SmolStr) -> bool {
        let Some(shard) = &self.shard else { return true };
        let is_in = match shard.field {
            ShardField::Uid => shard.matches(&uid()),
            ShardField::Namespace => shard.matches(namespace),
        };
        if let Some(passed_over) = self.passed_over.as_ref().filter(|_| !is_in) {
            passed_over.inc();
        }
        is_in
    }

    /// Returns true if the stored object is selected.
    pub fn selects(&self, resource: &Resource, entry: &Entry) -> bool {
        if is_unreadable(entry) {
            return false;
        }
        if self.is_everything() {
            return true;
        }
        let index = entry.index();
        // An entry that was indexed under another CRD may lack fields, or hold them without their defaults.
        let anew = (!self.fields.is_empty() && !index.is_current(resource)).then(|| fields_anew(resource, entry));
        let identity = Identity::of_key(resource, entry.key());
        // Only the object itself holds the uid, so it is read last.
        self.matches(identity, &index.labels, anew.as_ref().unwrap_or(&index.fields))
            && self.is_in_shard(identity.namespace, || uid(entry))
    }

    /// Returns true if the stored object is selected, given the object as `converted` to the requested version: a
    /// webhook may set labels of its own.
    pub fn selects_converted(&self, resource: &Resource, entry: &Entry, converted: &Value) -> bool {
        if is_unreadable(entry) {
            return false;
        }
        if self.is_everything() {
            return true;
        }
        let identity = Identity::of_key(resource, entry.key());
        self.is_in_shard(identity.namespace, || uid_of(converted)) && self.matches_tree(resource, identity, converted)
    }

    /// Returns true if an object that is not stored is selected.
    pub fn selects_tree(&self, resource: &Resource, object: &Value) -> bool {
        let text = |field| object.str_at(&["metadata", field]).unwrap_or_default();
        let identity = Identity {
            name: text("name"),
            namespace: text("namespace"),
        };
        self.is_everything() || self.matches_tree(resource, identity, object)
    }

    fn matches_tree(&self, resource: &Resource, identity: Identity<'_>, object: &Value) -> bool {
        let none = Map::default();
        let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map);
        let fields = selectable_fields(resource, object);
        self.matches(identity, labels.unwrap_or(&none), &fields)
    }

    fn matches(&self, identity: Identity<'_>, labels: &Map, fields: &[(SmolStr, SmolStr)]) -> bool {
        let Identity { name, namespace } = identity;
        if let Some(authorized) = &self.authorized
            && !authorized.contains(namespace, name)
        {
            return false;
        }
        if self.name.as_ref().is_some_and(|wanted| wanted != name) {
            return false;
        }
        self.fields.matches(|field| match field {
            "metadata.name" => name,
            "metadata.namespace" => namespace,
            _ => {
                let found = fields.iter().find(|(known, _)| known == field);
                found.map(|(_, text)| text.as_str()).unwrap_or_default()
            }
        }) && self.labels.matches(|key| labels.get(key).and_then(Value::as_str))
    }
}

fn uid_of(object: &Value) -> SmolStr {
    object.str_at(&UID).unwrap_or_default().into()
}

/// Returns the selectable fields of a custom object by the current CRD.
fn fields_anew(resource: &Resource, entry: &Entry) -> Vec<(SmolStr, SmolStr)> {
    let stored = tree(entry);
    let api_version = resource
        .storage
        .as_ref()
        .map_or("", |storage| storage.api_version.as_str());
    let converted = resource.convert(stored.clone(), api_version);
    selectable_fields(resource, &converted.unwrap_or(stored))
}
