//! The handler behind all filters: it passes a request on to an aggregated server, a resource, or another path.

use std::sync::Arc;

use futures_util::FutureExt as _;
use holdfast_audit::Recorder;
use holdfast_traces::{Scope, Span};
use http::StatusCode;

use super::{Exchange, Handler, traces};
use crate::api::context::Context;
use crate::api::router::{self, Incoming};
use crate::http::ApiError;
use crate::http::request::{RawRequest, Unadmitted};
use crate::http::request_info::ResourcePath;
use crate::http::response::{self, Response};
use crate::metrics::Recording;
use crate::operations::aggregation::Proxied;
use crate::operations::aggregation::forward::Forwarded;
use crate::operations::changes::{self, history};
use crate::operations::paths::Paths;
use crate::operations::service::Service;
use crate::operations::testing::{self, Testing};
use crate::runtime::webhook_time::{self, WebhookTime};
use crate::runtime::{boxed, trace_scope};
use crate::wire::in_flight::{InFlight, Seat};
use crate::wire::upgrade::SwitchingClient;
use crate::wire::websocket::Upgrade;

/// Handler that finds the handler of the requested path.
pub(super) struct Director<'a> {
    context: &'a Arc<Context>,
    paths: &'a Paths,
    in_flight: &'a Arc<InFlight>,
    testing: Option<&'a Testing>,
}

impl<'a> Director<'a> {
    pub(super) fn new(service: &'a Service) -> Self {
        Self {
            context: &service.context,
            paths: &service.paths,
            in_flight: &service.in_flight,
            testing: service.testing.as_deref(),
        }
    }
}

impl Handler for Director<'_> {
    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        match exchange.span.as_ref().map(|span| span.scope().clone()) {
            Some(scope) => Box::pin(self.handle_within(scope, exchange)).await,
            None => self.respond(exchange).await,
        }
    }
}

impl Director<'_> {
    /// Returns the answer to a request that belongs to a trace.
    async fn handle_within(&self, scope: Scope, exchange: &mut Exchange<'_>) -> Response {
        let span = traces::start_handler(&scope, exchange);
        let inner = span.as_ref().map_or(&scope, Span::scope).clone();
        trace_scope::within(inner, self.respond(exchange)).await
    }

    async fn respond(&self, exchange: &mut Exchange<'_>) -> Response {
        let answer = match self.paths.remote(&exchange.info.path) {
            // Another server would not restrict a denied request.
            Some(remote) => match exchange.denied.take() {
                Some(denied) => Err(denied),
                None => self.forward(exchange, &remote).await,
            },
            None => self.serve(exchange).await,
        };
        answer.unwrap_or_else(|error| exchange.rejection(self.context.messages(), &error))
    }

    /// Returns the answer of another server. It keeps its seat until the client has received it.
    async fn forward(&self, exchange: &mut Exchange<'_>, remote: &Proxied) -> Result<Response, ApiError> {
        let Some(aggregator) = self.paths.aggregator() else {
            return Ok(response::page_not_found());
        };
        let user = Arc::clone(exchange.user()?);
        // The filters still read method and URI on the way back.
        let (mut rest, ()) = http::Request::new(()).into_parts();
        rest.method = exchange.head.method.clone();
        rest.uri = exchange.head.uri.clone();
        rest.version = exchange.head.version;
        let seat = exchange.seat.take();
        let request = Forwarded {
            head: std::mem::replace(&mut exchange.head, rest),
            user,
            body: exchange.take_body(),
            deadline: exchange.deadline(),
            info: &exchange.info,
            audit_id: &exchange.audit_id,
            peer: exchange.peer,
        };
        let answer = Box::pin(aggregator.forward(remote, request)).await;
        Ok(holding(answer, seat))
    }

    /// Returns the answer of this server.
    async fn serve(&self, exchange: &mut Exchange<'_>) -> Result<Response, ApiError> {
        let target = self.target(exchange).await;
        if let Some(denied) = exchange.denied.take_if(|_| target.is_none()) {
            return Err(denied);
        }
        let requested_history = match &target {
            Some(path) if self.context.config.own_apis && path.subresource == history::SUBRESOURCE => {
                history::find(self.context, path).await
            }
            _ => None,
        };
        let (seat, is_limited) = (exchange.seat.take(), exchange.time_limit.is_some());
        let incoming = self.incoming(exchange)?;
        if let Some(requested) = requested_history {
            let context = Arc::clone(self.context);
            let audit = incoming.audit.clone();
            let answer = boxed(|| async move { Ok(holding(requested.respond(&context, incoming).await?, seat)) });
            return self.run(guarded(audit, answer), is_limited, false).await;
        }
        match target {
            Some(target) => {
                let webhook_time = match is_write(&incoming.info.verb) {
                    true => exchange.recording.as_mut().map(Recording::webhook_time),
                    false => None,
                };
                let served = Served {
                    target,
                    webhook_time,
                    seat,
                    is_limited,
                };
                self.serve_resource(incoming, served).await
            }
            None if self.context.config.own_apis && changes::serves(&incoming.info.path) => {
                let context = Arc::clone(self.context);
                let (audit, is_write) = (incoming.audit.clone(), changes::is_write(&incoming.info));
                let answer = boxed(|| async move { Ok(holding(changes::respond(&context, incoming).await?, seat)) });
                self.run(guarded(audit, answer), is_limited, is_write).await
            }
            None => {
                let is_testing = || incoming.info.path.starts_with(testing::FOLDER);
                let response = match self.testing.filter(|_| is_testing()) {
                    Some(testing) => Box::pin(testing.respond(self.context, incoming)).await?,
                    None => self.paths.respond(self.context.messages(), incoming).await?,
                };
                Ok(holding(response, seat))
            }
        }
    }

    /// Returns the resource that a request names; `None` for other paths.
    async fn target(&self, exchange: &Exchange<'_>) -> Option<ResourcePath> {
        let is_api = || exchange.info.resource.is_some() && self.paths.is_api(&exchange.info.path);
        if !is_api() {
            // The group may be that of a CRD that was just written, and documents list all served resources.
            self.context.crds.caught_up().await;
            if !is_api() {
                return None;
            }
        }
        exchange.info.resource.clone()
    }

    /// Moves the parts of a request that its handler needs out of the exchange.
    fn incoming(&self, exchange: &mut Exchange<'_>) -> Result<Incoming, ApiError> {
        let raw = raw_request(exchange);
        let upgrade = Upgrade::take(&mut exchange.head);
        Ok(Incoming {
            method: exchange.head.method.clone(),
            user: Arc::clone(exchange.user()?),
            denied: exchange.denied.take(),
            deadline: exchange.deadline(),
            audit: exchange.recorder().cloned(),
            unadmitted: exchange.head.extensions.get::<Unadmitted>().is_some(),
            info: std::mem::take(&mut exchange.info),
            headers: std::mem::take(&mut exchange.head.headers),
            negotiated: std::mem::take(&mut exchange.negotiated),
            body: exchange.take_body(),
            watch: std::mem::take(&mut exchange.watch),
            now: exchange.received,
            upgrade,
            raw,
            cbor: self.context.config.cbor,
        })
    }

    /// Returns the answer of the requested resource.
    async fn serve_resource(&self, incoming: Incoming, served: Served) -> Result<Response, ApiError> {
        let context = Arc::clone(self.context);
        let is_write = is_write(&incoming.info.verb);
        let Served {
            target,
            webhook_time,
            seat,
            is_limited,
        } = served;
        let audit = incoming.audit.clone();
        // The future owns the seat, and the answer owns it afterwards until the client has received the answer.
        let answer = boxed(|| async move {
            let serving = router::serve_resource(&context, incoming, target);
            let response = webhook_time::measured(webhook_time, serving).await?;
            Ok(holding(response, seat))
        });
        self.run(guarded(audit, answer), is_limited, is_write).await
    }

    /// Runs the handler of a request, apart from other requests if it announces long work.
    async fn run(
        &self,
        answer: impl Future<Output = Result<Response, ApiError>> + Send + Unpin + 'static,
        is_limited: bool,
        is_write: bool,
    ) -> Result<Response, ApiError> {
        if !is_limited {
            return answer.await;
        }
        let long_work = self.in_flight.long_work.clone();
        let answer = async move { long_work.apart(answer).await };
        // A write is finished even if the client disconnects or the time limit passes: its reservations are released, or
        // made permanent, when its outcome is known.
        let outcome = match is_write {
            true => match tokio::spawn(trace_scope::inherited(answer)).await {
                Ok(outcome) => outcome,
                // The runtime shuts down and drops this request too. An error would reach only log lines of callers in
                // this process.
                Err(error) if error.is_cancelled() => std::future::pending().await,
                Err(_) => Err(panicked()),
            },
            false => answer.await,
        };
        match outcome {
            // The handler may notice the end of the time limit first.
            Err(error) if error.is_out_of_time() => Ok(response::out_of_time()),
            outcome => outcome,
        }
    }
}

/// Resource that a request names, and the measures and limits of its handler.
struct Served {
    target: ResourcePath,
    /// Time in webhooks, if the request is a write that metrics count.
    webhook_time: Option<Arc<WebhookTime>>,
    seat: Option<Arc<Seat>>,
    /// True if the request has a time limit.
    is_limited: bool,
}

/// Returns true for a verb that may write.
fn is_write(verb: &str) -> bool {
    !matches!(verb, "get" | "list" | "watch")
}

/// Returns the request as the client sent it, if it is long-running for another reason than that it is a watch.
fn raw_request(exchange: &Exchange<'_>) -> Option<Box<RawRequest>> {
    let may_be_passed_on = exchange.is_long_running && exchange.info.verb != "watch";
    may_be_passed_on.then(|| {
        let head = &exchange.head;
        Box::new(RawRequest {
            method: head.method.clone(),
            uri: head.uri.clone(),
            audit_id: exchange.audit_id.clone(),
            peer: exchange.peer,
            switching: SwitchingClient::new(&head.headers, &head.extensions),
        })
    })
}

/// Returns the answer, which keeps the seat of its request until the client has received it.
fn holding(mut response: Response, seat: Option<Arc<Seat>>) -> Response {
    if let Some(seat) = seat {
        response.body_mut().hold_seat(seat);
    }
    response
}

/// Returns the outcome of `answer`. A panic fails only this request, and the audit log records it.
fn guarded(
    audit: Option<Recorder>,
    answer: impl Future<Output = Result<Response, ApiError>> + Send + Unpin,
) -> impl Future<Output = Result<Response, ApiError>> + Send + Unpin {
    let caught = std::panic::AssertUnwindSafe(answer).catch_unwind();
    caught.map(|outcome| {
        outcome.unwrap_or_else(|panic| {
            if let Some(audit) = audit {
                let message = panic
                    .downcast_ref::<&str>()
                    .copied()
                    .or(panic.downcast_ref::<String>().map(String::as_str));
                audit.panicked(message.unwrap_or("no reason was given"));
            }
            Err(panicked())
        })
    })
}

fn panicked() -> ApiError {
    let message = "This request caused the server to fail. Look in its log for details.";
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn failing() -> Result<Response, ApiError> {
        panic!("a bug")
    }

    #[tokio::test]
    async fn panic_of_a_handler_is_an_error_of_the_server() {
        let outcome = guarded(None, Box::pin(failing())).await;
        assert_eq!(outcome.err().unwrap().code(), StatusCode::INTERNAL_SERVER_ERROR);
        let passed = guarded(None, Box::pin(async { Ok(response::no_content()) })).await;
        assert_eq!(passed.ok().unwrap().status(), StatusCode::NO_CONTENT);
    }

    #[test]
    fn seat_is_free_when_the_answer_is_dropped() {
        let in_flight = Arc::new(InFlight::new(1, 1));
        let enter = || in_flight.enter(&Arc::default(), false, false);
        let answer = holding(response::text(StatusCode::OK, "text"), enter().map(Arc::new));
        assert!(enter().is_none());
        drop(answer);
        assert!(enter().is_some());
    }
}
