//! The way of a request: filters around its handler, in one list.
//!
//! A filter examines a request before its handler and completes the answer afterwards. It returns at once, unless it has to
//! wait for something: only then is a future allocated.

mod arrival;
mod audit;
mod browsers;
mod connection;
mod deadline;
mod director;
mod drain;
mod exchange;
mod faults;
mod identity;
mod page;
mod seats;
mod storage_versions;
#[cfg(test)]
mod testing;
mod timeline;
mod traces;

use std::pin::Pin;

pub(super) use exchange::Exchange;

use holdfast_proto::Messages;

use self::arrival::{WithAuditInit, WithHttpLogging, WithMetrics, WithRequestInfo};
use self::audit::{AuditLog, WithAudit};
use self::browsers::{WithCacheControl, WithCors, WithTransportSecurity};
use self::connection::{WithGoAway, WithHeadAnswers, WithLongRunning, WithWebSocket};
use self::deadline::{TimeLimited, WithRequestDeadline};
use self::director::Director;
use self::drain::WithRetryAfter;
use self::faults::WithFaults;
use self::identity::{WithAuthentication, WithAuthorization, WithImpersonation};
use self::page::WithPage;
use self::seats::WithSeats;
use self::storage_versions::WithStorageVersionPrecondition;
use self::timeline::WithTimeline;
use self::traces::WithTracing;
use crate::http::ApiError;
use crate::http::response::Response;
use crate::operations::service::Service;

/// Handler of requests, which may be behind filters.
pub(super) trait Handler: Sync {
    /// Returns the answer to a request.
    fn handle(&self, exchange: &mut Exchange<'_>) -> impl Future<Output = Response> + Send;
}

/// Step before and after a handler.
pub(super) trait Filter: Sync {
    /// Examines a request on its way to the handler.
    fn request<'f>(&'f self, _exchange: &'f mut Exchange<'_>) -> Step<'f> {
        Step::Pass
    }

    /// Completes the answer to a request that this filter has examined, whether the handler, another filter or this filter
    /// has answered it.
    fn response<'f>(&'f self, _exchange: &'f mut Exchange<'_>, _response: &'f mut Response) -> Completion<'f> {
        Completion::Done
    }
}

/// Outcome of the examination of a request.
pub(super) enum Step<'f> {
    /// The request proceeds.
    Pass,
    /// The request ends here with this answer.
    Answer(Box<Response>),
    /// The request waits. The future returns the answer if the request ends here.
    Wait(Pin<Box<dyn Future<Output = Option<Response>> + Send + 'f>>),
}

impl Step<'_> {
    fn answer(response: Response) -> Self {
        Self::Answer(Box::new(response))
    }

    /// Returns the answer of `error` to a request that ends here.
    fn rejection(exchange: &Exchange<'_>, serializer: &Messages, error: &ApiError) -> Self {
        Self::answer(exchange.rejection(serializer, error))
    }

    /// Returns the answer if the request ends here.
    async fn finished(self) -> Option<Response> {
        match self {
            Self::Pass => None,
            Self::Answer(response) => Some(*response),
            Self::Wait(answer) => answer.await,
        }
    }
}

/// Outcome of the completion of an answer.
pub(super) enum Completion<'f> {
    /// The answer is complete.
    Done,
    /// The answer waits until the future ends.
    Wait(Pin<Box<dyn Future<Output = ()> + Send + 'f>>),
}

/// Handler behind a list of filters. A request passes them from the first to the last, and its answer in the reverse order.
struct Filtered<'a, H> {
    filters: &'a [&'a dyn Filter],
    handler: H,
}

impl<H: Handler> Handler for Filtered<'_, H> {
    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        let mut answer = None;
        let mut unreached = self.filters.iter();
        for filter in unreached.by_ref() {
            answer = match filter.request(exchange) {
                Step::Pass => continue,
                step => step.finished().await,
            };
            if answer.is_some() {
                break;
            }
        }
        let mut response = match answer {
            Some(response) => response,
            None => self.handler.handle(exchange).await,
        };
        let reached = self.filters.len() - unreached.len();
        for filter in self.filters.iter().take(reached).rev() {
            if let Completion::Wait(rest) = filter.response(exchange, &mut response) {
                rest.await;
            }
        }
        response
    }
}

/// Returns the answer of a service to a request. The request passes the filters from the first line to the last.
///
/// The order is that of `DefaultBuildHandlerChain`, whose lines go from the last filter to the first, with three exceptions.
/// Logging precedes the request info, so that paths that cannot be parsed are logged. The timeout follows the audit, which
/// records the answer that the client gets. The reference has no page.
///
/// upstream: k8s.io/apiserver/pkg/server#DefaultBuildHandlerChain
pub(super) async fn respond(service: &Service, exchange: &mut Exchange<'_>) -> Response {
    let context = &*service.context;
    let (shared, config) = (&context.shared, &context.config);
    let (metrics, authorizer) = (&*shared.metrics, shared.authorizer.as_ref());
    let (serializer, browsers) = (context.messages(), service.browsers.as_deref());
    let audit_log = AuditLog {
        auditor: service.auditor.as_ref(),
        context: &context.representation,
    };
    let before_timeout: [&dyn Filter; 18] = [
        &WithAuditInit {
            identifiers: shared.identifiers.as_ref(),
        },
        &WithHttpLogging,
        &WithRequestInfo {
            cbor: config.cbor,
            own_apis: config.own_apis,
        },
        &WithTimeline {
            timeline: service.timeline.as_deref(),
            context,
        },
        &WithWebSocket,
        &WithRetryAfter {
            drain: service.drain.as_ref(),
        },
        &WithMetrics {
            requests: metrics.requests(),
            registry: &shared.registry,
        },
        &WithHeadAnswers,
        &WithTransportSecurity { browsers },
        &WithCacheControl,
        &WithGoAway { rule: service.go_away },
        &WithLongRunning,
        &WithRequestDeadline {
            max_timeout: config.request_timeout,
            audit_log,
            serializer,
        },
        &WithCors { browsers },
        &WithPage { files: service.page },
        &WithAuthentication {
            authenticator: &service.authenticator,
            tokens: shared.tokens.as_ref(),
            counters: metrics.identities(),
            ends_connections: service.ends_unauthenticated_connections,
            audit_log,
            serializer,
        },
        &WithTracing {
            tracer: service.tracer.as_ref(),
        },
        &WithAudit { log: audit_log },
    ];
    let within_timeout: [&dyn Filter; 5] = [
        &WithImpersonation {
            impersonation: &service.impersonation,
            authorizer,
            serializer,
        },
        &WithSeats {
            in_flight: &service.in_flight,
            fairness: service.fairness.as_deref(),
            clock: shared.clock.as_ref(),
            serializer,
        },
        &WithAuthorization {
            authorizer,
            counters: metrics.identities(),
            serializer,
        },
        &WithStorageVersionPrecondition {
            barrier: service.storage_versions.as_deref(),
            registry: &shared.registry,
            serializer,
        },
        &WithFaults {
            testing: service.testing.as_deref(),
            serializer,
        },
    ];
    let handler = TimeLimited(Filtered {
        filters: &within_timeout,
        handler: Director::new(service),
    });
    let chain = Filtered {
        filters: &before_timeout,
        handler,
    };
    chain.handle(exchange).await
}
