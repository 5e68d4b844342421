//! Filter of the seats that requests occupy while they are served.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use holdfast_audit::Layer;
use holdfast_authorization::User;
use holdfast_fairness::{Execution, Start, Waiting};
use holdfast_proto::Messages;
use tokio::time::Instant;

use super::{Completion, Exchange, Filter, Step};
use crate::http::response::Response;
use crate::http::status::RETRY_SECONDS;
use crate::operations::fairness::{Admitted, PriorityAndFairness, SeatRequest, name_level};
use crate::operations::inflight;
use crate::runtime::Clock;
use crate::wire::fairness::{RequestDetails, Schema};
use crate::wire::in_flight::{InFlight, Seat};

/// Filter that waits for a seat: one of a priority level, or one of the limits of requests in flight.
pub(super) struct WithSeats<'a> {
    pub(super) in_flight: &'a Arc<InFlight>,
    /// Priority levels, which replace the limits of `in_flight`.
    pub(super) fairness: Option<&'a PriorityAndFairness>,
    pub(super) clock: &'a dyn Clock,
    pub(super) serializer: &'a Messages,
}

impl<'a> WithSeats<'a> {
    /// Enters the priority level of `schema`, or waits in one of its queues.
    fn enter_level<'f>(
        &'f self,
        fairness: &'a PriorityAndFairness,
        schema: Arc<Schema>,
        user: Arc<User>,
        exchange: &'f mut Exchange<'_>,
    ) -> Step<'f> {
        exchange.flow_schema = Some(Arc::clone(&schema));
        match fairness.start(&schema, &seat_request(exchange, &user)) {
            Start::Executes(execution) => {
                self.occupy(fairness, execution, &user, exchange);
                Step::Pass
            }
            Start::Rejected(_) => Step::answer(self.drop_request(&schema)),
            Start::Waits(waiting) => Step::Wait(Box::pin(async move {
                match wait(waiting, fairness, exchange).await {
                    Some(execution) => {
                        exchange.received = self.clock.now();
                        self.occupy(fairness, execution, &user, exchange);
                        None
                    }
                    None => Some(self.drop_request(&schema)),
                }
            })),
        }
    }

    /// Gives the request the seats of its level.
    fn occupy(
        &self,
        fairness: &PriorityAndFairness,
        execution: Execution<RequestDetails>,
        user: &Arc<User>,
        exchange: &mut Exchange<'_>,
    ) {
        let Admitted { seat, watch } = fairness.admit(self.in_flight, execution, &seat_request(exchange, user));
        exchange.watch = watch;
        // A watch releases its seats once it has begun, whatever happens to its answer.
        if exchange.time_limit.is_some() {
            occupy_until_answered(seat, exchange);
        }
    }

    /// Occupies one of the limits of requests in flight.
    fn enter_limits(&self, user: &Arc<User>, exchange: &mut Exchange<'_>) -> Step<'static> {
        let Some(seat) = inflight::enter(self.in_flight, &exchange.info, user) else {
            return Step::answer(inflight::too_many(RETRY_SECONDS.into()));
        };
        occupy_until_answered(Arc::new(seat), exchange);
        Step::Pass
    }

    fn drop_request(&self, schema: &Schema) -> Response {
        let now = self.clock.now().duration_since(UNIX_EPOCH);
        inflight::too_many(schema.drop_request(now.unwrap_or_default()))
    }
}

/// Waits in a queue; returns `None` if the request is not executed in time.
async fn wait(
    waiting: Waiting<RequestDetails>,
    fairness: &PriorityAndFairness,
    exchange: &mut Exchange<'_>,
) -> Option<Execution<RequestDetails>> {
    let began = Instant::now();
    let until = exchange.started + fairness.max_wait(exchange.time_limit);
    let execution = tokio::time::timeout_at(until, waiting.turn()).await;
    if let Some(recorder) = exchange.recorder() {
        recorder.took(Layer::QueueWait, began.elapsed());
    }
    if let Some(recording) = &mut exchange.recording {
        recording.waited_for_seat(began.elapsed());
    }
    execution.ok()
}

/// Keeps the seat until the answer is sent, except while the body of the request arrives.
fn occupy_until_answered(seat: Arc<Seat>, exchange: &mut Exchange<'_>) {
    exchange.body.leaving(Arc::clone(&seat));
    exchange.seat = Some(seat);
}

fn seat_request<'e>(exchange: &'e Exchange<'_>, user: &'e Arc<User>) -> SeatRequest<'e> {
    SeatRequest {
        info: &exchange.info,
        user,
        method: &exchange.head.method,
        uri: &exchange.head.uri,
        limit: exchange.time_limit,
    }
}

impl Filter for WithSeats<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        let user = match exchange.user() {
            Ok(user) => Arc::clone(user),
            Err(error) => return Step::rejection(exchange, self.serializer, &error),
        };
        let Some(fairness) = self.fairness else {
            return match exchange.time_limit {
                Some(_) => self.enter_limits(&user, exchange),
                None => Step::Pass,
            };
        };
        match fairness.classify(&seat_request(exchange, &user)) {
            Some(schema) => self.enter_level(fairness, schema, user, exchange),
            None => Step::Pass,
        }
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if let Some(schema) = &exchange.flow_schema {
            name_level(response.headers_mut(), schema);
        }
        Completion::Done
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::header::RETRY_AFTER;

    use super::super::testing::{Reply, World, exchange};
    use super::*;
    use crate::runtime::SystemClock;

    fn request(verb: &str) -> Exchange<'static> {
        let mut request = exchange("GET", "/api/v1/pods");
        request.info.verb = verb.into();
        request.user = Some(World::user("alice"));
        request.time_limit = Some(Duration::from_secs(60));
        request
    }

    #[tokio::test]
    async fn request_without_free_seat_is_told_to_retry() {
        let (world, in_flight) = (World::default(), Arc::new(InFlight::new(1, 1)));
        let handler = Reply::OK.behind(WithSeats {
            in_flight: &in_flight,
            fairness: None,
            clock: &SystemClock,
            serializer: world.serializer(),
        });
        let mut first = request("list");
        assert_eq!(handler.handle(&mut first).await.status(), 200);
        assert!(first.seat.is_some(), "the handler may keep it for the answer");
        let answer = handler.handle(&mut request("list")).await;
        assert_eq!(answer.status(), 429);
        assert!(answer.headers().contains_key(RETRY_AFTER));
        drop(first);
        assert_eq!(handler.handle(&mut request("list")).await.status(), 200);
    }

    #[tokio::test]
    async fn long_running_request_needs_no_seat_in_flight() {
        let (world, in_flight) = (World::default(), Arc::new(InFlight::new(1, 1)));
        let handler = Reply::OK.behind(WithSeats {
            in_flight: &in_flight,
            fairness: None,
            clock: &SystemClock,
            serializer: world.serializer(),
        });
        let mut watch = request("watch");
        watch.time_limit = None;
        assert_eq!(handler.handle(&mut watch).await.status(), 200);
        assert!(watch.seat.is_none());
        watch.user = None;
        assert_eq!(handler.handle(&mut watch).await.status(), 401);
    }

    #[tokio::test]
    async fn answer_names_the_priority_level() {
        let (world, in_flight) = (World::default(), Arc::new(InFlight::new(1, 1)));
        let fairness = PriorityAndFairness::new(10, Duration::from_secs(60));
        let handler = Reply::OK.behind(WithSeats {
            in_flight: &in_flight,
            fairness: Some(&fairness),
            clock: &SystemClock,
            serializer: world.serializer(),
        });
        let mut request = request("list");
        let answer = handler.handle(&mut request).await;
        assert!(answer.headers().contains_key("x-kubernetes-pf-flowschema-uid"));
        assert!(request.seat.is_some());
    }
}
