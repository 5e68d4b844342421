//! Transactions: writes to several objects that are stored together or not at all.
//!
//! Each write runs as its own request would, over the state that the writes before it in the list leave. The commit is
//! guarded by the revisions of all objects that are written, of their parents, and of those that are only read. If another
//! writer was faster, all runs start over.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_resource::Verb;
use holdfast_store::{Committed, Key, Transaction};
use holdfast_value::Value;
use holdfast_writes::{
    AfterCommit, Change, DeleteOptions, Staged, Target, Write, check_has_no_version, check_namespace, metadata,
};
use tokio::time::Instant;

use super::commit::{Failure, encode};
use super::environment::{lookup, stage, stored_object};
use super::parent_guard::ParentGuards;
use super::reservations::{self, Reserved};
use super::size_limit::{NewVersion, SizeLimit};
use super::turns::Turn;
use super::write_result::{WriteResult, WrittenObject};
use crate::http::{ApiError, TakenName};
use crate::objects::{self, Entry, Index, Objects, Snapshot};
use crate::write::Context;

/// Maximum number of operations of a transaction. Its commit also contains guards, quotas and allocations.
pub(crate) const MAX_OPERATIONS: usize = 500;

/// One operation of a transaction.
pub(crate) struct Operation {
    /// The object.
    pub(crate) target: Target,
    pub(crate) change: OperationChange,
    pub(crate) precondition: Precondition,
}

/// Change of an object.
pub(crate) enum OperationChange {
    /// Creates this object, which is decoded, typed and defaulted.
    Create(Value),
    /// Updates the object.
    Update(Change),
    /// Deletes the object.
    Delete(DeleteOptions),
    /// Only checks the precondition.
    Check,
}

/// State that an object must have before the transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Precondition {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    /// True if the object must not exist.
    pub(crate) absent: bool,
}

/// Reason why a transaction is not stored.
pub(crate) struct OperationError {
    /// Position of the operation that failed; `None` if the commit failed.
    pub(crate) index: Option<usize>,
    pub(crate) error: ApiError,
}

impl OperationError {
    fn of_commit(error: ApiError) -> Self {
        Self { index: None, error }
    }
}

/// Runs the operations and stores their results together.
///
/// # Errors
/// If an operation or the commit is rejected. Then nothing is stored.
pub(crate) async fn transact(
    context: &Arc<Context>,
    operations: &[Operation],
    deadline: Option<Instant>,
) -> Result<Vec<WriteResult>, OperationError> {
    let store = &context.shared.store;
    let dry_run = operations.iter().all(|operation| operation.target.request.dry_run);
    let mut turns = Vec::new();
    loop {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(OperationError::of_commit(ApiError::out_of_time()));
        }
        let snapshot = match store.is_shared() {
            true => store
                .latest()
                .await
                .map_err(|error| OperationError::of_commit(error.into()))?,
            false => store.newest(),
        };
        let mut run = Run::new(context, snapshot);
        for (index, operation) in operations.iter().enumerate() {
            tokio::task::yield_now().await;
            let outcome = Box::pin(run.execute(index, operation)).await;
            outcome.map_err(|error| OperationError {
                index: Some(index),
                error,
            })?;
        }
        if dry_run {
            return Ok(run.into_results());
        }
        match run.commit(operations).await {
            Ok(results) => return Ok(results),
            Err(Failure::TooLarge(error) | Failure::Rejected(error)) => return Err(OperationError::of_commit(error)),
            // From the second attempt on, other writers of these objects wait.
            Err(Failure::Lost) if turns.is_empty() => {
                turns = all_turns(context, operations, deadline)
                    .await
                    .map_err(OperationError::of_commit)?;
            }
            Err(Failure::Lost) => {}
        }
    }
}

/// Waits for the turns at all objects. Their order is that of their keys, so that no two transactions wait for each
/// other.
async fn all_turns<'a>(
    context: &'a Context,
    operations: &[Operation],
    deadline: Option<Instant>,
) -> Result<Vec<Turn<'a>>, ApiError> {
    let written = operations
        .iter()
        .filter(|one| !matches!(one.change, OperationChange::Check));
    let mut keys: Vec<String> = written.map(|one| one.target.key(&one.target.name)).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut turns = Vec::with_capacity(keys.len());
    for key in keys {
        turns.push(context.turns.take(&key, deadline).await?);
    }
    Ok(turns)
}

/// Write of one object that is ready to be committed.
enum StagedOp {
    Put(holdfast_store::Value, Index),
    Delete(Option<holdfast_store::Value>),
}

/// Result of an operation before the commit.
struct Outcome {
    /// Key of the object.
    key: String,
    staged: Option<StagedOp>,
    result: WriteResult,
    existing: Option<Arc<Entry>>,
    after: AfterCommit,
}

/// Runs of the operations over one state.
struct Run<'a> {
    context: &'a Arc<Context>,
    base: Snapshot,
    /// The base with the results of the operations so far.
    now: Snapshot,
    outcomes: Vec<Outcome>,
    /// Positions of the operations by the keys of their objects.
    by_key: BTreeMap<String, usize>,
    /// Revisions that objects must have at the commit; 0 for absent ones.
    guards: BTreeMap<String, u64>,
    /// Last charge of each quota.
    reservations: BTreeMap<String, Reserved>,
}

impl<'a> Run<'a> {
    fn new(context: &'a Arc<Context>, snapshot: Snapshot) -> Self {
        Self {
            context,
            base: snapshot.clone(),
            now: snapshot,
            outcomes: Vec::new(),
            by_key: BTreeMap::new(),
            guards: BTreeMap::new(),
            reservations: BTreeMap::new(),
        }
    }

    async fn execute(&mut self, index: usize, operation: &Operation) -> Result<(), ApiError> {
        let target = &operation.target;
        let has_name = !matches!(operation.change, OperationChange::Create(_));
        if has_name {
            target.check_key()?;
            let key = target.key(&target.name);
            self.enter(index, &key)?;
            let existing = self.base.get(key.as_bytes());
            operation.precondition.check(target, existing.map(AsRef::as_ref))?;
            self.guards
                .insert(key, existing.map_or(0, |entry| entry.mod_revision()));
        }
        match &operation.change {
            OperationChange::Create(object) => self.create(index, operation, object.clone()).await,
            OperationChange::Update(change) => self.update(target, change).await,
            OperationChange::Delete(options) => self.delete(target, options).await,
            OperationChange::Check => {
                let key = target.key(&target.name);
                let result = match self.base.get(key.as_bytes()) {
                    Some(entry) => WriteResult::unchanged(entry, Vec::new()),
                    None => WriteResult::without_object(),
                };
                self.outcomes.push(Outcome {
                    key,
                    staged: None,
                    result,
                    existing: None,
                    after: AfterCommit::default(),
                });
                Ok(())
            }
        }
    }

    /// Notes that the operation at `index` is about the object at `key`.
    fn enter(&mut self, index: usize, key: &str) -> Result<(), ApiError> {
        if self.reservations.contains_key(key) {
            return Err(ApiError::bad_request(
                "an earlier operation of the transaction is charged to this object",
            ));
        }
        match self.by_key.insert(key.to_owned(), index) {
            None => Ok(()),
            Some(earlier) => Err(ApiError::bad_request(format!(
                "operation {earlier} of the transaction is about the same object"
            ))),
        }
    }

    async fn create(&mut self, index: usize, operation: &Operation, mut object: Value) -> Result<(), ApiError> {
        let target = &operation.target;
        check_namespace(&mut object, &target.namespace)?;
        metadata::wipe(&mut object);
        let snapshot = self.now.clone();
        let context = self.context;
        let lookup = lookup(context, target.registry.outside_run(), &snapshot);
        let stage = stage(context, target, &lookup);
        let staged = stage.create(object).await?;
        check_has_no_version(&staged.object)?;
        let name = metadata::name(&staged.object);
        let key = target.key(name);
        self.enter(index, &key)?;
        let existing = self.base.get(key.as_bytes());
        operation.precondition.check(target, existing.map(AsRef::as_ref))?;
        if let Some(existing) = existing {
            let taken = TakenName {
                name: objects::name_of_key(existing.key()),
                deleting: existing.index().is_terminating(),
                generated: staged.object.at(&["metadata", "generateName"]).is_some(),
            };
            let error = ApiError::already_exists(&target.resource.group_resource(), &taken);
            return Err(error.with_warnings(staged.warnings));
        }
        self.guards.insert(key.clone(), 0);
        let reserved = reservations::reserve(self.context, &stage, target, &snapshot, &staged.object, None);
        let charged = reserved.map_err(|error| error.with_warnings(staged.warnings.clone()))?;
        self.put(target, key, None, staged, charged)
    }

    async fn update(&mut self, target: &Target, change: &Change) -> Result<(), ApiError> {
        let key = target.key(&target.name);
        let snapshot = self.now.clone();
        let context = self.context;
        let lookup = lookup(context, target.registry.outside_run(), &snapshot);
        let stage = stage(context, target, &lookup);
        let entry = self.base.get(key.as_bytes()).cloned();
        let existing = match &entry {
            Some(entry) => Some(stored_object(target, entry)?),
            None => None,
        };
        let staged = stage.update(change, existing.as_ref()).await?;
        match (staged.write, entry) {
            (Write::Unchanged, Some(entry)) => {
                let result = WriteResult::unchanged(&entry, staged.warnings);
                self.unchanged(key, result);
                Ok(())
            }
            (Write::Delete, Some(entry)) => {
                self.remove(key, entry, staged, None);
                Ok(())
            }
            (_, entry) => {
                let reserved =
                    reservations::reserve(self.context, &stage, target, &snapshot, &staged.object, entry.as_ref());
                let charged = reserved.map_err(|error| error.with_warnings(staged.warnings.clone()))?;
                self.put(target, key, entry, staged, charged)
            }
        }
    }

    async fn delete(&mut self, target: &Target, options: &DeleteOptions) -> Result<(), ApiError> {
        let key = target.key(&target.name);
        let Some(entry) = self.base.get(key.as_bytes()).cloned() else {
            return Err(ApiError::not_found(&target.resource.group_resource(), &target.name));
        };
        let snapshot = self.now.clone();
        let context = self.context;
        let lookup = lookup(context, target.registry.outside_run(), &snapshot);
        let stage = stage(context, target, &lookup);
        let existing = stored_object(target, &entry)?;
        let staged = stage.delete(options, &existing).await?;
        match staged.write {
            Write::Unchanged => {
                let result = WriteResult::unchanged(&entry, staged.warnings);
                self.unchanged(key, result);
                Ok(())
            }
            Write::Put => self.put(target, key, Some(entry), staged, Vec::new()),
            Write::Delete => {
                let last =
                    (staged.object != existing.object).then(|| objects::encode(self.context.types(), &staged.object));
                self.remove(key, entry, staged, last);
                Ok(())
            }
        }
    }

    fn unchanged(&mut self, key: String, result: WriteResult) {
        self.outcomes.push(Outcome {
            key,
            staged: None,
            result,
            existing: None,
            after: AfterCommit::default(),
        });
    }

    fn put(
        &mut self,
        target: &Target,
        key: String,
        existing: Option<Arc<Entry>>,
        staged: Staged,
        charged: Vec<Reserved>,
    ) -> Result<(), ApiError> {
        if existing.is_none() {
            let parents = ParentGuards::new(target, metadata::name(&staged.object), &self.now)?;
            for (parent, revision) in parents.revisions() {
                // A parent that the transaction writes has a guard of its own.
                if !self.by_key.contains_key(parent) {
                    self.guards.entry(parent.to_owned()).or_insert(revision);
                }
            }
        }
        let Staged {
            object,
            raw_form,
            facts,
            after,
            warnings,
            ..
        } = staged;
        let is_deletion = object.at(&["metadata", "deletionTimestamp"]).is_some();
        let new_version = NewVersion {
            key: &key,
            resource: &target.resource,
            object: &object,
            raw_form,
            existing: existing.as_ref(),
            limit: match is_deletion {
                true => SizeLimit::Unlimited,
                false => self.context.size_limit,
            },
        };
        let value = encode(self.context, &new_version)?;
        let index = objects::index_of(
            target.registry.outside_run(),
            &target.resource,
            &object,
            &target.api_version,
        )
        .with_facts(facts);
        self.now = self.now.clone().after_put(&Key::from(key.as_str()), &value);
        for reserved in charged {
            self.charge(reserved)?;
        }
        self.outcomes.push(Outcome {
            key,
            staged: Some(StagedOp::Put(value, index)),
            result: WriteResult {
                object: WrittenObject::Tree(object),
                created: existing.is_none(),
                removed: false,
                unchanged: false,
                warnings,
            },
            existing,
            after,
        });
        Ok(())
    }

    /// Adds a charge to a quota. A later charge replaces an earlier one, whose result it contains.
    fn charge(&mut self, reserved: Reserved) -> Result<(), ApiError> {
        let key = reserved.key().to_owned();
        if self.by_key.contains_key(&key) {
            return Err(ApiError::bad_request(
                "the operation is charged to a quota that the transaction writes itself",
            ));
        }
        let before = self.base.get(key.as_bytes()).map_or(0, |entry| entry.mod_revision());
        self.guards.insert(key.clone(), before);
        let (value, _) = reserved.encoded(self.context.types());
        self.now = self.now.clone().after_put(&Key::from(key.as_str()), &value);
        self.reservations.insert(key, reserved);
        Ok(())
    }

    fn remove(&mut self, key: String, entry: Arc<Entry>, staged: Staged, last: Option<holdfast_store::Value>) {
        self.now = self.now.clone().after_delete(&Key::from(key.as_str()));
        self.outcomes.push(Outcome {
            key,
            staged: Some(StagedOp::Delete(last)),
            result: WriteResult {
                object: WrittenObject::Tree(staged.object),
                created: false,
                removed: true,
                unchanged: false,
                warnings: staged.warnings,
            },
            existing: Some(entry),
            after: staged.after,
        });
    }

    /// Returns the results of a dry run. Its callbacks report that nothing was stored.
    fn into_results(self) -> Vec<WriteResult> {
        self.outcomes.into_iter().map(|outcome| outcome.result).collect()
    }

    /// Commits the results.
    async fn commit(self, operations: &[Operation]) -> Result<Vec<WriteResult>, Failure> {
        let context = self.context;
        let mut transaction = Transaction::new().with_consecutive_revisions();
        for (key, revision) in &self.guards {
            transaction = transaction.guard(key.as_str(), *revision);
        }
        // Positions of the outcomes that are stored, in the order of the operations.
        let mut stored = Vec::new();
        let mut finished = Vec::new();
        for (position, outcome) in self.outcomes.into_iter().enumerate() {
            let Outcome {
                key,
                staged,
                result,
                existing,
                after,
            } = outcome;
            let is_stored = staged.is_some();
            transaction = match staged {
                Some(StagedOp::Put(value, index)) => transaction.put_indexed(key.as_str(), value, index),
                Some(StagedOp::Delete(Some(last))) => transaction.delete_as(key.as_str(), last),
                Some(StagedOp::Delete(None)) => transaction.delete(key.as_str()),
                None => transaction,
            };
            if is_stored {
                stored.push(position);
            }
            finished.push(FinishedOperation {
                result,
                existing,
                after,
            });
        }
        for (key, reserved) in &self.reservations {
            let (value, index) = reserved.encoded(context.types());
            transaction = transaction.put_indexed(key.as_str(), value, index);
        }
        check_one_store(context, &transaction).map_err(Failure::Rejected)?;
        let defines = operations
            .iter()
            .any(|one| one.target.resource.capabilities.defines.is_some());
        let committed = match defines {
            true => {
                let pending = context.crds.begin_write();
                let committed = commit_together(context, transaction).await?;
                context.crds.committed(committed.revision).await;
                drop(pending);
                committed
            }
            false => commit_together(context, transaction).await?,
        };
        let mut entries = committed.entries.into_iter();
        let mut stored = stored.into_iter().peekable();
        let mut results = Vec::with_capacity(finished.len());
        for (position, operation) in finished.into_iter().enumerate() {
            let entry = match stored.next_if_eq(&position) {
                Some(_) => entries.next().flatten(),
                None => None,
            };
            results.push(operation.finish(context, entry));
        }
        Ok(results)
    }
}

/// An operation whose result is being committed.
struct FinishedOperation {
    result: WriteResult,
    existing: Option<Arc<Entry>>,
    after: AfterCommit,
}

impl FinishedOperation {
    /// Returns the result after the commit, which stored `entry`.
    fn finish(mut self, context: &Context, entry: Option<Arc<Entry>>) -> WriteResult {
        self.after.stored();
        if let Some(entry) = entry {
            let tree = match (self.result.removed, self.result.object) {
                (false, WrittenObject::Tree(tree)) => context.trees.remember(&entry, tree, self.existing.as_deref()),
                _ => None,
            };
            self.result.object = WrittenObject::Stored(entry, tree);
        }
        self.result
    }
}

/// Commits a transaction. Errors state the size of the transaction, because the limits of etcd apply to the whole.
async fn commit_together(context: &Context, transaction: Transaction<Objects>) -> Result<Committed<Objects>, Failure> {
    let count = transaction.ops.len();
    let guards = transaction.guards.len();
    context.shared.store.commit(transaction).await.map_err(|error| {
        let text = error.to_string();
        let is_limit = text.contains("too many operations") || text.contains("request is too large");
        match is_limit {
            true => Failure::Rejected(ApiError::too_large_because(format!(
                "the transaction has {count} writes and {guards} conditions, which etcd rejects: {text}"
            ))),
            false => error.into(),
        }
    })
}

/// Checks that one store has all objects, because stores do not commit together.
fn check_one_store(context: &Context, transaction: &Transaction<Objects>) -> Result<(), ApiError> {
    let store = &context.shared.store;
    if store.overrides().is_empty() {
        return Ok(());
    }
    let mut homes = transaction
        .ops
        .iter()
        .map(|op| std::ptr::from_ref(store.for_key(op.key())));
    let first = homes.next();
    match homes.all(|home| Some(home) == first) {
        true => Ok(()),
        false => Err(ApiError::bad_request(
            "the objects of the transaction are in different stores (--etcd-servers-overrides)",
        )),
    }
}

impl Precondition {
    /// Checks the precondition against the existing object.
    ///
    /// # Errors
    /// 409 if it does not hold, 404 if it names an object that does not exist.
    fn check(&self, target: &Target, existing: Option<&Entry>) -> Result<(), ApiError> {
        let resource = target.resource.group_resource();
        let failed = |why: String| {
            Err(ApiError::conflict(
                &resource,
                &target.name,
                format!("precondition failed: {why}"),
            ))
        };
        let Some(existing) = existing else {
            return match self.uid.is_some() || self.resource_version.is_some() {
                true => Err(ApiError::not_found(&resource, &target.name)),
                false => Ok(()),
            };
        };
        if self.absent {
            return failed("the object exists".to_owned());
        }
        if let Some(expected) = &self.resource_version {
            let version = existing.mod_revision().to_string();
            if *expected != version {
                return failed(format!("the resource version is {version}, not {expected}"));
            }
        }
        if let Some(expected) = &self.uid {
            let tree = objects::tree_or_rejection(existing)?;
            let uid = metadata::uid(&tree);
            if expected != uid {
                return failed(format!("the uid is {uid}, not {expected}"));
            }
        }
        Ok(())
    }
}

impl OperationChange {
    /// Returns the verb that the requester needs.
    pub(crate) fn verb(&self, is_patch: bool) -> Verb {
        match self {
            Self::Create(_) => Verb::Create,
            Self::Update(_) if is_patch => Verb::Patch,
            Self::Update(_) => Verb::Update,
            Self::Delete(_) => Verb::Delete,
            Self::Check => Verb::Get,
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_store::Revision;

    use super::super::testing::{CONFIG, World, applied, merge};
    use super::*;

    const OTHER: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {k: '1'}}";

    fn operation(world: &World, text: &str, change: OperationChange) -> Operation {
        Operation {
            target: world.target(text, ""),
            change,
            precondition: Precondition::default(),
        }
    }

    async fn transacted(world: &World, operations: &[Operation]) -> Result<Vec<WriteResult>, (Option<usize>, u16)> {
        let outcome = transact(&world.context, operations, None).await;
        outcome.map_err(|failed| (failed.index, failed.error.code().as_u16()))
    }

    fn revision(result: &WriteResult) -> Revision {
        match &result.object {
            WrittenObject::Stored(entry, _) => entry.mod_revision(),
            WrittenObject::Tree(_) => 0,
        }
    }

    #[tokio::test]
    async fn operations_get_consecutive_revisions_in_order() {
        let world = World::new();
        let existing = world.create(CONFIG).await;
        let operations = [
            operation(&world, OTHER, OperationChange::Create(world.object(OTHER))),
            operation(&world, CONFIG, OperationChange::Update(merge("{data: {k: '2'}}"))),
        ];
        let results = transacted(&world, &operations).await.unwrap();
        let first = existing.mod_revision() + 1;
        assert_eq!(results.iter().map(revision).collect::<Vec<_>>(), [first, first + 1]);
        assert!(results[0].created && !results[1].created);
    }

    #[tokio::test]
    async fn failed_operation_stores_nothing() {
        let world = World::new();
        world.create(CONFIG).await;
        let before = world.snapshot().revision();
        let operations = [
            operation(&world, OTHER, OperationChange::Update(applied(OTHER))),
            operation(&world, CONFIG, OperationChange::Create(world.object(CONFIG))),
        ];
        assert_eq!(transacted(&world, &operations).await.err(), Some((Some(1), 409)));
        assert_eq!(world.snapshot().revision(), before);
    }

    #[tokio::test]
    async fn one_object_has_one_operation() {
        let world = World::new();
        world.create(CONFIG).await;
        let operations = [
            operation(&world, CONFIG, OperationChange::Update(merge("{data: {k: '2'}}"))),
            operation(&world, CONFIG, OperationChange::Delete(DeleteOptions::default())),
        ];
        assert_eq!(transacted(&world, &operations).await.err(), Some((Some(1), 400)));
    }

    #[tokio::test]
    async fn preconditions_of_read_objects_guard_the_commit() {
        let world = World::new();
        let existing = world.create(CONFIG).await;
        let uid = metadata::uid(&objects::tree(&existing)).to_owned();
        let check = |precondition: Precondition, text: &str| Operation {
            precondition,
            ..operation(&world, text, OperationChange::Check)
        };
        let version = |version: u64| Precondition {
            resource_version: Some(version.to_string()),
            uid: Some(uid.clone()),
            ..Precondition::default()
        };
        let absent = Precondition {
            absent: true,
            ..Precondition::default()
        };
        for (precondition, text, expected) in [
            (version(existing.mod_revision()), CONFIG, None),
            (version(existing.mod_revision() + 1), CONFIG, Some((Some(0), 409))),
            (version(1), OTHER, Some((Some(0), 404))),
            (absent.clone(), OTHER, None),
            (absent, CONFIG, Some((Some(0), 409))),
        ] {
            let outcome = transacted(&world, &[check(precondition.clone(), text)]).await;
            assert_eq!(outcome.err(), expected, "{precondition:?}");
        }
    }

    #[tokio::test]
    async fn racing_transactions_are_all_stored() {
        let world = World::new();
        world.create(CONFIG).await;
        world.create(OTHER).await;
        let race = (0..6).map(async |at| {
            let change = || OperationChange::Update(merge(&format!("{{data: {{k{at}: x}}}}")));
            let mut operations = [operation(&world, CONFIG, change()), operation(&world, OTHER, change())];
            if at % 2 == 0 {
                operations.reverse();
            }
            transacted(&world, &operations).await.is_ok()
        });
        assert!(
            futures_util::future::join_all(race)
                .await
                .into_iter()
                .all(|stored| stored)
        );
        for text in [CONFIG, OTHER] {
            let data = objects::tree(&world.entry(text).unwrap());
            assert_eq!(data.at(&["data"]).and_then(Value::as_map).unwrap().iter().count(), 7);
        }
    }

    #[tokio::test]
    async fn dry_run_stores_nothing() {
        let world = World::new();
        let mut dry = operation(&world, CONFIG, OperationChange::Create(world.object(CONFIG)));
        dry.target.request.dry_run = true;
        let results = transacted(&world, &[dry]).await.unwrap();
        assert!(results[0].created && world.entry(CONFIG).is_none());
    }
}
