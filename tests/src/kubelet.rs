//! A kubelet, or a pod, that reports what it got, and streams what a test sends.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "what fails here is the test"
)]

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::aggregated::Certificates;

/// A server that replaces a kubelet or a pod.
pub struct FakeKubelet {
    /// Port that it listens on, on all addresses.
    pub port: u16,
    state: Arc<State>,
}

struct State {
    /// Permissions to send a line of a log that is followed.
    lines: Semaphore,
    /// Number of bytes of endless logs that were read.
    sent: AtomicUsize,
}

/// Size of the pieces of an endless log.
const PIECE: usize = 64 * 1024;

/// Number of lines of a log that is followed.
const LINES: usize = 3;

impl FakeKubelet {
    /// Starts a kubelet that only accepts the client certificate `proxy.crt`.
    pub async fn start(certificates: &Certificates) -> Self {
        Self::serve(Some(certificates.acceptor())).await
    }

    /// Starts a pod that speaks HTTP without TLS.
    pub async fn start_plain() -> Self {
        Self::serve(None).await
    }

    async fn serve(acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            lines: Semaphore::new(0),
            sent: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, acceptor.clone(), Arc::clone(&shared)));
            }
        });
        Self { port, state }
    }

    /// Lets the kubelet send one more line of a log that is followed.
    pub fn log_line(&self) {
        self.state.lines.add_permits(1);
    }

    /// Returns the number of bytes of endless logs that were read from the kubelet.
    pub fn sent(&self) -> usize {
        self.state.sent.load(Ordering::Relaxed)
    }
}

/// Returns an address of this machine that is not a loopback address.
pub fn own_address() -> IpAddr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    // Nothing is sent; the address is that of the interface that would send.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).unwrap();
    socket.local_addr().unwrap().ip()
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, state: Arc<State>) {
    match acceptor {
        None => answer_all(stream, state).await,
        Some(acceptor) => {
            if let Ok(stream) = acceptor.accept(stream).await {
                answer_all(stream, state).await;
            }
        }
    }
}

async fn answer_all(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, state: Arc<State>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer(request, state).await) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = connection.with_upgrades().await;
}

type Body = BoxBody<Bytes, Infallible>;

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

async fn answer(request: Request<Incoming>, state: Arc<State>) -> Response<Body> {
    let (path, query) = (
        request.uri().path().to_owned(),
        request.uri().query().unwrap_or_default().to_owned(),
    );
    let status = |code: u16| Response::builder().status(code);
    match path.rsplit('/').next().unwrap_or_default() {
        _ if request.headers().contains_key("upgrade") => switched(request),
        "bad" => status(400).body(full("no such log")).unwrap(),
        "gone" => status(404).body(full("gone")).unwrap(),
        "redirected" => status(302).header("Location", "/elsewhere?a=b").body(full("")).unwrap(),
        "endless" => Response::new(endless(state)),
        _ if query.contains("follow=true") => Response::new(followed(state)),
        _ => reported(request).await,
    }
}

/// Returns a log whose lines a test lets pass.
fn followed(state: Arc<State>) -> Body {
    let lines = stream::unfold((state, 0), |(state, sent)| async move {
        if sent == LINES {
            return None;
        }
        state.lines.acquire().await.unwrap().forget();
        let line = Bytes::from(format!("line {}\n", sent + 1));
        Some((Ok::<_, Infallible>(Frame::data(line)), (state, sent + 1)))
    });
    BoxBody::new(StreamBody::new(lines))
}

/// Returns a log without an end.
fn endless(state: Arc<State>) -> Body {
    let pieces = stream::unfold(state, |state| async move {
        state.sent.fetch_add(PIECE, Ordering::Relaxed);
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; PIECE]))), state))
    });
    BoxBody::new(StreamBody::new(pieces))
}

/// Switches the protocol, reports the request, and then echoes each byte until the end.
fn switched(request: Request<Incoming>) -> Response<Body> {
    let protocol = request.headers()["upgrade"].clone();
    let line = format!("{} {}\n", request.method(), request.uri());
    tokio::spawn(async move {
        let connection = hyper::upgrade::on(request).await.unwrap();
        let (mut from, mut to) = tokio::io::split(TokioIo::new(connection));
        to.write_all(line.as_bytes()).await.unwrap();
        let _ = tokio::io::copy(&mut from, &mut to).await;
        let _ = to.write_all(b"the end").await;
        let _ = to.shutdown().await;
        let _ = from.read_u8().await;
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("Connection", "Upgrade")
        .header("Upgrade", protocol)
        .body(full(""))
        .unwrap()
}

/// Reports method, URI, headers and body of a request.
async fn reported(request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let header = |name: &str| {
        head.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(ToOwned::to_owned)
    };
    let report = json!({"method": head.method.as_str(), "uri": head.uri.to_string(),
        "authorization": header("authorization"), "forwarded": header("x-forwarded-uri"), "host": header("host"),
        "body": String::from_utf8_lossy(&body)});
    let response = Response::builder().header("Content-Type", "application/json");
    response
        .header("X-Answer", "own")
        .body(full(report.to_string()))
        .unwrap()
}
