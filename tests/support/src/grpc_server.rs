//! A gRPC server for methods with one request and one response, on a Unix socket or a TCP port.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

/// A running server. It ends when this is dropped.
pub struct GrpcServer {
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Status of a call that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Code, for example 2 for `Unknown`.
    pub code: u16,
    /// Description.
    pub message: String,
}

impl From<String> for Failure {
    /// Returns an error with the code `Unknown`.
    fn from(message: String) -> Self {
        Self { code: 2, message }
    }
}

/// Function that answers a message to the method of that name.
type Handler = dyn Fn(&str, &[u8]) -> Result<Vec<u8>, Failure> + Send + Sync;

impl GrpcServer {
    /// Starts a server on a Unix socket.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub fn on_socket(
        socket: &Path,
        handler: impl Fn(&str, &[u8]) -> Result<Vec<u8>, Failure> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let _ = std::fs::remove_file(socket);
        let listener = std::os::unix::net::UnixListener::bind(socket)?;
        listener.set_nonblocking(true)?;
        let handler: Arc<Handler> = Arc::new(handler);
        Self::run(async move {
            let Ok(listener) = UnixListener::from_std(listener) else {
                return;
            };
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, Arc::clone(&handler));
            }
        })
    }

    /// Starts a server on a free port of 127.0.0.1, and returns its address.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub fn on_port(
        handler: impl Fn(&str, &[u8]) -> Result<Vec<u8>, Failure> + Send + Sync + 'static,
    ) -> io::Result<(Self, SocketAddr)> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let handler: Arc<Handler> = Arc::new(handler);
        let server = Self::run(async move {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, Arc::clone(&handler));
            }
        })?;
        Ok((server, address))
    }

    fn run(work: impl Future<Output = ()> + Send + 'static) -> io::Result<Self> {
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("grpc-server".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = work => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, handler: Arc<Handler>) {
    tokio::spawn(async move {
        let answer = service_fn(move |request| answer(request, Arc::clone(&handler)));
        let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer);
        let _ = connection.await;
    });
}

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

async fn answer(request: Request<Incoming>, handler: Arc<Handler>) -> Result<Response<Body>, Infallible> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let sent = request.into_body().collect().await.map(|body| body.to_bytes());
    let message = sent.unwrap_or_default().get(5..).unwrap_or_default().to_vec();
    let (frame, code, text) = match handler(&method, &message) {
        Ok(message) => (framed(&message), 0, String::new()),
        Err(failure) => (Bytes::new(), failure.code, failure.message),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    if let Ok(text) = HeaderValue::from_str(&text) {
        trailers.insert("grpc-message", text);
    }
    let body = Full::new(frame)
        .with_trailers(std::future::ready(Some(Ok(trailers))))
        .boxed();
    let mut response = Response::new(body);
    let content_type = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", content_type);
    Ok(response)
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or_default());
    frame.put_slice(message);
    frame.freeze()
}
