//! The garbage collector: objects without existing owners are deleted, and owners wait for their dependents or orphan
//! them, as requested by their deletion (<https://kubernetes.io/docs/concepts/architecture/garbage-collection/>).
//!
//! All changes of all resources are watched, but an object that has no owner and is not being deleted is not even
//! parsed: a search of its bytes detects this. The collector keeps only the graph of owners and dependents
//! (`graph.rs`). Each decision (`decision.rs`) uses the current objects, and is executed on the condition that they
//! have not changed meanwhile.

mod collector;
mod decision;
mod graph;
mod owners;
mod report;
mod uid;

use holdfast_server::operations::loopback::{Change, Changes, Client, Lost, Object, Objects};
use holdfast_value::Value;
use memchr::memmem::Finder;

use crate::queue::Queue;
use crate::reconcile::{self, Reconcile, Work};
use collector::Collector;
use decision::{FOREGROUND, ORPHAN, finalizers};
use graph::{Dying, Graph, ObjectRef, ObservedObject, ObservedOwner, Task};
use owners::Looks;
use uid::Uid;

/// The name of this controller.
pub(crate) const NAME: &str = "garbage-collector-controller";

/// Runs the controller until the server ends.
pub(crate) async fn run(client: Client) {
    let controller = GarbageCollector {
        client: client.clone(),
        collector: Collector::new(client.clone()),
        graph: Graph::default(),
        owned: Finder::new("\"ownerReferences\":["),
        ending: Finder::new("\"deletionTimestamp\":\""),
    };
    reconcile::run(client, controller).await;
}

struct GarbageCollector {
    client: Client,
    collector: Collector,
    graph: Graph,
    /// Pattern that objects with owners contain. Text within a string cannot match, because its quotes are escaped.
    owned: Finder<'static>,
    /// Pattern that objects being deleted contain.
    ending: Finder<'static>,
}

impl GarbageCollector {
    fn is_owned(&self, object: &Object) -> bool {
        self.owned.find(&object.bytes()).is_some()
    }

    fn concerns_us(&self, object: &Object) -> bool {
        let bytes = object.bytes();
        self.owned.find(&bytes).is_some() || self.ending.find(&bytes).is_some()
    }

    /// Records an object.
    fn note(&mut self, object: &Object, queue: &mut Queue<Task>) {
        let Some(resource) = self.client.resource_of(object) else {
            return;
        };
        let tree = object.tree();
        let place = ObjectRef {
            resource: self.collector.shared(resource.group_resource()),
            namespace: object.namespace(&resource).into(),
            name: object.name().into(),
        };
        let references = tree
            .at(&["metadata", "ownerReferences"])
            .and_then(Value::as_list)
            .into_iter()
            .flat_map(|list| list.iter());
        let owners: Vec<ObservedOwner> = references
            .map(|reference| ObservedOwner {
                uid: Uid::new(reference.str_at(&["uid"]).unwrap_or_default()),
                place: self.collector.place_of_owner(reference, &place),
                blocks: reference.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true),
            })
            .collect();
        let seen = ObservedObject {
            uid: uid_of(&tree),
            place,
            owners,
            dying: dying(&tree),
        };
        let (collector, mut looks) = (&self.collector, Looks::default());
        let tasks = self.graph.see(seen, &mut |place, uid| {
            let occupant = looks.occupant(place, || collector.occupant(place));
            occupant.is_some_and(|occupant| occupant.uid == *uid)
        });
        tasks.into_iter().for_each(|task| queue.push(task));
    }

    /// Checks a dependent.
    fn check(&self, uid: &Uid) -> Option<Work<()>> {
        let place = self.graph.doubtful(uid)?.clone();
        let found = self.collector.get(&place)?;
        let (tree, resource) = (found.object.tree(), found.resource);
        // An object that is being deleted is not checked; with foreground deletion it is removed after its dependents.
        if uid_of(&tree) != *uid || is_ending(&tree) {
            return None;
        }
        let (owns, circle) = (self.graph.is_owner(uid), self.graph.is_in_circle(uid));
        self.collector.work(&resource, &place, tree, owns, circle)
    }

    /// Does the work that an object being deleted waits for.
    fn end(&self, uid: &Uid) -> Option<Work<()>> {
        let (place, dying) = self.graph.dying(uid)?.clone();
        if dying == Dying::Foreground && self.graph.is_blocked(uid) {
            return None;
        }
        let forgetful = match dying {
            Dying::Foreground => Vec::new(),
            Dying::Orphan => self.graph.dependents_of(uid),
        };
        let (collector, uid) = (self.collector.clone(), uid.clone());
        Some(Box::pin(async move {
            for (dependent, at) in forgetful {
                collector.forget(&dependent, &at, &uid).await?;
            }
            let finalizer = match dying {
                Dying::Foreground => FOREGROUND,
                Dying::Orphan => ORPHAN,
            };
            collector.release(&uid, &place, finalizer).await
        }))
    }
}

impl Reconcile for GarbageCollector {
    type Item = Task;
    type Outcome = ();

    const NAME: &'static str = NAME;
    const QUEUE: &'static str = "garbage_collector_attempt_to_delete";
    const PARALLEL: usize = 20;

    fn watch(&mut self, client: &Client) -> Result<(Objects, Changes), Lost> {
        self.graph = Graph::default();
        client.watch_everything()
    }

    fn seen(&mut self, object: &Object, queue: &mut Queue<Task>) {
        if self.concerns_us(object) {
            self.note(object, queue);
        }
    }

    fn changed(&mut self, change: &Change, queue: &mut Queue<Task>) {
        let object = change.current();
        if change.is_removal() {
            if !self.graph.is_empty() {
                let tasks = self.graph.remove(&uid_of(&object.tree()));
                tasks.into_iter().for_each(|task| queue.push(task));
            }
            return;
        }
        let was_owned = || change.previous().is_some_and(|previous| self.is_owned(&previous));
        if self.concerns_us(&object) || was_owned() {
            self.note(&object, queue);
        }
    }

    fn work(&mut self, task: &Task, _queue: &mut Queue<Task>) -> Option<Work<()>> {
        match task {
            Task::Check(uid) => self.check(uid),
            Task::End(uid) => self.end(uid),
        }
    }
}

fn uid_of(object: &Value) -> Uid {
    Uid::new(object.str_at(&["metadata", "uid"]).unwrap_or_default())
}

fn is_ending(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some()
}

/// Returns the work of the collector before the object is deleted.
fn dying(object: &Value) -> Option<Dying> {
    is_ending(object).then(|| decision::dying(finalizers(object))).flatten()
}
