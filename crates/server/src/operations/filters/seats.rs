//! Filter of the seats that requests occupy while they are served.

use std::sync::Arc;

use holdfast_audit::Layer;
use holdfast_proto::Messages;
use tokio::time::Instant;

use super::{Exchange, Filter, Handler};
use crate::http::ApiError;
use crate::http::response::Response;
use crate::http::status::RETRY_SECONDS;
use crate::operations::fairness::{Admitted, PriorityAndFairness, SeatRequest, name_level};
use crate::operations::inflight;
use crate::wire::fairness::{Schema, WatchHold};
use crate::wire::in_flight::{InFlight, Seat};

/// Filter that waits for a seat: one of a priority level, or one of the limits of requests in flight.
pub(super) struct WithSeats<'a> {
    pub(super) in_flight: &'a Arc<InFlight>,
    /// Priority levels, which replace the limits of `in_flight`.
    pub(super) fairness: Option<&'a PriorityAndFairness>,
    pub(super) serializer: &'a Messages,
}

/// Seats of a request.
#[derive(Default)]
struct Seats {
    seat: Option<Arc<Seat>>,
    watch: WatchHold,
}

impl WithSeats<'_> {
    /// Waits for the seats of a request whose flow schema is `schema`.
    ///
    /// # Errors
    /// If there are none: the number of seconds after which the client should retry.
    async fn wait(&self, request: &SeatRequest<'_>, schema: Option<&Arc<Schema>>) -> Result<Seats, u64> {
        match (self.fairness, schema) {
            (Some(fairness), Some(schema)) => {
                let Admitted { seat, watch } = fairness.admit(self.in_flight, schema, request).await?;
                // A watch releases its seats once it has begun, whatever happens to its answer.
                let seat = request.limit.is_some().then_some(seat);
                Ok(Seats { seat, watch })
            }
            (None, _) if request.limit.is_some() => {
                let seat = inflight::enter(self.in_flight, request.info, request.user);
                Ok(Seats {
                    seat: Some(Arc::new(seat.ok_or(u64::from(RETRY_SECONDS))?)),
                    watch: WatchHold::default(),
                })
            }
            _ => Ok(Seats::default()),
        }
    }

    /// Returns the flow schema of a request, and its seats or the answer if there are none.
    async fn enter(&self, exchange: &Exchange<'_>) -> Result<Entry, ApiError> {
        let request = SeatRequest {
            info: &exchange.info,
            user: exchange.user()?,
            method: &exchange.head.method,
            uri: &exchange.head.uri,
            limit: exchange.time_limit,
            started: exchange.started,
        };
        let began = exchange.recorder().map(|_| Instant::now());
        let schema = self.fairness.and_then(|fairness| fairness.classify(&request));
        let seats = self.wait(&request, schema.as_ref()).await;
        if let (Some(recorder), Some(began)) = (exchange.recorder(), began) {
            recorder.took(Layer::QueueWait, began.elapsed());
        }
        Ok(Entry { schema, seats })
    }
}

/// Flow schema of a request, and its seats or the number of seconds after which the client should retry.
struct Entry {
    schema: Option<Arc<Schema>>,
    seats: Result<Seats, u64>,
}

impl Filter for WithSeats<'_> {
    async fn handle(&self, exchange: &mut Exchange<'_>, next: &impl Handler) -> Response {
        let Entry { schema, seats } = match self.enter(exchange).await {
            Ok(entry) => entry,
            Err(error) => return exchange.rejection(self.serializer, &error),
        };
        let mut response = match seats {
            Ok(Seats { seat, watch }) => {
                if let Some(seat) = &seat {
                    exchange.body.leaving(Arc::clone(seat));
                }
                (exchange.seat, exchange.watch) = (seat, watch);
                next.handle(exchange).await
            }
            Err(retry_seconds) => inflight::too_many(retry_seconds),
        };
        if let Some(schema) = schema {
            name_level(response.headers_mut(), &schema);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::header::RETRY_AFTER;

    use super::super::testing::{Reply, World, exchange};
    use super::*;

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
            serializer: world.serializer(),
        });
        let mut request = request("list");
        let answer = handler.handle(&mut request).await;
        assert!(answer.headers().contains_key("x-kubernetes-pf-flowschema-uid"));
        assert!(request.seat.is_some());
    }
}
