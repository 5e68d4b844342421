//! Deletes the custom objects of a CRD that is being deleted. The CRD keeps its finalizer until none is left.
//!
//! No server stores a new object after the deletion of the CRD began (`server/src/write/parent_guard.rs`), so a list
//! that is read after that contains all objects that can ever exist.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use super::crds;
use crate::apiserver::MANAGER;
use crate::conditions::{self, Condition};
use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_gone;

/// Finalizer that protects a CRD until its objects are deleted.
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Delay before a CRD is checked again after one of its objects was removed.
const PROGRESS: Duration = Duration::from_millis(200);

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let Some(crds) = crds(&client) else {
        return;
    };
    let controller = Cleanup {
        client: client.clone(),
        crds,
        waiting: HashSet::new(),
    };
    reconcile::run(client, controller).await;
}

struct Cleanup {
    client: Client,
    crds: Arc<Resource>,
    /// CRDs whose objects are being deleted.
    waiting: HashSet<SmolStr>,
}

impl Reconcile for Cleanup {
    type Item = SmolStr;
    type Outcome = ();

    const NAME: &'static str = "custom-resource-cleanup";
    const QUEUE: &'static str = "crd_finalizer";
    const PARALLEL: usize = 5;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        let (_, changes) = client.watch_everything()?;
        Ok((client.list(&self.crds, ""), changes))
    }

    fn seen(&mut self, object: &Object, queue: &mut Queue<SmolStr>) {
        if memchr::memmem::find(&object.bytes(), b"\"deletionTimestamp\":").is_some() {
            queue.push(object.name().into());
        }
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        if object.is_of(&self.crds) {
            if change.is_removal() {
                self.waiting.remove(object.name());
            } else {
                self.seen(&object, queue);
            }
        } else if change.is_removal()
            && !self.waiting.is_empty()
            && let Some(resource) = self.client.resource_of(&object)
            && let Some(crd) = &resource.crd
            && self.waiting.contains(&crd.name)
        {
            queue.push_at(crd.name.clone(), Instant::now() + PROGRESS);
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<()>> {
        let stored = self.client.get(&self.crds, "", name)?;
        let (crd, revision) = (stored.tree(), stored.revision());
        if crd.at(&["metadata", "deletionTimestamp"]).is_none() || !has_finalizer(&crd) {
            self.waiting.remove(name);
            return None;
        }
        self.waiting.insert(name.clone());
        let (client, crds, name) = (self.client.clone(), Arc::clone(&self.crds), name.clone());
        let deleted = Deleted { name, crd, revision };
        Some(Box::pin(async move { end(&client, &crds, deleted).await }))
    }
}

fn has_finalizer(crd: &Value) -> bool {
    let finalizers = crd.at(&["metadata", "finalizers"]).and_then(Value::as_list);
    finalizers.is_some_and(|list| list.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER)))
}

/// A CRD that is being deleted.
struct Deleted {
    name: SmolStr,
    crd: Value,
    /// The revision of the CRD.
    revision: u64,
}

/// Deletes the objects of a CRD and, when none is left, removes its finalizer.
async fn end(client: &Client, crds: &Resource, deleted: Deleted) -> Result<(), RequestError> {
    let Deleted {
        name,
        mut crd,
        revision,
    } = deleted;
    let Some(path) = path_of(crds, "", &name) else {
        return Ok(());
    };
    // Otherwise the resource could be unknown here although another server has stored objects of it.
    client.wait_for_crds(revision).await?;
    let named = client.resource(
        crd.str_at(&["spec", "group"]).unwrap_or_default(),
        crd.str_at(&["spec", "names", "plural"]).unwrap_or_default(),
    );
    // Another owner may have a resource of that name: it may be built in, or belong to an earlier CRD.
    let resource = named.filter(|named| {
        let defined = named.crd.as_ref();
        defined.is_some_and(|defined| defined.name == name)
    });
    let mut failure = None;
    if let Some(resource) = &resource {
        let objects = client.list(resource, "");
        let begun = conditions::find(&crd, "Terminating")
            .and_then(|condition| condition.str_at(&["reason"]))
            .is_some_and(|reason| reason == "InstanceDeletionInProgress");
        if !begun && !objects.is_empty() {
            let condition = Condition {
                of: "Terminating",
                holds: true,
                reason: "InstanceDeletionInProgress",
                message: "CustomResource deletion is in progress",
            };
            conditions::set(&mut crd, condition, &client.now());
            crd = write_status(client, &path, &crd).await?;
        }
        for object in objects.iter() {
            let namespace = object.namespace(resource);
            match client.delete_stored(resource, namespace, object.name()).await {
                Err(error) if !error.is_not_found() => failure = Some(error),
                _ => {}
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if !client.list(resource, "").is_empty() {
            return Ok(());
        }
    }
    let (reason, message) = match overlaps_built_in(&crd) {
        true => (
            "OverlappingBuiltInResource",
            "instances overlap with built-in resources in storage",
        ),
        false => ("InstanceDeletionCompleted", "removed all instances"),
    };
    let condition = Condition {
        of: "Terminating",
        holds: false,
        reason,
        message,
    };
    conditions::set(&mut crd, condition, &client.now());
    if let Some(finalizers) = crd.at_mut(&["metadata", "finalizers"]).and_then(Value::as_list_mut) {
        finalizers
            .make_mut()
            .retain(|finalizer| finalizer.as_str() != Some(FINALIZER));
    }
    // One write, as in the reference. Without finalizers the CRD is removed by it; otherwise it waits for the others.
    unless_gone(write_status(client, &path, &crd).await)
}

/// Returns true if the objects of the CRD would be stored where those of a built-in resource are. Deleting them
/// would delete built-in objects.
///
/// upstream: k8s.io/apiextensions-apiserver/pkg/controller/finalizer#OverlappingBuiltInResources
fn overlaps_built_in(crd: &Value) -> bool {
    let group = crd.str_at(&["spec", "group"]);
    let plural = crd.str_at(&["spec", "names", "plural"]);
    matches!(
        (group, plural),
        (Some("apiregistration.k8s.io"), Some("apiservices"))
            | (Some("apiextensions.k8s.io"), Some("customresourcedefinitions"))
    )
}

async fn write_status(client: &Client, path: &str, crd: &Value) -> Result<Value, RequestError> {
    let path = format!("{path}/status?fieldManager={MANAGER}");
    client.update(&path, crd).await
}
