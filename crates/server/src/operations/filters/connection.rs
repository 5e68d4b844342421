//! Filters of the connection: its last request, long-running answers, answers to HEAD, and WebSockets.

use http::{Method, Version};

use super::{Completion, Exchange, Filter, Step};
use crate::http::response::Response;
use crate::operations::service::GoAway;
use crate::wire::body::ResponseBody;
use crate::wire::connection::{LastOnConnection, LongRunning};
use crate::wire::{upgrade, websocket};

/// Filter that ends HTTP/2 connections at random, so that clients spread over servers.
pub(super) struct WithGoAway {
    pub(super) rule: Option<GoAway>,
}

impl Filter for WithGoAway {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        exchange.is_last |= exchange.head.version == Version::HTTP_2 && self.rule.is_some_and(GoAway::decides);
        Step::Pass
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if exchange.is_last {
            response.extensions_mut().insert(LastOnConnection);
        }
        Completion::Done
    }
}

/// Filter that marks the answers of long-running requests, to which no time limit of the connection applies.
pub(super) struct WithLongRunning;

impl Filter for WithLongRunning {
    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if exchange.is_long_running {
            response.extensions_mut().insert(LongRunning);
        }
        Completion::Done
    }
}

/// Filter that leaves out the body of an answer to HEAD.
pub(super) struct WithHeadAnswers;

impl Filter for WithHeadAnswers {
    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        if exchange.head.method == Method::HEAD {
            *response.body_mut() = ResponseBody::empty();
        }
        Completion::Done
    }
}

/// Filter that begins to send the messages of a WebSocket, or the session of another protocol, once its handshake is
/// answered.
pub(super) struct WithWebSocket;

impl Filter for WithWebSocket {
    fn response<'f>(&'f self, _exchange: &'f mut Exchange<'_>, response: &'f mut Response) -> Completion<'f> {
        websocket::begin(response);
        upgrade::begin(response);
        Completion::Done
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Reply, exchange};
    use super::*;

    #[tokio::test]
    async fn only_http2_connections_end_by_chance() {
        let always = GoAway {
            chance: 1.0,
            random: || 0,
        };
        for (rule, version, ends) in [
            (Some(always), Version::HTTP_2, true),
            (Some(always), Version::HTTP_11, false),
            (None, Version::HTTP_2, false),
            (Some(GoAway { chance: 0.0, ..always }), Version::HTTP_2, false),
        ] {
            let mut request = exchange("GET", "/livez");
            request.head.version = version;
            let answer = Reply::OK.behind(WithGoAway { rule }).handle(&mut request).await;
            assert_eq!(
                answer.extensions().get::<LastOnConnection>().is_some(),
                ends,
                "{version:?}"
            );
        }
    }

    #[tokio::test]
    async fn only_long_running_answers_are_marked() {
        for is_long_running in [true, false] {
            let mut request = exchange("GET", "/api/v1/pods?watch=1");
            request.is_long_running = is_long_running;
            let answer = Reply::OK.behind(WithLongRunning).handle(&mut request).await;
            assert_eq!(answer.extensions().get::<LongRunning>().is_some(), is_long_running);
        }
    }

    #[tokio::test]
    async fn answer_to_head_has_no_body() {
        let length = async |method| {
            let answer = Reply::OK
                .behind(WithHeadAnswers)
                .handle(&mut exchange(method, "/livez"))
                .await;
            answer.body().length()
        };
        assert_eq!(length("HEAD").await, Some(0));
        assert_eq!(length("GET").await, Some(Reply::BODY.len() as u64));
    }

    #[tokio::test]
    async fn answer_without_handshake_keeps_its_body() {
        let answer = Reply::OK
            .behind(WithWebSocket)
            .handle(&mut exchange("GET", "/livez"))
            .await;
        assert_eq!(answer.body().length(), Some(Reply::BODY.len() as u64));
    }
}
