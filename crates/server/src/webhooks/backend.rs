//! The client of aggregated API servers, kubelets and pods: requests and responses are streamed through, with limits on connections.
//!
//! Each request has a connection of its own until it ends (HTTP/1.1), so that no watch delays other requests on the
//! same connection, and a client that reads its response slowly slows down only that response.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_egress::Dialer;
use http::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use http::{Extensions, Request};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body as _, Incoming};
use hyper_util::client::legacy::{Builder, Client as Pool, Error as PoolError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::client::ResolvesClientCert;

use super::client::pool_error_text;
use super::connector::{Answered, Connector};
use super::trust::Trust;

/// The body of a request to an aggregated server.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Connection pool for one aggregated server, by address.
#[derive(Clone)]
pub(crate) struct Backend {
    pool: Pool<Connector, Body>,
}

/// Lifetime of an idle connection, and maximum number of idle connections for one address.
const IDLE: Duration = Duration::from_secs(90);
const IDLE_CONNECTIONS: usize = 25;

/// Maximum number of bytes of a kubelet or a pod that wait for a client that reads slowly. The head of a response must fit.
const MAX_BUFFERED_BYTES: usize = 128 * 1024;

impl Backend {
    /// Creates a pool of connections to servers whose certificates are for `name`; `client_certificate` chooses that of
    /// the client.
    ///
    /// # Errors
    /// If there are no authorities to trust.
    pub(crate) fn new(
        name: String,
        trust: Trust<'_>,
        client_certificate: Option<Arc<dyn ResolvesClientCert>>,
        dialer: Option<&Dialer>,
    ) -> Result<Self, String> {
        let connector = Connector::in_the_name_of(name, trust, client_certificate)?.through(dialer);
        Ok(Self {
            pool: builder().build(connector),
        })
    }

    /// Creates a pool of connections to kubelets and pods, whose certificates are for the host of the URL.
    ///
    /// # Errors
    /// If there are no authorities to trust.
    pub(crate) fn for_nodes(
        trust: Trust<'_>,
        client_certificate: Option<Arc<dyn ResolvesClientCert>>,
        dialer: Option<&Dialer>,
    ) -> Result<Self, String> {
        let connector = Connector::for_nodes(trust, client_certificate)?.through(dialer);
        Ok(Self {
            pool: builder().http1_max_buf_size(MAX_BUFFERED_BYTES).build(connector),
        })
    }

    /// Sends a request, whose URL contains the address. Like Go's transport, it retries a read-only request if the
    /// server had closed the connection, which is noticed late on an idle one. A connection on which the server has never
    /// answered was not idle: the server broke off this request.
    ///
    /// # Errors
    /// If there is no response; the text is the reason in Go's words.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<http::Response<Incoming>, String> {
        let (mut head, mut body) = request.into_parts();
        let is_sized = body.is_end_stream() || body.size_hint().exact().is_some();
        if !is_sized && !head.headers.contains_key(CONTENT_LENGTH) {
            // Without a length, the body of a GET would not be sent.
            head.headers
                .insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        // The server may have closed each of the idle connections.
        let again = if head.method.is_safe() && body.is_end_stream() {
            IDLE_CONNECTIONS
        } else {
            0
        };
        for _ in 0..again {
            match self.attempt(Request::from_parts(head.clone(), body)).await {
                Err(error) if is_closed(&error) && had_answered(&error) => {
                    body = Empty::new().map_err(|never| match never {}).boxed_unsync()
                }
                answer => return answer.map_err(|error| pool_error_text(&error)),
            }
        }
        let answer = self.attempt(Request::from_parts(head, body)).await;
        answer.map_err(|error| pool_error_text(&error))
    }

    /// Sends a request once, and marks the connection if the server answers.
    async fn attempt(&self, request: Request<Body>) -> Result<http::Response<Incoming>, PoolError> {
        let answer = self.pool.request(request).await?;
        if let Some(answered) = answer.extensions().get::<Answered>() {
            answered.set();
        }
        Ok(answer)
    }
}

/// Returns the settings of all pools.
fn builder() -> Builder {
    let mut builder = Pool::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_CONNECTIONS);
    builder
}

/// Returns true if the server had answered an earlier request on the connection of the request.
fn had_answered(error: &PoolError) -> bool {
    let mut extras = Extensions::new();
    if let Some(connection) = error.connect_info() {
        connection.get_extras(&mut extras);
    }
    extras.get::<Answered>().is_some_and(Answered::is_set)
}

/// Returns true if the server closed the connection of the request before it responded.
fn is_closed(error: &PoolError) -> bool {
    if error.is_connect() {
        return false;
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        let lost = error.downcast_ref::<hyper::Error>();
        if lost.is_some_and(|error| error.is_incomplete_message() || error.is_canceled()) {
            return true;
        }
        let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(
            io,
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof)
        ) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Sends a GET with `body`, and returns the first connection of the client, and the task that sends.
    async fn sending(body: Body) -> (TcpListener, TcpStream, tokio::task::JoinHandle<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap());
        let request = Request::get(uri).body(body).unwrap();
        let backend = Backend::for_nodes(Trust::Anyone, None, None).unwrap();
        let sent = tokio::spawn(async move { backend.send(request).await.is_ok() });
        let (connection, _) = listener.accept().await.unwrap();
        (listener, connection, sent)
    }

    #[tokio::test]
    async fn request_is_not_repeated_on_new_connection() {
        let body: Body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let (listener, mut connection, sent) = sending(body).await;
        connection.read_u8().await.unwrap();
        drop(connection);
        let sent = tokio::time::timeout(Duration::from_secs(10), sent).await;
        assert!(!sent.unwrap().unwrap());
        drop(listener);
    }

    #[tokio::test]
    async fn body_of_get_without_length_is_sent() {
        let pieces = stream::iter([Ok::<_, io::Error>(Frame::data(Bytes::from_static(b"piece")))]);
        let (_listener, mut connection, _sent) = sending(StreamBody::new(pieces).boxed_unsync()).await;
        let mut received = Vec::new();
        while !received.ends_with(b"\r\n0\r\n\r\n") {
            received.push(connection.read_u8().await.unwrap());
        }
        let text = String::from_utf8(received).unwrap();
        assert!(
            text.contains("transfer-encoding: chunked\r\n") && text.ends_with("\r\n\r\n5\r\npiece\r\n0\r\n\r\n"),
            "{text}"
        );
    }
}
