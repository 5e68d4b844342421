//! The place in a trace of the work that a task does, so that calls of other servers continue the trace of a request.

use std::future::Future;

use holdfast_traces::{Scope, Span, SpanKind};
use http::{HeaderName, HeaderValue, Request, StatusCode};

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

tokio::task_local! {
    static SCOPE: Scope;
}

/// Runs `work` at this place of a trace.
pub(crate) async fn within<T>(scope: Scope, work: impl Future<Output = T>) -> T {
    SCOPE.scope(scope, work).await
}

/// Returns the place of the current work, if it belongs to a trace.
pub(crate) fn current() -> Option<Scope> {
    SCOPE.try_with(Scope::clone).ok()
}

/// Returns `work` as work for another task that belongs to the trace of this one.
pub(crate) fn inherited<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let scope = current();
    async move {
        match scope {
            Some(scope) => within(scope, work).await,
            None => work.await,
        }
    }
}

/// Starts the span of a call of another server, if the current work belongs to a trace, and adds the headers that continue
/// the trace there.
pub(crate) fn start_call<B>(request: &mut Request<B>) -> Option<Span> {
    let mut span = current()?.start(format!("HTTP {}", request.method()), SpanKind::Client);
    if span.is_recording() {
        span.set("http.request.method", request.method().as_str());
        span.set("url.full", request.uri().to_string().as_str());
        span.set("server.address", request.uri().host().unwrap_or_default());
    }
    let context = span.scope().context();
    let headers = request.headers_mut();
    if let Ok(parent) = HeaderValue::try_from(context.traceparent()) {
        headers.insert(TRACE_PARENT, parent);
    }
    match HeaderValue::from_str(&context.state) {
        Ok(state) if !state.is_empty() => headers.insert(TRACE_STATE, state),
        _ => headers.remove(TRACE_STATE),
    };
    Some(span)
}

/// Ends the span of a call whose response has this status; `None` if there is no response.
pub(crate) fn end_call(span: Option<Span>, status: Option<StatusCode>) {
    let Some(mut span) = span else { return };
    match status {
        Some(status) => {
            span.set("http.response.status_code", i64::from(status.as_u16()));
            if status.is_client_error() || status.is_server_error() {
                span.fail("");
            }
        }
        None => span.fail("no response"),
    }
}
