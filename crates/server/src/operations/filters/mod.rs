//! The way of a request: filters around its handler, in one list.
//!
//! A filter answers a request, or passes it on to the next handler and may change the answer on its way back. The types
//! of the chain are known at compile time, so a request is one future, allocated in three pieces.

mod arrival;
mod audit;
mod browsers;
mod connection;
mod deadline;
mod director;
mod exchange;
mod identity;
mod seats;
mod storage_versions;
#[cfg(test)]
mod testing;

pub(super) use exchange::Exchange;

use self::arrival::{WithAuditInit, WithHttpLogging, WithMetrics, WithRequestInfo};
use self::audit::{AuditLog, WithAudit};
use self::browsers::{WithCacheControl, WithCors, WithTransportSecurity};
use self::connection::{WithGoAway, WithHeadAnswers, WithLongRunning, WithWebSocket};
use self::deadline::{WithRequestDeadline, WithTimeout};
use self::director::Director;
use self::identity::{WithAuthentication, WithAuthorization, WithImpersonation};
use self::seats::WithSeats;
use self::storage_versions::WithStorageVersionPrecondition;
use crate::http::response::Response;
use crate::operations::service::Service;

/// Handler of requests: the last one of the chain, or one behind filters.
pub(super) trait Handler: Sync + Sized {
    /// Returns the answer to a request.
    fn handle(&self, exchange: &mut Exchange<'_>) -> impl Future<Output = Response> + Send;

    /// Returns this handler behind `filter`, which gets the requests first.
    fn behind<F: Filter>(self, filter: F) -> Filtered<F, Self> {
        Filtered { filter, next: self }
    }
}

/// Step before and after a handler.
pub(super) trait Filter: Sync {
    /// Returns the answer to a request: that of `next`, or one of its own.
    fn handle(&self, exchange: &mut Exchange<'_>, next: &impl Handler) -> impl Future<Output = Response> + Send;
}

/// Handler behind a filter.
pub(super) struct Filtered<F, H> {
    filter: F,
    next: H,
}

impl<F: Filter, H: Handler> Handler for Filtered<F, H> {
    fn handle(&self, exchange: &mut Exchange<'_>) -> impl Future<Output = Response> + Send {
        self.filter.handle(exchange, &self.next)
    }
}

/// Filter that allocates the future of the handlers behind it. A future contains those that it awaits, and each filter
/// moves it when it calls the next one; behind a pointer, it is small for all filters before this one.
struct WithAllocatedFuture;

impl Filter for WithAllocatedFuture {
    async fn handle(&self, exchange: &mut Exchange<'_>, next: &impl Handler) -> Response {
        Box::pin(next.handle(exchange)).await
    }
}

/// Returns the chain of a service. As in `DefaultBuildHandlerChain`, each line wraps those above it, so that a request
/// passes the filters from the last line to the first.
///
/// Two filters differ from the reference in their place. Logging precedes the request info, so that paths that cannot be
/// parsed are logged. The timeout follows the audit, which records the answer that the client gets.
///
/// upstream: k8s.io/apiserver/pkg/server#DefaultBuildHandlerChain
pub(super) fn chain(service: &Service) -> impl Handler {
    let context = &*service.context;
    let (shared, config) = (&context.shared, &context.config);
    let (metrics, authorizer) = (&*shared.metrics, shared.authorizer.as_ref());
    let (serializer, browsers) = (context.messages(), service.browsers.as_deref());
    let audit_log = AuditLog {
        auditor: service.auditor.as_ref(),
        context: &context.representation,
    };
    Director::new(service)
        .behind(WithAllocatedFuture)
        .behind(WithStorageVersionPrecondition {
            barrier: service.storage_versions.as_deref(),
            registry: &shared.registry,
            serializer,
        })
        .behind(WithAuthorization {
            authorizer,
            counters: metrics.identities(),
            serializer,
        })
        .behind(WithSeats {
            in_flight: &service.in_flight,
            fairness: service.fairness.as_deref(),
            serializer,
        })
        .behind(WithImpersonation {
            impersonation: &service.impersonation,
            authorizer,
            serializer,
        })
        .behind(WithTimeout)
        .behind(WithAudit { log: audit_log })
        .behind(WithAuthentication {
            authenticator: &service.authenticator,
            tokens: shared.tokens.as_ref(),
            counters: metrics.identities(),
            ends_connections: service.ends_unauthenticated_connections,
            audit_log,
            serializer,
        })
        .behind(WithAllocatedFuture)
        .behind(WithCors { browsers })
        .behind(WithRequestDeadline {
            max_timeout: config.request_timeout,
            audit_log,
            serializer,
        })
        .behind(WithLongRunning)
        .behind(WithGoAway { rule: service.go_away })
        .behind(WithCacheControl)
        .behind(WithTransportSecurity { browsers })
        .behind(WithHeadAnswers)
        .behind(WithMetrics {
            requests: metrics.requests(),
            registry: &shared.registry,
        })
        .behind(WithWebSocket)
        .behind(WithRequestInfo { cbor: config.cbor })
        .behind(WithHttpLogging)
        .behind(WithAuditInit {
            identifiers: shared.identifiers.as_ref(),
        })
}
