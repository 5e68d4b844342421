//! Watches of diffs: they report drift as it happens. An object is compared again when it changes. An object whose apply
//! is rejected is also compared again when a namespace or a CRD changes.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_store::{HistoryError, Watcher};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError};
use tokio::time::Instant;

use super::diff::{DiffDocument, DiffRequests, DiffResult, ObjectDiff};
use super::document::invalid;
use crate::http::ApiError;
use crate::http::negotiation::Format;
use crate::http::query::Query;
use crate::http::response::{self, Response};
use crate::objects::{Objects, Store};
use crate::read::watch::{error_frame, too_old};
use crate::wire::body::ResponseBody;

/// Time between a change and the comparison, so that changes in quick succession are compared once.
const SETTLING_TIME: Duration = Duration::from_millis(50);

/// Maximum duration of a watch in seconds: one day.
const MAX_SECONDS: u64 = 24 * 3600;

/// Answers with a stream of events: `ADDED` for each object, then `MODIFIED` for each diff that changes.
///
/// # Errors
/// 429 if too many clients watch diffs already, 400 if the timeout is invalid.
pub(super) fn start(requests: DiffRequests, query: &Query) -> Result<Response, ApiError> {
    let duration = duration(&requests, query)?;
    let permits = Arc::clone(&requests.requester.context.diff_watches);
    let permit = permits.try_acquire_owned().map_err(|error| match error {
        TryAcquireError::NoPermits => {
            ApiError::too_many_requests("too many clients watch diffs, please try again later", 1)
        }
        TryAcquireError::Closed => ApiError::unavailable("the server is shutting down"),
    })?;
    let watch = DiffWatch {
        requests,
        end: Instant::now() + duration,
        watched: HashMap::new(),
        watchers: Vec::new(),
        diffs: Vec::new(),
        frames: VecDeque::new(),
        has_ended: false,
        _permit: permit,
    };
    let frames = futures_util::stream::unfold(watch, |mut watch| async move {
        let frame = watch.next_frame().await?;
        Some((frame, watch))
    });
    let mut answer = response::bytes(
        StatusCode::OK,
        Format::Json.content_type(),
        ResponseBody::stream(frames),
    );
    let no_cache = HeaderValue::from_static("no-cache, private");
    answer.headers_mut().insert(header::CACHE_CONTROL, no_cache);
    Ok(answer)
}

fn duration(requests: &DiffRequests, query: &Query) -> Result<Duration, ApiError> {
    let Some(text) = query.get("timeoutSeconds").filter(|text| !text.is_empty()) else {
        return Ok(requests.requester.context.config.min_watch_timeout);
    };
    let seconds: u64 = text.parse().map_err(|error| invalid("timeoutSeconds", error))?;
    Ok(Duration::from_secs(seconds.min(MAX_SECONDS)))
}

/// Watcher of the objects below one prefix.
struct PrefixWatcher {
    prefix: String,
    watcher: Watcher<Objects>,
    /// True if the objects may be the reason why an apply is rejected.
    is_precondition: bool,
}

/// State of a watch.
struct DiffWatch {
    requests: DiffRequests,
    end: Instant,
    /// Positions of the manifests of each watched key.
    watched: HashMap<Vec<u8>, Vec<usize>>,
    watchers: Vec<PrefixWatcher>,
    /// Last diff that was sent for each manifest.
    diffs: Vec<ObjectDiff>,
    frames: VecDeque<Bytes>,
    has_ended: bool,
    _permit: OwnedSemaphorePermit,
}

#[derive(Serialize)]
struct DiffEvent<'a> {
    #[serde(rename = "type")]
    event_type: &'a str,
    object: DiffDocument<'a>,
}

impl DiffWatch {
    /// Returns the next frame; `None` at the end of the watch.
    async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            if self.has_ended {
                return None;
            }
            if let Err(error) = self.advance().await {
                self.has_ended = true;
                let messages = self.requests.requester.context.messages();
                return error.map(|error| error_frame(messages, Format::Json, &error));
            }
        }
    }

    /// Compares the next objects.
    ///
    /// # Errors
    /// At the end of the watch; the error is for the client.
    async fn advance(&mut self) -> Result<(), Option<ApiError>> {
        let index = self.diffs.len();
        if index < self.requests.count() {
            if index == 0 {
                self.watch_preconditions().map_err(Some)?;
            }
            self.watch(index).await.map_err(Some)?;
            let diff = self.compare(index).await;
            self.frames.push_back(self.frame("ADDED", &diff)?);
            self.diffs.push(diff);
            return Ok(());
        }
        let changed = self.changed().await?;
        for index in changed {
            if self.requests.requester.context.shutdown.is_closing() {
                return Err(None);
            }
            self.watch(index).await.map_err(Some)?;
            let diff = self.compare(index).await;
            let is_same = self.diffs.get(index).is_some_and(|before| before.is_same(&diff));
            if is_same {
                continue;
            }
            self.frames.push_back(self.frame("MODIFIED", &diff)?);
            if let Some(before) = self.diffs.get_mut(index) {
                *before = diff;
            }
        }
        Ok(())
    }

    async fn compare(&mut self, index: usize) -> ObjectDiff {
        self.requests.requester.later();
        tokio::task::yield_now().await;
        self.requests.diff(index).await
    }

    fn frame(&self, event_type: &str, diff: &ObjectDiff) -> Result<Bytes, Option<ApiError>> {
        let event = DiffEvent {
            event_type,
            object: DiffDocument::new(&self.requests, std::slice::from_ref(diff)),
        };
        let mut text = serde_json::to_vec(&event).map_err(|error| Some(ApiError::internal(error.to_string())))?;
        text.push(b'\n');
        Ok(text.into())
    }

    /// Watches the object at this position, before it is compared for the first time.
    async fn watch(&mut self, index: usize) -> Result<(), ApiError> {
        let Some(key) = self.requests.key(index).await else {
            return Ok(());
        };
        // The prefix of a resource ends before the namespace or the name of the object.
        let registry = self.requests.requester.context.registry();
        let around = registry.stored_around(key.as_bytes()).first();
        let Some(storage) = around.and_then(|resource| resource.storage.as_ref()) else {
            return Ok(());
        };
        let prefix = storage.namespace_prefix("");
        let positions = self.watched.entry(key.into_bytes()).or_default();
        if !positions.contains(&index) {
            positions.push(index);
        }
        self.open(prefix, false)
    }

    /// Watches the namespaces and the CRDs.
    fn watch_preconditions(&mut self) -> Result<(), ApiError> {
        let registry = self.requests.requester.context.registry();
        for resource in [registry.namespaces(), registry.definitions()].into_iter().flatten() {
            if let Some(storage) = &resource.storage {
                self.open(storage.namespace_prefix(""), true)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, prefix: String, is_precondition: bool) -> Result<(), ApiError> {
        if self.watchers.iter().any(|watcher| watcher.prefix == prefix) {
            return Ok(());
        }
        let store: &Store = self.requests.requester.context.shared.store.for_key(prefix.as_bytes());
        let opened = store.watch(prefix.as_str(), store.revision());
        let watcher = opened.map_err(|_| ApiError::unavailable("the server is shutting down"))?;
        self.watchers.push(PrefixWatcher {
            prefix,
            watcher,
            is_precondition,
        });
        Ok(())
    }

    /// Waits until objects have changed, and returns the positions of the manifests to compare again.
    async fn changed(&mut self) -> Result<BTreeSet<usize>, Option<ApiError>> {
        let shutdown = self.requests.requester.context.shutdown.clone();
        let mut changed = BTreeSet::new();
        while changed.is_empty() {
            let waits = self.watchers.iter_mut().map(|one| Box::pin(one.watcher.next()));
            let (event, at) = tokio::select! {
                () = shutdown.closing() => return Err(None),
                () = tokio::time::sleep_until(self.end) => return Err(None),
                (event, at, _) = futures_util::future::select_all(waits) => (event, at),
            };
            let event = event.map_err(ended)?;
            self.note(event.key(), at, &mut changed);
        }
        tokio::time::sleep(SETTLING_TIME).await;
        for at in 0..self.watchers.len() {
            while let Some(one) = self.watchers.get_mut(at)
                && let Some(event) = one.watcher.try_next().map_err(ended)?
            {
                self.note(event.key(), at, &mut changed);
            }
        }
        Ok(changed)
    }

    /// Adds the positions of the manifests that depend on an object.
    fn note(&self, key: &[u8], watcher: usize, changed: &mut BTreeSet<usize>) {
        changed.extend(self.watched.get(key).into_iter().flatten());
        if self
            .watchers
            .get(watcher)
            .is_some_and(|watcher| watcher.is_precondition)
        {
            let failed = self.diffs.iter().filter(|diff| diff.result == DiffResult::Failed);
            changed.extend(failed.map(|diff| diff.index));
        }
    }
}

/// Returns the error for a client whose watch ends.
fn ended(error: HistoryError) -> Option<ApiError> {
    match error {
        HistoryError::Compacted { requested, oldest } => Some(too_old(requested, oldest)),
        _ => None,
    }
}
