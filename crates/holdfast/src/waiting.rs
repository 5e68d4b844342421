//! Responses while the server waits for etcd: health checks report that etcd is unavailable, and all other requests
//! that the server is not ready. A supervisor sees that the process is alive and what it waits for.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// Maximum number of concurrent connections; further ones wait.
const CONNECTIONS: usize = 64;
/// Maximum duration of a connection: a probe is short.
const LAST: Duration = Duration::from_secs(10);

/// Server that responds until it is dropped.
pub(crate) struct Waiting(JoinHandle<()>);

impl Waiting {
    /// Answers connections of `listener`.
    pub(crate) fn begin(listener: TcpListener, tls: &ServerConfig) -> Self {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(tls)))))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of files, perhaps, which passes.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let tls = tls.clone();
        tokio::spawn(async move {
            let _place = place;
            let served = async {
                let Ok(stream) = tls.accept(stream).await else { return };
                let server = http1::Builder::new();
                let answer = service_fn(|request: Request<Incoming>| {
                    let answer = answer(request.uri().path(), request.uri().query().unwrap_or_default());
                    async { Ok::<_, Infallible>(answer) }
                });
                // A client may go away at any time.
                let _ = server.serve_connection(TokioIo::new(stream), answer).await;
            };
            let _ = tokio::time::timeout(LAST, served).await;
        });
    }
}

fn answer(path: &str, query: &str) -> Response<Full<Bytes>> {
    let (status, media_type, text) = match path.strip_prefix('/') {
        Some("livez/ping" | "healthz/ping" | "readyz/ping") => (StatusCode::OK, PLAIN, "ok".to_owned()),
        Some(endpoint @ ("livez" | "healthz" | "readyz")) => {
            let excluded = query.split('&').any(|part| part == "exclude=etcd") && endpoint != "readyz";
            match excluded {
                true => (StatusCode::OK, PLAIN, "ok".to_owned()),
                false => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, failed(endpoint)),
            }
        }
        _ => (StatusCode::SERVICE_UNAVAILABLE, JSON, TOO_EARLY.to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

const TOO_EARLY: &str = concat!(
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server waits for etcd","#,
    r#""reason":"ServiceUnavailable","details":{"retryAfterSeconds":1},"code":503}"#,
    "\n"
);

fn failed(endpoint: &str) -> String {
    let check = if endpoint == "readyz" { "etcd-readiness" } else { "etcd" };
    format!("[+]ping ok\n[-]{check} failed: reason withheld\n{endpoint} check failed\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_checks_fail_and_requests_are_unavailable_without_etcd() {
        for (path, query, status) in [
            ("/livez", "", 500),
            ("/livez", "verbose", 500),
            ("/livez", "exclude=etcd", 200),
            ("/livez/ping", "", 200),
            ("/healthz", "", 500),
            ("/readyz", "", 500),
            ("/readyz", "exclude=etcd", 500),
            ("/api/v1/pods", "", 503),
            ("/livezz", "", 503),
        ] {
            assert_eq!(answer(path, query).status(), status, "{path}?{query}");
        }
        assert!(failed("livez").contains("[-]etcd failed: reason withheld\n"));
    }

    #[test]
    fn early_request_gets_a_service_unavailable_status() {
        let status = holdfast_value::json::parse(TOO_EARLY.as_bytes(), &holdfast_value::Limits::TRUSTED).unwrap();
        assert_eq!(status.at(&["code"]).and_then(holdfast_value::Value::as_i64), Some(503));
    }
}
