//! Commit of a staged run: the object is encoded once and stored under guards on everything that the run saw.

use std::sync::Arc;

use holdfast_store::{CommitError, Committed, Transaction};
use holdfast_writes::{AfterCommit, Staged, Target, Write};
use tokio::time::Instant;

use super::environment::{lookup, stage};
use super::parent_guard::ParentGuards;
use super::reservations::{self, Reserved};
use super::size_limit::{self, NewVersion, REQUEST_TOO_LARGE, SizeLimit};
use super::write_result::{WriteResult, WrittenObject};
use crate::http::ApiError;
use crate::objects::{self, Entry, Objects, Snapshot};
use crate::write::Context;

/// Reason why a write was not stored.
pub(super) enum Failure {
    /// Another writer was faster.
    Lost,
    /// The object is too large to be stored.
    TooLarge(ApiError),
    /// The write is rejected.
    Rejected(ApiError),
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::GuardFailed { .. } => Self::Lost,
            CommitError::TooLarge { limit, .. } => Self::Rejected(ApiError::too_large(limit)),
            CommitError::Refused(text) if *text == *REQUEST_TOO_LARGE => Self::TooLarge(ApiError::unclassified(&*text)),
            CommitError::Refused(text) => Self::Rejected(ApiError::unclassified(&*text)),
            CommitError::Unanswered => Self::Rejected(ApiError::out_of_time()),
            CommitError::Closed => Self::Rejected(ApiError::unavailable("the server is shutting down")),
            // The path of the file is in the log.
            CommitError::Storage(error) => Self::Rejected(ApiError::internal(format!(
                "the store cannot be written to: {}",
                error.detail
            ))),
            error @ CommitError::Invalid(_) => Self::Rejected(ApiError::internal(error.to_string())),
        }
    }
}

/// Destination of an object in the store, with the conditions of the commit.
pub(super) struct Destination<'a> {
    pub(super) key: String,
    /// Existing object.
    pub(super) existing: Option<&'a Arc<Entry>>,
    /// Guards on the parents of a new object; none for an existing one.
    pub(super) parents: ParentGuards,
    pub(super) limit: SizeLimit,
}

/// Stores the result of an update or a creation.
pub(super) async fn store(
    context: &Arc<Context>,
    target: &Target,
    destination: Destination<'_>,
    updated: Staged,
    reservations: Vec<Reserved>,
) -> Result<WriteResult, Failure> {
    let Destination {
        key,
        existing,
        parents,
        limit,
    } = destination;
    let created = existing.is_none();
    let expected = existing.map_or(0, |existing| existing.mod_revision());
    let guarded = || parents.guard(Transaction::new().guard(key.as_str(), expected));
    if updated.write == Write::Delete {
        // Watchers get the object as it was before; the client gets the object that it requested.
        commit_object(context, target, guarded().delete(key.as_str()), updated.after).await?;
        return Ok(WriteResult {
            object: WrittenObject::Tree(updated.object),
            created,
            removed: true,
            unchanged: false,
            warnings: updated.warnings,
        });
    }
    let Staged {
        object,
        raw_form,
        facts,
        after,
        warnings,
        ..
    } = updated;
    let new_version = NewVersion {
        key: &key,
        resource: &target.resource,
        object: &object,
        raw_form,
        existing,
        limit,
    };
    let encoded = encode(context, &new_version).map_err(Failure::TooLarge)?;
    let write = || {
        let (resource, version) = (&target.resource, &target.api_version);
        let index = objects::index_of(target.registry.outside_run(), resource, &object, version).with_facts(facts);
        guarded().put_indexed(key.as_str(), encoded.clone(), index)
    };
    // Computes the reservations again over newer state if other writers reserved from the same objects meanwhile.
    let reserve = |snapshot: &Snapshot| {
        let lookup = lookup(context, target.registry.outside_run(), snapshot);
        reservations::reserve(
            context,
            &stage(context, target, &lookup),
            target,
            snapshot,
            &object,
            existing,
        )
    };
    let renew = |key: &[u8], snapshot: &Snapshot| parents.renew(key, snapshot);
    let commit = async {
        let committed =
            reservations::commit(context, target.request.deadline, reservations, write, reserve, renew).await?;
        after.stored();
        Ok(committed)
    };
    let committed = acknowledged(context, target, commit).await?;
    let Some(stored) = committed.entries.into_iter().next().flatten() else {
        return Err(Failure::Rejected(ApiError::internal("nothing was stored")));
    };
    let tree = context.trees.remember(&stored, object, existing.map(AsRef::as_ref));
    Ok(WriteResult {
        object: WrittenObject::Stored(stored, tree),
        created,
        removed: false,
        unchanged: false,
        warnings,
    })
}

/// Encodes an object for the store.
///
/// # Errors
/// If the object exceeds the size limit.
pub(super) fn encode(context: &Context, new_version: &NewVersion<'_>) -> Result<holdfast_store::Value, ApiError> {
    let raw = new_version.resource.capabilities.raw;
    let suffix = raw.map(|raw| raw.suffix(new_version.object, new_version.raw_form));
    let encoded = objects::encode_with_suffix(context.types(), new_version.object, &suffix.unwrap_or_default());
    size_limit::check(context, new_version, encoded.bytes().len())?;
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

/// Waits for a commit and, if the object defines a resource, until the resource is served as defined.
async fn acknowledged(
    context: &Context,
    target: &Target,
    commit: impl Future<Output = Result<Committed<Objects>, Failure>>,
) -> Result<Committed<Objects>, Failure> {
    let commit = timed(target, commit);
    if target.resource.capabilities.defines.is_none() {
        return commit.await;
    }
    let pending = context.crds.begin_write();
    let committed = commit.await?;
    context.crds.committed(committed.revision).await;
    drop(pending);
    Ok(committed)
}

/// Records the duration of a commit in the audit log if the request is audited.
async fn timed<T>(target: &Target, commit: impl Future<Output = T>) -> T {
    let Some(audit) = target.audit() else {
        return commit.await;
    };
    let began = Instant::now();
    let outcome = commit.await;
    audit.store_took(began.elapsed());
    outcome
}

/// Commits a transaction and runs the callbacks of `after`. Like every write it runs to its end even if the client
/// disconnects, so the callbacks always run.
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
    use holdfast_resource::RawForm;
    use holdfast_store::{Key, StorageError};

    use super::super::testing::{CONFIG, World, rejection};
    use super::*;

    #[tokio::test]
    async fn a_write_over_an_object_that_changed_meanwhile_is_lost() {
        let world = World::new();
        let old = world.create(CONFIG).await;
        let new = world.patch(CONFIG, "", "{data: {k: '2'}}").await;
        let target = world.target(CONFIG, "");
        let write = async |existing: Option<&Arc<Entry>>| {
            let destination = Destination {
                key: target.key("a"),
                existing,
                parents: ParentGuards::default(),
                limit: SizeLimit::Unlimited,
            };
            let staged = Staged {
                write: Write::Put,
                object: objects::tree(&old),
                raw_form: Default::default(),
                facts: Default::default(),
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
    async fn size_limit_counts_protobuf_of_built_in_kinds() {
        let world = World::new();
        // Each of these characters has six bytes as JSON.
        let text = "\\u0001".repeat(5000);
        let existing = world.create(&CONFIG.replace("'1'", &format!("\"{text}\""))).await;
        let (object, resource) = (objects::tree(&existing), world.target(CONFIG, "").resource);
        let json_bytes = objects::encode(world.context.types(), &object).bytes().len();
        let encoded = |existing, max_bytes| {
            let limit = SizeLimit::Request(max_bytes);
            let next = NewVersion {
                key: "/registry/configmaps/default/a",
                resource: &resource,
                object: &object,
                raw_form: RawForm::Marshalled,
                existing,
                limit,
            };
            encode(&world.context, &next)
        };
        let (mut fits, mut exceeds) = (json_bytes, 0);
        while fits - exceeds > 1 {
            let middle = usize::midpoint(fits, exceeds);
            match encoded(None, middle) {
                Ok(_) => fits = middle,
                Err(_) => exceeds = middle,
            }
        }
        assert!(
            json_bytes > 30_000 && (5100..5500).contains(&fits),
            "{json_bytes} {fits}"
        );
        let why = "etcdserver: request is too large";
        assert_eq!(rejection(encoded(None, exceeds)), (500, why.to_owned()));
        assert!(encoded(Some(&existing), exceeds).is_ok(), "it does not grow");
    }

    #[test]
    fn store_error_becomes_the_response_code() {
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
            let Failure::Rejected(error) = Failure::from(error) else {
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
