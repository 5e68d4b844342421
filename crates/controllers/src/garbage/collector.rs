//! Reads owners and executes decisions.

use std::collections::HashSet;
use std::sync::Arc;

use holdfast_resource::Resource;
use holdfast_schema::{GroupKind, GroupResource};
use holdfast_server::http::negotiation::PatchType;
use holdfast_server::operations::loopback::{Client, Object, RequestError, path_of};
use holdfast_value::Value;
use parking_lot::Mutex;

use super::decision::{Decision, OwnerState, decision, finalizers};
use super::graph::ObjectRef;
use super::owners::{AbsentOwners, Looks, Occupant};
use super::report::Report;
use super::uid::Uid;
use super::{dying, uid_of};
use crate::reconcile::Work;
use crate::rejection::unless_gone;

/// Number of owners after which the task yields to others.
const RUN: usize = 256;

/// Access to the objects, to read and to change them.
#[derive(Clone)]
pub(super) struct Collector {
    client: Client,
    /// Resource names that references share.
    resources: Arc<Mutex<HashSet<Arc<GroupResource>>>>,
    absent: AbsentOwners,
    report: Report,
}

/// An object with its resource.
pub(super) struct Found {
    pub(super) object: Object,
    pub(super) resource: Arc<Resource>,
}

impl Collector {
    pub(super) fn new(client: Client) -> Self {
        Self {
            report: Report::new(client.clone()),
            resources: Arc::default(),
            absent: AbsentOwners::default(),
            client,
        }
    }

    /// Returns the shared copy of the resource name.
    pub(super) fn shared(&self, resource: GroupResource) -> Arc<GroupResource> {
        let mut resources = self.resources.lock();
        if let Some(known) = resources.get(&resource) {
            return Arc::clone(known);
        }
        let resource = Arc::new(resource);
        resources.insert(Arc::clone(&resource));
        resource
    }

    /// Returns the object with this reference.
    pub(super) fn get(&self, place: &ObjectRef) -> Option<Found> {
        let resource = self.client.registry().resource(&place.resource).cloned()?;
        let object = self.client.get(&resource, &place.namespace, &place.name)?;
        Some(Found { object, resource })
    }

    /// Resolves the owner reference of the object `dependent`: the owner is in the same namespace, or cluster-scoped.
    /// `None` if the kind is not served, or if a cluster-scoped object names a namespaced owner.
    pub(super) fn place_of_owner(&self, reference: &Value, dependent: &ObjectRef) -> Option<ObjectRef> {
        let resource = self.resource_of_owner(reference)?;
        if resource.namespaced() && dependent.namespace.is_empty() {
            return None;
        }
        Some(ObjectRef {
            resource: self.shared(resource.group_resource()),
            namespace: if resource.namespaced() {
                dependent.namespace.clone()
            } else {
                Default::default()
            },
            name: reference.str_at(&["name"]).unwrap_or_default().into(),
        })
    }

    fn resource_of_owner(&self, reference: &Value) -> Option<Arc<Resource>> {
        let api_version = reference.str_at(&["apiVersion"])?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = GroupKind {
            group: group.into(),
            kind: reference.str_at(&["kind"])?.into(),
        };
        let resource = self.client.registry().kind(&kind).cloned()?;
        resource.version(version).is_some().then_some(resource)
    }

    /// Returns the work for the dependent `tree` at `place`.
    pub(super) fn work(
        &self,
        resource: &Resource,
        place: &ObjectRef,
        tree: Value,
        owns: bool,
        circle: bool,
    ) -> Option<Work<()>> {
        let references = tree
            .at(&["metadata", "ownerReferences"])
            .and_then(Value::as_list)?
            .to_vec();
        let path = path_of(resource, &place.namespace, &place.name)?;
        let (collector, place) = (self.clone(), place.clone());
        Some(Box::pin(async move {
            let states = collector.states(&references, &place).await;
            collector.report_misplaced(&tree, &place, &references, &states).await;
            let decision = decision(&states, &finalizers(&tree).collect::<Vec<_>>(), owns, circle);
            act_on(collector.client, path, tree, references, decision).await
        }))
    }

    /// Determines the states of the owners that a dependent names. Yields to other dependents meanwhile.
    async fn states(&self, references: &[Value], dependent: &ObjectRef) -> Vec<OwnerState> {
        let mut looks = Looks::default();
        let mut states = Vec::with_capacity(references.len());
        for run in references.chunks(RUN) {
            states.extend(
                run.iter()
                    .map(|reference| self.standing(reference, dependent, &mut looks)),
            );
            if run.len() == RUN {
                tokio::task::yield_now().await;
            }
        }
        states
    }

    fn standing(&self, reference: &Value, dependent: &ObjectRef, looks: &mut Looks) -> OwnerState {
        let Some(place) = self.place_of_owner(reference, dependent) else {
            return match self.resource_of_owner(reference) {
                Some(_) => OwnerState::Invalid,
                None => OwnerState::Unknown,
            };
        };
        // Its uid is unknown, so it may be the owner.
        if self.is_unreadable(&place) {
            return OwnerState::Unknown;
        }
        let uid = Uid::new(reference.str_at(&["uid"]).unwrap_or_default());
        let at = place.clone();
        self.absent.standing(uid, place, looks, || self.occupant(&at))
    }

    /// Returns true if an object with this reference exists and cannot be read.
    fn is_unreadable(&self, place: &ObjectRef) -> bool {
        let registry = self.client.registry();
        let resource = registry.resource(&place.resource);
        resource.is_some_and(|resource| self.client.is_unreadable(resource, &place.namespace, &place.name))
    }

    /// Returns the object that currently has this reference.
    pub(super) fn occupant(&self, place: &ObjectRef) -> Option<Occupant> {
        let tree = self.get(place)?.object.tree();
        Some(Occupant {
            uid: uid_of(&tree),
            dying: dying(&tree),
        })
    }

    /// Reports owners that are not where the references place them, if they exist elsewhere.
    async fn report_misplaced(&self, tree: &Value, place: &ObjectRef, references: &[Value], states: &[OwnerState]) {
        let missing = references
            .iter()
            .zip(states)
            .filter(|(_, standing)| matches!(standing, OwnerState::Dangling | OwnerState::Invalid))
            .filter_map(|(reference, _)| Some((reference, self.resource_of_owner(reference)?)));
        self.report.emit(tree, place, missing.collect()).await;
    }

    /// Removes the references to `owner` from a dependent.
    pub(super) async fn forget(&self, dependent: &Uid, place: &ObjectRef, owner: &Uid) -> Result<(), RequestError> {
        let Some(Found { object, resource }) = self.get(place) else {
            // An object that cannot be read keeps its reference, and would be deleted once it can be read.
            return match self.is_unreadable(place) {
                true => Err(retry_later(format!("{} {} cannot be read", place.resource, place.name))),
                false => Ok(()),
            };
        };
        let tree = object.tree();
        let references = tree
            .at(&["metadata", "ownerReferences"])
            .and_then(Value::as_list)
            .map(|list| list.to_vec())
            .unwrap_or_default();
        let others: Vec<Value> = references
            .iter()
            .filter(|reference| {
                let uid = reference.str_at(&["uid"]).unwrap_or_default();
                Uid::new(uid) != *owner
            })
            .cloned()
            .collect();
        let path = path_of(&resource, &place.namespace, &place.name);
        let Some(path) = path.filter(|_| uid_of(&tree) == *dependent && others.len() < references.len()) else {
            return Ok(());
        };
        patch(&self.client, &path, &tree, "ownerReferences", others).await
    }

    /// Removes a finalizer. The object is then deleted unless it has another finalizer.
    pub(super) async fn release(&self, uid: &Uid, place: &ObjectRef, finalizer: &str) -> Result<(), RequestError> {
        let Some(Found { object, resource }) = self.get(place) else {
            return Ok(());
        };
        let tree = object.tree();
        let held = finalizers(&tree).any(|held| held == finalizer);
        let path = path_of(&resource, &place.namespace, &place.name);
        let Some(path) = path.filter(|_| held && uid_of(&tree) == *uid) else {
            return Ok(());
        };
        let others = finalizers(&tree)
            .filter(|held| *held != finalizer)
            .map(Value::from)
            .collect();
        patch(&self.client, &path, &tree, "finalizers", others).await
    }
}

/// Returns the error with which a task is tried again later.
fn retry_later(message: String) -> RequestError {
    RequestError {
        code: 404,
        reason: Default::default(),
        message,
    }
}

/// Executes a decision.
async fn act_on(
    client: Client,
    path: String,
    tree: Value,
    references: Vec<Value>,
    decision: Decision,
) -> Result<(), RequestError> {
    match decision {
        Decision::Keep => Ok(()),
        Decision::Later => Err(retry_later(format!(
            "an owner of {path} has a kind that is not served, or cannot be read"
        ))),
        Decision::Detach(gone) => {
            let gone: HashSet<usize> = gone.into_iter().collect();
            let kept = references
                .into_iter()
                .enumerate()
                .filter(|(at, _)| !gone.contains(at))
                .map(|(_, reference)| reference);
            patch(&client, &path, &tree, "ownerReferences", kept.collect()).await
        }
        Decision::Delete { policy, unblock } => {
            if unblock {
                let mut references = references;
                for reference in &mut references {
                    reference.set_at(&["blockOwnerDeletion"], Value::Bool(false));
                }
                patch(&client, &path, &tree, "ownerReferences", references).await?;
                return delete(&client, &path, &tree, policy, false).await;
            }
            delete(&client, &path, &tree, policy, true).await
        }
    }
}

/// Replaces the list `key` of the metadata, unless the object has changed since it was `tree`.
async fn patch(client: &Client, path: &str, tree: &Value, key: &str, items: Vec<Value>) -> Result<(), RequestError> {
    let version = tree.at(&["metadata", "resourceVersion"]).cloned().unwrap_or_default();
    let items = if items.is_empty() { Value::Null } else { items.into() };
    let mut patch = Value::empty_map();
    patch.set_at(&["metadata", "resourceVersion"], version);
    patch.set_at(&["metadata", key], items);
    unless_gone(client.patch(path, PatchType::Merge, &patch).await)
}

/// Deletes an object, unless it was replaced by another one, or has changed although it must be `as_it_was`.
async fn delete(
    client: &Client,
    path: &str,
    tree: &Value,
    policy: &'static str,
    as_it_was: bool,
) -> Result<(), RequestError> {
    let mut options = Value::empty_map();
    options.set_at(&["kind"], "DeleteOptions".into());
    options.set_at(&["apiVersion"], "v1".into());
    options.set_at(&["propagationPolicy"], policy.into());
    for key in ["uid", "resourceVersion"] {
        if key == "uid" || as_it_was {
            let value = tree.at(&["metadata", key]).cloned().unwrap_or_default();
            options.set_at(&["preconditions", key], value);
        }
    }
    tracing::debug!(path, policy, "deleting an object whose owners are gone");
    unless_gone(client.delete(path, &options).await)
}
