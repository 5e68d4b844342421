//! GET of a collection: the objects of one namespace or of all, at one revision.
//!
//! The state to read depends on the resource version of the request and on its match rule
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>). A list that is requested in
//! chunks stores the position of the next chunk in a token.

use std::sync::Arc;
use std::time::Duration;

use holdfast_gotext::number::parse_uint;
use holdfast_resource::selector::{LabelSelector, SelectorError};
use holdfast_resource::{FieldSelector, Resource, Verb};
use holdfast_store::HistoryError;
use holdfast_value::Value;
use tokio::time::Instant;

use super::continue_token::ContinueToken;
use super::items::{Conversion, ListItems};
use crate::http::ApiError;
use crate::http::options::{ListOptions, ResourceVersionMatch};
use crate::http::request::ResourceRequest;
use crate::objects::sharding::ShardSelector;
use crate::objects::{self, Entry, Selection, Snapshot, Store};
use crate::read::Context;
use crate::representation::RequestedVersion;

/// The time for which a read waits for a future revision.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// Returns the objects that a request selects.
///
/// # Errors
/// The errors of [`list`].
pub(crate) async fn page(
    context: &Context,
    request: &ResourceRequest,
    options: &ListOptions,
    selection: &Selection,
) -> Result<Page, ApiError> {
    let token = ContinueToken::read(options)?;
    let extent = Extent {
        of_one: KeyRange::for_request(request, selection).key.is_some(),
        // The objects of a collection are deleted page by page.
        limited: options.limit > 0 || request.verb == Verb::DeleteCollection,
    };
    let resource = &request.served.resource;
    let begun = Instant::now();
    let store = context.shared.store.for_key(objects::key_prefix(resource).as_bytes());
    let snapshot = snapshot(store, options, extent, token.as_ref()).await;
    if options.resource_version != "0" {
        let recent = options.resource_version.is_empty() && token.is_none();
        let lists = context.shared.metrics.lists();
        lists.reached(resource, recent, snapshot.is_ok(), begun.elapsed());
    }
    let snapshot = snapshot?;
    let page = Page::read(context, request, options, selection, token.as_ref(), &snapshot).await?;
    if !page.continue_token.is_empty() {
        store.keep(&snapshot);
    }
    Ok(page)
}

/// Parses the selectors of a request.
///
/// # Errors
/// 400 if they cannot be parsed or name unsupported fields.
pub(crate) fn selection(request: &ResourceRequest, options: &ListOptions) -> Result<Selection, ApiError> {
    let reject = |error: SelectorError| ApiError::bad_request(error.to_string());
    let labels = LabelSelector::parse(&options.label_selector).map_err(reject)?;
    let parsed = FieldSelector::parse(&options.field_selector).map_err(reject)?;
    let fields = parsed
        .resolve(&request.served.resource, request.version())
        .map_err(reject)?;
    let name = (!request.name.is_empty()).then(|| request.name.clone());
    let shard = match options.shard_selector.as_str() {
        "" => None,
        text => {
            let reject = |why| ApiError::unclassified(format!("invalid shard selector: {why}"));
            Some(ShardSelector::parse(text).map_err(reject)?)
        }
    };
    Ok(Selection {
        labels,
        fields,
        name,
        authorized: None,
        shard,
        passed_over: None,
    })
}

/// Parses the revision in a `resourceVersion`; `None` if it is empty.
///
/// # Errors
/// If it is invalid; the text is that of the reference.
fn read_revision(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = parse_uint(text).map_err(|why| {
        let value = Value::from(text);
        format!("resourceVersion: Invalid value: {value}: {why}")
    })?;
    Ok(Some(number))
}

/// Parses the revision of a GET of one object or of a watch; `None` if it is empty.
///
/// # Errors
/// 500 if it is not a number, like in the reference.
pub(crate) fn revision(text: &str) -> Result<Option<u64>, ApiError> {
    read_revision(text).map_err(ApiError::unclassified)
}

/// The part of a collection that is read.
#[derive(Clone, Copy)]
struct Extent {
    /// True if it is one object, by its name.
    of_one: bool,
    /// True if it is a page.
    limited: bool,
}

/// Returns the state to read, by the resource version and its match rule
/// (<https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>).
async fn snapshot(
    store: &Store,
    options: &ListOptions,
    extent: Extent,
    token: Option<&ContinueToken>,
) -> Result<Snapshot, ApiError> {
    let at = match token {
        Some(token) => token.revision(),
        None => {
            let stated = read_revision(&options.resource_version)
                .map_err(|why| ApiError::bad_request(format!("invalid resource version: {why}")))?;
            let wanted = stated.unwrap_or_default();
            // A chunk with a resource version is read at exactly this version, so that the next chunks can use the same
            // state.
            let chunked = options.resource_version_match.is_none() && extent.limited && wanted > 0;
            let exact = options.resource_version_match == Some(ResourceVersionMatch::Exact);
            // The reference answers a list of one object without waiting, so that its error has no retry advice.
            let outcome = fresh(store, stated).await;
            let reached = outcome.map_err(|error| match extent.of_one && (exact || chunked) {
                true => error.without_advice(),
                false => error,
            });
            if !(exact || chunked && !extent.of_one) {
                return reached;
            }
            reached?;
            Some(wanted)
        }
    };
    let Some(at) = at else {
        return fresh(store, None).await;
    };
    fresh(store, Some(at)).await?;
    store.snapshot_at(at).map_err(|error| match (error, token) {
        (HistoryError::Compacted { .. }, Some(token)) => {
            ApiError::expired(CHUNK_TOO_OLD).with_continue_token(token.inconsistent())
        }
        (error, _) => unreadable(error),
    })
}

const TOO_OLD: &str = "The resourceVersion for the provided list is too old.";

const CHUNK_TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. You can \
    start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Returns the newest local state of a store, once it has reached the `stated` version; without a version, the most
/// recent state that any server wrote.
///
/// # Errors
/// 504 if the version is not reached within a few seconds; 500 if the store cannot determine the most recent state.
pub(crate) async fn fresh(store: &Store, stated: Option<u64>) -> Result<Snapshot, ApiError> {
    let Some(wanted) = stated else {
        return Ok(store.latest().await?);
    };
    let reached = store.wait_for(wanted, FUTURE_WAIT).await;
    reached.map_err(unreadable)
}

pub(crate) fn unreadable(error: HistoryError) -> ApiError {
    match error {
        HistoryError::Compacted { .. } => ApiError::expired(TOO_OLD),
        HistoryError::Future { requested, current } => ApiError::too_large_resource_version(requested, current),
        HistoryError::Closed => ApiError::unavailable("the server is shutting down"),
    }
}

/// The objects of an answer.
pub(crate) struct Page {
    /// The objects, in the order of their keys.
    pub(crate) items: ListItems,
    /// The revision at which they were read.
    revision: u64,
    /// The token of the next chunk; empty for the last one.
    continue_token: String,
    /// The number of objects after these, if the list states it.
    remaining: Option<usize>,
    /// The shard of the objects; empty for all.
    shard: String,
}

impl Page {
    async fn read(
        context: &Context,
        request: &ResourceRequest,
        options: &ListOptions,
        selection: &Selection,
        token: Option<&ContinueToken>,
        snapshot: &Snapshot,
    ) -> Result<Self, ApiError> {
        let place = KeyRange::for_request(request, selection);
        let prefix = place.prefix.as_bytes();
        let from = token.map(|token| [prefix, token.start()].concat());
        let resource = &request.served.resource;
        let tally = context.shared.metrics.lists().begin(resource);
        let conversion = Conversion::for_version(&context.representation, &RequestedVersion::of_request(request));
        let pending = place.items(snapshot, resource, selection, from.as_deref(), conversion);
        let items = pending.await?;
        let mut page = Self {
            items: items.counted_by(tally),
            revision: snapshot.revision(),
            continue_token: String::new(),
            remaining: None,
            shard: selection.shard.as_ref().map(ToString::to_string).unwrap_or_default(),
        };
        // Version 0 allows any state. The reference then answers from its cache, which does not support chunks.
        let limit = usize::try_from(options.limit).unwrap_or_default();
        if limit == 0 || options.resource_version == "0" {
            return Ok(page);
        }
        // A token must not tell that there are objects that the user may not read.
        let is_restricted = selection.authorized.is_some();
        let examined = limit.saturating_add(usize::from(is_restricted));
        let items = std::mem::take(&mut page.items).first(examined).await?;
        // A single object selected by name is not a chunk, unless a token continues after it.
        let pages = place.key.is_none() || token.is_some();
        let last = items.found().nth(limit - 1).filter(|_| pages);
        let next = match is_restricted {
            true => items.found().nth(limit),
            // Like the reference, this ignores the selectors: the request for the next chunk applies them.
            false => last.and_then(|last| snapshot.range_after(prefix, last.key()).next()),
        };
        if let (Some(last), Some(next)) = (last, next) {
            if selection.is_every_attribute() {
                page.remaining = Some(remaining(snapshot, prefix, token, limit, next.key()));
            }
            // No other key lies between a key and the same key followed by a zero byte.
            let last = last.key().get(prefix.len()..).unwrap_or_default();
            let start = String::from_utf8_lossy(last).into_owned() + "\0";
            page.continue_token = ContinueToken::new(page.revision, start, page.remaining).text();
        }
        page.items = items.first(limit).await?;
        Ok(page)
    }

    /// Returns all objects of the page, which keeps them.
    ///
    /// # Errors
    /// 500 if a webhook fails whose conversion the selection needs.
    pub(crate) async fn entries(&mut self) -> Result<Vec<Arc<Entry>>, ApiError> {
        let items = std::mem::take(&mut self.items).first(usize::MAX).await?;
        let entries = items.found().cloned().collect();
        self.items = items;
        Ok(entries)
    }

    /// Returns the `metadata` of the list, as JSON.
    pub(crate) fn metadata(&self) -> String {
        self.metadata_that(!self.continue_token.is_empty())
    }

    /// Returns the same metadata, including an empty continue token.
    pub(crate) fn metadata_with_continue(&self) -> String {
        self.metadata_that(true)
    }

    fn metadata_that(&self, continues: bool) -> String {
        let mut metadata = format!("{{\"resourceVersion\":\"{}\"", self.revision);
        if continues {
            metadata.push_str(&format!(",\"continue\":\"{}\"", self.continue_token));
        }
        if let Some(remaining) = self.remaining {
            metadata.push_str(&format!(",\"remainingItemCount\":{remaining}"));
        }
        if !self.shard.is_empty() {
            // The selector contains nothing that JSON escapes.
            metadata.push_str(&format!(",\"shardInfo\":{{\"selector\":\"{}\"}}", self.shard));
        }
        metadata.push('}');
        metadata
    }
}

/// Returns the number of objects after a chunk of `limit`, the first of which has the key `next`: the number in the
/// token of the chunk minus the chunk, so that only the first chunk counts objects.
fn remaining(snapshot: &Snapshot, prefix: &[u8], token: Option<&ContinueToken>, limit: usize, next: &[u8]) -> usize {
    let before = match token {
        Some(token) => token.remaining(),
        None => Some(snapshot.count(prefix)),
    };
    // The number is unknown for the newest objects, and for a token that a client made up.
    match before.and_then(|before| before.checked_sub(limit)) {
        None | Some(0) => snapshot.range_from(prefix, next).count(),
        Some(left) => left,
    }
}

/// The keys of the objects of a list or of a watch.
pub(crate) struct KeyRange {
    /// The common prefix of the keys.
    pub(crate) prefix: String,
    /// The key, if the request is for one object.
    pub(crate) key: Option<String>,
}

impl KeyRange {
    /// Returns the keys of the objects that a request selects. A selector for the namespace or the name narrows the
    /// keys like the path does.
    pub(crate) fn for_request(request: &ResourceRequest, selection: &Selection) -> Self {
        let resource = &request.served.resource;
        let Some(storage) = &resource.storage else {
            return Self {
                prefix: String::new(),
                key: None,
            };
        };
        let selected = selection.fields.namespace().filter(|_| resource.namespaced());
        let namespace = match request.namespace.as_str() {
            "" => selected.unwrap_or_default(),
            of_path => of_path,
        };
        let name = selection.name.as_deref().or(selection.fields.name());
        let complete = !namespace.is_empty() || !resource.namespaced();
        Self {
            prefix: storage.namespace_prefix(namespace),
            key: name.filter(|_| complete).map(|name| storage.key(namespace, name)),
        }
    }

    /// Returns the selected objects of a state, starting at the key `from` if it is given. `conversion` is set if they
    /// may need a webhook.
    ///
    /// # Errors
    /// 500 if an object cannot be decrypted, or if a webhook fails whose conversion the selection needs.
    pub(crate) async fn items(
        &self,
        snapshot: &Snapshot,
        resource: &Arc<Resource>,
        selection: &Selection,
        from: Option<&[u8]>,
        conversion: Option<Conversion>,
    ) -> Result<ListItems, ApiError> {
        let prefix = self.prefix.as_bytes();
        let from = from.unwrap_or(prefix);
        match &self.key {
            Some(key) => {
                let entry = snapshot.get(key.as_bytes());
                let may_show = |entry: &&Arc<Entry>| selection.may_show(resource, entry.key());
                let found = entry.filter(|entry| entry.key()[..] >= *from).filter(may_show).cloned();
                if let Some(entry) = &found {
                    objects::check_transformable(entry)?;
                }
                ListItems::from_entries(found.into_iter().collect(), resource, selection, conversion).await
            }
            None => {
                if snapshot.may_be_untransformable() {
                    let entries = snapshot.range(prefix);
                    let mut shown = entries.filter(|entry| selection.may_show(resource, entry.key()));
                    shown.try_for_each(|entry| objects::check_transformable(entry))?;
                }
                Ok(ListItems::new(
                    snapshot.clone(),
                    Arc::clone(resource),
                    selection.clone(),
                    prefix.to_vec(),
                    from.to_vec(),
                    conversion,
                ))
            }
        }
    }
}
