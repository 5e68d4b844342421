//! HTTPS client for webhooks, with limits on sizes, times and connections.
//!
//! Each set of authorities has one pool, which keeps connections by address. As in the reference, connections to URLs
//! use HTTP/2 if the webhook supports it, and serve concurrent calls; connections to services serve one call at a time,
//! so that calls are spread over their endpoints and do not wait for each other. Redirects are not followed.

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_admission::webhooks::{Address, Authorities, ClientConfig};
use holdfast_egress::{EgressSelector, Network};
use holdfast_gotext::duration;
use holdfast_value::{Limits, json};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::{Client as Pool, Error as PoolError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use smol_str::SmolStr;
use tokio::sync::Semaphore;

use super::connector::{ConnectError, Connector};
use super::credentials::WebhookUser;
use super::services::Services;
use crate::runtime::trace_scope;

/// Client of webhooks.
pub struct Client {
    services: Arc<Services>,
    pools: Mutex<HashMap<Peer, HttpPool>>,
    places: Mutex<HashMap<SmolStr, Arc<Semaphore>>>,
    egress: EgressSelector,
}

/// Properties, other than the address, that connections must share to serve the same calls.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Peer {
    authorities: Option<Authorities>,
    of_service: bool,
    /// Address in memory of the user whose certificate the connections present; users live as long as the server.
    certificate_user: Option<usize>,
}

type HttpPool = Pool<Connector, Full<Bytes>>;

/// Maximum number of pools. If there are more, all pools are dropped.
const POOLS: usize = 256;

/// Maximum number of concurrent calls to one address; others wait, which counts towards their timeout.
const CALLS: usize = 128;

/// Maximum number of addresses that stay in memory while no call to them runs.
const ADDRESSES: usize = 1024;

/// Maximum size of a response in bytes.
const ANSWER_BYTES: usize = 16 << 20;

/// Lifetime of an idle connection, and maximum number of idle connections for one address.
const IDLE: Duration = Duration::from_secs(90);
const IDLE_CONNECTIONS: usize = 25;

/// Silence of an HTTP/2 connection after which it gets a ping, and timeout of the ping.
const PING: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(15);

/// Maximum number of bytes of a response that an error shows.
const MESSAGE_BYTES: usize = 2048;

/// Reason why a webhook call failed, in the words that clients see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The configuration allows no call.
    #[error("{0}")]
    Unusable(String),
    /// The call failed; the code is that of its response, or 503 if there was none.
    #[error("{why}")]
    Failed {
        /// The status code.
        code: u16,
        /// Description of the failure.
        why: String,
    },
}

impl Client {
    /// Creates a client that resolves services through `services`.
    pub(super) fn new(services: Services) -> Self {
        Self {
            services: Arc::new(services),
            pools: Mutex::default(),
            places: Mutex::default(),
            egress: EgressSelector::default(),
        }
    }

    /// Returns a client of the same services that calls through the proxies of their networks.
    pub(super) fn with_egress(&self, egress: EgressSelector) -> Self {
        Self {
            services: Arc::clone(&self.services),
            pools: Mutex::default(),
            places: Mutex::default(),
            egress,
        }
    }

    /// Sends JSON to a webhook without credentials and returns the body of a successful response.
    ///
    /// # Errors
    /// If there is no such response.
    pub(crate) async fn call(&self, to: &ClientConfig, body: Vec<u8>, timeout: Duration) -> Result<Bytes, CallError> {
        self.call_as(None, to, body, timeout).await
    }

    /// Sends JSON to a webhook as `user` and returns the body of a successful response.
    ///
    /// # Errors
    /// If there is no such response.
    pub(super) async fn call_as(
        &self,
        user: Option<&Arc<WebhookUser>>,
        to: &ClientConfig,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        let url = url_with_timeout(to, timeout);
        let failed = |code: StatusCode, why: String| CallError::Failed {
            code: code.as_u16(),
            why,
        };
        let unanswered = |why: &str| failed(StatusCode::SERVICE_UNAVAILABLE, format!("Post {url:?}: {why}"));
        let pool = self.pool(to, user).map_err(CallError::Unusable)?;
        let mut request = Request::post(&url)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| unanswered(&error.to_string()))?;
        if let Some(user) = user {
            let added = user.add_headers(request.headers_mut()).await;
            added.map_err(CallError::Unusable)?;
        }
        let places = self.places(request.uri().authority().map_or("", |authority| authority.as_str()));
        let span = trace_scope::start_call(&mut request);
        let exchange = async {
            let _place = places.acquire().await;
            let outcome = pool.request(request).await;
            trace_scope::end_call(span, outcome.as_ref().ok().map(http::Response::status));
            let answer = outcome.map_err(|error| unanswered(&pool_error_text(&error)))?;
            let status = answer.status();
            let content_type = answer.headers().get(CONTENT_TYPE).cloned();
            let is_text = content_type.as_ref().is_none_or(is_text);
            let collected = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
            let body = collected.map_err(|error| unanswered(&error.to_string()))?.to_bytes();
            if (200..=206).contains(&status.as_u16()) {
                if body.is_empty() {
                    return Err(failed(status, empty(status, content_type.as_ref())));
                }
                Ok(body)
            } else {
                Err(failed(status, rejection(status, &body, is_text)))
            }
        };
        match tokio::time::timeout(timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(unanswered("context deadline exceeded")),
        }
    }

    fn pool(&self, to: &ClientConfig, user: Option<&Arc<WebhookUser>>) -> Result<HttpPool, String> {
        let certificate = user.and_then(|user| user.certificate());
        let peer = Peer {
            certificate_user: user
                .filter(|_| certificate.is_some())
                .map(|user| Arc::as_ptr(user).addr()),
            authorities: to.authorities.clone(),
            of_service: matches!(to.address, Address::Service { .. }),
        };
        let mut pools = self.pools.lock();
        if let Some(pool) = pools.get(&peer) {
            return Ok(pool.clone());
        }
        let services = peer.of_service.then(|| Arc::clone(&self.services));
        let network = match peer.of_service {
            true => Network::Cluster,
            false => Network::ControlPlane,
        };
        let connector = Connector::new(peer.authorities.as_ref().map(Authorities::pem), services, certificate)?
            .through(self.egress.dialer(network));
        let pool: HttpPool = Pool::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_keep_alive_interval(PING)
            .http2_keep_alive_timeout(PING_ANSWER)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(connector);
        if pools.len() >= POOLS {
            pools.clear();
        }
        pools.insert(peer, pool.clone());
        Ok(pool)
    }

    fn places(&self, address: &str) -> Arc<Semaphore> {
        let mut places = self.places.lock();
        if let Some(of_address) = places.get(address) {
            return Arc::clone(of_address);
        }
        if places.len() >= ADDRESSES {
            places.retain(|_, of_address| Arc::strong_count(of_address) > 1);
        }
        let of_address = Arc::new(Semaphore::new(CALLS));
        places.insert(SmolStr::new(address), Arc::clone(&of_address));
        of_address
    }
}

/// Returns the URL of a call.
fn url_with_timeout(to: &ClientConfig, timeout: Duration) -> String {
    format!(
        "{}?timeout={}",
        to.address.url(),
        duration::text(whole_seconds(timeout))
    )
}

/// Returns the error of a call whose connection is refused, without a call.
pub(super) fn refused_connection(to: &ClientConfig, timeout: Duration) -> CallError {
    let url = url_with_timeout(to, timeout);
    let parsed = url.parse::<http::Uri>().unwrap_or_default();
    let (host, port) = (parsed.host().unwrap_or_default(), parsed.port_u16().unwrap_or(443));
    CallError::Failed {
        code: StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        why: format!("Post {url:?}: dial tcp {host}:{port}: connect: connection refused"),
    }
}

/// Rounds the timeout of the webhook up to seconds, for the `timeout` parameter of a call.
fn whole_seconds(timeout: Duration) -> Duration {
    let up = u64::from(timeout.subsec_nanos() > 0);
    Duration::from_secs(timeout.as_secs() + up)
}

/// Returns the reason why an exchange failed, in Go's words.
pub(crate) fn pool_error_text(error: &PoolError) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.source();
    let mut text = error.to_string();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<ConnectError>() {
            return error.to_string();
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_incomplete_message() {
                return "EOF".to_owned();
            }
            if error.is_parse() {
                return format!("net/http: HTTP/1.x transport connection broken: malformed HTTP response: {error}");
            }
        }
        // The connection ended without a TLS close notification.
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|error| error.kind() == std::io::ErrorKind::UnexpectedEof) {
            return "EOF".to_owned();
        }
        text = error.to_string();
        cause = error.source();
    }
    text
}

/// Returns true if this is the media type of a text that messages can show.
fn is_text(content_type: &HeaderValue) -> bool {
    content_type
        .to_str()
        .is_ok_and(|media_type| media_type.starts_with("text/"))
}

/// Returns the message for a successful response without a body. The reference's client assumes JSON if no type is
/// stated.
fn empty(code: StatusCode, content_type: Option<&HeaderValue>) -> String {
    let stated = content_type.and_then(|stated| stated.to_str().ok());
    format!(
        "0-length response with status code: {} and content type: {}",
        code.as_u16(),
        stated.unwrap_or("application/json")
    )
}

/// Returns the message for a response with an error code, in the words of the reference's client, which shows only
/// bodies that are text.
#[expect(clippy::indexing_slicing, reason = "no more than there is")]
fn rejection(code: StatusCode, body: &[u8], is_text: bool) -> String {
    if let Ok(status) = json::parse(body, &Limits::REQUEST)
        && status.str_at(&["kind"]) == Some("Status")
        && status.str_at(&["status"]) != Some("Success")
        && let Some(message) = status.str_at(&["message"])
    {
        return message.to_owned();
    }
    let beginning = String::from_utf8_lossy(&body[..body.len().min(MESSAGE_BYTES)]);
    let said = if is_text { beginning.trim() } else { "unknown" };
    let message = match code.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 406 | 415 if !said.is_empty() => said,
        403 => "forbidden",
        406 | 415 => "unknown",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        number if number >= 500 => {
            return format!("an error on the server ({said:?}) has prevented the request from succeeding");
        }
        number => {
            return format!("the server responded with the status code {number} but did not return more information");
        }
    };
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_gets_whole_seconds() {
        assert_eq!(whole_seconds(Duration::from_millis(1_001)), Duration::from_secs(2));
        assert_eq!(whole_seconds(Duration::from_secs(30)), Duration::from_secs(30));
    }

    #[test]
    fn an_answer_without_a_body_says_so() {
        let text = HeaderValue::from_static("text/plain");
        assert_eq!(
            empty(StatusCode::OK, Some(&text)),
            "0-length response with status code: 200 and content type: text/plain"
        );
    }

    #[test]
    fn a_rejection_is_recognized_by_its_status_or_its_code() {
        let rejection_text =
            |code: u16, body: &str| rejection(StatusCode::from_u16(code).unwrap(), body.as_bytes(), true);
        let status = r#"{"kind":"Status","status":"Failure","message":"no"}"#;
        assert_eq!(rejection_text(500, status), "no");
        assert_eq!(
            rejection_text(503, "oh no"),
            "the server is currently unable to handle the request"
        );
        assert_eq!(
            rejection_text(500, "oh no"),
            r#"an error on the server ("oh no") has prevented the request from succeeding"#
        );
        assert_eq!(
            rejection(StatusCode::INTERNAL_SERVER_ERROR, b"{}", false),
            r#"an error on the server ("unknown") has prevented the request from succeeding"#
        );
        assert_eq!(rejection_text(403, ""), "forbidden");
        assert_eq!(
            rejection_text(307, ""),
            "the server responded with the status code 307 but did not return more information"
        );
    }
}
