//! Requests that are passed on as they are, and connections that switch to another protocol.

use holdfast_resource::{Destination, ExchangeKind};
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::url::{self, Redirects};
use super::{Client, send};
use crate::http::response::{self, Response};
use crate::http::{ApiError, query};
use crate::identity::forwarding::{FORWARDED_URI, remove_hop_by_hop_headers, remove_origin_headers};
use crate::webhooks::Backend;
use crate::wire::body::{Broken, RequestBody, ResponseBody};
use crate::wire::passed::PassedBody;
use crate::wire::upgrade::{self, SwitchingClient};

/// Passes a request on, and the answer back.
///
/// upstream: k8s.io/apimachinery/pkg/util/proxy#UpgradeAwareHandler.ServeHTTP
///
/// # Errors
/// If the other server cannot be reached.
pub(super) async fn open(
    backend: &Backend,
    destination: &Destination,
    mut client: Client<'_>,
) -> Result<Response, ApiError> {
    if let Some(switching) = client.raw.switching.take() {
        return switch(backend, destination, switching, client).await;
    }
    if !matches!(destination.exchange, ExchangeKind::Proxy { .. }) {
        return Err(ApiError::bad_request("Upgrade request required"));
    }
    let requested = client.raw.uri.path().to_owned();
    let mut path = destination.path.clone();
    if !path.ends_with('/') && requested.ends_with('/') {
        path.push('/');
    }
    let is_read = matches!(client.raw.method, Method::GET | Method::HEAD);
    if path.is_empty() && is_read {
        return redirect_to_root(&client);
    }
    let target = if path.starts_with('/') {
        path
    } else {
        format!("/{path}")
    };
    let encoded = url::encode_path(&target);
    let prefix = prefix_of(&requested, &target);
    let uri = url::build(destination, &target, client.raw.uri.query().unwrap_or_default())?;
    let mut headers = client.forwarded_headers(false)?;
    if let Ok(forwarded) = HeaderValue::from_str(&format!("{prefix}{encoded}")) {
        headers.insert(FORWARDED_URI, forwarded);
    }
    let host = headers.get(header::HOST).cloned();
    let sent = send(backend, client.raw.method, uri, headers, client.body).await;
    let answer = sent.map_err(|why| ApiError::unavailable(format!("error trying to reach service: {why}")))?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let why = "the server switched protocols without being asked\n";
        return Ok(response::text(StatusCode::BAD_GATEWAY, why));
    }
    let redirects = Redirects {
        backend: &url::authority(destination),
        client: host.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default(),
        prefix: &prefix,
    };
    Ok(pass_back(answer, &redirects, |body| {
        PassedBody::until_shutdown(body, client.shutdown.clone())
    }))
}

/// Returns the encoded part of the path `requested` before the path of the other server, `target`, which is not encoded.
/// The client may have encoded it in another way than this server does.
fn prefix_of(requested: &str, target: &str) -> String {
    match query::decode_lossy(requested) {
        Some(path) => url::encode_path(path.strip_suffix(target).unwrap_or(&path)),
        None => requested.to_owned(),
    }
}

/// Redirects a request for the proxy itself to its root.
///
/// upstream: k8s.io/apimachinery/pkg/util/proxy#proxyRedirectsforRootPath
fn redirect_to_root(client: &Client<'_>) -> Result<Response, ApiError> {
    let uri = &client.raw.uri;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let value = HeaderValue::from_str(&format!("{}/{query}", uri.path()));
    let location = value.map_err(|error| ApiError::internal(error.to_string()))?;
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// Returns the answer for the client.
fn pass_back(
    answer: http::Response<Incoming>,
    redirects: &Redirects<'_>,
    passed: impl FnOnce(Incoming) -> PassedBody,
) -> Response {
    let (mut head, body) = answer.into_parts();
    remove_hop_by_hop_headers(&mut head.headers);
    remove_origin_headers(&mut head.headers);
    let location = head
        .headers
        .get(header::LOCATION)
        .and_then(|location| location.to_str().ok());
    let rewritten = location.and_then(|location| HeaderValue::from_str(&redirects.rewrite(location)).ok());
    if let Some(rewritten) = rewritten {
        head.headers.insert(header::LOCATION, rewritten);
    }
    let mut response = Response::new(ResponseBody::passed(passed(body)));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}

/// Passes a request to switch protocols on, and then the bytes of both sides.
///
/// upstream: k8s.io/apimachinery/pkg/util/proxy#UpgradeAwareHandler.tryUpgrade
async fn switch(
    backend: &Backend,
    destination: &Destination,
    switching: SwitchingClient,
    mut client: Client<'_>,
) -> Result<Response, ApiError> {
    let uri = match destination.exchange {
        // The reference does not pass the parameters of the client on either.
        ExchangeKind::Proxy { .. } => url::build(destination, root_or(&destination.path), "")?,
        _ => url::of_kubelet(destination)?,
    };
    let headers = client.forwarded_headers(true)?;
    let sent = send(backend, client.raw.method.clone(), uri, headers, client.body).await;
    let answer = sent.map_err(|why| ApiError::unclassified(format!("error dialing backend: {why}")))?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let mut answer = answer;
        let other = hyper::upgrade::on(&mut answer);
        let headers = std::mem::take(answer.headers_mut());
        let session = switching.join(other, client.shutdown.clone());
        return Ok(upgrade::switching(headers, session));
    }
    not_switched(answer)
}

fn root_or(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// Returns the answer to a request that asked in vain to switch protocols. Only errors are passed back.
///
/// # Errors
/// If it is not an error.
pub(super) fn not_switched(answer: http::Response<Incoming>) -> Result<Response, ApiError> {
    let status = answer.status();
    if status.as_u16() < 400 {
        let why = format!("invalid upgrade response: status code {}", status.as_u16());
        return Err(ApiError::unclassified(why));
    }
    let (mut head, body) = answer.into_parts();
    remove_hop_by_hop_headers(&mut head.headers);
    let mut response = Response::new(ResponseBody::passed(body.map_err(|_| Broken)));
    *response.status_mut() = status;
    *response.headers_mut() = head.headers;
    Ok(response)
}

/// Asks a kubelet to switch to SPDY with one of these protocols, in order of preference. The body of the request is empty.
///
/// # Errors
/// If there is no answer; the text is the reason in Go's words.
pub(super) async fn switch_to_spdy(
    backend: &Backend,
    destination: &Destination,
    mut headers: HeaderMap,
    protocols: impl IntoIterator<Item = HeaderValue>,
) -> Result<http::Response<Incoming>, String> {
    let uri = url::of_kubelet(destination).map_err(|error| error.status().message.clone())?;
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    headers.remove(PROTOCOL_VERSION);
    for protocol in protocols {
        headers.append(PROTOCOL_VERSION, protocol);
    }
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    send(backend, Method::POST, uri, headers, RequestBody::from_bytes("")).await
}

/// Header that negotiates the protocol of the streams of a SPDY connection.
pub(super) const PROTOCOL_VERSION: &str = "x-stream-protocol-version";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_does_not_depend_on_encoding_of_client() {
        for (requested, target, expected) in [
            ("/nodes/n/proxy/a%20b", "/a b", "/nodes/n/proxy"),
            ("/nodes/n/proxy/%61(b)", "/a(b)", "/nodes/n/proxy"),
            ("/nodes/%6E/proxy/", "/", "/nodes/n/proxy"),
            ("/nodes/https:n:1/proxy/a", "/a", "/nodes/https:n:1/proxy"),
            ("/nodes/n/proxy/a//b", "/a/b", "/nodes/n/proxy/a//b"),
        ] {
            assert_eq!(prefix_of(requested, target), expected, "{requested}");
        }
    }
}
