//! Writes from beginning to end: runs until one of them is stored.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use holdfast_resource::{Connecter, Connection, Operation, Review, Verb, WriteContext};
use holdfast_store::{CommitError, Committed, Revision, Transaction};
use holdfast_value::Value;
use holdfast_writes::{
    AfterCommit, Change, DeleteOptions, Live, Stage, Staged, Target, Write, check_has_no_version, check_namespace,
    is_marked_first, metadata,
};

use super::charges::{self, Charged};
use super::environment::{lookup, stage, witnessed_stage};
use super::settled::Witness;
use super::turns::Turn;
use crate::http::{ApiError, TakenName};
use crate::objects::settled::Fingerprint;
use crate::objects::{self, Entry, Objects, Snapshot};
use crate::runtime::long_work;
use crate::write::Context;

/// The end of a write.
pub(crate) struct Written {
    /// What the client is shown.
    pub(crate) object: Shape,
    /// Whether the object is new.
    pub(crate) created: bool,
    /// Whether the object is gone.
    pub(crate) removed: bool,
    /// What the client is to be warned of.
    pub(crate) warnings: Vec<String>,
}

/// An object as a write leaves it.
pub(crate) enum Shape {
    /// As it is stored.
    Stored(Arc<Entry>),
    /// As a tree in its storage version, where nothing was stored or the object is gone.
    Tree(Value),
}

impl Shape {
    /// The tree, in the storage version.
    pub(crate) fn tree(&self) -> Value {
        match self {
            Self::Stored(entry) => objects::tree(entry),
            Self::Tree(tree) => tree.clone(),
        }
    }
}

/// Creates `object`, which is decoded, typed and has its defaults.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(crate) async fn create(context: &Arc<Context>, target: Target, mut object: Value) -> Result<Written, ApiError> {
    check_namespace(&mut object, &target.namespace)?;
    metadata::wipe(&mut object);
    let sight = Sight::take(context, &target).await?;
    let outcome = create_by_sight(context, &target, &object).await;
    match sight.was_outdated(context, &target, &outcome).await? {
        true => create_by_sight(context, &target, &object).await,
        false => outcome,
    }
}

async fn create_by_sight(context: &Arc<Context>, target: &Target, object: &Value) -> Result<Written, ApiError> {
    loop {
        target.check_deadline()?;
        let snapshot = context.shared.store.newest();
        let object = object.clone();
        let lookup = lookup(context, &target.registry, &snapshot);
        let stage = stage(context, target, &lookup);
        let staged = stage.create(object).await?;
        let charges = charges::of(context, &stage, target, &snapshot, &staged.object, None)?;
        let key = target.key(metadata::name(&staged.object));
        if !target.dry_run {
            check_has_no_version(&staged.object)?;
        }
        if let Some(live) = snapshot.get(key.as_bytes()) {
            return Err(already_exists(target, live, &staged.object).with_warnings(staged.warnings));
        }
        let most = context.max_object_bytes;
        if target.dry_run {
            return unstored(context, staged, None, most);
        }
        let place = Place {
            key,
            live: None,
            home: Home::of(target, &snapshot),
            most_bytes: most,
        };
        match store(context, target, place, staged, charges).await {
            Ok(written) => return Ok(written),
            // Somebody made the object, or the namespace goes, which the next run tells.
            Err(Failure::Lost) => {}
            Err(Failure::Refused(error)) => return Err(error),
        }
    }
}

/// What a kind that is not stored has to say to what `ask` asks of it, seen by the state as it is now.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(crate) fn ask<T>(
    context: &Context,
    target: &Target,
    operation: Operation,
    ask: impl FnOnce(&Stage<'_>, &WriteContext<'_>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let snapshot = context.shared.store.snapshot();
    let lookup = lookup(context, &target.registry, &snapshot);
    let stage = stage(context, target, &lookup);
    let call = stage.call(operation, &target.name);
    let answer = ask(&stage, &call)?;
    call.after_commit().stored();
    Ok(answer)
}

/// The answer of `review` to a POST of `object`, which is decoded, typed and has its defaults, with what the client is to be
/// warned of. Nothing is stored.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(crate) async fn answer(
    context: &Context,
    target: &Target,
    review: &dyn Review,
    object: Value,
) -> Result<(Value, Vec<String>), ApiError> {
    let snapshot = context.shared.store.snapshot();
    let lookup = lookup(context, &target.registry, &snapshot);
    Ok(stage(context, target, &lookup).answer(review, object).await?)
}

/// How far a request of `verb` comes that asks `connecter` for `options`.
///
/// # Errors
/// What the client is to be told of a refusal by admission.
pub(crate) async fn connect(
    context: &Context,
    target: &Target,
    verb: Verb,
    connecter: &dyn Connecter,
    options: Value,
) -> Result<Connection, ApiError> {
    let snapshot = context.shared.store.snapshot();
    let lookup = lookup(context, &target.registry, &snapshot);
    Ok(stage(context, target, &lookup)
        .connect(verb, connecter, options)
        .await?)
}

/// The object in place as a run finds it.
///
/// # Errors
/// 500 where it cannot be read.
fn live(target: &Target, entry: &Entry) -> Result<Live, ApiError> {
    Ok(Live {
        stored: objects::tree_or_refusal(entry)?,
        shown_as_stored: objects::is_shown_as_stored(&target.resource, &target.api_version, entry),
        raw_as_sent: objects::is_raw_as_sent(entry.bytes()),
    })
}

/// Waits until it is the turn of a write to the object that `target` names. A dry run waits for nobody.
///
/// # Errors
/// 504 at the deadline, 429 where too many wait already.
pub(super) async fn turn<'a>(context: &'a Context, target: &Target) -> Result<Turn<'a>, ApiError> {
    if target.dry_run {
        return Ok(context.turns.none());
    }
    let key = target.key(&target.name);
    context.turns.take(&key, target.deadline).await
}

/// Changes the object that `target` names, or creates it where the change may.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(crate) async fn update(context: &Arc<Context>, target: Target, change: Change) -> Result<Written, ApiError> {
    apply(context, target, change, None).await
}

/// As [`update`]. An apply of that fingerprint that changes nothing is remembered.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(crate) async fn apply(
    context: &Arc<Context>,
    target: Target,
    change: Change,
    fingerprint: Option<Fingerprint>,
) -> Result<Written, ApiError> {
    target.check_key()?;
    let mut turn = turn(context, &target).await?;
    update_in_turn(context, &target, &change, &mut turn, fingerprint).await
}

/// As [`apply`], by one whose turn it is.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(super) async fn update_in_turn(
    context: &Arc<Context>,
    target: &Target,
    change: &Change,
    turn: &mut Turn<'_>,
    fingerprint: Option<Fingerprint>,
) -> Result<Written, ApiError> {
    let sight = Sight::take(context, target).await?;
    let outcome = update_by_sight(context, target, change, turn, fingerprint).await;
    match sight.was_outdated(context, target, &outcome).await? {
        true => update_by_sight(context, target, change, turn, None).await,
        false => outcome,
    }
}

async fn update_by_sight(
    context: &Arc<Context>,
    target: &Target,
    change: &Change,
    turn: &mut Turn<'_>,
    fingerprint: Option<Fingerprint>,
) -> Result<Written, ApiError> {
    loop {
        target.check_deadline()?;
        let snapshot = context.shared.store.newest();
        let lookup = lookup(context, &target.registry, &snapshot);
        let witness = fingerprint.and_then(|fingerprint| Witness::of(context, target, fingerprint, &lookup));
        let stage = match &witness {
            Some(witness) => witnessed_stage(context, target, witness),
            None => stage(context, target, &lookup),
        };
        // An object that was made under another name than the address has is stored under that of the address.
        let key = target.key(&target.name);
        let entry = snapshot.get(key.as_bytes());
        let live = match entry {
            Some(entry) => {
                long_work::begins(entry.bytes().len()).await;
                Some(live(target, entry)?)
            }
            None => None,
        };
        let staged = turn.over(stage.update(change, live.as_ref())).await?;
        let charges = match (staged.write, entry) {
            (Write::Unchanged, Some(entry)) => {
                if let Some(settled) = witness.and_then(|witness| witness.settled(context, target, &staged.warnings)) {
                    entry.index().remember_apply(settled);
                }
                return Ok(kept(staged, Arc::clone(entry)));
            }
            (Write::Put, entry) => charges::of(context, &stage, target, &snapshot, &staged.object, entry)?,
            _ => Vec::new(),
        };
        let most = context.max_object_bytes;
        if target.dry_run {
            return unstored(context, staged, entry, most);
        }
        if was_overtaken(context, turn, &key, entry).await? {
            continue;
        }
        let place = Place {
            key,
            live: entry,
            home: Home::of(target, &snapshot).filter(|_| entry.is_none()),
            most_bytes: most,
        };
        match store(context, target, place, staged, charges).await {
            Ok(written) => return Ok(written),
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Lost) => {}
        }
    }
}

/// What the keys of the objects of a target begin with.
fn prefix(target: &Target) -> &[u8] {
    objects::key_prefix(&target.resource).as_bytes()
}

/// By what state a write is judged. Where other servers write to the same store, the state at hand may not show their last
/// writes yet: a write that goes through was guarded by the revisions it saw, but one that is refused, or has nothing to do,
/// may owe that to what is no longer so.
enum Sight {
    /// It is the most recent for sure.
    Clear,
    /// It is that of this revision, which may not be the most recent, and of this one of the store that holds the objects
    /// themselves.
    Of(Revision, Revision),
}

impl Sight {
    async fn take(context: &Context, target: &Target) -> Result<Self, ApiError> {
        if !context.shared.store.is_shared() {
            return Ok(Self::Clear);
        }
        let (store, prefix) = (&context.shared.store, prefix(target));
        if target.dry_run {
            // No guard tells whether the state was good.
            store.latest_with(prefix).await?;
            return Ok(Self::Clear);
        }
        Ok(Self::Of(store.revision(), store.of(prefix).revision()))
    }

    /// Whether `outcome` has to be seen anew, by the most recent state.
    async fn was_outdated(
        self,
        context: &Context,
        target: &Target,
        outcome: &Result<Written, ApiError>,
    ) -> Result<bool, ApiError> {
        let Self::Of(revision, of_objects) = self else {
            return Ok(false);
        };
        let doubtful = match outcome {
            Ok(written) => matches!(&written.object, Shape::Stored(entry) if entry.mod_revision() <= of_objects),
            // What went wrong in the store itself does not go by what was seen.
            Err(error) => error.code().is_client_error(),
        };
        if !doubtful {
            return Ok(false);
        }
        let (store, prefix) = (&context.shared.store, prefix(target));
        let latest = store.latest_with(prefix).await?;
        Ok(latest.revision() > revision || store.of(prefix).revision() > of_objects)
    }
}

/// Whether somebody else wrote to the object at `key`, which was `live`, since the turn was given up.
async fn was_overtaken(
    context: &Context,
    turn: &mut Turn<'_>,
    key: &str,
    live: Option<&Arc<Entry>>,
) -> Result<bool, ApiError> {
    if !turn.retake().await? {
        return Ok(false);
    }
    let snapshot = context.shared.store.newest();
    let revision = |entry: &Arc<Entry>| entry.mod_revision();
    Ok(snapshot.get(key.as_bytes()).map(revision) != live.map(revision))
}

/// Deletes the object that `target` names.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(crate) async fn delete(
    context: &Arc<Context>,
    target: Target,
    options: DeleteOptions,
) -> Result<Written, ApiError> {
    target.check_key()?;
    let mut turn = turn(context, &target).await?;
    delete_in_turn(context, &target, &options, &mut turn).await
}

/// As [`delete`], by one whose turn it is.
///
/// # Errors
/// What the client is to be told of a refusal.
pub(super) async fn delete_in_turn(
    context: &Arc<Context>,
    target: &Target,
    options: &DeleteOptions,
    turn: &mut Turn<'_>,
) -> Result<Written, ApiError> {
    let sight = Sight::take(context, target).await?;
    let outcome = delete_by_sight(context, target, options, turn).await;
    match sight.was_outdated(context, target, &outcome).await? {
        true => delete_by_sight(context, target, options, turn).await,
        false => outcome,
    }
}

async fn delete_by_sight(
    context: &Arc<Context>,
    target: &Target,
    options: &DeleteOptions,
    turn: &mut Turn<'_>,
) -> Result<Written, ApiError> {
    let key = target.key(&target.name);
    let mut options = Cow::Borrowed(options);
    // The object as this request marked it, when it had yet to go.
    let mut marked = None;
    loop {
        target.check_deadline()?;
        let snapshot = context.shared.store.newest();
        let Some(entry) = snapshot.get(key.as_bytes()) else {
            let resource = target.resource.group_resource();
            // What another one finished that this one began is done as well.
            return marked.ok_or_else(|| ApiError::not_found(&resource, &target.name));
        };
        let live = live(target, entry)?;
        let lookup = lookup(context, &target.registry, &snapshot);
        let stage = stage(context, target, &lookup);
        let staged = turn.over(stage.delete(&options, &live)).await?;
        if staged.write == Write::Unchanged {
            return Ok(kept(staged, Arc::clone(entry)));
        }
        if target.dry_run {
            let removed = staged.write == Write::Delete;
            return Ok(Written {
                removed,
                ..unstored(context, staged, Some(entry), usize::MAX)?
            });
        }
        if was_overtaken(context, turn, &key, Some(entry)).await? {
            continue;
        }
        let mut expected = entry.mod_revision();
        if staged.write == Write::Delete && is_marked_first(&target.resource, &staged.object, &live.stored) {
            expected = match mark(context, target, &key, &staged.object, expected).await {
                Ok(revision) => revision,
                Err(Failure::Refused(error)) => return Err(error),
                Err(Failure::Lost) => continue,
            };
            if options.resource_version.is_some() {
                options.to_mut().resource_version = Some(expected.to_string());
            }
            marked = Some(Written {
                object: Shape::Tree(staged.object.clone()),
                created: false,
                removed: true,
                warnings: staged.warnings.clone(),
            });
        }
        match remove_or_mark(context, target, key.clone(), staged, entry, expected).await {
            Ok(written) => return Ok(written),
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Lost) => {}
        }
    }
}

/// The namespace that an object is made in. It must still be there when the object comes to be: otherwise that could happen
/// after the namespace was emptied, and the object would outlive it.
struct Home {
    key: String,
    /// The namespace as the run of the write saw it.
    entry: Arc<Entry>,
    /// At which revision it was seen last.
    revision: AtomicU64,
}

impl Home {
    fn of(target: &Target, snapshot: &Snapshot) -> Option<Self> {
        if target.namespace.is_empty() {
            return None;
        }
        let storage = target.registry.namespaces()?.storage.as_ref()?;
        let key = storage.key("", &target.namespace);
        let entry = snapshot.get(key.as_bytes())?;
        Some(Self {
            revision: AtomicU64::new(entry.mod_revision()),
            entry: Arc::clone(entry),
            key,
        })
    }

    fn guard(&self, transaction: Transaction<Objects>) -> Transaction<Objects> {
        transaction.guard(self.key.as_str(), self.revision.load(Ordering::Relaxed))
    }

    /// Looks at the namespace again, which has changed. Whether it is the same and is not to go, so that the object may come
    /// to be.
    fn is_still_there(&self, snapshot: &Snapshot) -> bool {
        let Some(entry) = snapshot.get(self.key.as_bytes()) else {
            return false;
        };
        self.revision.store(entry.mod_revision(), Ordering::Relaxed);
        let (before, now) = (objects::tree(&self.entry), objects::tree(entry));
        metadata::uid(&before) == metadata::uid(&now) && now.at(&["metadata", "deletionTimestamp"]).is_none()
    }
}

/// Says that `live` has the name of the new object.
fn already_exists(target: &Target, live: &Entry, object: &Value) -> ApiError {
    let prefix = object.str_at(&["metadata", "generateName"]);
    let taken = TakenName {
        name: objects::name_of_key(live.key()),
        deleting: objects::tree(live).at(&["metadata", "deletionTimestamp"]).is_some(),
        generated: prefix.is_some_and(|prefix| !prefix.is_empty()),
    };
    ApiError::already_exists(&target.resource.group_resource(), &taken)
}

fn kept(staged: Staged, entry: Arc<Entry>) -> Written {
    Written {
        object: Shape::Stored(entry),
        created: false,
        removed: false,
        warnings: staged.warnings,
    }
}

/// The end of a dry run, which is refused what would not be stored.
fn unstored(
    context: &Context,
    staged: Staged,
    entry: Option<&Arc<Entry>>,
    most_bytes: usize,
) -> Result<Written, ApiError> {
    let removed = staged.write == Write::Delete;
    if !removed {
        encode(context, &staged.object, staged.raw_as_sent, entry, most_bytes)?;
    }
    Ok(Written {
        object: Shape::Tree(staged.object),
        created: entry.is_none(),
        removed,
        warnings: staged.warnings,
    })
}

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
struct Place<'a> {
    key: String,
    /// What is there.
    live: Option<&'a Arc<Entry>>,
    /// The namespace of a new object.
    home: Option<Home>,
    most_bytes: usize,
}

/// Stores what an update or a creation came to.
async fn store(
    context: &Arc<Context>,
    target: &Target,
    place: Place<'_>,
    staged: Staged,
    charges: Vec<Charged>,
) -> Result<Written, Failure> {
    let Place {
        key,
        live,
        home,
        most_bytes,
    } = place;
    let created = live.is_none();
    let expected = live.map_or(0, |live| live.mod_revision());
    let guarded = || {
        let transaction = Transaction::new().guard(key.as_str(), expected);
        match &home {
            Some(home) => home.guard(transaction),
            None => transaction,
        }
    };
    if staged.write == Write::Delete {
        // Watchers see the object as it was; the client, the one that it asked for.
        commit_object(context, target, guarded().delete(key.as_str()), staged.after).await?;
        return Ok(Written {
            object: Shape::Tree(staged.object),
            created,
            removed: true,
            warnings: staged.warnings,
        });
    }
    let Staged {
        object,
        raw_as_sent,
        after,
        warnings,
        ..
    } = staged;
    let encoded = encode(context, &object, raw_as_sent, live, most_bytes).map_err(Failure::Refused)?;
    let write = || {
        let (resource, version) = (&target.resource, &target.api_version);
        let index = objects::index_of(&target.registry, resource, &object, version);
        guarded().put_indexed(key.as_str(), encoded.clone(), index)
    };
    // Once more by the state of later, where others took from the same objects meanwhile.
    let charge = |snapshot: &Snapshot| {
        let lookup = lookup(context, &target.registry, snapshot);
        charges::of(
            context,
            &stage(context, target, &lookup),
            target,
            snapshot,
            &object,
            live,
        )
    };
    let renew = |key: &[u8], snapshot: &Snapshot| {
        let home = home.as_ref().filter(|home| home.key.as_bytes() == key);
        home.is_some_and(|home| home.is_still_there(snapshot))
    };
    let commit = async {
        let committed = charges::commit(context, target.deadline, charges, write, charge, renew).await?;
        after.stored();
        Ok(committed)
    };
    let committed = acknowledged(context, target, commit).await?;
    let Some(entry) = committed.entries.into_iter().next().flatten() else {
        return Err(Failure::Refused(ApiError::internal("nothing was stored")));
    };
    context.trees.remember(&entry, object, live.map(AsRef::as_ref));
    Ok(Written {
        object: Shape::Stored(entry),
        created,
        removed: false,
        warnings,
    })
}

/// An object as it is stored. Refuses one of more than `most` bytes, unless it takes the place of one that was stored under a
/// larger limit and is no larger than that.
fn encode(
    context: &Context,
    object: &Value,
    raw_as_sent: bool,
    live: Option<&Arc<Entry>>,
    most: usize,
) -> Result<holdfast_store::Value, ApiError> {
    let encoded = objects::encode_as_sent(context.types(), object, raw_as_sent);
    let bytes = encoded.bytes().len();
    let before = live.map_or(0, |live| live.bytes().len());
    if bytes > most && bytes > before {
        return Err(ApiError::unclassified(format!(
            "the object is too large to be stored: it has {bytes} bytes, the limit is {most}"
        )));
    }
    Ok(encoded)
}

/// Stores what a DELETE came to.
async fn remove_or_mark(
    context: &Arc<Context>,
    target: &Target,
    key: String,
    staged: Staged,
    live: &Arc<Entry>,
    expected: Revision,
) -> Result<Written, Failure> {
    if staged.write == Write::Put {
        // However large it is, an object can go.
        let place = Place {
            key,
            live: Some(live),
            home: None,
            most_bytes: usize::MAX,
        };
        return store(context, target, place, staged, Vec::new()).await;
    }
    let last = objects::encode(context.types(), &staged.object);
    let transaction = Transaction::new()
        .guard(key.as_str(), expected)
        .delete_as(key.as_str(), last);
    let committed = commit_object(context, target, transaction, staged.after).await?;
    let shape = match committed.entries.into_iter().next().flatten() {
        Some(entry) => Shape::Stored(entry),
        None => Shape::Tree(staged.object),
    };
    Ok(Written {
        object: shape,
        created: false,
        removed: true,
        warnings: staged.warnings,
    })
}

/// Stores an object whose grace period is over before it began: those who watch see its deletion begin before it is gone.
/// Says at which revision that is.
async fn mark(
    context: &Arc<Context>,
    target: &Target,
    key: &str,
    object: &Value,
    expected: Revision,
) -> Result<Revision, Failure> {
    let (resource, version) = (&target.resource, &target.api_version);
    let index = objects::index_of(&target.registry, resource, object, version);
    let transaction =
        Transaction::new()
            .guard(key, expected)
            .put_indexed(key, objects::encode(context.types(), object), index);
    let committed = context.shared.store.commit(transaction).await?;
    Ok(committed.revision)
}

/// Commits a write to one object.
async fn commit_object(
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

/// Tells the audit log how long a commit takes, where the request is audited.
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
