//! Filter of a server that ends: it sends clients to another server while running requests finish.

use std::sync::Arc;

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER, USER_AGENT};
use http::request::Parts;

use super::{Completion, Exchange, Filter, Step};
use crate::http::response::{self, Response};
use crate::runtime::drain::RequestDrain;
use crate::wire::connection::LastOnConnection;

/// Paths that are served until the end, with everything below them and every path with the same beginning.
const EXEMPT_PREFIXES: [&str; 4] = ["/livez", "/readyz", "/healthz", "/metrics"];

/// User agent of a kube-apiserver, which is served until the end.
const KUBE_APISERVER: &[u8] = b"kube-apiserver/";

/// Filter that answers 429 with `Retry-After` once the drain of the server has begun, and counts the requests for which
/// the drain waits.
///
/// upstream: k8s.io/apiserver/pkg/server/filters#WithRetryAfter
pub(super) struct WithRetryAfter<'a> {
    /// Drain; `None` if the server denies no requests while it ends.
    pub(super) drain: Option<&'a Arc<RequestDrain>>,
}

impl Filter for WithRetryAfter<'_> {
    fn request<'f>(&'f self, exchange: &'f mut Exchange<'_>) -> Step<'f> {
        let Some(drain) = self.drain else {
            return Step::Pass;
        };
        if exchange.is_own() || is_exempt(&exchange.head) {
            return Step::Pass;
        }
        if exchange.is_long_running {
            return match drain.is_draining() {
                true => Step::answer(retry_later()),
                false => Step::Pass,
            };
        }
        exchange.running = drain.enter();
        match exchange.running {
            Some(_) => Step::Pass,
            None => Step::answer(retry_later()),
        }
    }

    fn response<'f>(&'f self, exchange: &'f mut Exchange<'_>, _response: &'f mut Response) -> Completion<'f> {
        exchange.running = None;
        Completion::Done
    }
}

/// Returns true if the drain neither denies a request nor waits for it.
///
/// upstream: k8s.io/apiserver/pkg/server/filters#isRequestExemptFromRetryAfter
fn is_exempt(head: &Parts) -> bool {
    let path = head.uri.path();
    EXEMPT_PREFIXES.iter().any(|prefix| path.starts_with(prefix))
        || (head.headers.get(USER_AGENT)).is_some_and(|agent| agent.as_bytes().starts_with(KUBE_APISERVER))
}

/// Returns the answer of a server that ends. It is the last one of its connection.
fn retry_later() -> Response {
    const MESSAGE: &str = "The apiserver is shutting down, please try again later.\n";
    let mut answer = response::text(StatusCode::TOO_MANY_REQUESTS, MESSAGE);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    answer.extensions_mut().insert(LastOnConnection);
    answer
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::super::testing::{Reply, exchange, with_header};
    use super::*;
    use crate::operations::loopback;

    async fn answer(drain: &Arc<RequestDrain>, exchange: &mut Exchange<'_>) -> Response {
        Reply::OK
            .behind(WithRetryAfter { drain: Some(drain) })
            .handle(exchange)
            .await
    }

    #[tokio::test]
    async fn draining_server_denies_all_but_exempt_requests() {
        let drain = Arc::<RequestDrain>::default();
        assert_eq!(
            answer(&drain, &mut exchange("GET", "/api")).await.status(),
            StatusCode::OK
        );
        drain.drain().now_or_never().unwrap();

        let denied = answer(&drain, &mut exchange("GET", "/api")).await;
        assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(denied.headers()[RETRY_AFTER], "5");
        assert!(denied.extensions().get::<LastOnConnection>().is_some());

        let mut watch = exchange("GET", "/api/v1/pods?watch=1");
        watch.is_long_running = true;
        assert_eq!(answer(&drain, &mut watch).await.status(), StatusCode::TOO_MANY_REQUESTS);

        let mut own = exchange("GET", "/api");
        own.peer = Some(loopback::OWN_ADDRESS);
        for mut exempt in [
            exchange("GET", "/readyz/ping"),
            exchange("GET", "/metrics"),
            with_header("GET", "/api", "user-agent", "kube-apiserver/v1.36.2"),
            own,
        ] {
            assert_eq!(answer(&drain, &mut exempt).await.status(), StatusCode::OK);
        }
    }

    #[tokio::test]
    async fn drain_waits_for_unanswered_requests_only() {
        let drain = Arc::<RequestDrain>::default();
        let filter = WithRetryAfter { drain: Some(&drain) };
        let mut running = exchange("GET", "/api");
        assert!(matches!(filter.request(&mut running), Step::Pass));
        let mut watch = exchange("GET", "/api/v1/pods?watch=1");
        watch.is_long_running = true;
        assert!(matches!(filter.request(&mut watch), Step::Pass));

        let mut drained = Box::pin(drain.drain());
        assert!(drained.as_mut().now_or_never().is_none());
        filter.response(&mut running, &mut response::text(StatusCode::OK, ""));
        assert!(drained.now_or_never().is_some());
    }
}
