//! Creations: runs are repeated until one of them is stored.

use std::sync::Arc;

use holdfast_value::Value;
use holdfast_writes::{Target, check_has_no_version, check_namespace, metadata};

use super::commit::{Destination, Failure, store};
use super::environment::{lookup, stage};
use super::freshness::Freshness;
use super::parent_guard::ParentGuards;
use super::provision;
use super::reservations;
use super::size_limit::drop_managed_fields;
use super::write_result::WriteResult;
use crate::http::{ApiError, TakenName};
use crate::objects::{self, Entry};
use crate::write::Context;

/// Creates `object`, which is decoded, typed and defaulted.
///
/// # Errors
/// If the write is rejected; the error is the one that the client gets.
pub(crate) async fn create(context: &Arc<Context>, target: Target, mut object: Value) -> Result<WriteResult, ApiError> {
    check_namespace(&mut object, &target.namespace)?;
    metadata::wipe(&mut object);
    let seen = Freshness::note(context, &target).await?;
    let outcome = create_until_stored(context, &target, &object).await;
    seen.confirm(context, &target, outcome, || {
        create_until_stored(context, &target, &object)
    })
    .await
}

async fn create_until_stored(context: &Arc<Context>, target: &Target, object: &Value) -> Result<WriteResult, ApiError> {
    let mut drops_managed_fields = false;
    loop {
        target.check_deadline()?;
        let snapshot = context.shared.store.newest();
        if context.admission.provides_namespaces()
            && provision::provide(context, target, metadata::name(object), &snapshot).await?
        {
            continue;
        }
        let object = object.clone();
        let lookup = lookup(context, target.registry.outside_run(), &snapshot);
        let stage = stage(context, target, &lookup);
        let mut staged = stage.create(object).await?;
        if drops_managed_fields {
            drop_managed_fields(target, &mut staged, None);
        }
        let outcome = reservations::reserve(context, &stage, target, &snapshot, &staged.object, None);
        let reservations = outcome.map_err(|rejected| rejected.with_warnings(staged.warnings.clone()))?;
        let key = target.key(metadata::name(&staged.object));
        if !target.request.dry_run
            && let Err(error) = check_has_no_version(&staged.object)
        {
            return Err(ApiError::from(error).with_warnings(staged.warnings));
        }
        if let Some(existing) = snapshot.get(key.as_bytes()) {
            return Err(already_exists(target, existing, &staged.object).with_warnings(staged.warnings));
        }
        if target.request.dry_run {
            return Ok(WriteResult::of_dry_run(staged, true));
        }
        let parents = ParentGuards::new(target, metadata::name(&staged.object), &snapshot)?;
        let destination = Destination {
            key,
            existing: None,
            parents,
            limit: context.size_limit,
        };
        match store(context, target, destination, staged, reservations).await {
            Ok(written) => return Ok(written),
            // Another write created the object, or a parent is being deleted; the next run finds this.
            Err(Failure::Lost) => {}
            Err(Failure::TooLarge(_)) if !drops_managed_fields => drops_managed_fields = true,
            Err(Failure::TooLarge(error) | Failure::Rejected(error)) => return Err(error),
        }
    }
}

/// Returns the error for a new object whose name the object `existing` has already.
fn already_exists(target: &Target, existing: &Entry, object: &Value) -> ApiError {
    let prefix = object.str_at(&["metadata", "generateName"]);
    let taken = TakenName {
        name: objects::name_of_key(existing.key()),
        deleting: objects::tree(existing).at(&["metadata", "deletionTimestamp"]).is_some(),
        generated: prefix.is_some_and(|prefix| !prefix.is_empty()),
    };
    ApiError::already_exists(&target.resource.group_resource(), &taken)
}

#[cfg(test)]
mod tests {
    use super::super::delete;
    use super::super::testing::{CONFIG, World, rejection};
    use super::*;

    #[tokio::test]
    async fn a_name_that_is_taken_is_refused() {
        let world = World::new();
        world.create(CONFIG).await;
        let taken = (409, "configmaps \"a\" already exists".to_owned());
        assert_eq!(rejection(world.try_create(CONFIG).await), taken);
        let mut target = world.target(CONFIG, "");
        target.request.dry_run = true;
        let dry = create(&world.context, target, world.object(CONFIG)).await;
        assert_eq!(rejection(dry), taken, "a dry run says so as well");
    }

    #[tokio::test]
    async fn a_name_is_taken_until_its_object_is_gone() {
        let world = World::new();
        let held = CONFIG.replace("name: a", "name: a, finalizers: [a.io/b]");
        world.create(&held).await;
        let deleted = delete(&world.context, world.target(CONFIG, ""), Default::default()).await;
        assert!(deleted.is_ok_and(|written| !written.removed));
        assert_eq!(
            rejection(world.try_create(CONFIG).await).1,
            "object is being deleted: configmaps \"a\" already exists"
        );
    }

    #[tokio::test]
    async fn a_dry_run_stores_nothing() {
        let world = World::new();
        let mut target = world.target(CONFIG, "");
        target.request.dry_run = true;
        let written = create(&world.context, target, world.object(CONFIG)).await.ok().unwrap();
        assert!(written.created && world.entry(CONFIG).is_none());
    }

    #[tokio::test]
    async fn a_new_object_has_no_version_unless_it_is_not_stored() {
        let world = World::new();
        let versioned = CONFIG.replace("name: a", "name: a, resourceVersion: '7'");
        assert_eq!(
            rejection(world.try_create(&versioned).await),
            (
                500,
                "resourceVersion should not be set on objects to be created".to_owned()
            )
        );
        let mut target = world.target(CONFIG, "");
        target.request.dry_run = true;
        assert!(create(&world.context, target, world.object(&versioned)).await.is_ok());
    }

    #[tokio::test]
    async fn an_object_is_created_in_the_namespace_of_the_address() {
        let world = World::new();
        let elsewhere = CONFIG.replace("name: a", "name: a, namespace: other");
        let (code, _) = rejection(world.try_create(&elsewhere).await);
        assert_eq!(code, 400);
    }
}
