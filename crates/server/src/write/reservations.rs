//! Reservations of a write: the statuses of resource quotas that are stored together with it.

use std::sync::Arc;

use holdfast_admission::Reservation;
use holdfast_resource::Operation;
use holdfast_schema::types::TypeTable;
use holdfast_store::{CommitError, Committed, Transaction};
use holdfast_value::Value;
use holdfast_writes::{Stage, Target, metadata, update_as};
use tokio::time::Instant;

use super::commit::Failure;
use super::turns::Turn;
use crate::http::ApiError;
use crate::objects::{self, Entry, Index, Objects, Snapshot};
use crate::write::Context;

/// An object whose status changes together with a write.
pub(super) struct Reserved {
    key: String,
    existing: Arc<Entry>,
    object: Value,
    target: Target,
}

/// Returns the reservations of a write that replaces `existing` with `object`.
///
/// # Errors
/// If too little is left; the error is the one that the client gets.
pub(super) fn reserve(
    context: &Context,
    stage: &Stage<'_>,
    target: &Target,
    snapshot: &Snapshot,
    object: &Value,
    existing: Option<&Arc<Entry>>,
) -> Result<Vec<Reserved>, ApiError> {
    let name = metadata::name(object);
    let operation = match existing {
        Some(_) => Operation::Update,
        None => Operation::Create,
    };
    let call = stage.call(operation, name);
    let read = existing.map(|existing| || objects::tree(existing));
    let old = read.as_ref().map(|read| read as &dyn Fn() -> Value);
    let reservations = context
        .admission
        .reserve(&call, object, old)
        .map_err(|rejection| stage.rejection(rejection, name))?;
    reservations
        .into_iter()
        .map(|reserve| Reserved::new(context, target, snapshot, reserve))
        .collect()
}

impl Reserved {
    fn new(context: &Context, write: &Target, snapshot: &Snapshot, reserve: Reservation) -> Result<Self, ApiError> {
        let Reservation { resource, mut object } = reserve;
        let (registry, now) = (write.registry.outside_run(), *write.request.now.outside_run());
        let missing = || ApiError::internal(format!("{resource} has no status"));
        let reserved = registry.resource(&resource).ok_or_else(missing)?;
        let server = Target::of_server(registry, reserved, "status", now).ok_or_else(missing)?;
        let target = server.at_object(&object);
        let storage = reserved.storage.as_ref().ok_or_else(missing)?;
        let key = storage.key(&target.namespace, &target.name);
        let existing = snapshot.get(key.as_bytes()).ok_or_else(missing)?;
        update_as(
            &context.field_managers,
            &target,
            now,
            Some(&objects::tree(existing)),
            &mut object,
        );
        Ok(Self {
            key,
            existing: Arc::clone(existing),
            object,
            target,
        })
    }

    /// Returns the key of the object that is charged.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Returns the charged object, encoded for the store, with its index.
    pub(super) fn encoded(&self, types: &TypeTable) -> (holdfast_store::Value, Index) {
        (objects::encode(types, &self.object), self.index())
    }

    fn has_changed(&self, snapshot: &Snapshot) -> bool {
        let now = snapshot.get(self.key.as_bytes());
        now.map(|entry| entry.mod_revision()) != Some(self.existing.mod_revision())
    }

    fn index(&self) -> Index {
        let (registry, resource) = (self.target.registry.outside_run(), &self.target.resource);
        objects::index_of(registry, resource, &self.object, &self.target.api_version)
    }

    fn add_to(&self, types: &TypeTable, transaction: Transaction<Objects>) -> Transaction<Objects> {
        transaction
            .guard(self.key.as_str(), self.existing.mod_revision())
            .put_indexed(self.key.as_str(), objects::encode(types, &self.object), self.index())
    }
}

/// Commits the transaction of `write` together with `reservations`. Writers that reserve from the same objects wait for
/// each other. If such an object changed meanwhile, `reserve` computes the reservations from the newer state and the
/// write itself stays the same. It also stays the same if another key that it depends on changed and `renew` returns
/// that this is harmless.
pub(super) async fn commit(
    context: &Context,
    deadline: Option<Instant>,
    mut reservations: Vec<Reserved>,
    write: impl Fn() -> Transaction<Objects>,
    reserve: impl Fn(&Snapshot) -> Result<Vec<Reserved>, ApiError>,
    renew: impl Fn(&[u8], &Snapshot) -> bool,
) -> Result<Committed<Objects>, Failure> {
    let turns = turns(context, deadline, &reservations)
        .await
        .map_err(Failure::Rejected)?;
    if !turns.is_empty() {
        let snapshot = context.shared.store.newest();
        if reservations.iter().any(|reserved| reserved.has_changed(&snapshot)) {
            reservations = reserve(&snapshot).map_err(Failure::Rejected)?;
        }
    }
    loop {
        let transaction = reservations.iter().fold(write(), |transaction, reserved| {
            reserved.add_to(context.types(), transaction)
        });
        match context.shared.store.commit(transaction).await {
            Ok(committed) => {
                // The write itself comes first.
                for (reserved, entry) in reservations.into_iter().zip(committed.entries.iter().skip(1).flatten()) {
                    context.trees.remember(entry, reserved.object, Some(&reserved.existing));
                }
                return Ok(committed);
            }
            Err(CommitError::GuardFailed { key, .. }) => {
                let snapshot = context.shared.store.newest();
                if reservations
                    .iter()
                    .any(|reserved| reserved.key.as_bytes() == key.as_bytes())
                {
                    reservations = reserve(&snapshot).map_err(Failure::Rejected)?;
                } else if !renew(key.as_bytes(), &snapshot) {
                    return Err(Failure::Lost);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for the turns of a write at the objects that it reserves from. All writes wait for them in the same order.
async fn turns<'a>(
    context: &'a Context,
    deadline: Option<Instant>,
    reservations: &[Reserved],
) -> Result<Vec<Turn<'a>>, ApiError> {
    let mut keys: Vec<&str> = reservations.iter().map(|reserved| reserved.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut turns = Vec::with_capacity(keys.len());
    for key in keys {
        turns.push(context.turns.take(key, deadline).await?);
    }
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CONFIG, World, rejection, stored};
    use super::*;

    const QUOTA: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}}";

    /// Creates a world with a quota of this many config maps.
    async fn world(places: usize) -> World {
        let plugins = holdfast_admission_plugins::plugins();
        let quota = plugins.into_iter().filter(|plugin| plugin.name() == "ResourceQuota");
        let world = World::with_plugins(quota.collect());
        world.create(QUOTA).await;
        let status = format!("{{status: {{hard: {{configmaps: '{places}'}}, used: {{configmaps: '0'}}}}}}");
        world.patch(QUOTA, "status", &status).await;
        world
    }

    fn used(world: &World) -> String {
        let quota = objects::tree(&world.entry(QUOTA).unwrap());
        quota.str_at(&["status", "used", "configmaps"]).unwrap().to_owned()
    }

    #[tokio::test]
    async fn reservation_is_stored_with_the_write() {
        let world = world(2).await;
        let entry = world.create(CONFIG).await;
        assert_eq!(used(&world), "1");
        assert_eq!(world.entry(QUOTA).unwrap().mod_revision(), entry.mod_revision());
        world.patch(CONFIG, "", "{data: {k: '2'}}").await;
        assert_eq!(used(&world), "1", "an update takes nothing more");
    }

    #[tokio::test]
    async fn exceeded_quota_stores_nothing() {
        let world = world(0).await;
        let (code, why) = rejection(world.try_create(CONFIG).await);
        assert_eq!(code, 403);
        assert!(why.contains("exceeded quota: q, requested: configmaps=1"), "{why}");
        assert!(world.entry(CONFIG).is_none() && used(&world) == "0");
    }

    #[tokio::test]
    async fn those_who_take_at_the_same_time_take_one_after_the_other() {
        let world = world(3).await;
        let texts = ["a", "b", "c", "d"].map(|name| CONFIG.replace("name: a", &format!("name: {name}")));
        let outcomes = futures_util::future::join_all(texts.iter().map(|text| world.try_create(text))).await;
        let (stored_ones, rejected): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!((stored_ones.len(), rejected.len()), (3, 1));
        stored_ones.into_iter().for_each(|outcome| drop(stored(outcome)));
        assert_eq!(used(&world), "3");
    }
}
