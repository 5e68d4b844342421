//! Requests and handlers for tests of filters.

use std::future::pending;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use holdfast_authorization::User;
use holdfast_proto::Messages;
use holdfast_resource::Registry;
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use http::{Request, StatusCode};

use super::audit::AuditLog;
use super::{Exchange, Filter, Filtered, Handler};
use crate::http::response::{self, Response};
use crate::metrics::Metrics;
use crate::wire::body::RequestBody;
use crate::write::testing;

/// Returns a request without headers.
pub(super) fn exchange(method: &str, uri: &str) -> Exchange<'static> {
    let builder = Request::builder().method(method).uri(uri);
    let request = builder.body(RequestBody::from_bytes("")).unwrap();
    Exchange::new(request, None, None, SystemTime::now())
}

/// Returns a request with one header.
pub(super) fn with_header(method: &str, uri: &str, name: &'static str, value: &str) -> Exchange<'static> {
    let mut exchange = exchange(method, uri);
    let value = HeaderValue::from_str(value).unwrap();
    exchange.head.headers.insert(HeaderName::from_static(name), value);
    exchange
}

/// Handler that answers with a status code.
#[derive(Clone, Copy)]
pub(super) struct Reply(pub(super) StatusCode);

impl Reply {
    /// Handler of requests that pass.
    pub(super) const OK: Self = Self(StatusCode::OK);

    /// Handler that no request should reach.
    pub(super) const UNREACHABLE: Self = Self(StatusCode::IM_A_TEAPOT);

    /// Handler whose answer may be cached.
    pub(super) const CACHED: Self = Self(StatusCode::NOT_MODIFIED);

    /// Body of the answer.
    pub(super) const BODY: &'static str = "passed";

    /// Returns this handler behind `filter`.
    pub(super) fn behind<'a>(self, filter: impl Filter + 'a) -> Behind<'a> {
        let behind = Behind {
            filters: Vec::new(),
            handler: self,
        };
        behind.behind(filter)
    }
}

impl Handler for Reply {
    async fn handle(&self, _exchange: &mut Exchange<'_>) -> Response {
        let mut answer = response::text(self.0, Self::BODY);
        if self.0 == Self::CACHED.0 {
            answer
                .headers_mut()
                .insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        }
        answer
    }
}

/// Handler behind filters.
pub(super) struct Behind<'a> {
    filters: Vec<Box<dyn Filter + 'a>>,
    handler: Reply,
}

impl<'a> Behind<'a> {
    /// Adds a filter, which gets the requests first.
    pub(super) fn behind(mut self, filter: impl Filter + 'a) -> Self {
        self.filters.insert(0, Box::new(filter));
        self
    }

    /// Returns the answer to a request.
    pub(super) async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        let filters: Vec<&dyn Filter> = self.filters.iter().map(|filter| &**filter as _).collect();
        let handler = self.handler;
        Filtered {
            filters: &filters,
            handler,
        }
        .handle(exchange)
        .await
    }
}

/// Handler that never answers.
pub(super) struct Stalled;

impl Handler for Stalled {
    async fn handle(&self, _exchange: &mut Exchange<'_>) -> Response {
        pending().await
    }
}

/// State that filters need: the built-in kinds, without an audit log.
pub(super) struct World {
    pub(super) metrics: Arc<Metrics>,
    pub(super) registry: Arc<ArcSwap<Registry>>,
    writes: testing::World,
}

impl Default for World {
    fn default() -> Self {
        let writes = testing::World::new();
        Self {
            metrics: Arc::clone(&writes.context.shared.metrics),
            registry: Arc::clone(&writes.context.shared.registry),
            writes,
        }
    }
}

impl World {
    pub(super) fn user(name: &str) -> Arc<User> {
        Arc::new(User {
            name: name.into(),
            ..User::default()
        })
    }

    pub(super) fn serializer(&self) -> &Messages {
        &self.writes.context.representation.messages
    }

    pub(super) fn audit_log(&self) -> AuditLog<'_> {
        AuditLog {
            auditor: None,
            context: &self.writes.context.representation,
        }
    }
}
