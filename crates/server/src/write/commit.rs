//! The commit of what a run staged: an object is encoded once and stored under guards on what the run saw.

use std::sync::Arc;
use std::time::Instant;

use holdfast_resource::RawForm;
use holdfast_store::{CommitError, Committed, Transaction};
use holdfast_value::Value;
use holdfast_writes::{AfterCommit, Staged, Target, Write};

use super::environment::{lookup, stage};
use super::namespace_guard::NamespaceGuard;
use super::reservations::{self, Reserved};
use super::write_result::{WriteResult, WrittenObject};
use crate::http::ApiError;
use crate::objects::{self, Entry, Objects, Snapshot};
use crate::write::Context;

/// Why a write was not stored.
pub(super) enum Failure {
    /// Another writer was faster.
    Lost,
    /// It cannot be.
    Refused(ApiError),
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::GuardFailed { .. } => Self::Lost,
            CommitError::TooLarge { limit, .. } => Self::Refused(ApiError::too_large(limit)),
            CommitError::Refused(text) => Self::Refused(ApiError::unclassified(&*text)),
            CommitError::Unanswered => Self::Refused(ApiError::out_of_time()),
            CommitError::Closed => Self::Refused(ApiError::unavailable("the server is shutting down")),
            // Where the file is stands in the log.
            CommitError::Storage(error) => Self::Refused(ApiError::internal(format!(
                "the store cannot be written to: {}",
                error.detail
            ))),
            error @ CommitError::Invalid(_) => Self::Refused(ApiError::internal(error.to_string())),
        }
    }
}

/// Where an object is stored, and what must hold then.
pub(super) struct Destination<'a> {
    pub(super) key: String,
    /// What is there.
    pub(super) live: Option<&'a Arc<Entry>>,
    /// The namespace of a new object.
    pub(super) namespace: Option<NamespaceGuard>,
    /// The most bytes that the object may have.
    pub(super) most_bytes: usize,
}

/// Stores what an update or a creation came to.
pub(super) async fn store(
    context: &Arc<Context>,
    target: &Target,
    destination: Destination<'_>,
    staged: Staged,
    reservations: Vec<Reserved>,
) -> Result<WriteResult, Failure> {
    let Destination {
        key,
        live,
        namespace,
        most_bytes,
    } = destination;
    let created = live.is_none();
    let expected = live.map_or(0, |live| live.mod_revision());
    let guarded = || {
        let transaction = Transaction::new().guard(key.as_str(), expected);
        match &namespace {
            Some(namespace) => namespace.guard(transaction),
            None => transaction,
        }
    };
    if staged.write == Write::Delete {
        // Watchers see the object as it was; the client, the one that it asked for.
        commit_object(context, target, guarded().delete(key.as_str()), staged.after).await?;
        return Ok(WriteResult {
            object: WrittenObject::Tree(staged.object),
            created,
            removed: true,
            warnings: staged.warnings,
        });
    }
    let Staged {
        object,
        raw_form,
        known,
        after,
        warnings,
        ..
    } = staged;
    let encoded = encode(context, &object, raw_form, live, most_bytes).map_err(Failure::Refused)?;
    let write = || {
        let (resource, version) = (&target.resource, &target.api_version);
        let index = objects::index_of(&target.registry, resource, &object, version).with_known(known);
        guarded().put_indexed(key.as_str(), encoded.clone(), index)
    };
    // Once more by the state of later, where others took from the same objects meanwhile.
    let reserve = |snapshot: &Snapshot| {
        let lookup = lookup(context, &target.registry, snapshot);
        reservations::of(
            context,
            &stage(context, target, &lookup),
            target,
            snapshot,
            &object,
            live,
        )
    };
    let renew = |key: &[u8], snapshot: &Snapshot| {
        let namespace = namespace.as_ref().filter(|namespace| namespace.is_at(key));
        namespace.is_some_and(|namespace| namespace.is_still_there(snapshot))
    };
    let commit = async {
        let committed =
            reservations::commit(context, target.request.deadline, reservations, write, reserve, renew).await?;
        after.stored();
        Ok(committed)
    };
    let committed = acknowledged(context, target, commit).await?;
    let Some(entry) = committed.entries.into_iter().next().flatten() else {
        return Err(Failure::Refused(ApiError::internal("nothing was stored")));
    };
    let tree = context.trees.remember(&entry, object, live.map(AsRef::as_ref));
    Ok(WriteResult {
        object: WrittenObject::Stored(entry, tree),
        created,
        removed: false,
        warnings,
    })
}

/// An object as it is stored. Refuses one of more than `most` bytes, unless it takes the place of one that was stored under a
/// larger limit and is no larger than that.
pub(super) fn encode(
    context: &Context,
    object: &Value,
    raw_form: RawForm,
    live: Option<&Arc<Entry>>,
    most: usize,
) -> Result<holdfast_store::Value, ApiError> {
    let encoded = objects::encode_with_raw_form(context.types(), object, raw_form);
    let bytes = encoded.bytes().len();
    let before = live.map_or(0, |live| live.bytes().len());
    if bytes > most && bytes > before {
        return Err(ApiError::unclassified(format!(
            "the object is too large to be stored: it has {bytes} bytes, the limit is {most}"
        )));
    }
    Ok(encoded)
}

/// Commits a write to one object.
pub(super) async fn commit_object(
    context: &Arc<Context>,
    target: &Target,
    transaction: Transaction<Objects>,
    after: AfterCommit,
) -> Result<Committed<Objects>, Failure> {
    acknowledged(context, target, commit(context, transaction, after)).await
}

/// Waits for a commit, and where the object defines a resource, until that is served as it says.
async fn acknowledged(
    context: &Context,
    target: &Target,
    commit: impl Future<Output = Result<Committed<Objects>, Failure>>,
) -> Result<Committed<Objects>, Failure> {
    let commit = timed(target, commit);
    if target.resource.capabilities.defines.is_none() {
        return commit.await;
    }
    let under_way = context.definitions.begin_write();
    let committed = commit.await?;
    context.definitions.committed(committed.revision).await;
    drop(under_way);
    Ok(committed)
}

/// Records in the audit log how long a commit takes, where the request is audited.
async fn timed<T>(target: &Target, commit: impl Future<Output = T>) -> T {
    let Some(audit) = target.audit() else {
        return commit.await;
    };
    let began = Instant::now();
    let outcome = commit.await;
    audit.store_took(began.elapsed());
    outcome
}

/// Commits. Once this has begun it is carried to its end even if the client goes away, as all writes are; so those who wait
/// for the outcome hear of it.
pub(super) async fn commit(
    context: &Arc<Context>,
    transaction: Transaction<Objects>,
    after: AfterCommit,
) -> Result<Committed<Objects>, Failure> {
    let result = context.shared.store.commit(transaction).await;
    if result.is_ok() {
        after.stored();
    }
    result.map_err(Failure::from)
}

#[cfg(test)]
mod tests {
    use holdfast_store::{Key, StorageError};

    use super::super::testing::{CONFIG, World, refusal};
    use super::*;

    #[tokio::test]
    async fn a_write_over_an_object_that_changed_meanwhile_is_lost() {
        let world = World::new();
        let old = world.create(CONFIG).await;
        let new = world.patch(CONFIG, "", "{data: {k: '2'}}").await;
        let target = world.target(CONFIG, "");
        let write = async |live: Option<&Arc<Entry>>| {
            let destination = Destination {
                key: target.key("a"),
                live,
                namespace: None,
                most_bytes: usize::MAX,
            };
            let staged = Staged {
                write: Write::Put,
                object: objects::tree(&old),
                raw_form: Default::default(),
                known: Default::default(),
                after: AfterCommit::default(),
                warnings: Vec::new(),
            };
            store(&world.context, &target, destination, staged, Vec::new()).await
        };
        for stale in [None, Some(&old)] {
            assert!(matches!(write(stale).await, Err(Failure::Lost)));
        }
        assert!(write(Some(&new)).await.is_ok());
    }

    #[tokio::test]
    async fn an_object_beyond_the_limit_is_refused_unless_it_is_no_larger_than_the_one_in_place() {
        let world = World::new();
        let live = world.create(CONFIG).await;
        let object = objects::tree(&live);
        let bytes = objects::encode(world.context.types(), &object).bytes().len();
        let encoded = |live, most| encode(&world.context, &object, RawForm::Marshalled, live, most);
        assert!(encoded(None, bytes).is_ok());
        let (limit, why) = (bytes - 1, "the object is too large to be stored");
        assert_eq!(
            refusal(encoded(None, limit)),
            (500, format!("{why}: it has {bytes} bytes, the limit is {limit}"))
        );
        assert!(encoded(Some(&live), limit).is_ok(), "who shrinks it may");
    }

    #[test]
    fn what_the_store_says_becomes_the_code_of_the_answer() {
        let storage = StorageError {
            path: Arc::default(),
            detail: "disk I/O error".into(),
            full: false,
        };
        for (error, code) in [
            (CommitError::TooLarge { bytes: 2, limit: 1 }, 413),
            (
                CommitError::Refused("etcdserver: mvcc: database space exceeded".into()),
                500,
            ),
            (CommitError::Unanswered, 504),
            (CommitError::Closed, 503),
            (CommitError::Storage(storage), 500),
            (CommitError::Invalid("two operations on one key"), 500),
        ] {
            let text = error.to_string();
            let Failure::Refused(error) = Failure::from(error) else {
                panic!("{text} is no lost race")
            };
            assert_eq!(error.code().as_u16(), code, "{text}");
        }
        let lost = CommitError::GuardFailed {
            key: Key::from("/registry/configmaps/default/a"),
            expected: 1,
            current: 2,
        };
        assert!(matches!(Failure::from(lost), Failure::Lost));
    }
}
