//! Deletes namespaces: all their content is deleted first
//! (<https://kubernetes.io/docs/tasks/administer-cluster/namespaces/#deleting-a-namespace>).
//!
//! A namespace that is being deleted has the phase `Terminating` and the finalizer `kubernetes` in its specification.
//! Its content is deleted at once; if something remains, such as an object with finalizers, the namespace is processed
//! again when objects are removed from it.

mod conditions;
mod content;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_resource::Resource;
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects, RequestError, path_of};
use holdfast_value::{SmolStr, Value};
use tokio::time::Instant;

use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use crate::rejection::unless_gone;
use conditions::Findings;

/// The name of this controller.
pub(crate) const NAME: &str = "namespace-controller";

/// Finalizer in the specification that this controller removes.
const FINALIZER: &str = "kubernetes";

/// Interval at which the conditions of a namespace are updated while its objects are removed one by one.
const PROGRESS: Duration = Duration::from_millis(500);

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let Some(namespaces) = client.resource("", "namespaces") else {
        return;
    };
    let controller = Namespaces {
        client: client.clone(),
        namespaces,
        terminating: HashMap::new(),
    };
    reconcile::run(client, controller).await;
}

struct Namespaces {
    client: Client,
    namespaces: Arc<Resource>,
    /// Namespaces whose content is being deleted.
    terminating: HashMap<SmolStr, Progress>,
}

/// Progress of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Its content is being deleted.
    Emptying,
    /// This number of objects is left.
    Left(usize),
}

impl Namespaces {
    /// Queues a namespace that may have to be deleted.
    fn look_at(&self, namespace: &Object, queue: &mut Queue<SmolStr>) {
        if memchr::memmem::find(&namespace.bytes(), b"\"deletionTimestamp\":").is_some() {
            queue.push(namespace.name().into());
        }
    }

    /// Notes the removal of an object. If its namespace waits for that, it is queued.
    fn left(&mut self, object: &Object, queue: &mut Queue<SmolStr>) {
        let Some(resource) = self.client.resource_of(object) else {
            return;
        };
        let namespace = object.namespace(&resource);
        let Some(progress) = self.terminating.get_mut(namespace) else {
            return;
        };
        match progress {
            Progress::Left(count) if *count > 1 => {
                *count -= 1;
                queue.push_at(namespace.into(), Instant::now() + PROGRESS);
            }
            _ => queue.push(namespace.into()),
        }
    }
}

impl Reconcile for Namespaces {
    type Item = SmolStr;
    /// Number of remaining objects.
    type Outcome = usize;

    const NAME: &'static str = NAME;
    const QUEUE: &'static str = "namespace";
    const PARALLEL: usize = 10;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        let (_, changes) = client.watch_everything()?;
        // Of the existing objects only the namespaces matter. They are read after the watch began, so that no change is
        // missed.
        Ok((client.list(&self.namespaces, ""), changes))
    }

    fn seen(&mut self, object: &Object, queue: &mut Queue<SmolStr>) {
        self.look_at(object, queue);
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<SmolStr>) {
        let object = change.current();
        if object.is_of(&self.namespaces) {
            if change.is_removal() {
                self.terminating.remove(object.name());
            } else {
                self.look_at(&object, queue);
            }
        } else if change.is_removal() && !self.terminating.is_empty() {
            self.left(&object, queue);
        }
    }

    fn work(&mut self, name: &SmolStr, _queue: &mut Queue<SmolStr>) -> Option<Work<usize>> {
        let namespace = self.client.get(&self.namespaces, "", name).map(|object| object.tree());
        let Some(namespace) = namespace.filter(awaits_us) else {
            self.terminating.remove(name);
            return None;
        };
        self.terminating.insert(name.clone(), Progress::Emptying);
        let (client, resource, name) = (self.client.clone(), Arc::clone(&self.namespaces), name.clone());
        Some(Box::pin(async move { end(&client, &resource, &name, namespace).await }))
    }

    fn finished(&mut self, name: &SmolStr, left: usize, _queue: &mut Queue<SmolStr>) {
        if let Some(progress) = self.terminating.get_mut(name) {
            *progress = Progress::Left(left);
        }
    }
}

/// Returns true if a namespace is being deleted and waits for this controller.
fn awaits_us(namespace: &Value) -> bool {
    let mut finalizers = namespace
        .at(&["spec", "finalizers"])
        .and_then(Value::as_list)
        .into_iter()
        .flat_map(|list| list.iter());
    namespace.at(&["metadata", "deletionTimestamp"]).is_some()
        && finalizers.any(|finalizer| finalizer.as_str() == Some(FINALIZER))
}

/// Empties a namespace and, when nothing is left, finalizes it. Returns the number of remaining objects.
async fn end(client: &Client, namespaces: &Resource, name: &str, mut namespace: Value) -> Result<usize, RequestError> {
    let Some(path) = path_of(namespaces, "", name) else {
        return Ok(0);
    };
    let findings = content::delete(client, name).await;
    let before: Vec<Value> = namespace
        .at(&["status", "conditions"])
        .and_then(Value::as_list)
        .map(|list| list.to_vec())
        .unwrap_or_default();
    // A namespace that is empty at the first check has nothing to report.
    if !(before.is_empty() && findings.is_clear())
        && let Some(conditions) = findings.conditions(&before, &client.now())
    {
        let mut patch = Value::empty_map();
        patch.set_at(&["status", "conditions"], conditions.into());
        namespace = client
            .patch(&format!("{path}/status"), PatchType::Merge, &patch)
            .await?;
    }
    let Findings { failures, .. } = &findings;
    if let Some(failure) = failures.first() {
        return Err(failure.clone());
    }
    let left = findings.left();
    if left == 0 {
        finalize(client, &path, namespace).await?;
    }
    Ok(left)
}

/// Removes the finalizer. The namespace is then deleted unless it has another finalizer.
async fn finalize(client: &Client, path: &str, mut namespace: Value) -> Result<(), RequestError> {
    if let Some(finalizers) = namespace.at_mut(&["spec", "finalizers"]).and_then(Value::as_list_mut) {
        finalizers
            .make_mut()
            .retain(|finalizer| finalizer.as_str() != Some(FINALIZER));
    }
    unless_gone(client.update(&format!("{path}/finalize"), &namespace).await)
}
