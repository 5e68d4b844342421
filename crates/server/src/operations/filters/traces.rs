//! The span of a request, for OpenTelemetry.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use holdfast_authorization::{MASTERS, User};
use holdfast_traces::{Parent, Scope, Span, SpanKind, TraceContext, Tracer};
use http::Version;
use http::header::{self, HeaderMap};

use super::{Completion, Exchange, Filter, Step};
use crate::http::headers;
use crate::http::request_info::{PathVerb, RequestInfo, ResourcePath};
use crate::http::response::Response;

/// Group whose members decide whether their requests are sampled, as members of `system:masters` do.
const MONITORING: &str = "system:monitoring";

/// Filter that records the span of each sampled request, from its arrival until the last part of the answer is sent.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/filters#WithTracing
pub(super) struct WithTracing<'a> {
    pub(super) tracer: Option<&'a Arc<Tracer>>,
}

impl Filter for WithTracing<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        if let Some(tracer) = self.tracer {
            exchange.span = Some(Box::new(start(tracer, exchange)));
        }
        Step::Pass
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if let Some(mut span) = exchange.span.take().filter(|span| span.is_recording()) {
            let status = response.status();
            span.set("http.response.status_code", i64::from(status.as_u16()));
            if status.is_server_error() {
                span.fail("");
            }
            response.body_mut().hold(span);
        }
        Completion::Done
    }
}

fn start(tracer: &Arc<Tracer>, exchange: &Exchange<'_>) -> Span {
    let (head, info) = (&exchange.head, &exchange.info);
    let name = match &info.resource {
        Some(resource) => Cow::Owned(span_name(head.method.as_str(), resource)),
        None => Cow::Owned(head.method.as_str().to_owned()),
    };
    let mut span = tracer.start(name, parent(exchange), exchange.received);
    if span.is_recording() {
        span.set("http.request.method", head.method.as_str());
        span.set("url.scheme", "https");
        span.set("url.path", head.uri.path());
        let target = head.uri.path_and_query().map_or("", |target| target.as_str());
        span.set("http.target", target);
        span.set("network.protocol.version", protocol(head.version));
        if let Some(peer) = exchange.peer {
            span.set("client.address", peer.ip().to_string().as_str());
        }
        span.set("user_agent.original", &*header_text(&head.headers, header::USER_AGENT));
        span.set("audit-id", &*audit_id(exchange));
    }
    span
}

/// Returns the parent of the span of a request. Only privileged users decide whether their requests are sampled.
fn parent(exchange: &Exchange<'_>) -> Parent {
    let headers = &exchange.head.headers;
    let stated = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let state = headers.get("tracestate").and_then(|value| value.to_str().ok());
    let Some(context) = stated.and_then(|stated| TraceContext::parse(stated, state)) else {
        return Parent::None;
    };
    let is_privileged = |user: &Arc<User>| user.is_in(MASTERS) || user.is_in(MONITORING);
    match exchange.user.as_ref().is_some_and(is_privileged) {
        true => Parent::Client(context),
        false => Parent::Link(context),
    }
}

/// upstream: k8s.io/apiserver/pkg/endpoints/filters#getSpanNameFromRequestInfo
fn span_name(method: &str, path: &ResourcePath) -> String {
    let mut name = format!("{method} /");
    let _ = match path.group.is_empty() {
        true => write!(name, "api/{}", path.version),
        false => write!(name, "apis/{}/{}", path.group, path.version),
    };
    if !path.namespace.is_empty() {
        name.push_str("/namespaces/{:namespace}");
    }
    name.push('/');
    name.push_str(&path.resource);
    if !path.name.is_empty() {
        name.push_str("/{:name}");
    }
    if !path.subresource.is_empty() {
        name.push('/');
        name.push_str(&path.subresource);
    }
    name
}

/// Starts the span of the handler of a resource, below the span of the request.
///
/// upstream: k8s.io/apiserver/pkg/endpoints/handlers#traceFields
pub(super) fn start_handler(scope: &Scope, exchange: &Exchange<'_>) -> Option<Span> {
    let (head, info) = (&exchange.head, &exchange.info);
    let resource = info.resource.as_ref()?;
    let mut span = scope.start(handler_name(info, resource)?, SpanKind::Internal);
    if span.is_recording() {
        span.set("accept", &*header_text(&head.headers, header::ACCEPT));
        span.set("audit-id", &*audit_id(exchange));
        if let Some(peer) = exchange.peer {
            span.set("client", peer.ip().to_string().as_str());
        }
        span.set("api-group", resource.group.as_str());
        span.set("api-version", resource.version.as_str());
        span.set("name", resource.name.as_str());
        span.set("subresource", resource.subresource.as_str());
        span.set("namespace", resource.namespace.as_str());
        span.set("protocol", format!("HTTP/{}", protocol(head.version)).as_str());
        span.set("resource", resource.resource.as_str());
        span.set("scope", scope_of(resource));
        span.set("url", head.uri.path());
        span.set("user-agent", &*header_text(&head.headers, header::USER_AGENT));
        span.set("verb", info.verb.as_str());
    }
    Some(span)
}

fn handler_name(info: &RequestInfo, path: &ResourcePath) -> Option<&'static str> {
    if path.path_verb == Some(PathVerb::Proxy) {
        return None;
    }
    Some(match info.verb.as_str() {
        "get" => "Get",
        "list" => "List",
        "watch" => "WatchServer.HandleHTTP",
        "create" => "Create",
        "update" => "Update",
        "patch" => "Patch",
        "delete" | "deletecollection" => "Delete",
        _ => return None,
    })
}

/// upstream: k8s.io/apiserver/pkg/endpoints/metrics#CleanScope
fn scope_of(path: &ResourcePath) -> &'static str {
    if !path.name.is_empty() {
        "resource"
    } else if !path.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2.0",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}

fn header_text(map: &HeaderMap, name: header::HeaderName) -> Cow<'_, str> {
    headers::text(map, name).unwrap_or_default()
}

fn audit_id<'e>(exchange: &'e Exchange<'_>) -> Cow<'e, str> {
    String::from_utf8_lossy(exchange.audit_id.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_name_has_placeholders_for_names() {
        let name = |method: &str, uri: &str| {
            let uri: http::Uri = uri.parse().unwrap();
            let method: http::Method = method.parse().unwrap();
            let info = RequestInfo::parse(&method, &uri).unwrap();
            span_name(method.as_str(), info.resource.as_ref().unwrap())
        };
        assert_eq!(name("GET", "/api/v1/nodes"), "GET /api/v1/nodes");
        let pod = "/api/v1/namespaces/default/pods/p/status";
        assert_eq!(
            name("PATCH", pod),
            "PATCH /api/v1/namespaces/{:namespace}/pods/{:name}/status"
        );
        let deployments = "/apis/apps/v1/namespaces/default/deployments";
        assert_eq!(
            name("POST", deployments),
            "POST /apis/apps/v1/namespaces/{:namespace}/deployments"
        );
    }
}
