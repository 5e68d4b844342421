//! GET of a collection: the objects of a namespace or of all, at one revision.
//!
//! The items are the stored bytes, copied in runs of some size as the client takes them: nothing is parsed, and what is
//! not sent yet is not held in memory twice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use holdfast_resource::selector::{FieldSelector, LabelSelector, SelectorError};
use holdfast_store::HistoryError;
use holdfast_value::Value;
use http::StatusCode;

use super::continue_token::ContinueToken;
use super::representation::{self, Shown};
use crate::ApiError;
use crate::body::ResponseBody;
use crate::negotiation::{Format, View};
use crate::objects::{self, Entry, Selection, Snapshot};
use crate::options::{ListOptions, ResourceVersionMatch};
use crate::request::ResourceRequest;
use crate::response::{self, Response};
use crate::state::Context;

/// How long a read waits for a revision that is yet to come.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// The size at which a run of items is sent.
const RUN_BYTES: usize = 64 * 1024;

/// Answers a GET of a collection.
///
/// # Errors
/// 400 for selectors and versions that cannot be read, 410 for versions that are gone, 504 for those yet to come.
pub(super) async fn list(context: &Arc<Context>, request: ResourceRequest) -> Result<Response, ApiError> {
    let options = ListOptions::parse(&request.query)?;
    let selection = selection(&request, &options)?;
    let page = page(context, &request, &options, &selection).await?;
    answer(context, &request, page)
}

/// The objects that a request asks for.
///
/// # Errors
/// As [`list`].
pub(super) async fn page(
    context: &Context,
    request: &ResourceRequest,
    options: &ListOptions,
    selection: &Selection,
) -> Result<Page, ApiError> {
    let token = ContinueToken::read(options)?;
    let snapshot = snapshot(context, options, token.as_ref()).await?;
    let page = Page::read(request, options, selection, token, &snapshot);
    if !page.continue_token.is_empty() {
        context.store.keep(&snapshot);
    }
    Ok(page)
}

/// What the selectors of a request choose.
///
/// # Errors
/// 400 where they cannot be read or name fields that cannot be selected by.
pub(super) fn selection(request: &ResourceRequest, options: &ListOptions) -> Result<Selection, ApiError> {
    let refuse = |error: SelectorError| ApiError::bad_request(error.to_string());
    let labels = LabelSelector::parse(&options.label_selector).map_err(refuse)?;
    let fields = FieldSelector::parse(&options.field_selector).map_err(refuse)?;
    let fields = fields.resolve(&request.served.resource).map_err(refuse)?;
    let name = (!request.name.is_empty()).then(|| request.name.clone());
    Ok(Selection { labels, fields, name })
}

/// The revision that the text of a `resourceVersion` names; `None` for none.
///
/// # Errors
/// What is wrong with it, in the reference's words.
fn read_revision(text: &str) -> Result<Option<u64>, String> {
    use std::num::IntErrorKind::PosOverflow;
    if text.is_empty() {
        return Ok(None);
    }
    let why = match text.parse() {
        Ok(number) if !text.starts_with('+') => return Ok(Some(number)),
        Err(error) if *error.kind() == PosOverflow => "value out of range",
        _ => "invalid syntax",
    };
    let quoted = Value::from(text);
    Err(format!(
        "resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}"
    ))
}

/// The revision that a GET of one object or a watch names; `None` for none.
///
/// # Errors
/// 500 where it is no number, as in the reference.
pub(super) fn revision(text: &str) -> Result<Option<u64>, ApiError> {
    read_revision(text).map_err(ApiError::unclassified)
}

/// The state to read: as the version and its rule say
/// (<https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>).
async fn snapshot(
    context: &Context,
    options: &ListOptions,
    token: Option<&ContinueToken>,
) -> Result<Snapshot, ApiError> {
    let at = match token {
        Some(token) => token.revision(),
        None => {
            let wanted = read_revision(&options.resource_version)
                .map_err(|why| ApiError::bad_request(format!("invalid resource version: {why}")))?
                .unwrap_or_default();
            // A chunk of a stated version is one of exactly this version, so that the next ones can show the same.
            let exact = match options.resource_version_match {
                Some(rule) => rule == ResourceVersionMatch::Exact,
                None => options.limit > 0 && wanted > 0,
            };
            if !exact {
                return not_older_than(context, wanted).await;
            }
            Some(wanted)
        }
    };
    let Some(at) = at else {
        return Ok(context.store.snapshot());
    };
    not_older_than(context, at).await?;
    context.store.snapshot_at(at).map_err(|error| match (error, token) {
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

/// The newest state, once it has reached `wanted`.
///
/// # Errors
/// 504 where that has not come about in a few seconds.
pub(super) async fn not_older_than(context: &Context, wanted: u64) -> Result<Snapshot, ApiError> {
    let reached = context.store.wait_for(wanted, FUTURE_WAIT).await;
    reached.map_err(unreadable)
}

fn unreadable(error: HistoryError) -> ApiError {
    match error {
        HistoryError::Compacted { .. } => ApiError::expired(TOO_OLD),
        HistoryError::Future { requested, current } => ApiError::too_large_resource_version(requested, current),
        HistoryError::Closed => ApiError::unavailable("the server is shutting down"),
    }
}

/// The objects of an answer.
pub(crate) struct Page {
    /// The objects, in the order of their keys.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The revision they were read at.
    pub(super) revision: u64,
    /// The token of the next chunk; empty for the last.
    pub(super) continue_token: String,
    /// How many objects come after these, where that is told.
    pub(super) remaining: Option<usize>,
}

impl Page {
    fn read(
        request: &ResourceRequest,
        options: &ListOptions,
        selection: &Selection,
        token: Option<ContinueToken>,
        snapshot: &Snapshot,
    ) -> Self {
        let resource = &request.served.resource;
        let prefix = list_prefix(request, selection);
        let prefix = prefix.as_bytes();
        let token = token.as_ref();
        let range = match token {
            Some(token) => {
                snapshot.range_from(prefix, &[prefix, token.start()].concat())
            }
            None => snapshot.range(prefix),
        };
        // Any state will do where the version is 0, and the reference then answers from its cache, which knows no chunks.
        let limit = usize::try_from(options.limit)
            .ok()
            .filter(|limit| *limit > 0 && options.resource_version != "0")
            .unwrap_or(usize::MAX);
        let mut selected = range.filter(|entry| selection.selects(resource, entry));
        let entries: Vec<Arc<Entry>> = selected.by_ref().take(limit).cloned().collect();
        let mut page = Self {
            revision: snapshot.revision(),
            entries,
            continue_token: String::new(),
            remaining: None,
        };
        if page.entries.len() == limit
            && let Some(next) = selected.next()
        {
            if selection.is_everything() {
                let known = token.and_then(ContinueToken::remaining);
                let known = known.and_then(|known| known.checked_sub(limit)).filter(|left| *left > 0);
                page.remaining = Some(match (known, token.is_none()) {
                    (Some(left), _) => left,
                    (None, true) => snapshot.count(prefix) - limit,
                    (None, false) => snapshot.range_from(prefix, next.key()).count(),
                });
            }
            // Nothing lies between an object's key and the same with a zero byte behind it.
            let last = page.entries.last().map(|last| last.key()[prefix.len()..].to_vec());
            let start = String::from_utf8_lossy(&last.unwrap_or_default()).into_owned() + "\0";
            page.continue_token = ContinueToken::new(page.revision, start, page.remaining).text();
        }
        page
    }

    /// The `metadata` of the list, as JSON.
    pub(super) fn metadata(&self) -> String {
        let mut metadata = format!("{{\"resourceVersion\":\"{}\"", self.revision);
        if !self.continue_token.is_empty() {
            metadata.push_str(&format!(",\"continue\":\"{}\"", self.continue_token));
        }
        if let Some(remaining) = self.remaining {
            metadata.push_str(&format!(",\"remainingItemCount\":{remaining}"));
        }
        metadata.push('}');
        metadata
    }
}

/// What the keys of the objects of a list begin with.
pub(super) fn list_prefix(request: &ResourceRequest, selection: &Selection) -> String {
    let Some(storage) = &request.served.resource.storage else {
        return String::new();
    };
    // A selector that names the namespace narrows a list of all namespaces.
    let selected = selection
        .fields
        .namespace()
        .filter(|_| request.served.resource.namespaced());
    let namespace = if request.namespace.is_empty() {
        selected.unwrap_or_default()
    } else {
        &request.namespace
    };
    storage.namespace_prefix(namespace)
}

fn answer(context: &Arc<Context>, request: &ResourceRequest, page: Page) -> Result<Response, ApiError> {
    let representation = &request.representation;
    let shown = Shown::of_request(request);
    match representation.view {
        View::Whole if representation.format == Format::Json && !representation.pretty => {
            let (code, content_type) = (StatusCode::OK, representation.format.content_type());
            Ok(response::bytes(code, content_type, items_body(&shown, page)?))
        }
        _ => representation::list(context, &shown, &request.query, representation, &page),
    }
}

/// The list as a stream of runs of bytes.
fn items_body(shown: &Shown, page: Page) -> Result<ResponseBody, ApiError> {
    let (kind, api_version) = (shown.kind.clone(), shown.api_version.clone());
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\",\"metadata\":{},\"items\":[",
        shown.list_kind,
        page.metadata()
    );
    if !shown.stored_as_shown() {
        // Objects of another version are made anew, at once so that a failure can still be told.
        let mut bytes = head.into_bytes();
        for (at, entry) in page.entries.iter().enumerate() {
            bytes.extend_from_slice(if at == 0 { b"{" } else { b",{" });
            let object = objects::encode_answer(&shown.tree(entry)?);
            bytes.extend_from_slice(objects::list_item(&object, &kind, &api_version));
        }
        bytes.extend_from_slice(b"]}");
        return Ok(bytes.into());
    }
    let mut entries = page.entries.into_iter();
    let (mut run, mut first, mut done) = (head.into_bytes(), true, false);
    Ok(ResponseBody::stream(stream::iter(std::iter::from_fn(move || {
        while !done && run.len() < RUN_BYTES {
            match entries.next() {
                Some(entry) => {
                    run.extend_from_slice(if first { b"{" } else { b",{" });
                    run.extend_from_slice(objects::list_item(entry.bytes(), &kind, &api_version));
                    first = false;
                }
                None => {
                    run.extend_from_slice(b"]}");
                    done = true;
                }
            }
        }
        let next = std::mem::take(&mut run);
        (!next.is_empty()).then(|| Bytes::from(next))
    }))))
}
