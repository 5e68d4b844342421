//! `GET …/NAME/history`: the versions of an object that the store holds, with their managers and changed fields.
//!
//! It is a subresource of every stored object, and kube-apiserver does not have it. Discovery names it only if the
//! client asks for it, and OpenAPI never does. A resource with a subresource of this name keeps its own.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_resource::{Registry, Served, Verb, convert};
use holdfast_store::VersionStep;
use holdfast_value::Value;
use holdfast_writes::{FieldOwners, Owner, Target};
use http::{Method, StatusCode};
use serde::Serialize;
use smol_str::SmolStr;

use super::API_VERSION;
use super::diff::{identity, is_zero};
use super::field_diffs::{DiffValues, FieldDiff, FieldDiffs};
use super::subject::Requester;
use crate::api::context::Context;
use crate::api::router::Incoming;
use crate::http::ApiError;
use crate::http::options::reads_as_true;
use crate::http::query::Query;
use crate::http::request_info::ResourcePath;
use crate::http::response::{self, Response};
use crate::objects::{self, Entry, Objects, Store};
use crate::read::list::unreadable;
use crate::runtime::long_work;

/// Name of the subresource.
pub(in crate::operations) const SUBRESOURCE: &str = "history";

/// Kind of the document.
pub(in crate::operations) const KIND: &str = "ObjectHistory";

/// Number of versions in an answer if the client states no limit.
const DEFAULT_VERSIONS: usize = 100;

/// Maximum number of versions in an answer.
const MAX_VERSIONS: usize = 500;

/// Length in bytes of the fields in an answer above which the answer ends.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// Length in bytes of the versions that one request reads above which the answer ends.
const MAX_READ_BYTES: usize = 32 << 20;

type KeyVersion = holdfast_store::KeyVersion<Objects>;
type KeyVersions = holdfast_store::KeyVersions<Objects>;

/// Object whose history is requested.
pub(in crate::operations) struct HistoryRequest {
    registry: Arc<Registry>,
    served: Served,
    namespace: SmolStr,
    name: SmolStr,
}

/// Returns the object whose history a path names; `None` if the path is another one.
pub(in crate::operations) async fn find(context: &Context, path: &ResourcePath) -> Option<HistoryRequest> {
    if let Some(found) = HistoryRequest::new(context.registry(), path) {
        return Some(found);
    }
    // The resource may be that of a CRD that was just written.
    match context.crds.caught_up().await {
        true => HistoryRequest::new(context.registry(), path),
        false => None,
    }
}

/// Returns true if the objects of a resource have a history.
pub(in crate::operations) fn is_served(served: &Served) -> bool {
    let version = served.version();
    served.resource.storage.is_some()
        && version.verbs.contains(&Verb::Get)
        && version.subresource(SUBRESOURCE).is_none()
}

impl HistoryRequest {
    fn new(registry: Arc<Registry>, path: &ResourcePath) -> Option<Self> {
        let served = registry.served(&path.group, &path.version, &path.resource)?.clone();
        let is_in_place = served.resource.namespaced() == path.in_namespace;
        let is_object = !path.name.is_empty() && path.rest.is_empty() && path.path_verb.is_none();
        if path.subresource != SUBRESOURCE || !is_served(&served) || !is_in_place || !is_object {
            return None;
        }
        Some(Self {
            registry,
            namespace: match path.in_namespace {
                true => path.namespace.clone(),
                false => SmolStr::default(),
            },
            name: path.name.clone(),
            served,
        })
    }

    /// Returns the answer to the request. The path is authorized already; the object itself has to be readable, too.
    ///
    /// # Errors
    /// 403 if the user may not read the object, 404 if the store has no version of it, 410 if the requested versions have
    /// left the history, 400 if an option is invalid.
    pub(in crate::operations) async fn respond(
        self,
        context: &Arc<Context>,
        incoming: Incoming,
    ) -> Result<Response, ApiError> {
        if incoming.method != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        let form = incoming.negotiated.document()?;
        let requester = Requester::new(context, &incoming, "");
        let target = requester.target_at(&self.registry, &self.served, &self.namespace, &self.name);
        target.check_key()?;
        requester.authorize(Verb::Get, &target).await?;
        let options = HistoryOptions::parse(&incoming.info.query)?;
        let key = target.key(&target.name);
        let store = &context.shared.store;
        if store.is_shared() {
            store.latest_with(key.as_bytes()).await?;
        }
        let reader = HistoryReader {
            context,
            target: &target,
            store: store.for_key(key.as_bytes()),
            values: options.values,
        };
        let document = match options.range {
            Some(range) => reader.difference(&key, range).await?,
            None => reader.versions(&key, &options).await?,
        };
        response::document(context.messages(), StatusCode::OK, &form, &document)
    }
}

/// Options of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HistoryOptions {
    limit: usize,
    /// Revision of the last version of the chunk before.
    before: Option<u64>,
    values: DiffValues,
    /// Revisions to compare instead of a list of versions.
    range: Option<RevisionRange>,
}

/// Two revisions to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RevisionRange {
    from: u64,
    /// The current one if it is `None`.
    to: Option<u64>,
}

impl HistoryOptions {
    fn parse(query: &Query) -> Result<Self, ApiError> {
        let number = |name: &str| match query.get(name) {
            None | Some("") => Ok(None),
            Some(text) => {
                let invalid = |_| ApiError::bad_request(format!("{name} must be a whole number, not {text:?}"));
                text.parse::<u64>().map(Some).map_err(invalid)
            }
        };
        let requested = number("limit")?.filter(|limit| *limit > 0);
        let limit = requested.map_or(DEFAULT_VERSIONS, |limit| usize::try_from(limit).unwrap_or(MAX_VERSIONS));
        let range = match (number("from")?, number("to")?) {
            (Some(from), to) => Some(RevisionRange { from, to }),
            (None, None) => None,
            (None, Some(_)) => return Err(ApiError::bad_request("to requires from")),
        };
        Ok(Self {
            limit: limit.min(MAX_VERSIONS),
            before: number("continue")?,
            values: match query.get("values").is_some_and(reads_as_true) {
                true => DiffValues::Included,
                false => DiffValues::Omitted,
            },
            range,
        })
    }
}

/// Returns the next version. Other requests run between the steps of the search for it.
async fn next_version(versions: &mut KeyVersions) -> Option<KeyVersion> {
    loop {
        match versions.step() {
            VersionStep::Version(version) => return Some(version),
            VersionStep::Searching => tokio::task::yield_now().await,
            VersionStep::End => return None,
        }
    }
}

/// Reader of the versions of one object.
struct HistoryReader<'a> {
    context: &'a Arc<Context>,
    target: &'a Target,
    store: &'a Store,
    values: DiffValues,
}

/// Version of the object in the requested API version.
struct ReadVersion {
    revision: u64,
    tree: Value,
}

impl HistoryReader<'_> {
    /// Returns the document of the versions, the newest first.
    async fn versions(&self, key: &str, options: &HistoryOptions) -> Result<HistoryDocument, ApiError> {
        let mut versions = self.store.versions(key, options.before).map_err(unreadable)?;
        let mut document = self.document();
        let (mut read_bytes, mut answer_bytes) = (0, 0);
        let mut newer: Option<ReadVersion> = None;
        while let Some(version) = next_version(&mut versions).await {
            let revision = version.entry().mod_revision();
            read_bytes += version.entry().length();
            long_work::begins(read_bytes).await;
            tokio::task::yield_now().await;
            let known = newer.take().filter(|read| read.revision == revision);
            let (item, length, before) = self.item(&version, known).await;
            newer = before;
            answer_bytes += length;
            document.items.push(item);
            let is_full =
                document.items.len() >= options.limit || answer_bytes > MAX_ANSWER_BYTES || read_bytes > MAX_READ_BYTES;
            if is_full {
                let has_more = next_version(&mut versions).await.is_some();
                document.metadata.next = has_more.then(|| revision.to_string());
                break;
            }
        }
        if document.items.is_empty() && options.before.is_none() {
            return Err(self.not_found());
        }
        Ok(document)
    }

    /// Returns the document with one item: the difference between two revisions.
    async fn difference(&self, key: &str, range: RevisionRange) -> Result<HistoryDocument, ApiError> {
        let snapshot = |revision| self.store.snapshot_at(revision).map_err(unreadable);
        let from = snapshot(range.from)?.get(key.as_bytes()).cloned();
        let newer = match range.to {
            Some(revision) => snapshot(revision)?,
            None => self.store.snapshot(),
        };
        let to = newer.get(key.as_bytes()).cloned();
        let revision = |entry: &Arc<Entry>| entry.mod_revision().to_string();
        let mut item = HistoryItem {
            from_resource_version: from.as_ref().map(revision),
            resource_version: to.as_ref().map(revision),
            operation: match (&from, &to) {
                (None, None) => return Err(self.not_found()),
                (None, Some(_)) => "Create",
                (Some(_), None) => "Delete",
                (Some(_), Some(_)) => "Update",
            },
            ..HistoryItem::default()
        };
        if let (from, Some(to)) = (&from, &to) {
            long_work::begins(to.length() + from.as_ref().map_or(0, |entry| entry.length())).await;
            let after = self.read(to).await?.tree;
            let before = match from {
                Some(from) => self.read(from).await?.tree,
                None => identity(&after),
            };
            self.fill_in(&mut item, &before, &after)?;
            item.managers.clear();
        }
        let mut document = self.document();
        document.items.push(item);
        Ok(document)
    }

    fn document(&self) -> HistoryDocument {
        let Target {
            api_version,
            body,
            namespace,
            name,
            ..
        } = self.target;
        HistoryDocument {
            kind: KIND,
            api_version: API_VERSION,
            metadata: ListMetadata {
                resource_version: self.store.revision().to_string(),
                next: None,
            },
            object: ObjectName {
                api_version: api_version.clone(),
                kind: body.kind.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
            },
            oldest_resource_version: self.store.oldest_revision().to_string(),
            items: Vec::new(),
        }
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.target.resource.group_resource(), &self.target.name)
    }

    /// Returns the item of a version, the length of its fields, and the version before it, if it was read. `known` is the
    /// version itself, if it was read before. A version that cannot be read has an item with the reason.
    async fn item(
        &self,
        version: &KeyVersion,
        known: Option<ReadVersion>,
    ) -> (HistoryItem, usize, Option<ReadVersion>) {
        let entry = version.entry();
        let time = version.event().map(|event| UNIX_EPOCH + whole_millis(event.time()));
        let is_first = entry.create_revision() == entry.mod_revision();
        let mut item = HistoryItem {
            resource_version: Some(entry.mod_revision().to_string()),
            time: time.map(|time| Timestamp::from(time).text(Precision::Micros)),
            operation: match (version.is_removal(), is_first) {
                (true, _) => "Delete",
                (false, true) => "Create",
                (false, false) => "Update",
            },
            ..HistoryItem::default()
        };
        if version.event().is_none() || version.is_removal() {
            return (item, 0, None);
        }
        match self.compare(version, known, &mut item).await {
            Ok((length, before)) => (item, length, before),
            Err(error) => {
                item.error = Some(error.status().message.to_string());
                (item, 0, None)
            }
        }
    }

    async fn compare(
        &self,
        version: &KeyVersion,
        known: Option<ReadVersion>,
        item: &mut HistoryItem,
    ) -> Result<(usize, Option<ReadVersion>), ApiError> {
        let after = match known {
            Some(read) => read,
            None => self.read(version.entry()).await?,
        };
        let before = match version.previous() {
            Some(previous) => Some(self.read(previous).await?),
            None => None,
        };
        let length = match &before {
            Some(before) => self.fill_in(item, &before.tree, &after.tree)?,
            None => self.fill_in(item, &identity(&after.tree), &after.tree)?,
        };
        Ok((length, before))
    }

    async fn read(&self, entry: &Arc<Entry>) -> Result<ReadVersion, ApiError> {
        let tree = objects::tree_or_rejection(entry)?;
        let callers = self.context.write.as_ref();
        let converted = convert::to_requested(callers, &self.target.resource, tree, &self.target.api_version).await;
        Ok(ReadVersion {
            revision: entry.mod_revision(),
            tree: converted?,
        })
    }

    /// Adds the changed fields and their managers to an item. Returns the length of the fields in bytes.
    fn fill_in(&self, item: &mut HistoryItem, before: &Value, after: &Value) -> Result<usize, ApiError> {
        let changes = self.context.write.field_managers.compare(self.target, before, after)?;
        let diffs = FieldDiffs::new(&changes, self.values);
        // Objects whose entries cannot be read have fields without managers.
        let owners = |object: &Value| FieldOwners::decode(object).unwrap_or_default();
        let (owners_before, owners_after) = (owners(before), owners(after));
        let writers = owners_after.writers_since(&owners_before, &diffs.paths);
        item.managers = writers.into_iter().map(ManagerName::from).collect();
        item.fields_omitted = diffs.omitted;
        item.fields = diffs
            .fields
            .into_iter()
            .zip(&diffs.paths)
            .map(|(diff, path)| {
                let owners = match owners_after.of_field(path) {
                    owners if owners.is_empty() => owners_before.of_field(path),
                    owners => owners,
                };
                ChangedField {
                    diff,
                    managers: owners.into_iter().map(ManagerName::from).collect(),
                }
            })
            .collect();
        Ok(diffs.length)
    }
}

/// Returns the time in the resolution of the embedded store, so that it is the same after a restart.
fn whole_millis(time: Duration) -> Duration {
    time.saturating_sub(Duration::from_nanos(u64::from(time.subsec_nanos() % 1_000_000)))
}

/// Answer to a request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryDocument {
    kind: &'static str,
    api_version: &'static str,
    metadata: ListMetadata,
    object: ObjectName,
    /// Oldest resource version at which objects can be read.
    oldest_resource_version: String,
    items: Vec<HistoryItem>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    /// Value of the option `continue` of the request for the next chunk.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectName {
    api_version: SmolStr,
    kind: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    namespace: SmolStr,
    name: SmolStr,
}

/// Version of the object, or the difference between two versions.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryItem {
    /// First of two versions that are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_resource_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    /// Time of the write; absent if it precedes the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<SmolStr>,
    operation: &'static str,
    /// Field managers that wrote the version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    managers: Vec<ManagerName>,
    /// Fields that differ from the version before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<ChangedField>,
    /// Number of further fields that differ.
    #[serde(skip_serializing_if = "is_zero")]
    fields_omitted: usize,
    /// Reason why the version cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangedField {
    #[serde(flatten)]
    diff: FieldDiff,
    /// Owners of the field, of a removed one before its removal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    managers: Vec<ManagerName>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagerName {
    manager: SmolStr,
    operation: &'static str,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    subresource: SmolStr,
}

impl From<&Owner> for ManagerName {
    fn from(owner: &Owner) -> Self {
        Self {
            manager: owner.manager.clone(),
            operation: owner.operation.name(),
            subresource: owner.subresource.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> Result<HistoryOptions, String> {
        HistoryOptions::parse(&Query::parse(query)).map_err(|error| error.status().message.to_string())
    }

    #[test]
    fn options_are_bounded_and_checked() {
        let plain = options("").unwrap();
        assert_eq!((plain.limit, plain.before, plain.range), (DEFAULT_VERSIONS, None, None));
        assert_eq!(options("limit=0&continue=").unwrap(), plain);
        assert_eq!(options("limit=99999999999").unwrap().limit, MAX_VERSIONS);
        let chunk = options("limit=3&continue=17&values=true").unwrap();
        assert_eq!(
            (chunk.limit, chunk.before, chunk.values),
            (3, Some(17), DiffValues::Included)
        );
        let range = options("from=4").unwrap().range.unwrap();
        assert_eq!((range.from, range.to), (4, None));
        for (query, message) in [
            ("limit=-1", "limit must be a whole number, not \"-1\""),
            ("continue=abc", "continue must be a whole number, not \"abc\""),
            ("from=1.5", "from must be a whole number, not \"1.5\""),
            ("to=4", "to requires from"),
        ] {
            assert_eq!(options(query).unwrap_err(), message, "{query}");
        }
    }
}
