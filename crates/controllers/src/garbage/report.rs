//! Telling of owner references that reach into another namespace, which nothing can be said about but that they are wrong
//! (<https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents>).

use std::collections::HashSet;
use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_server::loopback::Client;
use holdfast_value::Value;
use memchr::memmem;
use parking_lot::Mutex;

use super::graph::Place;
use super::uid::Uid;
use super::uid_of;

/// How many references are remembered as looked into.
const REMEMBERED: usize = 4096;

/// Makes events of owner references that reach into another namespace.
#[derive(Clone)]
pub(super) struct Report {
    client: Client,
    /// Dependents and owners that were looked into already.
    known: Arc<Mutex<HashSet<(Uid, Uid)>>>,
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
        let owner_uid = reference.str_at(&["uid"])?;
        let pair = (uid_of(dependent), Uid::new(owner_uid));
        {
            let mut known = self.known.lock();
            if known.len() >= REMEMBERED {
                known.clear();
            }
            if !owner.namespaced() || !known.insert(pair.clone()) {
                return None;
            }
        }
        let elsewhere = self.client.list(owner, "").iter().any(|object| {
            // The search spares the parsing of nearly all objects.
            memmem::find(object.bytes(), owner_uid.as_bytes()).is_some()
                && uid_of(&object.tree()) == pair.1
                && object.namespace(owner) != place.namespace
        });
        elsewhere.then(|| event(dependent, place, reference, &self.client.now()))
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
