//! GET of a collection: the objects of a namespace or of all, at one revision.
//!
//! The items are the stored bytes, copied in runs of some size as the client takes them: nothing is parsed, and what is
//! not sent yet is not held in memory twice.

use std::sync::Arc;
use std::time::Duration;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use bytes::Bytes;
use futures_util::stream;
use holdfast_resource::selector::{FieldSelector, LabelSelector, SelectorError};
use holdfast_store::HistoryError;
use holdfast_value::{Limits, Value, json};
use http::StatusCode;
use serde::Serialize;
use smol_str::SmolStr;

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
    Ok(Page::read(request, options, selection, token, &snapshot))
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
/// 500 where it is no number, as in the reference.
pub(super) fn revision(text: &str) -> Result<Option<u64>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
    number.map(Some).ok_or_else(|| {
        ApiError::unclassified(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

/// The state to read: as the version and its rule say.
async fn snapshot(
    context: &Context,
    options: &ListOptions,
    token: Option<&ContinueToken>,
) -> Result<Snapshot, ApiError> {
    let wanted = revision(&options.resource_version)?.unwrap_or_default();
    let exact = options.resource_version_match == Some(ResourceVersionMatch::Exact)
        || (options.limit > 0 && wanted > 0 && options.resource_version_match.is_none());
    let at = match token {
        Some(token) => token.rv,
        None if exact => wanted,
        None => return not_older_than(context, wanted).await,
    };
    not_older_than(context, at).await?;
    context.store.snapshot_at(at).map_err(|error| match error {
        HistoryError::Compacted { .. } if token.is_some() => {
            ApiError::expired("The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.")
        }
        error => expired(error),
    })
}

/// The newest state, once it has reached `wanted`.
pub(super) async fn not_older_than(context: &Context, wanted: u64) -> Result<Snapshot, ApiError> {
    let reached = context.store.wait_for(wanted, FUTURE_WAIT).await;
    reached.map_err(expired)
}

fn expired(error: HistoryError) -> ApiError {
    match error {
        HistoryError::Compacted { requested, oldest } => ApiError::expired(format!(
            "The resourceVersion for the provided list is too old: {requested} ({oldest})"
        )),
        HistoryError::Future { requested, current } => ApiError::too_large_resource_version(requested, current),
        HistoryError::Closed => ApiError::unavailable("the server is shutting down"),
    }
}

/// Where a list goes on: what the token of a chunk says, in the reference's form.
#[derive(Serialize)]
struct ContinueToken {
    v: SmolStr,
    rv: u64,
    /// The last key of the chunk before, below the prefix of the list, with a zero byte behind it.
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl ContinueToken {
    fn read(options: &ListOptions) -> Result<Option<Self>, ApiError> {
        if options.continue_token.is_empty() {
            return Ok(None);
        }
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let refuse =
            |why: &str| ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(options.continue_token.as_bytes());
        let bytes = bytes.map_err(|error| match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => {
                refuse(&format!("illegal base64 data at input byte {at}"))
            }
            other => refuse(&other.to_string()),
        })?;
        let value = json::parse(&bytes, &Limits::REQUEST).map_err(|error| refuse(&error.to_string()))?;
        let version = value.str_at(&["v"]).unwrap_or_default();
        if version != TOKEN_VERSION {
            return Err(refuse(&format!(
                "server does not recognize this encoded version {version}"
            )));
        }
        let token = Self {
            v: SmolStr::new_static(TOKEN_VERSION),
            rv: value
                .get("rv")
                .and_then(Value::as_i64)
                .and_then(|rv| rv.try_into().ok())
                .unwrap_or_default(),
            start: value.str_at(&["start"]).unwrap_or_default().to_owned(),
        };
        if token.rv == 0 {
            return Err(refuse(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ));
        }
        Ok(Some(token))
    }

    fn text(rv: u64, key: &[u8], prefix: &[u8]) -> String {
        let last = String::from_utf8_lossy(key.get(prefix.len()..).unwrap_or_default());
        let token = Self {
            v: SmolStr::new_static(TOKEN_VERSION),
            rv,
            start: format!("{last}\0"),
        };
        let json = serde_json::to_vec(&token).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(json)
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
        let range = match &token {
            Some(token) => {
                let last = [prefix, token.start.trim_end_matches('\0').as_bytes()].concat();
                snapshot.range_after(prefix, &last)
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
            && selected.next().is_some()
            && let Some(last) = page.entries.last()
        {
            page.continue_token = ContinueToken::text(page.revision, last.key(), prefix);
            if selection.is_everything() {
                page.remaining = Some(snapshot.count_after(prefix, last.key()));
            }
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
