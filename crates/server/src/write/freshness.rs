//! Repetition of writes that saw outdated state.
//!
//! If other servers write to the same store, the local state may lack their last writes. A write that is stored is
//! guarded by the revisions that it saw. But a write that is rejected, or that changes nothing, may owe this to state
//! that is no longer current. Such a write runs once more over the most recent state.

use std::sync::Arc;

use holdfast_store::Revision;
use holdfast_writes::Target;

use super::turns::Turn;
use super::write_result::{WriteResult, WrittenObject};
use crate::http::ApiError;
use crate::objects::{self, Entry};
use crate::write::Context;

/// Returns the key prefix of the objects of a target.
fn prefix(target: &Target) -> &[u8] {
    objects::key_prefix(&target.resource).as_bytes()
}

/// Freshness of the state that a write sees.
pub(super) enum Freshness {
    /// The state is certainly the most recent.
    Latest,
    /// There may be more recent state.
    AsOf {
        /// Revision of the state.
        revision: Revision,
        /// Revision of the store that holds the objects themselves.
        of_objects: Revision,
    },
}

impl Freshness {
    /// Returns the freshness of the local state; a dry run waits for the most recent state.
    ///
    /// # Errors
    /// If the most recent state is not available.
    pub(super) async fn note(context: &Context, target: &Target) -> Result<Self, ApiError> {
        if !context.shared.store.is_shared() {
            return Ok(Self::Latest);
        }
        let (store, prefix) = (&context.shared.store, prefix(target));
        if target.request.dry_run {
            // No guard verifies the state of a dry run.
            store.latest_with(prefix).await?;
            return Ok(Self::Latest);
        }
        Ok(Self::AsOf {
            revision: store.revision(),
            of_objects: store.for_key(prefix).revision(),
        })
    }

    /// Returns the outcome of a write over such a state: `first`, or if an older state may have caused it, the outcome
    /// of `again`, which runs over the most recent state.
    ///
    /// # Errors
    /// If the write is rejected, or the most recent state is not available.
    pub(super) async fn confirm<F: Future<Output = Result<WriteResult, ApiError>>>(
        self,
        context: &Context,
        target: &Target,
        first: Result<WriteResult, ApiError>,
        again: impl FnOnce() -> F,
    ) -> Result<WriteResult, ApiError> {
        match self.was_outdated(context, target, &first).await? {
            true => again().await,
            false => first,
        }
    }

    /// Returns true if the write must run again over the most recent state, because an older state may have caused
    /// `outcome`.
    ///
    /// # Errors
    /// If the most recent state is not available.
    async fn was_outdated(
        &self,
        context: &Context,
        target: &Target,
        outcome: &Result<WriteResult, ApiError>,
    ) -> Result<bool, ApiError> {
        let Self::AsOf { revision, of_objects } = *self else {
            return Ok(false);
        };
        let doubtful = match outcome {
            Ok(written) => {
                matches!(&written.object, WrittenObject::Stored(entry, _) if entry.mod_revision() <= of_objects)
            }
            // Errors of the store itself do not depend on the state.
            Err(error) => error.code().is_client_error(),
        };
        if !doubtful {
            return Ok(false);
        }
        let (store, prefix) = (&context.shared.store, prefix(target));
        let latest = store.latest_with(prefix).await?;
        Ok(latest.revision() > revision || store.for_key(prefix).revision() > of_objects)
    }
}

/// Returns true if another writer changed the object at `key`, which was `existing`, since the turn was given up.
///
/// # Errors
/// If [`Turn::retake`] fails.
pub(super) async fn was_overtaken(
    context: &Context,
    turn: &mut Turn<'_>,
    key: &str,
    existing: Option<&Arc<Entry>>,
) -> Result<bool, ApiError> {
    if !turn.retake().await? {
        return Ok(false);
    }
    let snapshot = context.shared.store.newest();
    let revision = |entry: &Arc<Entry>| entry.mod_revision();
    Ok(snapshot.get(key.as_bytes()).map(revision) != existing.map(revision))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{CONFIG, World};
    use super::*;

    fn as_of(revision: Revision) -> Freshness {
        Freshness::AsOf {
            revision,
            of_objects: revision,
        }
    }

    #[tokio::test]
    async fn a_store_of_ones_own_is_never_outdated() {
        let world = World::new();
        let target = world.target(CONFIG, "");
        let seen = Freshness::note(&world.context, &target).await.ok().unwrap();
        assert!(matches!(seen, Freshness::Latest));
        let rejected = Err(ApiError::bad_request("no"));
        assert!(
            !seen
                .was_outdated(&world.context, &target, &rejected)
                .await
                .ok()
                .unwrap()
        );
    }

    #[tokio::test]
    async fn only_what_may_be_owed_to_an_older_state_runs_anew() {
        let world = World::new();
        let target = world.target(CONFIG, "");
        let unchanged = world.create(CONFIG).await;
        let seen = unchanged.mod_revision();
        let new = world.create(&CONFIG.replace("name: a", "name: b")).await;
        let written = |entry| Ok(WriteResult::unchanged(entry, Vec::new()));
        for (what, seen, outcome, anew) in [
            ("rejected", seen, Err(ApiError::bad_request("no")), true),
            (
                "rejected by the latest state",
                new.mod_revision(),
                Err(ApiError::bad_request("no")),
                false,
            ),
            ("the store failed", seen, Err(ApiError::internal("no")), false),
            ("nothing to do", seen, written(&unchanged), true),
            ("stored", seen, written(&new), false),
        ] {
            let found = as_of(seen).was_outdated(&world.context, &target, &outcome).await;
            assert_eq!(found.ok(), Some(anew), "{what}");
        }
    }

    #[tokio::test]
    async fn writer_without_turn_is_overtaken_by_other_writers() {
        let world = World::new();
        let (entry, target) = (world.create(CONFIG).await, world.target(CONFIG, ""));
        let (context, key) = (&world.context, target.key("a"));
        let mut turn = context.turn(&target).await.ok().unwrap();
        turn.give_up();
        let overtaken = was_overtaken(context, &mut turn, &key, Some(&entry)).await;
        assert_eq!(overtaken.ok(), Some(false));
        turn.give_up();
        world.patch(CONFIG, "", "{data: {k: '2'}}").await;
        let somebody = was_overtaken(context, &mut turn, &key, Some(&entry)).await;
        assert_eq!(somebody.ok(), Some(true));
        let kept = was_overtaken(context, &mut turn, &key, Some(&entry)).await;
        assert_eq!(kept.ok(), Some(false), "who has the turn is alone");
    }
}
