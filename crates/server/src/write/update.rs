//! Updates and applies: runs are repeated until one of them is stored.

use std::sync::Arc;

use holdfast_writes::{Change, Target, Write};

use super::commit::{Destination, Failure, store};
use super::environment::{lookup, observed_stage, stage, stored_object};
use super::freshness::{Freshness, was_overtaken};
use super::noop_applies::{SentApply, Witness};
use super::parent_guard::ParentGuards;
use super::provision;
use super::reservations;
use super::size_limit::{drop_managed_fields, may_drop_managed_fields};
use super::turns::Turn;
use super::write_result::WriteResult;
use crate::http::ApiError;
use crate::runtime::long_work;
use crate::write::Context;

/// Updates the object that `target` names, or creates it if `change` may create.
///
/// # Errors
/// If the write is rejected; the error is the one that the client gets.
pub(crate) async fn update(context: &Arc<Context>, target: Target, change: Change) -> Result<WriteResult, ApiError> {
    apply(context, target, change, None).await
}

/// Updates or creates an object as [`update`] does. Remembers an apply that changes nothing in the form in which it was
/// `sent`.
///
/// # Errors
/// If the write is rejected; the error is the one that the client gets.
pub(crate) async fn apply(
    context: &Arc<Context>,
    target: Target,
    change: Change,
    sent: Option<SentApply<'_>>,
) -> Result<WriteResult, ApiError> {
    target.check_key()?;
    let mut turn = context.turn(&target).await?;
    update_in_turn(context, &target, &change, &mut turn, sent).await
}

/// Updates or creates an object as [`apply`] does, for a writer that holds its turn.
///
/// # Errors
/// If the write is rejected; the error is the one that the client gets.
pub(super) async fn update_in_turn(
    context: &Arc<Context>,
    target: &Target,
    change: &Change,
    turn: &mut Turn<'_>,
    sent: Option<SentApply<'_>>,
) -> Result<WriteResult, ApiError> {
    let seen = Freshness::note(context, target).await?;
    let outcome = update_until_stored(context, target, change, turn, sent).await;
    seen.confirm(context, target, outcome, || {
        update_until_stored(context, target, change, turn, None)
    })
    .await
}

async fn update_until_stored(
    context: &Arc<Context>,
    target: &Target,
    change: &Change,
    turn: &mut Turn<'_>,
    sent: Option<SentApply<'_>>,
) -> Result<WriteResult, ApiError> {
    let may_drop = may_drop_managed_fields(target, change);
    let mut drops_managed_fields = false;
    loop {
        target.check_deadline()?;
        let snapshot = context.shared.store.newest();
        let lookup = lookup(context, target.registry.outside_run(), &snapshot);
        let witness = sent.map(|sent| Witness::new(sent, &lookup));
        let stage = match &witness {
            Some(witness) => observed_stage(context, target, &lookup, witness),
            None => stage(context, target, &lookup),
        };
        // An object that states another name than the address is stored under the name of the address.
        let key = target.key(&target.name);
        let stored = snapshot.get(key.as_bytes());
        let existing = match stored {
            Some(stored) => {
                long_work::begins(stored.length()).await;
                Some(stored_object(target, stored)?)
            }
            None => None,
        };
        if stored.is_none()
            && context.admission.provides_namespaces()
            && change.may_create(&target.resource, &target.subresource)
            && provision::provide(context, target, &target.name, &snapshot).await?
        {
            continue;
        }
        let mut updated = turn.over(stage.update(change, existing.as_ref())).await?;
        if drops_managed_fields {
            drop_managed_fields(target, &mut updated, existing.as_ref());
        }
        let reservations = match (updated.write, stored) {
            (Write::Unchanged, Some(stored)) if target.request.dry_run || !context.shared.store.is_stale(stored) => {
                let witness = witness.as_ref();
                let apply = witness.and_then(|witness| witness.noop_apply(&stage, target, &updated.warnings));
                if let Some(apply) = apply {
                    stored.index().remember_apply(apply);
                }
                return Ok(WriteResult::unchanged(stored, updated.warnings));
            }
            (Write::Put, stored) => {
                let reservations = reservations::reserve(context, &stage, target, &snapshot, &updated.object, stored);
                reservations.map_err(|rejected| rejected.with_warnings(updated.warnings.clone()))?
            }
            _ => Vec::new(),
        };
        if target.request.dry_run {
            return Ok(WriteResult::of_dry_run(updated, stored.is_none()));
        }
        if was_overtaken(context, turn, &key, stored).await? {
            continue;
        }
        let parents = match stored {
            Some(_) => ParentGuards::default(),
            None => ParentGuards::new(target, &target.name, &snapshot)?,
        };
        let destination = Destination {
            key,
            existing: stored,
            parents,
            limit: context.size_limit,
        };
        match store(context, target, destination, updated, reservations).await {
            Ok(written) => return Ok(written),
            Err(Failure::Lost) => {}
            Err(Failure::TooLarge(_)) if may_drop && !drops_managed_fields => drops_managed_fields = true,
            Err(Failure::TooLarge(error) | Failure::Rejected(error)) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use holdfast_schema::StoredFacts;
    use holdfast_store::Transaction;
    use holdfast_value::{Limits, json};

    use super::super::testing::{CONFIG, World, applied, merge, put, rejection, stored};
    use super::*;
    use crate::objects;

    #[tokio::test]
    async fn an_update_that_changes_nothing_leaves_the_object_as_it_is() {
        let world = World::new();
        let made = world.create(CONFIG).await;
        let same = world.patch(CONFIG, "", "{data: {k: '1'}}").await;
        assert!(Arc::ptr_eq(&made, &same));
    }

    /// Returns a workload whose template has a container of that name.
    fn workload(container: &str) -> String {
        format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: a}}, spec: {{selector: {{matchLabels: {{x: z}}}}, \
             template: {{metadata: {{labels: {{x: z}}}}, spec: {{containers: [{{name: {container}, image: i}}]}}}}}}}}"
        )
    }

    #[tokio::test]
    async fn object_of_another_server_is_validated_as_a_whole() {
        let world = World::new();
        let made = world.create(&workload("c")).await;
        let facts = made.known_index().unwrap().facts();
        let of_form = StoredFacts::UNPROVEN.in_form_of_type();
        assert!(
            facts.has_form_of_type() && facts != of_form,
            "the template is known, too"
        );
        // An object that another server with other rules accepted.
        let text = String::from_utf8(made.bytes().to_vec()).unwrap();
        let wrong = text.replace(r#""name":"c""#, r#""name":"C""#);
        let tree = json::parse(wrong.as_bytes(), &Limits::TRUSTED).unwrap();
        let key = world.target(&workload("c"), "").key("a");
        let other = Transaction::new().put(key.as_str(), objects::encode(world.context.types(), &tree));
        world.context.shared.store.commit(other).await.unwrap();
        let target = world.target(&workload("c"), "");
        let outcome = update(&world.context, target, merge("{metadata: {labels: {a: b}}}")).await;
        let (code, why) = rejection(outcome);
        assert!(
            code == 422 && why.contains("spec.template.spec.containers[0].name"),
            "{why}"
        );
    }

    #[tokio::test]
    async fn missing_object_is_created_only_by_apply() {
        let world = World::new();
        let update = async |change| update(&world.context, world.target(CONFIG, ""), change).await;
        let missing = (404, "configmaps \"a\" not found".to_owned());
        assert_eq!(rejection(update(merge("{data: {}}")).await), missing);
        assert_eq!(rejection(update(put(world.object(CONFIG))).await), missing);
        assert!(update(applied(CONFIG)).await.is_ok_and(|written| written.created));
    }

    #[tokio::test]
    async fn a_put_of_an_older_version_is_a_conflict() {
        let world = World::new();
        let made = world.create(CONFIG).await;
        let old = objects::tree(&made);
        world.patch(CONFIG, "", "{data: {k: '2'}}").await;
        let outcome = update(&world.context, world.target(CONFIG, ""), put(old)).await;
        assert_eq!(rejection(outcome).0, 409);
    }

    #[tokio::test]
    async fn writes_that_race_over_one_state_all_come_through() {
        let world = World::new();
        world.create(CONFIG).await;
        let (context, target) = (&world.context, world.target(CONFIG, ""));
        // No write waits for a turn, so all but one lose the first race.
        let race = (0..5).map(async |at| {
            let change = merge(&format!("{{data: {{k{at}: x}}}}"));
            update_in_turn(context, &target, &change, &mut context.turns.none(), None).await
        });
        for outcome in futures_util::future::join_all(race).await {
            stored(outcome);
        }
        let data = objects::tree(&world.entry(CONFIG).unwrap());
        assert_eq!(data.at(&["data"]).and_then(|data| data.as_map()).unwrap().len(), 6);
    }

    #[tokio::test]
    async fn no_run_begins_after_the_deadline() {
        let world = World::new();
        world.create(CONFIG).await;
        let mut target = world.target(CONFIG, "");
        target.request.deadline = Some(Instant::now());
        let (change, mut turn) = (merge("{data: {k: '2'}}"), world.context.turns.none());
        let late = update_in_turn(&world.context, &target, &change, &mut turn, None);
        assert_eq!(rejection(late.await).0, 504);
    }

    #[tokio::test]
    async fn names_with_meaning_in_paths_are_rejected_before_lookups() {
        let world = World::new();
        let mut target = world.target(CONFIG, "");
        target.name = "..".into();
        assert_eq!(rejection(update(&world.context, target, merge("{}")).await).0, 400);
    }
}
