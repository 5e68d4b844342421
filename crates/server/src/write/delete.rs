//! Deletions: runs are repeated until the object is gone or marked for deletion.

use std::borrow::Cow;
use std::sync::Arc;

use holdfast_store::{Revision, Transaction};
use holdfast_value::Value;
use holdfast_writes::{DeleteOptions, Staged, Target, Write, is_marked_first};

use super::commit::{Destination, Failure, commit_object, store};
use super::environment::{lookup, stage, stored_object};
use super::freshness::{Freshness, was_overtaken};
use super::parent_guard::ParentGuards;
use super::size_limit::SizeLimit;
use super::turns::Turn;
use super::write_result::{WriteResult, WrittenObject};
use crate::http::ApiError;
use crate::objects::{self, Entry};
use crate::write::Context;

/// Deletes the object that `target` names.
///
/// # Errors
/// If the deletion is rejected; the error is the one that the client gets.
pub(crate) async fn delete(
    context: &Arc<Context>,
    target: Target,
    options: DeleteOptions,
) -> Result<WriteResult, ApiError> {
    target.check_key()?;
    let mut turn = context.turn(&target).await?;
    delete_in_turn(context, &target, &options, &mut turn).await
}

/// Removes an unreadable object without a run.
///
/// # Errors
/// If another writer changed it meanwhile (500).
pub(crate) async fn remove_unread(context: &Context, stored: &Entry) -> Result<(), ApiError> {
    let transaction = Transaction::new()
        .guard(stored.key().clone(), stored.mod_revision())
        .delete(stored.key().clone());
    match context.shared.store.commit(transaction).await.map_err(Failure::from) {
        Ok(_) => Ok(()),
        Err(Failure::TooLarge(error) | Failure::Rejected(error)) => Err(error),
        Err(Failure::Lost) => Err(ApiError::unclassified("the object was changed meanwhile")),
    }
}

/// Deletes an object as [`delete`] does, for a writer that holds its turn.
///
/// # Errors
/// If the deletion is rejected; the error is the one that the client gets.
pub(super) async fn delete_in_turn(
    context: &Arc<Context>,
    target: &Target,
    options: &DeleteOptions,
    turn: &mut Turn<'_>,
) -> Result<WriteResult, ApiError> {
    let seen = Freshness::note(context, target).await?;
    let outcome = delete_until_stored(context, target, options, turn).await;
    seen.confirm(context, target, outcome, || {
        delete_until_stored(context, target, options, turn)
    })
    .await
}

async fn delete_until_stored(
    context: &Arc<Context>,
    target: &Target,
    options: &DeleteOptions,
    turn: &mut Turn<'_>,
) -> Result<WriteResult, ApiError> {
    let key = target.key(&target.name);
    let mut options = Cow::Borrowed(options);
    // The object as this request marked it, while it still existed.
    let mut marked = None;
    loop {
        target.check_deadline()?;
        let snapshot = context.shared.store.newest();
        let Some(stored) = snapshot.get(key.as_bytes()) else {
            let resource = target.resource.group_resource();
            // A deletion that this request began and another one finished is complete too.
            return marked.ok_or_else(|| ApiError::not_found(&resource, &target.name));
        };
        let existing = stored_object(target, stored)?;
        let lookup = lookup(context, target.registry.outside_run(), &snapshot);
        let stage = stage(context, target, &lookup);
        let staged = turn.over(stage.delete(&options, &existing)).await?;
        if staged.write == Write::Unchanged {
            return Ok(WriteResult::unchanged(stored, staged.warnings));
        }
        if target.request.dry_run {
            return Ok(WriteResult::of_dry_run(staged, false));
        }
        if was_overtaken(context, turn, &key, Some(stored)).await? {
            continue;
        }
        let mut expected = stored.mod_revision();
        if staged.write == Write::Delete && is_marked_first(&target.resource, &staged.object, &existing.object) {
            expected = match mark(context, target, &key, &staged.object, expected).await {
                Ok(revision) => revision,
                Err(Failure::TooLarge(error) | Failure::Rejected(error)) => return Err(error),
                Err(Failure::Lost) => continue,
            };
            if options.resource_version.is_some() {
                options.to_mut().resource_version = Some(expected.to_string());
            }
            marked = Some(WriteResult {
                object: WrittenObject::Tree(staged.object.clone()),
                created: false,
                removed: true,
                unchanged: false,
                warnings: staged.warnings.clone(),
            });
        }
        let is_last = staged.object == existing.object;
        match remove_or_mark(context, target, key.clone(), staged, stored, is_last, expected).await {
            Ok(written) => return Ok(written),
            Err(Failure::TooLarge(error) | Failure::Rejected(error)) => return Err(error),
            Err(Failure::Lost) => {}
        }
    }
}

/// Stores the result of a DELETE of `existing`; if `is_last`, the event shows the object unchanged.
async fn remove_or_mark(
    context: &Arc<Context>,
    target: &Target,
    key: String,
    staged: Staged,
    existing: &Arc<Entry>,
    is_last: bool,
    expected: Revision,
) -> Result<WriteResult, Failure> {
    if staged.write == Write::Put {
        // An object of any size can be deleted.
        let destination = Destination {
            key,
            existing: Some(existing),
            parents: ParentGuards::default(),
            limit: SizeLimit::Unlimited,
        };
        return store(context, target, destination, staged, Vec::new()).await;
    }
    let guarded = Transaction::new().guard(key.as_str(), expected);
    let transaction = match is_last {
        true => guarded.delete(key.as_str()),
        false => guarded.delete_as(key.as_str(), objects::encode(context.types(), &staged.object)),
    };
    let committed = commit_object(context, target, transaction, staged.after).await?;
    let object = match committed.entries.into_iter().next().flatten() {
        Some(stored) => WrittenObject::Stored(stored, None),
        None => WrittenObject::Tree(staged.object),
    };
    Ok(WriteResult {
        object,
        created: false,
        removed: true,
        unchanged: false,
        warnings: staged.warnings,
    })
}

/// Stores an object whose grace period is zero as being deleted, so that watchers see the deletion begin before the
/// object is gone. Returns the revision.
async fn mark(
    context: &Arc<Context>,
    target: &Target,
    key: &str,
    object: &Value,
    expected: Revision,
) -> Result<Revision, Failure> {
    let (resource, version) = (&target.resource, &target.api_version);
    let index = objects::index_of(target.registry.outside_run(), resource, object, version);
    let transaction =
        Transaction::new()
            .guard(key, expected)
            .put_indexed(key, objects::encode(context.types(), object), index);
    let committed = context.shared.store.commit(transaction).await?;
    Ok(committed.revision)
}

#[cfg(test)]
mod tests {
    use holdfast_writes::metadata;

    use super::super::testing::{CONFIG, World, rejection};
    use super::*;

    async fn delete_config(world: &World, options: DeleteOptions) -> Result<WriteResult, ApiError> {
        delete(&world.context, world.target(CONFIG, ""), options).await
    }

    #[tokio::test]
    async fn an_object_that_nothing_holds_is_gone_at_once() {
        let world = World::new();
        world.create(CONFIG).await;
        let gone = delete_config(&world, DeleteOptions::default()).await.ok().unwrap();
        assert!(gone.removed && world.entry(CONFIG).is_none());
        assert_eq!(
            rejection(delete_config(&world, DeleteOptions::default()).await),
            (404, "configmaps \"a\" not found".to_owned())
        );
    }

    #[tokio::test]
    async fn an_object_with_finalizers_is_marked_once() {
        let world = World::new();
        world
            .create(&CONFIG.replace("name: a", "name: a, finalizers: [a.io/b]"))
            .await;
        let marked = delete_config(&world, DeleteOptions::default()).await.ok().unwrap();
        let entry = world.entry(CONFIG).unwrap();
        let deletion = objects::tree(&entry).at(&["metadata", "deletionTimestamp"]).cloned();
        assert!(!marked.removed && deletion.is_some());
        assert!(delete_config(&world, DeleteOptions::default()).await.is_ok());
        let again = world.entry(CONFIG).unwrap();
        assert_eq!(
            again.mod_revision(),
            entry.mod_revision(),
            "there is nothing more to be done"
        );
    }

    #[tokio::test]
    async fn preconditions_are_those_of_the_object_as_it_is_now() {
        let world = World::new();
        let entry = world.create(CONFIG).await;
        let options = |uid: &str| DeleteOptions {
            uid: Some(uid.to_owned()),
            resource_version: Some(entry.mod_revision().to_string()),
            ..DeleteOptions::default()
        };
        assert_eq!(rejection(delete_config(&world, options("other")).await).0, 409);
        let tree = objects::tree(&entry);
        assert!(delete_config(&world, options(metadata::uid(&tree))).await.is_ok());
    }

    #[tokio::test]
    async fn a_dry_run_shows_what_would_go_and_leaves_it() {
        let world = World::new();
        world.create(CONFIG).await;
        let mut target = world.target(CONFIG, "");
        target.request.dry_run = true;
        let dry = delete(&world.context, target, DeleteOptions::default()).await;
        assert!(dry.is_ok_and(|written| written.removed) && world.entry(CONFIG).is_some());
    }

    #[tokio::test]
    async fn a_pod_is_marked_before_it_goes_even_if_it_goes_at_once() {
        const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}";
        let world = World::new();
        let made = world.create(POD).await;
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            resource_version: Some(made.mod_revision().to_string()),
            ..DeleteOptions::default()
        };
        let gone = delete(&world.context, world.target(POD, ""), options).await;
        assert!(gone.is_ok_and(|written| written.removed) && world.entry(POD).is_none());
        let revision = world.snapshot().revision();
        assert_eq!(revision, made.mod_revision() + 2, "those who watch see both");
    }
}
