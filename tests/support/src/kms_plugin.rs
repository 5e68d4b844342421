//! A plugin of a key management service (KMS version 2), on a Unix socket, whose state tests change.
//!
//! It "encrypts" by adding the first byte of the key's name to each byte, which is enough to tell keys apart.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;

/// A running plugin. It ends when this is dropped.
pub struct KmsPlugin {
    state: Arc<Mutex<PluginState>>,
    end: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// State of a plugin.
#[derive(Clone, Debug)]
pub struct PluginState {
    /// Key that encrypts.
    pub key_id: String,
    /// Health that it reports.
    pub healthz: String,
    /// Version that it reports.
    pub version: String,
    /// Number of calls of each method.
    pub calls: BTreeMap<String, usize>,
}

/// Fields of all messages. The tags of the requests and responses differ, so one message per shape.
#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

/// Annotation that the plugin stores with each value, and requires when it decrypts.
const ANNOTATION: (&str, &[u8]) = ("version.kms.example.com", b"1");

impl KmsPlugin {
    /// Starts a plugin with the key `key_id`.
    ///
    /// # Errors
    /// If it cannot listen on the socket.
    pub fn start(socket: &Path, key_id: &str) -> io::Result<Self> {
        let _ = std::fs::remove_file(socket);
        let listener = std::os::unix::net::UnixListener::bind(socket)?;
        listener.set_nonblocking(true)?;
        let state = Arc::new(Mutex::new(PluginState {
            key_id: key_id.to_owned(),
            healthz: "ok".to_owned(),
            version: "v2".to_owned(),
            calls: BTreeMap::new(),
        }));
        let (end, ended) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("kms-plugin".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = serve(listener, shared) => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(Self {
            state,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// Changes or reads its state.
    pub fn with<T>(&self, change: impl FnOnce(&mut PluginState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of calls of a method.
    pub fn calls(&self, method: &str) -> usize {
        self.with(|state| state.calls.get(method).copied().unwrap_or_default())
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(listener: std::os::unix::net::UnixListener, state: Arc<Mutex<PluginState>>) -> io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(request, Arc::clone(&state)));
            let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer);
            let _ = connection.await;
        });
    }
}

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

async fn answer(request: Request<Incoming>, state: Arc<Mutex<PluginState>>) -> Result<Response<Body>, Infallible> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let sent = request.into_body().collect().await.map(|body| body.to_bytes());
    let message = sent.unwrap_or_default().get(5..).unwrap_or_default().to_vec();
    let outcome = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        *state.calls.entry(method.clone()).or_default() += 1;
        respond(&method, &message, &state)
    };
    let (frame, code, text) = match outcome {
        Ok(message) => (framed(&message), 0, String::new()),
        Err(error) => (Bytes::new(), 2, error),
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

fn respond(method: &str, message: &[u8], state: &PluginState) -> Result<Vec<u8>, String> {
    let unreadable = |error: prost::DecodeError| error.to_string();
    match method {
        "Status" => Ok(StatusResponse {
            version: state.version.clone(),
            healthz: state.healthz.clone(),
            key_id: state.key_id.clone(),
        }
        .encode_to_vec()),
        "Encrypt" => {
            let request = EncryptRequest::decode(message).map_err(unreadable)?;
            let shift = shift_of(&state.key_id);
            Ok(EncryptResponse {
                ciphertext: request.plaintext.iter().map(|byte| byte.wrapping_add(shift)).collect(),
                key_id: state.key_id.clone(),
                annotations: BTreeMap::from([(ANNOTATION.0.to_owned(), ANNOTATION.1.to_vec())]),
            }
            .encode_to_vec())
        }
        "Decrypt" => {
            let request = DecryptRequest::decode(message).map_err(unreadable)?;
            if request.annotations.get(ANNOTATION.0).map(Vec::as_slice) != Some(ANNOTATION.1) {
                return Err("the annotation is missing".to_owned());
            }
            let shift = shift_of(&request.key_id);
            let plaintext = request.ciphertext.iter().map(|byte| byte.wrapping_sub(shift));
            Ok(DecryptResponse {
                plaintext: plaintext.collect(),
            }
            .encode_to_vec())
        }
        other => Err(format!("there is no method {other}")),
    }
}

fn shift_of(key_id: &str) -> u8 {
    key_id.bytes().next().unwrap_or_default()
}
