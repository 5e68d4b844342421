//! Diffs: what the applies of many manifests would change. Each apply is a dry run as its own request would be:
//! authorization, admission and validation included.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use holdfast_resource::{Verb, convert};
use holdfast_value::Value;
use holdfast_writes::{ApplyOptions, Change, FieldChange, Target, WriteOptions, given_up_fields};
use http::StatusCode;
use serde::{Serialize, Serializer};

use super::document::{self, Fields};
use super::field_diffs::{DiffValues, FieldDiff, FieldDiffs};
use super::options::{field_manager, field_validation};
use super::subject::{Requester, Subject};
use super::{API_VERSION, diff_watch};
use crate::api::context::Context;
use crate::api::router::Incoming;
use crate::http::ApiError;
use crate::http::negotiation::body_format;
use crate::http::options::reads_as_true;
use crate::http::query::Query;
use crate::http::response::{self, Response};
use crate::http::status::FieldConflicts;
use crate::objects::{self, Entry};
use crate::runtime::long_work;
use crate::wire::body::RequestBody;
use crate::write::{self, WriteResult};

/// Kind of the document.
const KIND: &str = "Diff";

/// Maximum number of manifests in one request.
const MAX_OBJECTS: usize = 5000;

/// Maximum length in bytes of the values in an answer.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// Number of applies of one request that run concurrently, because some of them may wait for webhooks.
const CONCURRENT_APPLIES: usize = 4;

/// Number of objects from which on a request counts as long work.
const MANY_OBJECTS: usize = 20;

/// Number of attempts if the object changes during its apply.
const MAX_ATTEMPTS: usize = 5;

/// Returns true if the client requests a watch.
pub(super) fn is_watch(query: &Query) -> bool {
    query.get("watch").is_some_and(reads_as_true)
}

/// Answers a POST to `diffs`.
///
/// # Errors
/// 400 or 413 if the document is invalid; errors of single objects are in the answer.
pub(super) async fn create(context: &Arc<Context>, mut incoming: Incoming) -> Result<Response, ApiError> {
    let form = incoming.negotiated.document()?;
    let format = body_format(&incoming.headers, false)?;
    let unread = std::mem::replace(&mut incoming.body, RequestBody::from_bytes(Bytes::new()));
    let body = unread.read().await?;
    long_work::begins(body.len()).await;
    let document = document::parse(&body, format, KIND)?;
    drop(body);
    let requests = DiffRequests::new(context, &incoming, &document)?;
    if is_watch(&incoming.info.query) {
        return diff_watch::start(requests, &incoming.info.query);
    }
    let diffs = requests.diffs().await;
    let answer = DiffDocument::new(&requests, &diffs);
    response::document(context.messages(), StatusCode::CREATED, &form, &answer)
}

/// The manifests of a request with their options.
pub(super) struct DiffRequests {
    pub(super) requester: Requester,
    options: WriteOptions,
    force: bool,
    manifests: Vec<Value>,
}

impl DiffRequests {
    fn new(context: &Arc<Context>, incoming: &Incoming, document: &Value) -> Result<Self, ApiError> {
        Fields::new(
            Some(document),
            "the document",
            &["apiVersion", "kind", "metadata", "spec", "status"],
        )?;
        let known = ["fieldManager", "fieldValidation", "force", "namespace", "objects"];
        let spec = Fields::new(document.get("spec"), "spec", &known)?;
        let options = WriteOptions {
            dry_run: true,
            field_manager: field_manager(&spec)?,
            field_validation: field_validation(&spec)?,
        };
        Ok(Self {
            requester: Requester::new(context, incoming, spec.text("namespace")?),
            options,
            force: spec.flag("force")?,
            manifests: spec.items("objects", MAX_OBJECTS)?.to_vec(),
        })
    }

    /// Returns the number of objects.
    pub(super) fn count(&self) -> usize {
        self.manifests.len()
    }

    /// Returns the diffs of all objects, in their order.
    pub(super) async fn diffs(&self) -> Vec<ObjectDiff> {
        if self.count() >= MANY_OBJECTS {
            long_work::begins(usize::MAX).await;
        }
        let waiting: Vec<BoxFuture<'_, ObjectDiff>> = (0..self.count())
            .map(|index| Box::pin(self.diff_in_turn(index)) as BoxFuture<'_, ObjectDiff>)
            .collect();
        let mut all = Vec::with_capacity(self.count());
        let mut left = MAX_ANSWER_BYTES;
        let mut diffs = futures_util::stream::iter(waiting).buffered(CONCURRENT_APPLIES);
        while let Some(mut diff) = diffs.next().await {
            left = diff.truncate(left);
            all.push(diff);
        }
        all
    }

    /// Returns the diff of the object at this position, after other requests had a turn.
    async fn diff_in_turn(&self, index: usize) -> ObjectDiff {
        tokio::task::yield_now().await;
        self.diff(index).await
    }

    /// Returns the diff of the object at this position.
    pub(super) async fn diff(&self, index: usize) -> ObjectDiff {
        let manifest = self.manifests.get(index).cloned().unwrap_or_default();
        let mut diff = ObjectDiff {
            index,
            subject: Subject::of_manifest(&manifest),
            ..ObjectDiff::default()
        };
        if let Err(error) = Box::pin(self.fill_in(&mut diff, manifest)).await {
            diff.warnings.extend(error.status().warnings.iter().cloned());
            diff.result = DiffResult::Failed;
            diff.status = Some(error);
        }
        diff
    }

    async fn fill_in(&self, diff: &mut ObjectDiff, manifest: Value) -> Result<(), ApiError> {
        let target = self.requester.target(&mut diff.subject, self.options.clone()).await?;
        target.check_key()?;
        self.requester.authorize(Verb::Patch, &target).await?;
        for _ in 0..MAX_ATTEMPTS {
            let existing = self.existing(&target).await?;
            let applied = self.applied(&target, &manifest, diff).await?;
            // The apply runs over the newest state. Its result belongs to `existing` only if that is still the newest.
            if revision(existing.as_deref()) == revision(self.existing(&target).await?.as_deref()) {
                return self.compare(diff, &target, existing.as_deref(), applied).await;
            }
        }
        Err(ApiError::conflict(
            &target.resource.group_resource(),
            &target.name,
            "the object changes too often to be compared",
        ))
    }

    async fn existing(&self, target: &Target) -> Result<Option<Arc<Entry>>, ApiError> {
        let store = &self.requester.context.shared.store;
        let key = target.key(&target.name);
        let snapshot = match store.is_shared() {
            true => store.latest_with(key.as_bytes()).await?,
            false => store.newest(),
        };
        Ok(snapshot.get(key.as_bytes()).cloned())
    }

    /// Returns the result of the apply. Conflicts are noted in `diff`, and the result is that of an apply that ignores
    /// them.
    async fn applied(&self, target: &Target, manifest: &Value, diff: &mut ObjectDiff) -> Result<WriteResult, ApiError> {
        diff.conflicts = FieldConflicts::default();
        match self.apply(target, manifest, self.force).await {
            Err(error) if !self.force && !error.conflicts().is_empty() => {
                diff.conflicts = error.conflicts();
                self.apply(target, manifest, true).await
            }
            outcome => outcome,
        }
    }

    async fn apply(&self, target: &Target, manifest: &Value, force: bool) -> Result<WriteResult, ApiError> {
        let change = Change::Apply {
            applied: manifest.clone(),
            findings: Vec::new(),
            validation: self.options.field_validation,
            options: ApplyOptions {
                conflict_details: true,
                ..ApplyOptions::from_force(force)
            },
        };
        write::update(&self.requester.context.write, again(target), change).await
    }

    async fn compare(
        &self,
        diff: &mut ObjectDiff,
        target: &Target,
        existing: Option<&Entry>,
        applied: WriteResult,
    ) -> Result<(), ApiError> {
        let context = &self.requester.context;
        let after = self.requested(target, applied.object.tree()).await?;
        let before = match existing {
            Some(entry) => self.requested(target, objects::tree_or_rejection(entry)?).await?,
            None => identity(&after),
        };
        diff.warnings = applied.warnings;
        diff.resource_version = existing
            .map(|entry| entry.mod_revision().to_string())
            .unwrap_or_default();
        let changes = context.write.field_managers.compare(target, &before, &after)?;
        diff.result = match (existing.is_some(), changes.is_empty()) {
            (false, _) => DiffResult::Create,
            (true, false) => DiffResult::Update,
            (true, true) => DiffResult::Unchanged,
        };
        diff.add_fields(&changes);
        let compared = given_up_fields(&before, &after, &target.writer.manager);
        let given_up = compared.map_err(|error| ApiError::unclassified(error.to_string()))?;
        diff.given_up = given_up.iter().map(ToString::to_string).collect();
        Ok(())
    }

    /// Converts a stored object to the version of its manifest.
    async fn requested(&self, target: &Target, object: Value) -> Result<Value, ApiError> {
        let callers = self.requester.context.write.as_ref();
        let converted = convert::to_requested(callers, &target.resource, object, &target.api_version).await;
        Ok(converted?)
    }

    /// Returns the key of the object at this position in the store; `None` if it cannot be determined.
    pub(super) async fn key(&self, index: usize) -> Option<String> {
        let mut subject = Subject::of_manifest(self.manifests.get(index)?);
        let target = self.requester.target(&mut subject, self.options.clone()).await.ok()?;
        target.check_key().ok()?;
        Some(target.key(&target.name))
    }
}

/// Returns the same target for another run.
fn again(target: &Target) -> Target {
    let Target {
        registry,
        resource,
        api_version,
        writer,
        ..
    } = target;
    let mut again = Target::new(
        registry.outside_run(),
        resource,
        api_version,
        &target.subresource,
        &writer.user,
        *target.request.now.outside_run(),
    );
    (again.namespace, again.name) = (target.namespace.clone(), target.name.clone());
    again.writer = writer.clone();
    again.request = target.request.clone();
    again
}

fn revision(entry: Option<&Entry>) -> u64 {
    entry.map_or(0, Entry::mod_revision)
}

/// Returns the part of a new object that only names it.
pub(super) fn identity(object: &Value) -> Value {
    let mut identity = Value::empty_map();
    for path in [
        &["apiVersion"][..],
        &["kind"],
        &["metadata", "name"],
        &["metadata", "namespace"],
    ] {
        if let Some(value) = object.at(path) {
            identity.set_at(path, value.clone());
        }
    }
    identity
}

/// Effect of an apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) enum DiffResult {
    /// It creates the object.
    Create,
    /// It changes fields.
    Update,
    /// It changes no field.
    #[default]
    Unchanged,
    /// It is rejected for another reason than conflicts.
    Failed,
}

/// Diff of one object.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectDiff {
    /// Position of the manifest in the request.
    pub(super) index: usize,
    #[serde(flatten)]
    subject: Subject,
    pub(super) result: DiffResult,
    /// Version of the existing object.
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    /// Fields that change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<FieldDiff>,
    /// Number of further fields that change.
    #[serde(skip_serializing_if = "is_zero")]
    fields_omitted: usize,
    /// Fields that stay and that the manager no longer owns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    given_up: Vec<String>,
    /// Conflicts with other managers. The fields are those of an apply that ignores them.
    #[serde(flatten)]
    pub(super) conflicts: FieldConflicts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// Reason why the apply is rejected.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "status")]
    status: Option<ApiError>,
    /// Length of the values in bytes.
    #[serde(skip)]
    length: usize,
}

pub(super) fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn status<S: Serializer>(error: &Option<ApiError>, serializer: S) -> Result<S::Ok, S::Error> {
    match error {
        Some(error) => error.document().serialize(serializer),
        None => serializer.serialize_none(),
    }
}

impl ObjectDiff {
    fn add_fields(&mut self, changes: &[FieldChange]) {
        let diffs = FieldDiffs::new(changes, DiffValues::Included);
        (self.fields, self.fields_omitted, self.length) = (diffs.fields, diffs.omitted, diffs.length);
    }

    /// Leaves out the fields if their values have more than `left` bytes. Returns the number of bytes that are left
    /// after this object.
    fn truncate(&mut self, left: usize) -> usize {
        if self.length <= left {
            return left - self.length;
        }
        self.fields_omitted += self.fields.len();
        self.fields.clear();
        left
    }

    /// Returns true if both are the same diff, perhaps of different versions of the object.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let text = |diff: &Self| {
            let diff = Self {
                resource_version: String::new(),
                ..diff.clone()
            };
            serde_json::to_vec(&diff).unwrap_or_default()
        };
        text(self) == text(other)
    }
}

/// Answer to a request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiffDocument<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata,
    spec: Spec<'a>,
    status: DiffStatus<'a>,
}

#[derive(Serialize)]
struct Metadata {}

/// Request without its manifests, which the client has.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    field_manager: &'a str,
    force: bool,
}

#[derive(Serialize)]
struct DiffStatus<'a> {
    created: usize,
    updated: usize,
    unchanged: usize,
    failed: usize,
    /// Number of objects with conflicts.
    conflicting: usize,
    objects: &'a [ObjectDiff],
}

impl<'a> DiffDocument<'a> {
    /// Returns the document of these diffs.
    pub(super) fn new(requests: &'a DiffRequests, diffs: &'a [ObjectDiff]) -> Self {
        let count = |result| diffs.iter().filter(|diff| diff.result == result).count();
        Self {
            kind: KIND,
            api_version: API_VERSION,
            metadata: Metadata {},
            spec: Spec {
                field_manager: &requests.options.field_manager,
                force: requests.force,
            },
            status: DiffStatus {
                created: count(DiffResult::Create),
                updated: count(DiffResult::Update),
                unchanged: count(DiffResult::Unchanged),
                failed: count(DiffResult::Failed),
                conflicting: diffs.iter().filter(|diff| !diff.conflicts.is_empty()).count(),
                objects: diffs,
            },
        }
    }
}
