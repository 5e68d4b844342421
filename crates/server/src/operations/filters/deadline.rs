//! Filters of the time limit of a request.

use std::pin::pin;
use std::time::Duration;

use holdfast_gotext::duration;
use holdfast_proto::Messages;

use super::audit::AuditLog;
use super::{Exchange, Filter, Handler, Step};
use crate::http::ApiError;
use crate::http::request_info::RequestInfo;
use crate::http::response::{self, Response};

/// Filter that determines the time limit of a request. It rejects those whose limit is invalid or has passed.
pub(super) struct WithRequestDeadline<'a> {
    pub(super) max_timeout: Duration,
    pub(super) audit_log: AuditLog<'a>,
    pub(super) serializer: &'a Messages,
}

impl Filter for WithRequestDeadline<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        if exchange.is_long_running {
            return Step::Pass;
        }
        match time_limit(&exchange.info, self.max_timeout) {
            Ok(limit) if exchange.started.elapsed() >= limit => {
                Step::rejection(exchange, self.serializer, &ApiError::out_of_time())
            }
            Ok(limit) => {
                exchange.time_limit = Some(limit);
                Step::Pass
            }
            Err(error) => {
                let response = exchange.rejection(self.serializer, &error);
                self.audit_log.reject(exchange, error.to_string(), response)
            }
        }
    }
}

/// Returns the `timeout` that the client sends, if it is less than the server allows.
fn time_limit(info: &RequestInfo, max_timeout: Duration) -> Result<Duration, ApiError> {
    let Some(text) = info.query.get("timeout").filter(|text| !text.is_empty()) else {
        return Ok(max_timeout);
    };
    let wanted = duration::parse_from_zero(text)
        .map_err(|why| ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}")))?;
    Ok(match wanted.is_zero() {
        true => max_timeout,
        false => wanted.min(max_timeout),
    })
}

/// Handler that answers a request when its time limit has passed. It drops the handler behind it then, so that an answer
/// lacks what the filters there add to it, such as the priority level.
pub(super) struct TimeLimited<H>(pub(super) H);

impl<H: Handler> Handler for TimeLimited<H> {
    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        let Some(limit) = exchange.time_limit else {
            return self.0.handle(exchange).await;
        };
        // Pinned here, the future is not copied into the one of the timeout.
        let answered = pin!(self.0.handle(exchange));
        let answer = tokio::time::timeout(limit, answered).await;
        answer.unwrap_or_else(|_| response::out_of_time())
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrival::WithRequestInfo;
    use super::super::testing::{Reply, Stalled, World, exchange};
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    async fn limit_of(uri: &str) -> Result<Option<Duration>, u16> {
        let world = World::default();
        let handler = Reply::OK
            .behind(WithRequestDeadline {
                max_timeout: MINUTE,
                audit_log: world.audit_log(),
                serializer: world.serializer(),
            })
            .behind(WithRequestInfo {
                cbor: false,
                own_apis: true,
            });
        let mut request = exchange("GET", uri);
        let answer = handler.handle(&mut request).await;
        match answer.status().as_u16() {
            200 => Ok(request.time_limit),
            code => Err(code),
        }
    }

    #[tokio::test]
    async fn time_limit_is_that_of_client_up_to_that_of_server() {
        for (uri, expected) in [
            ("/api/v1/pods", Ok(Some(MINUTE))),
            ("/api/v1/pods?timeout=5s", Ok(Some(Duration::from_secs(5)))),
            ("/api/v1/pods?timeout=0", Ok(Some(MINUTE))),
            ("/api/v1/pods?timeout=2h", Ok(Some(MINUTE))),
            ("/api/v1/pods?timeout=soon", Err(400)),
            ("/api/v1/pods?timeout=1ns", Err(504)),
            ("/api/v1/pods?watch=1&timeout=soon", Ok(None)),
        ] {
            assert_eq!(limit_of(uri).await, expected, "{uri}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn handler_that_exceeds_the_limit_is_answered_for() {
        let mut request = exchange("GET", "/api/v1/pods");
        request.time_limit = Some(MINUTE);
        let answer = TimeLimited(Stalled).handle(&mut request).await;
        assert_eq!(answer.status(), 504);
        let answer = TimeLimited(Reply::OK).handle(&mut request).await;
        assert_eq!(answer.status(), 200);
    }
}
