//! Forwarding of a request to another server in the name of its user, and of the answer to the client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_aggregation::{Transport as _, authority};
use holdfast_authorization::User;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, StatusCode, Uri};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::{Aggregator, Proxied, upgrade};
use crate::http::request_info::RequestInfo;
use crate::http::response::{self, Response};
use crate::identity::forwarding::{FORWARDED_URI, ForwardedHeaders, remove_hop_by_hop_headers, remove_origin_headers};
use crate::wire::body::{Broken, RequestBody, ResponseBody};
use crate::wire::passed::PassedBody;
use crate::wire::upgrade::SwitchingClient;

/// An authorized request that is forwarded.
pub(crate) struct Forwarded<'a> {
    pub(crate) head: Parts,
    pub(crate) info: &'a RequestInfo,
    pub(crate) user: Arc<User>,
    pub(crate) body: RequestBody,
    /// The audit ID of the request.
    pub(crate) audit_id: &'a HeaderValue,
    /// The deadline of the request; `None` for a long-running one.
    pub(crate) deadline: Option<Instant>,
    /// The address of the client.
    pub(crate) peer: Option<SocketAddr>,
}

/// The time limit of discovery, which all clients wait for.
const DISCOVERY: Duration = Duration::from_secs(5);

const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

const UNASKED_SWITCH: &str = "error trying to reach service: the backend switched protocols without being asked";
const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";

impl Aggregator {
    /// Returns the answer of another server. Failures are reported like in the reference, in plain text.
    pub(crate) async fn forward(&self, to: &Proxied, forwarding: Forwarded<'_>) -> Response {
        if !to.service.available {
            return unavailable().into();
        }
        let client = SwitchingClient::new(&forwarding.head.headers, &forwarding.head.extensions);
        self.exchange(to, forwarding, client)
            .await
            .unwrap_or_else(Response::from)
    }

    async fn exchange(
        &self,
        to: &Proxied,
        forwarding: Forwarded<'_>,
        client: Option<SwitchingClient>,
    ) -> Result<Response, Failure> {
        let configured = to.backend.as_ref();
        let backend = configured.map_err(|why| failed(StatusCode::INTERNAL_SERVER_ERROR, why))?;
        let remote = to.service.remote.as_ref().ok_or_else(unavailable)?;
        let place = self.servers.transport().address(remote).map_err(|why| {
            tracing::error!(api_service = %to.service.name, %why, "service cannot be reached");
            unavailable()
        })?;
        let authority = authority(&place);
        let mut deadline = forwarding.deadline;
        if is_discovery(forwarding.info) {
            let soon = Instant::now().checked_add(DISCOVERY);
            deadline = deadline.into_iter().chain(soon).min();
        }
        let own_deadline = deadline == forwarding.deadline;
        let mut headers = forwarding.head.headers;
        let rewritten = ForwardedHeaders {
            user: Some(&forwarding.user),
            hides_uid: self.config.hides_uids,
            front_proxy: self.config.front_proxy.as_deref(),
            audit_id: forwarding.audit_id,
            peer: forwarding.peer.map(|peer| peer.ip()),
            is_upgrade: client.is_some(),
        }
        .rewrite(&mut headers);
        rewritten.map_err(|_| {
            let why = "the user cannot be named in headers";
            failed(StatusCode::INTERNAL_SERVER_ERROR, why)
        })?;
        if client.is_none() {
            forwarded(&mut headers, &forwarding.head.uri, &authority);
        }
        let built = request(&authority, &forwarding.head.uri).and_then(|uri| {
            Request::builder()
                .method(forwarding.head.method)
                .uri(uri)
                .body(forwarding.body.pass_on())
        });
        let mut request = built.map_err(|error| failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))?;
        *request.headers_mut() = headers;
        let outcome = within(deadline, backend.send(request)).await;
        let answer = match outcome {
            Ok(answer) => answer,
            Err(OutOfTime) if own_deadline => return Err(Failure::OutOfTime),
            Err(OutOfTime) => Err("context deadline exceeded".to_owned()),
        };
        match client {
            Some(client) => {
                let answer = answer.map_err(|why| {
                    let why = format!("error dialing backend: {why}");
                    failed(StatusCode::SERVICE_UNAVAILABLE, &why)
                })?;
                upgrade::answer(client, answer, &self.shutdown)
            }
            None => {
                let answer = answer.map_err(|why| {
                    let why = format!("error trying to reach service: {why}");
                    failed(StatusCode::SERVICE_UNAVAILABLE, &why)
                })?;
                if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
                    return Err(failed(StatusCode::SERVICE_UNAVAILABLE, UNASKED_SWITCH));
                }
                Ok(self.answer(answer, deadline, &authority))
            }
        }
    }

    /// Returns the answer for the client.
    fn answer(&self, answer: http::Response<Incoming>, deadline: Option<Instant>, authority: &str) -> Response {
        let (mut head, body) = answer.into_parts();
        if self.config.reject_redirects && head.status.is_redirection() && head.headers.contains_key(header::LOCATION) {
            return response::bytes(
                StatusCode::BAD_GATEWAY,
                HeaderValue::from_static("text/plain; charset=utf-8"),
                Bytes::from_static(REDIRECTED.as_bytes()),
            );
        }
        remove_hop_by_hop_headers(&mut head.headers);
        remove_origin_headers(&mut head.headers);
        if let Some(rewritten) = head
            .headers
            .get(header::LOCATION)
            .and_then(|location| absolute(location, authority))
        {
            head.headers.insert(header::LOCATION, rewritten);
        }
        let passed = match deadline {
            // An answer that exceeds its deadline is cut off.
            Some(deadline) => PassedBody::new(body, async move {
                tokio::time::sleep_until(deadline).await;
                Err(Broken)
            }),
            None => PassedBody::until_shutdown(body, self.shutdown.clone()),
        };
        let mut response = Response::new(ResponseBody::passed(passed));
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        response
    }
}

/// Returns true if the request is for the resources of a group version.
fn is_discovery(info: &RequestInfo) -> bool {
    info.resource.is_none() && info.path.trim_matches('/').split('/').count() == 3
}

struct OutOfTime;

async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Result<T, OutOfTime> {
    match deadline {
        None => Ok(work.await),
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.map_err(|_| OutOfTime),
    }
}

/// Returns the URL of the same path and query at another server.
fn request(authority: &str, uri: &Uri) -> Result<Uri, http::Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Uri::builder()
        .scheme("https")
        .authority(authority)
        .path_and_query(path)
        .build()
}

/// Passes the requested URI and authority to the other server.
fn forwarded(headers: &mut HeaderMap, uri: &Uri, authority: &str) {
    let mut set = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    set(FORWARDED_URI, uri.path());
    set(FORWARDED_HOST, authority);
    set(FORWARDED_PROTO, "https");
}

/// Completes a redirect to a path of the other server with its authority.
fn absolute(location: &HeaderValue, authority: &str) -> Option<HeaderValue> {
    let location = location.to_str().ok()?;
    let on_host = location.starts_with('/') && !location.starts_with("//");
    on_host.then(|| HeaderValue::from_str(&format!("https://{authority}{location}")).ok())?
}

/// Returns the failure for a server that is unavailable.
fn unavailable() -> Failure {
    failed(StatusCode::SERVICE_UNAVAILABLE, "service unavailable")
}

/// Returns a failure with its code and message.
pub(super) fn failed(code: StatusCode, why: &str) -> Failure {
    Failure::Message(code, why.to_owned())
}

/// The reason why there is no answer of another server.
pub(super) enum Failure {
    /// A failure with this plain text, as Go's `http.Error` writes it.
    Message(StatusCode, String),
    /// The time limit of the request is exceeded.
    OutOfTime,
}

impl From<Failure> for Response {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Message(code, why) => response::text(code, format!("{why}\n")),
            Failure::OutOfTime => response::out_of_time(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn discovery_is_what_asks_for_the_resources_of_a_group_version() {
        let is_one = |uri: &str| is_discovery(&RequestInfo::parse(&Method::GET, &uri.parse().unwrap()).unwrap());
        assert!(is_one("/apis/a.example/v1") && is_one("/apis/a.example/v1/"));
        assert!(!is_one("/apis/a.example/v1/things") && !is_one("/apis/a.example"));
    }

    #[test]
    fn forwarded_uri_keeps_query_and_redirects_become_absolute() {
        let original: Uri = "/apis/a.example/v1/things?labelSelector=a%3Db".parse().unwrap();
        let uri = request("10.0.0.5:443", &original).unwrap();
        assert_eq!(
            uri.to_string(),
            "https://10.0.0.5:443/apis/a.example/v1/things?labelSelector=a%3Db"
        );
        assert_eq!(authority(&("fd00::1".to_owned(), 443)), "[fd00::1]:443");
        let led = |location| absolute(&HeaderValue::from_static(location), "10.0.0.5:443");
        assert_eq!(led("/a?b").unwrap(), "https://10.0.0.5:443/a?b");
        assert_eq!(led("a"), None);
        assert_eq!(led("https://elsewhere.example/"), None);
        assert_eq!(led("//elsewhere.example/"), None);
    }
}
