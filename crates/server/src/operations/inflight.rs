//! The limits on requests in flight: the requests that need a seat, and the answer if none is free.

use std::sync::Arc;

use holdfast_authorization::{MASTERS, User};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

use crate::http::request_info::RequestInfo;
use crate::http::response::{self, Response};
use crate::http::status::TOO_MANY;
use crate::operations::debugging;
use crate::wire::in_flight::{InFlight, Seat};

/// The health checks of the server, which are answered to all users.
const PROBES: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Acquires a seat for a request of `user`; `None` if none is free for that user. Requests of `system:masters`, who can
/// repair a broken cluster, and health checks are never rejected.
pub(crate) fn enter(in_flight: &Arc<InFlight>, request: &RequestInfo, user: &Arc<User>) -> Option<Seat> {
    let mutates = !matches!(request.verb.as_str(), "get" | "list" | "watch");
    let anyway = user.is_in(MASTERS) || PROBES.contains(&request.path.as_str());
    in_flight.enter(user, mutates, anyway)
}

/// Returns true if the request is long-running, so that neither limits nor timeouts apply: a watch, a connection to a
/// pod, or a profile.
pub fn is_long_running(info: &RequestInfo) -> bool {
    const LONG_RUNNING: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];
    let subresource = info.resource.as_ref().map(|target| target.subresource.as_str());
    let is_profile = info.resource.is_none() && info.path.starts_with(debugging::PROFILES);
    matches!(info.verb.as_str(), "watch" | "proxy")
        || subresource.is_some_and(|name| LONG_RUNNING.contains(&name))
        || is_profile
}

/// Returns the answer to a request that got no seat, with the number of seconds after which the client should retry.
pub(crate) fn too_many(retry_seconds: u64) -> Response {
    let mut response = response::text(StatusCode::TOO_MANY_REQUESTS, format!("{TOO_MANY}\n"));
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(retry_seconds));
    response
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn info(method: &Method, uri: &str) -> RequestInfo {
        RequestInfo::parse(method, &uri.parse().unwrap()).unwrap()
    }

    #[test]
    fn administrators_and_health_checks_are_never_refused() {
        let in_flight = Arc::new(InFlight::new(2, 2));
        let user = |group: &str| {
            Arc::new(User {
                groups: vec![group.into()],
                ..User::default()
            })
        };
        let (bob, admin) = (user(""), user(MASTERS));
        let pods = |method| info(&method, "/api/v1/namespaces/n/pods/p");
        let places = [Method::GET, Method::DELETE].map(|method| enter(&in_flight, &pods(method), &bob));
        assert!(places.iter().all(Option::is_some));
        assert!(enter(&in_flight, &pods(Method::GET), &bob).is_none());
        assert!(enter(&in_flight, &pods(Method::POST), &bob).is_none());
        assert!(enter(&in_flight, &pods(Method::DELETE), &admin).is_some());
        assert!(enter(&in_flight, &info(&Method::GET, "/livez"), &bob).is_some());
    }

    #[test]
    fn watches_and_connections_to_pods_are_long_running() {
        let is_long = |uri: &str| is_long_running(&info(&Method::GET, uri));
        assert!(is_long("/api/v1/pods?watch=1"));
        assert!(is_long("/api/v1/namespaces/n/pods/a/log"));
        assert!(!is_long("/api/v1/namespaces/n/pods/a/status"));
        assert!(!is_long("/livez"));
    }
}
