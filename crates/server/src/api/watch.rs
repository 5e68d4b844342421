//! GET of a collection, or of one object by the older paths, as a stream of its changes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use holdfast_store::HistoryError;
use http::{HeaderValue, StatusCode, header};
use tokio::time::Instant;

use crate::api::authorized;
use crate::api::context::Context;
use crate::http::ApiError;
use crate::http::negotiation::{self, Format, View};
use crate::http::options::ListOptions;
use crate::http::request::ResourceRequest;
use crate::http::response::{self, Response};
use crate::http::table::IncludeObject;
use crate::metrics::{ListedWatch, ShardedWatch};
use crate::objects::{EventForm, Selection};
use crate::read::items::Conversion;
use crate::read::list::{KeyRange, fresh, revision, selection};
use crate::read::watch::{Bookmarks, WatchEncoder, WatchStream, error_frame, too_old};
use crate::representation::RequestedVersion;
use crate::wire::body::ResponseBody;
use crate::wire::websocket::MessageKind;

const CBOR_SEQUENCE: HeaderValue = HeaderValue::from_static(negotiation::CBOR_SEQUENCE);
const PROTOBUF_STREAM: HeaderValue = HeaderValue::from_static(negotiation::PROTOBUF_STREAM);

/// Answers a watch.
///
/// # Errors
/// 400 for invalid selectors and versions, 406 for forms that cannot be streamed.
pub(super) async fn watch(context: &Arc<Context>, mut request: ResourceRequest) -> Result<Response, ApiError> {
    let readable = authorized::readable(context, &mut request).await?;
    let mut options = ListOptions::parse(&request.query, context.config.lists)?;
    options.watch = true;
    let mut selection = selection(&request, &options)?;
    selection.authorized = readable.as_ref().map(|readable| Arc::clone(&readable.objects));
    let readable_changed = readable.map(|readable| Box::pin(readable.changed()) as BoxFuture<'static, ()>);
    let wanted = revision(&options.resource_version)?;
    let format = stream_format(&request)?;
    let include = match request.representation.view {
        View::Table(_) => IncludeObject::parse(&request.query)?,
        _ => IncludeObject::default(),
    };
    let sharded = begin_shard(context, &request, &mut selection);
    let end = Instant::now() + duration(context, &options);
    // The watch starts with the existing objects if no resource version names the state that the client knows.
    let from_state = options.send_initial_events.unwrap_or(matches!(wanted, None | Some(0)));
    let place = KeyRange::for_request(&request, &selection);
    let store = context.shared.store.for_key(place.prefix.as_bytes());
    let failed = |request, error: &ApiError| {
        let frame = error_frame(context.messages(), format, error);
        Ok(answer(request, ResponseBody::from(frame)))
    };
    let snapshot = match (options.send_initial_events, wanted) {
        // A future version is reported by an event, not by the status of the answer.
        (Some(true), Some(version)) => match fresh(store, Some(version)).await {
            Ok(snapshot) => snapshot,
            Err(error) => return failed(request, &error),
        },
        (_, None) => fresh(store, None).await?,
        _ => store.snapshot(),
    };
    let requested = RequestedVersion::of_request(&request);
    let conversion = Conversion::for_version(&context.representation, &requested);
    let initial = match from_state {
        true => {
            let items = place.items(&snapshot, &requested.resource, &selection, None, conversion);
            let tally = context.shared.metrics.lists().begin_watch(&requested.resource);
            Some(items.await?.counted_by(tally))
        }
        false => None,
    };
    let after = match wanted {
        Some(wanted) if !from_state && wanted > 0 => wanted,
        _ => snapshot.revision(),
    };
    let opened = match place.key {
        Some(key) => store.watch_key(key, after),
        None => store.watch(place.prefix, after),
    };
    let watcher = match opened {
        Ok(watcher) => watcher,
        Err(HistoryError::Compacted { oldest, .. }) => return failed(request, &too_old(after, oldest)),
        Err(_) => return Err(ApiError::unavailable("the server is shutting down")),
    };
    let form = event_form(&request, &requested, include);
    let encoder = WatchEncoder {
        context: Arc::clone(&context.read),
        requested,
        selection,
        form,
        columns_sent: false,
    };
    let bookmarks = Bookmarks {
        periodic: options.allow_watch_bookmarks,
        after_initial_events: options.allow_watch_bookmarks && options.send_initial_events == Some(true),
    };
    let listed = bookmarks
        .after_initial_events
        .then(|| listed(context, &request))
        .flatten();
    let watch = WatchStream {
        encoder,
        watcher,
        initial,
        initial_revision: snapshot.revision(),
        bookmarks,
        end,
        hold: std::mem::take(&mut request.watch),
        listed,
        readable_changed,
        _sharded: sharded,
    };
    Ok(answer(request, ResponseBody::stream(watch.frames())))
}

/// Returns the counter of an active watch of a shard. It restricts the selection to the objects of the shard.
fn begin_shard(context: &Context, request: &ResourceRequest, selection: &mut Selection) -> Option<ShardedWatch> {
    selection.shard.as_ref()?;
    let watches = context.shared.metrics.watches();
    let (sharded, passed_over) = watches.begin_shard(&request.served.resource);
    selection.passed_over = passed_over;
    sharded
}

/// Returns the metrics of a watch, which are recorded once it has sent the initial objects.
fn listed(context: &Context, request: &ResourceRequest) -> Option<ListedWatch> {
    let scope = match (request.name.as_str(), request.namespace.as_str()) {
        ("", "") => "cluster",
        ("", _) => "namespace",
        _ => "resource",
    };
    let (clock, received) = (Arc::clone(&context.shared.clock), request.now);
    let version = &request.version().group_version.version;
    let watches = context.shared.metrics.watches();
    let durations = watches.listed(&request.served.resource, version, scope)?;
    let age = move || clock.now().duration_since(received).unwrap_or_default();
    Some(ListedWatch {
        durations,
        age: Box::new(age),
    })
}

/// Returns the format of a stream.
fn stream_format(request: &ResourceRequest) -> Result<Format, ApiError> {
    match request.representation.format {
        Format::Yaml => Err(ApiError::not_acceptable(format!(
            "only the following media types are accepted: {}",
            negotiation::stream_types(request.cbor).join(", ")
        ))),
        format => Ok(format),
    }
}

/// Returns the properties on which the encoded events of a watch depend.
fn event_form(request: &ResourceRequest, requested: &RequestedVersion, include: IncludeObject) -> EventForm {
    let crd = requested.resource.crd.as_ref();
    EventForm {
        format: request.representation.format,
        view: request.representation.view,
        include,
        api_version: requested.api_version.clone(),
        drops_managed_fields: request.representation.drops_managed_fields,
        crd_serial: crd.map_or(0, |crd| crd.serial),
    }
}

/// Returns the answer that streams the frames, either directly or as messages of a WebSocket.
fn answer(request: ResourceRequest, frames: ResponseBody) -> Response {
    let format = request.representation.format;
    match request.upgrade {
        Some(upgrade) => {
            let messages = match format {
                Format::Protobuf | Format::Cbor => MessageKind::Binary,
                _ => MessageKind::Text,
            };
            let answer = upgrade.answer(&request.headers, messages, frames);
            answer.unwrap_or_else(response::handshake_refused)
        }
        None => stream(format, frames),
    }
}

/// Returns the duration of the watch: the client's timeout, or a random time between the minimum and twice as long, so
/// that not all watches end at once.
fn duration(context: &Context, options: &ListOptions) -> Duration {
    match options.timeout_seconds.filter(|seconds| *seconds != 0) {
        // A negative timeout ends the watch immediately.
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or_default().min(MAX_SECONDS)),
        None => {
            let least = context.config.min_watch_timeout;
            let random = context.shared.identifiers.uid();
            let share = random
                .bytes()
                .take(8)
                .fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
            least + least.mul_f64(f64::from(share % 1000) / 1000.0)
        }
    }
}

/// The maximum duration of a watch in seconds, one year; larger numbers would overflow clocks.
const MAX_SECONDS: u64 = 366 * 24 * 3600;

fn stream(format: Format, body: ResponseBody) -> Response {
    let content_type = match format {
        Format::Protobuf => PROTOBUF_STREAM,
        Format::Cbor => CBOR_SEQUENCE,
        _ => format.content_type(),
    };
    let mut response = response::bytes(StatusCode::OK, content_type, body);
    let no_cache = HeaderValue::from_static("no-cache, private");
    response.headers_mut().insert(header::CACHE_CONTROL, no_cache);
    response
}
