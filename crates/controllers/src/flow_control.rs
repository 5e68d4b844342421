//! The mandatory and suggested flow schemas and priority levels of every server: missing ones are created, those with
//! auto-update are set to this version's content, and obsolete ones are deleted
//! (<https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#default-configuration-objects>).
//!
//! In the reference this is a part of kube-apiserver that checks the objects every minute. This controller does so too,
//! and after each change.

use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::{InitialObjects, Resource};
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_overtaken;

/// The name of this controller, and of its field manager.
pub(crate) const NAME: &str = "api-priority-and-fairness-config-producer-v1";

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Delay after which a change that no client should make is reverted.
const REVERT_DELAY: Duration = Duration::from_secs(60);

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let resource = |plural| client.resource(GROUP, plural);
    let (Some(levels), Some(schemas)) = (resource("prioritylevelconfigurations"), resource("flowschemas")) else {
        return;
    };
    let controller = Producer {
        client: client.clone(),
        resources: [levels, schemas],
    };
    reconcile::run(client, controller).await;
}

struct Producer {
    client: Client,
    resources: [Arc<Resource>; 2],
}

/// Plural name of a resource, and name of an object.
type Item = (SmolStr, SmolStr);

impl Producer {
    fn resource(&self, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|resource| resource.plural == plural)
    }

    fn kind(resource: &Resource) -> Option<&Arc<dyn InitialObjects>> {
        resource.capabilities.initial_objects.as_ref()
    }

    fn item(&self, object: &Object) -> Option<Item> {
        let resource = self.resources.iter().find(|resource| object.is_of(resource))?;
        Some((SmolStr::new(&resource.plural), object.name().into()))
    }
}

impl Reconcile for Producer {
    type Item = Item;
    type Outcome = ();

    const NAME: &'static str = NAME;
    const PARALLEL: usize = 1;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        // One history has the changes of both resources. A change before the list is processed twice, which is
        // harmless.
        let (_, changes) = client.watch_everything()?;
        let [levels, _] = &self.resources;
        Ok((client.list(levels, ""), changes))
    }

    fn seen(&mut self, level: &Object, queue: &mut Queue<Item>) {
        queue.push((SmolStr::new_static("prioritylevelconfigurations"), level.name().into()));
    }

    fn all_seen(&mut self, queue: &mut Queue<Item>) {
        let [_, schemas] = &self.resources;
        for schema in self.client.list(schemas, "").iter() {
            queue.push((SmolStr::new(&schemas.plural), schema.name().into()));
        }
        for resource in &self.resources {
            let initial = Self::kind(resource)
                .map(|kind| kind.initial_objects())
                .unwrap_or_default();
            for object in initial {
                let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
                queue.push((SmolStr::new(&resource.plural), name.into()));
            }
        }
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<Item>) {
        if let Some(item) = self.item(&change.current()) {
            queue.push_at(item, Instant::now() + REVERT_DELAY);
        }
    }

    fn work(&mut self, item: &Item, _queue: &mut Queue<Item>) -> Option<Work<()>> {
        let (plural, name) = item;
        let resource = self.resource(plural)?;
        let kind = Self::kind(resource)?;
        let named = |object: &Value| object.str_at(&["metadata", "name"]) == Some(name);
        let initial = kind.initial_objects().into_iter().find(named);
        let stored = self.client.get(resource, "", name).map(|object| object.tree());
        let (collection, path) = (path_of(resource, "", "")?, path_of(resource, "", name)?);
        let client = self.client.clone();
        let outcome: Work<Value> = match (stored, initial) {
            (None, Some(initial)) => Box::pin(async move {
                let path = format!("{collection}?fieldManager={NAME}");
                client.create(&path, &initial).await
            }),
            (Some(stored), Some(initial)) => {
                let next = kind.reconcile(&stored, &initial)?;
                Box::pin(async move {
                    let path = format!("{path}?fieldManager={NAME}");
                    client.update(&path, &next).await
                })
            }
            (Some(stored), None) if kind.is_obsolete(&stored) => {
                Box::pin(async move { client.delete(&path, &Value::empty_map()).await })
            }
            _ => return None,
        };
        // If another server was faster, its change is processed when it arrives.
        Some(Box::pin(async move { unless_overtaken(outcome.await) }))
    }
}
