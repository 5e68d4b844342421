//! Filters of the time limit of a request.

use std::time::Duration;

use holdfast_gotext::duration;
use holdfast_proto::Messages;

use super::audit::AuditLog;
use super::{Exchange, Filter, Handler};
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
    async fn handle(&self, exchange: &mut Exchange<'_>, next: &impl Handler) -> Response {
        if exchange.is_long_running {
            return next.handle(exchange).await;
        }
        let limit = match time_limit(&exchange.info, self.max_timeout) {
            Ok(limit) => limit,
            Err(error) => {
                let mut response = exchange.rejection(self.serializer, &error);
                let message = |_: &Exchange<'_>| error.to_string();
                self.audit_log.rejected(exchange, message, &mut response).await;
                return response;
            }
        };
        if exchange.started.elapsed() >= limit {
            return exchange.rejection(self.serializer, &ApiError::out_of_time());
        }
        exchange.time_limit = Some(limit);
        next.handle(exchange).await
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

/// Filter that answers a request when its time limit has passed. What the filters behind it add to an answer, such as
/// the priority level, is missing then.
pub(super) struct WithTimeout;

impl Filter for WithTimeout {
    async fn handle(&self, exchange: &mut Exchange<'_>, next: &impl Handler) -> Response {
        let Some(limit) = exchange.time_limit else {
            return next.handle(exchange).await;
        };
        let answer = tokio::time::timeout(limit, next.handle(exchange)).await;
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
            .behind(WithRequestInfo { cbor: false });
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
        let answer = Stalled.behind(WithTimeout).handle(&mut request).await;
        assert_eq!(answer.status(), 504);
        let answer = Reply::OK.behind(WithTimeout).handle(&mut request).await;
        assert_eq!(answer.status(), 200);
    }
}
