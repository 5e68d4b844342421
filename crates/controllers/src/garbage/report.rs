//! Telling of owner references that reach into another namespace, which nothing can be said about but that they are wrong
//! (<https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents>).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_server::loopback::Client;
use holdfast_value::Value;
use memchr::memmem;
use parking_lot::Mutex;
use smol_str::SmolStr;

use super::graph::Place;
use super::uid::Uid;
use super::uid_of;

/// How many owners and references are remembered as looked into.
const REMEMBERED: usize = 4096;

/// Makes events of owner references that reach into another namespace.
#[derive(Clone)]
pub(super) struct Report {
    client: Client,
    known: Arc<Mutex<Known>>,
}

/// What was looked into already.
#[derive(Default)]
struct Known {
    /// The namespaces in which owners are, if they are in any. Thousands of dependents may have lost one owner.
    owners: HashMap<Uid, Option<SmolStr>>,
    /// Dependents and owners of which was told.
    told: HashSet<(Uid, Uid)>,
}

impl Report {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
        }
    }

    /// The event that tells that the owner of a reference, which is not where it should be, is in another namespace.
    pub(super) fn event(&self, dependent: &Value, place: &Place, reference: &Value, owner: &Resource) -> Option<Value> {
        let owner_uid = reference.str_at(&["uid"]).filter(|_| owner.namespaced())?;
        let uid = Uid::new(owner_uid);
        let mut known = self.known.lock();
        if known.owners.len() >= REMEMBERED || known.told.len() >= REMEMBERED {
            *known = Known::default();
        }
        let namespace = known
            .owners
            .entry(uid.clone())
            .or_insert_with(|| self.namespace_of(owner, owner_uid));
        let elsewhere = namespace
            .as_ref()
            .is_some_and(|namespace| *namespace != place.namespace);
        let told = elsewhere && known.told.insert((uid_of(dependent), uid));
        told.then(|| event(dependent, place, reference, &self.client.now()))
    }

    /// The namespace in which the object of that uid is.
    fn namespace_of(&self, resource: &Resource, uid: &str) -> Option<SmolStr> {
        let objects = self.client.list(resource, "");
        let wanted = Uid::new(uid);
        let search = memmem::Finder::new(uid.as_bytes());
        // The search spares the parsing of nearly all objects.
        let mut found = objects.iter().filter(|object| search.find(object.bytes()).is_some());
        let found = found.find(|object| uid_of(&object.tree()) == wanted)?;
        Some(found.namespace(resource).into())
    }

    /// Sends an event. It is told for the benefit of people, and nothing waits for it.
    pub(super) async fn send(&self, event: &Value) {
        let namespace = event.str_at(&["metadata", "namespace"]).unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/events");
        if let Err(error) = self.client.create(&path, event).await {
            tracing::debug!(%error, "an event was lost");
        }
    }
}

fn event(dependent: &Value, place: &Place, reference: &Value, now: &str) -> Value {
    let text = |object: &Value, keys: &[&str]| object.str_at(keys).unwrap_or_default().to_owned();
    let message = format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace \"{}\"",
        text(reference, &["apiVersion"]),
        text(reference, &["kind"]),
        place.namespace,
        text(reference, &["name"]),
        text(reference, &["uid"]),
        place.namespace,
    );
    let namespace = if place.namespace.is_empty() {
        "default"
    } else {
        &place.namespace
    };
    let mut event = Value::empty_map();
    for (path, value) in [
        (&["apiVersion"][..], "v1".to_owned()),
        (&["kind"], "Event".to_owned()),
        (&["metadata", "namespace"], namespace.to_owned()),
        (&["metadata", "generateName"], format!("{}.", place.name)),
        (&["involvedObject", "apiVersion"], text(dependent, &["apiVersion"])),
        (&["involvedObject", "kind"], text(dependent, &["kind"])),
        (&["involvedObject", "namespace"], place.namespace.to_string()),
        (&["involvedObject", "name"], place.name.to_string()),
        (&["involvedObject", "uid"], text(dependent, &["metadata", "uid"])),
        (&["type"], "Warning".to_owned()),
        (&["reason"], "OwnerRefInvalidNamespace".to_owned()),
        (&["message"], message),
        (&["source", "component"], super::NAME.to_owned()),
        (&["firstTimestamp"], now.to_owned()),
        (&["lastTimestamp"], now.to_owned()),
    ] {
        event.set_at(path, value.into());
    }
    event.set_at(&["count"], Value::Int(1));
    event
}
