//! The local process that the page talks to.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::gate::Gate;
use super::upstream::Upstream;

/// Header with the session of the page. Pages of other origins cannot send it.
const SESSION_HEADER: HeaderName = HeaderName::from_static("x-holdfast-session");

/// Path that exchanges the code for the session.
const SESSION_PATH: &str = "/ui/session";

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 100;

/// Time limit for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of bytes of a request that is passed on, and of one that exchanges the code.
const MAX_BODY_BYTES: usize = 4 << 20;
const MAX_CODE_BYTES: usize = 1 << 10;

/// Headers of an answer that are passed on.
const PASSED_BACK: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::WARNING,
    header::RETRY_AFTER,
    HeaderName::from_static("audit-id"),
];

type Body = Either<Full<Bytes>, Incoming>;

/// The local process.
pub(super) struct Proxy {
    gate: Gate,
    upstream: Upstream,
    /// Values of `Host` with which the page reaches the process.
    hosts: [String; 2],
}

impl Proxy {
    /// Creates the process that listens on `address`.
    pub(super) fn new(gate: Gate, upstream: Upstream, address: SocketAddr) -> Self {
        Self {
            gate,
            upstream,
            hosts: [address.to_string(), format!("localhost:{}", address.port())],
        }
    }

    /// Answers the connections of `listener`.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) -> Result<()> {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let place = Arc::clone(&places).acquire_owned().await?;
            let Ok((socket, _)) = listener.accept().await else {
                // The process may have too many open files for a moment.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let proxy = Arc::clone(&self);
            tokio::spawn(async move {
                let proxy = &*proxy;
                let answer = service_fn(|request| async move { Ok::<_, Infallible>(proxy.respond(request).await) });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .serve_connection(TokioIo::new(socket), answer);
                // An error means that the browser closed the connection.
                let _ = connection.await;
                drop(place);
            });
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let headers = request.headers();
        // A name that resolves to this machine would let the page of another site read the answers.
        if !self.is_own(headers.get(header::HOST), "") {
            return rejection(StatusCode::FORBIDDEN, "The request names another host.");
        }
        if let Some(file) = holdfast_ui::respond(request.method(), request.uri().path(), headers) {
            return file.map(|body| Either::Left(Full::new(body)));
        }
        if headers.contains_key(header::ORIGIN) && !self.is_own(headers.get(header::ORIGIN), "http://") {
            return rejection(StatusCode::FORBIDDEN, "The request comes from another page.");
        }
        if request.uri().path() == SESSION_PATH {
            return self.exchange(request).await;
        }
        let session = headers.get(SESSION_HEADER).and_then(|value| value.to_str().ok());
        if !session.is_some_and(|session| self.gate.admits(session)) {
            return rejection(
                StatusCode::UNAUTHORIZED,
                "The session is missing. Run holdfast ui again.",
            );
        }
        self.forward(request).await
    }

    fn is_own(&self, value: Option<&HeaderValue>, prefix: &str) -> bool {
        let host = value.and_then(|value| value.to_str().ok()?.strip_prefix(prefix));
        host.is_some_and(|host| self.hosts.iter().any(|own| own == host))
    }

    /// Exchanges the code for the session.
    async fn exchange(&self, request: Request<Incoming>) -> Response<Body> {
        let is_json =
            request.headers().get(header::CONTENT_TYPE) == Some(&HeaderValue::from_static("application/json"));
        if request.method() != Method::POST || !is_json {
            return rejection(StatusCode::METHOD_NOT_ALLOWED, "The code is posted as JSON.");
        }
        let Some(body) = read_body(request.into_body(), MAX_CODE_BYTES).await else {
            return rejection(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large.");
        };
        let document: Option<Value> = serde_json::from_slice(&body).ok();
        let code = document.as_ref().and_then(|document| document.get("code")?.as_str());
        match code.and_then(|code| self.gate.exchange(code, Instant::now())) {
            Some(session) => document_answer(StatusCode::OK, &json!({ "session": session })),
            None => rejection(StatusCode::UNAUTHORIZED, "The code is wrong, too old or used."),
        }
    }

    /// Passes a request on to the server.
    async fn forward(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let Some(body) = read_body(body, MAX_BODY_BYTES).await else {
            return rejection(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large.");
        };
        let root = PathAndQuery::from_static("/");
        let target = head.uri.path_and_query().unwrap_or(&root);
        match self.upstream.send(head.method, target, &head.headers, body).await {
            Ok(answer) => passed_back(answer),
            Err(error) => rejection(
                StatusCode::BAD_GATEWAY,
                &format!("The server cannot be reached: {error:#}"),
            ),
        }
    }
}

/// Returns the body of a request; `None` if it is too large or ends early.
async fn read_body(body: Incoming, max_bytes: usize) -> Option<Bytes> {
    if body.size_hint().lower() > max_bytes as u64 {
        return None;
    }
    let collected = Limited::new(body, max_bytes).collect().await.ok()?;
    Some(collected.to_bytes())
}

/// Returns the answer of the server for the page.
fn passed_back(answer: Response<Incoming>) -> Response<Body> {
    let (head, body) = answer.into_parts();
    let mut passed = Response::new(Either::Right(body));
    *passed.status_mut() = head.status;
    for name in PASSED_BACK {
        for value in head.headers.get_all(&name) {
            passed.headers_mut().append(name.clone(), value.clone());
        }
    }
    restrict(passed.headers_mut());
    passed
}

/// Adds headers with which a browser treats the answer as data, whatever it contains.
fn restrict(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; sandbox; frame-ancestors 'none'",
        ),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Returns an error as the page reads it.
fn rejection(status: StatusCode, message: &str) -> Response<Body> {
    let code = status.as_u16();
    document_answer(
        status,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code}),
    )
}

fn document_answer(status: StatusCode, document: &Value) -> Response<Body> {
    let mut answer = Response::new(Either::Left(Full::new(Bytes::from(document.to_string()))));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    restrict(answer.headers_mut());
    answer
}
