//! Connections: TLS, HTTP/2 or HTTP/1.1 as the client chooses, and their end.
//!
//! Everything that a client can make the server wait for or hold has a limit: the number of connections, the time for
//! the handshake and for the head of a request, the size of heads, and the concurrent requests on one connection.

mod addresses;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, UPGRADE};
use http::{Method, StatusCode, Version};
use hyper::server::conn::{http1, http2};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::Instrument as _;

use self::addresses::Addresses;
use crate::runtime::shutdown::Shutdown;
use crate::wire::body::{RequestBody, Response};
use crate::wire::client_authorities::ClientAuthorities;
use crate::wire::gathered::Gathered;
use crate::wire::heads::{BoundedHeads, Exchange, HeadBudget, PendingHead};
use crate::wire::keep_alive;
use crate::wire::slow_clients::{Streams, WriteTimeout, answer_untaken, exempt_stream_from_limit};
use crate::wire::tls::Tls;
use crate::wire::websocket::Held;

/// Service that handles the requests of connections.
pub trait Service: Send + Sync + 'static {
    /// Client as identified by its certificates.
    type Client: Clone + Send + Sync + 'static;

    /// Reads the certificates that a client presents, its own first.
    fn client(&self, authorities: &ClientAuthorities, certificates: &[CertificateDer<'_>]) -> Self::Client;

    /// Records a connection whose TLS handshake failed.
    fn handshake_failed(&self);

    /// Responds to a request that came from `peer`.
    fn respond(
        self: &Arc<Self>,
        request: http::Request<RequestBody>,
        client: Option<&Self::Client>,
        peer: Option<SocketAddr>,
    ) -> impl Future<Output = Response> + Send;
}

/// An extension of long-running responses, such as those of watches: no time limit applies to them.
#[derive(Clone, Copy, Debug)]
pub struct LongRunning;

/// An extension of the last response on an HTTP/2 connection: the client opens another connection for its next
/// requests.
#[derive(Clone, Copy, Debug)]
pub struct LastOnConnection;

/// Current TLS configuration: each new connection uses the value at its arrival.
#[derive(Debug)]
pub struct CurrentTls(ArcSwap<Tls>);

impl CurrentTls {
    /// Returns the configuration for the next connection.
    pub fn current(&self) -> Arc<Tls> {
        self.0.load_full()
    }

    /// Uses `tls` for connections from now on.
    pub fn replace(&self, tls: Tls) {
        self.0.store(Arc::new(tls));
    }
}

impl From<Tls> for Arc<CurrentTls> {
    fn from(tls: Tls) -> Self {
        Self::new(CurrentTls(ArcSwap::from_pointee(tls)))
    }
}

/// Limits of connections.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum number of concurrent connections; more wait to be accepted.
    pub connections: usize,
    /// Maximum number of concurrent connections from one address, or from one block of 64 bits in IPv6; 0 for no limit.
    /// More are closed.
    pub connections_per_address: usize,
    /// Timeout of the TLS handshake.
    pub handshake: Duration,
    /// Timeout of idle HTTP/1.1 connections.
    pub head: Duration,
    /// Timeout of the head of a request, from its first byte on.
    pub head_arrival: Duration,
    /// Maximum size of the incomplete heads of all connections together, in bytes, beyond 8 KiB each.
    pub pending_head_bytes: usize,
    /// Timeout of the body of a request.
    pub body: Duration,
    /// Timeout of a request and its response together, except long-running ones such as watches; and maximum time for
    /// which a client may read nothing of what is sent.
    pub exchange: Duration,
    /// Maximum number of concurrent requests on one HTTP/2 connection.
    pub concurrent_streams: u32,
    /// Maximum size of the head of a request, in bytes.
    pub head_bytes: u32,
    /// Time for requests to complete when the server shuts down.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_address: 0,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(90),
            head_arrival: Duration::from_secs(32),
            pending_head_bytes: 16 << 20,
            body: Duration::from_secs(60),
            exchange: Duration::from_secs(120),
            concurrent_streams: 250,
            head_bytes: 128 * 1024,
            drain: Duration::from_secs(60),
        }
    }
}

/// Maximum number of header fields of a request.
const MAX_HEADERS: usize = 200;

/// Maximum number of HTTP/2 requests of a connection that its client has reset before the server processed them, and of
/// those that the server itself reset because of client errors. A client that exceeds them is disconnected.
const MAX_RESET_STREAMS: usize = 20;
const MAX_FAULTY_STREAMS: usize = 1024;

/// Silence of a client on an HTTP/2 connection after which the server pings it. The client has [`PING_TIMEOUT`] to
/// answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause after an accept that failed for lack of resources (files, memory), so that other connections can end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the connections of `listener` until shutdown begins, and then until all requests have completed or timed out.
pub async fn serve<S: Service>(
    listener: TcpListener,
    tls: impl Into<Arc<CurrentTls>>,
    service: Arc<S>,
    limits: Limits,
    shutdown: Shutdown,
) {
    let tls = tls.into();
    let acceptor = Arc::new(Acceptor::new(service, limits.clone(), shutdown.clone()));
    let places = Arc::new(Semaphore::new(limits.connections));
    let addresses = Arc::new(Addresses::new(limits.connections_per_address));
    // Every connection holds a sender; when all are gone, the receiver knows.
    let (open, mut all_closed) = mpsc::channel::<Infallible>(1);
    let closing = shutdown.closing();
    tokio::pin!(closing);
    loop {
        let (stream, peer, place) = tokio::select! {
            biased;
            () = &mut closing => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Ok(address) = addresses.enter(peer.ip()) else {
            tracing::debug!(%peer, "too many connections from one address");
            continue;
        };
        let (acceptor, tls, open) = (Arc::clone(&acceptor), Arc::clone(&tls), open.clone());
        tokio::spawn(async move {
            let held = Held::new((open, place, address));
            acceptor.tls_connection(&tls, stream, peer, held).await;
        });
    }
    drop((listener, open));
    drain(&mut all_closed, limits.drain).await;
}

/// Waits until all connections are closed, at most for `limit`.
async fn drain(all_closed: &mut mpsc::Receiver<Infallible>, limit: Duration) {
    if tokio::time::timeout(limit, all_closed.recv()).await.is_err() {
        tracing::warn!(after = ?limit, "requests did not end in time and are cancelled");
    }
}

/// Peer address of clients in this process.
const IN_PROCESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Serves the connections that clients in this process send to `streams`, without a port and without TLS. All of them
/// belong to `client`. Ends as [`serve`] does.
pub async fn serve_in_process<S: Service>(
    mut streams: mpsc::Receiver<DuplexStream>,
    client: Option<S::Client>,
    service: Arc<S>,
    limits: Limits,
    shutdown: Shutdown,
) {
    let acceptor = Arc::new(Acceptor::new(service, limits.clone(), shutdown.clone()));
    let (open, mut all_closed) = mpsc::channel::<Infallible>(1);
    let closing = shutdown.closing();
    tokio::pin!(closing);
    loop {
        let stream = tokio::select! {
            biased;
            () = &mut closing => break,
            received = streams.recv() => match received {
                Some(stream) => stream,
                None => break,
            },
        };
        let (acceptor, client, held) = (Arc::clone(&acceptor), client.clone(), Held::new(open.clone()));
        tokio::spawn(async move { acceptor.connection(stream, false, client, IN_PROCESS, held).await });
    }
    drop((streams, open));
    drain(&mut all_closed, limits.drain).await;
}

/// Accepts the next connection, once the limit allows it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed, so a permit always becomes available.
    let place = Arc::clone(places).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Acceptor<S> {
    service: Arc<S>,
    heads: Arc<HeadBudget>,
    limits: Limits,
    shutdown: Shutdown,
}

impl<S: Service> Acceptor<S> {
    fn new(service: Arc<S>, limits: Limits, shutdown: Shutdown) -> Self {
        Self {
            service,
            heads: HeadBudget::new(limits.pending_head_bytes),
            limits,
            shutdown,
        }
    }

    /// Serves a connection after its TLS handshake. If it becomes a WebSocket, the WebSocket keeps `held`.
    async fn tls_connection(&self, tls: &CurrentTls, stream: TcpStream, peer: SocketAddr, held: Held) {
        // Responses are written as a whole, so small packets need not be gathered.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        if let Err(error) = keep_alive::enable(&stream) {
            tracing::debug!(%peer, %error, "cannot enable TCP keep-alive");
        }
        let Some((stream, client)) = self.handshake(tls, stream, peer).await else {
            return;
        };
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        self.connection(stream, http2, client, peer, held).await;
    }

    /// Serves a connection of `client` that speaks HTTP/2 or HTTP/1.1.
    async fn connection<I>(&self, stream: I, http2: bool, client: Option<S::Client>, peer: SocketAddr, held: Held)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let span = tracing::debug_span!("connection", %peer);
        let last = Arc::new(Notify::new());
        let head = PendingHead::new(&self.heads);
        let respond = service_fn(|request: http::Request<hyper::body::Incoming>| {
            let mut request = request.map(|body| RequestBody::new(body, self.limits.body));
            let exchange = (!http2).then(|| Exchange::new(&head));
            if let Some(exchange) = &exchange {
                request.body_mut().belong_to(exchange);
            }
            if request.headers().contains_key(UPGRADE) {
                request.extensions_mut().insert(held.clone());
            }
            let (service, last) = (Arc::clone(&self.service), Arc::clone(&last));
            respond(service, request, client.clone(), peer, Connected { last, exchange }).instrument(span.clone())
        });
        let timed = WriteTimeout::new(stream, self.limits.exchange);
        let stream = BoundedHeads::new(timed, Arc::clone(&head), http2, self.limits.head_arrival);
        let streams = Streams::new(self.limits.exchange);
        let untaken = streams.untaken();
        // Both kinds of connections end in the same way, but have different types.
        macro_rules! drive {
            ($connection:ident = $begun:expr, $served:expr, $left:expr) => {{
                let $connection = $begun;
                tokio::pin!($connection);
                let outcome = tokio::select! {
                    outcome = $served => outcome,
                    () = untaken => return tracing::debug!(%peer, "client did not read its answer in time"),
                    () = async { tokio::select! { () = self.shutdown.closing() => {}, () = last.notified() => {} } } => {
                        $connection.as_mut().graceful_shutdown();
                        tokio::select! {
                            outcome = $served => outcome,
                            () = $left => return tracing::debug!(%peer, "client did not close its connection in time"),
                        }
                    }
                };
                if let Err(error) = outcome {
                    tracing::debug!(%peer, %error, "connection ended");
                }
            }};
        }
        if http2 {
            let (watches, left) = (streams.watches(), streams.left());
            let builder = self.http2(streams);
            let stream = Gathered::new(stream, watches);
            // The memory of a stream fits the larger of its request's state and its response's state, for as long as it
            // is open.
            let respond = service_fn(|request| Box::pin(respond.call(request)));
            let connection = builder.serve_connection(TokioIo::new(stream.clone()), respond);
            drive!(connection = connection, stream.serve(connection.as_mut()), left);
        } else {
            let connection = self
                .http1()
                .serve_connection(TokioIo::new(stream), respond)
                .with_upgrades();
            // A connection without a request in progress ends at once.
            drive!(connection = connection, connection.as_mut(), std::future::pending());
        }
    }

    /// Returns the connection after its TLS handshake, and its client.
    async fn handshake(
        &self,
        tls: &CurrentTls,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Option<(TlsStream<TcpStream>, Option<S::Client>)> {
        let tls = tls.current();
        let handshake = TlsAcceptor::from(tls.config_of(&stream)).accept(stream);
        match tokio::time::timeout(self.limits.handshake, handshake).await {
            Ok(Ok(stream)) => {
                let client = self.client(&tls, &stream);
                return Some((stream, client));
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        }
        self.service.handshake_failed();
        None
    }

    fn http2(&self, streams: Streams) -> http2::Builder<Streams> {
        let mut builder = http2::Builder::new(streams);
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.concurrent_streams)
            .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
            .max_local_error_reset_streams(MAX_FAULTY_STREAMS)
            .max_header_list_size(self.limits.head_bytes)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        builder
    }

    fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_headers(MAX_HEADERS)
            .max_buf_size(self.limits.head_bytes as usize);
        builder
    }

    /// Returns the client of the connection, if it presents certificates and any authority is trusted.
    fn client(&self, tls: &Tls, stream: &TlsStream<TcpStream>) -> Option<S::Client> {
        let certificates = stream.get_ref().1.peer_certificates()?;
        let authorities = tls.authorities.as_ref()?;
        Some(self.service.client(authorities, certificates))
    }
}

/// Validates the Host header of an HTTP/1 request, as Go's server does. HTTP/2 has a pseudo-header instead.
fn check_host<B>(request: &http::Request<B>) -> Result<(), &'static str> {
    let version = request.version();
    if version > Version::HTTP_11 {
        return Ok(());
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 && request.method() != Method::CONNECT => {
            Err("missing required Host header")
        }
        (_, Some(_)) => Err("too many Host headers"),
        (Some(host), None) if !host.as_bytes().iter().copied().all(is_host_byte) => Err("malformed Host header"),
        _ => Ok(()),
    }
}

/// Returns true if the byte may be part of a Host header (RFC 3986, `authority` without user information).
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

/// Returns the response to a request that is not valid HTTP. It ends the connection.
fn bad_request(why: &str) -> Response {
    let mut response = Response::new(Bytes::from(format!("400 Bad Request: {why}")).into());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The connection of a request.
struct Connected {
    /// Notified if no request is to follow.
    last: Arc<Notify>,
    /// The exchange, on HTTP/1.1.
    exchange: Option<Exchange>,
}

/// Responds to a request, and tells its connection how to treat the response.
async fn respond<S: Service>(
    service: Arc<S>,
    request: http::Request<RequestBody>,
    client: Option<S::Client>,
    peer: SocketAddr,
    connected: Connected,
) -> Result<Response, Infallible> {
    if let Err(why) = check_host(&request) {
        return Ok(bad_request(why));
    }
    let mut response = service.respond(request, client.as_ref(), Some(peer)).await;
    if response.extensions().get::<LastOnConnection>().is_some() {
        connected.last.notify_one();
        if connected.exchange.is_some() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
    }
    if let Some(exchange) = &connected.exchange
        && response.status() == StatusCode::SWITCHING_PROTOCOLS
    {
        exchange.upgrade();
    }
    if response.extensions().get::<LongRunning>().is_some() {
        exempt_stream_from_limit();
    } else if response.body().is_large()
        && let Some(untaken) = answer_untaken()
    {
        response.body_mut().hold(untaken);
    }
    Ok(response)
}
