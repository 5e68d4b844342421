//! Logs of containers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use holdfast_resource::Destination;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tokio_tungstenite::tungstenite::{self, Message};

use super::{Client, send, session, status, url};
use crate::http::ApiError;
use crate::http::response::{self, Response};
use crate::runtime::shutdown::Shutdown;
use crate::webhooks::Backend;
use crate::wire::body::{RequestBody, ResponseBody};
use crate::wire::passed::PassedBody;
use crate::wire::upgrade::{self, SwitchingClient};
use crate::wire::websocket::{self, Handshake, Socket};

/// Maximum length of the text of an error of a kubelet.
const MAX_ERROR_BYTES: usize = 50_000;

/// Maximum size of a message of a client, which is read and discarded.
const MAX_RECEIVED: usize = 64 * 1024;

/// Subprotocols of logs over WebSockets; without one, messages are binary.
const BINARY: [&str; 2] = ["", "binary.k8s.io"];
const BASE64: &str = "base64.binary.k8s.io";

/// Streams a log to the client, over a WebSocket if the client asks for one.
///
/// upstream: k8s.io/apiserver/pkg/registry/generic/rest#LocationStreamer.InputStream
///
/// # Errors
/// If the kubelet cannot be reached or answers with an error.
pub(super) async fn open(
    backend: &Backend,
    destination: &Destination,
    mut client: Client<'_>,
) -> Result<Response, ApiError> {
    let uri = url::of_kubelet(destination)?;
    let asked = uri.to_string();
    let failed = |why: &str| ApiError::unclassified(format!("Get {asked:?}: {why}"));
    let sent = send(backend, Method::GET, uri, HeaderMap::new(), RequestBody::from_bytes("")).await;
    let answer = sent.map_err(|why| failed(&why))?;
    if is_redirect(answer.status()) {
        return Err(failed("redirects forbidden"));
    }
    if !(200..=206).contains(&answer.status().as_u16()) {
        return Err(error_of(answer, client.name).await);
    }
    let body = PassedBody::until_shutdown(answer.into_body(), client.shutdown.clone());
    if websocket::is_requested(&client.headers)
        && let Some(switching) = client.raw.switching.take()
    {
        let supports = |protocol: &str| protocol == BASE64 || BINARY.contains(&protocol);
        let (handshake, chosen) = match Handshake::negotiate(&client.headers, supports) {
            Ok(negotiated) => negotiated,
            Err(rejection) => return Ok(response::handshake_refused(rejection)),
        };
        let session = serve(switching, client.shutdown.clone(), body, chosen == BASE64);
        return Ok(upgrade::switching(handshake.headers(), session));
    }
    let mut response = Response::new(ResponseBody::passed(body));
    let text = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Returns the error for the client.
///
/// upstream: k8s.io/apiserver/pkg/registry/generic/rest#GenericHttpResponseChecker.Check
async fn error_of(answer: http::Response<Incoming>, name: &str) -> ApiError {
    let code = answer.status();
    let mut body = Limited::new(answer.into_body(), MAX_ERROR_BYTES);
    let mut text = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            text.extend_from_slice(&data);
        }
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    match code {
        StatusCode::INTERNAL_SERVER_ERROR => ApiError::internal(text),
        StatusCode::BAD_REQUEST => ApiError::bad_request(text),
        code => status::of_other_server(code, "pods/log", name, &text),
    }
}

/// Sends a log over a WebSocket.
async fn serve(client: SwitchingClient, shutdown: Shutdown, body: PassedBody, is_base64: bool) {
    let Some((mut socket, held)) = session::accept(client, MAX_RECEIVED).await else {
        return;
    };
    let sent = tokio::select! {
        sent = send_log(&mut socket, body, is_base64) => sent,
        () = shutdown.closing() => Ok(()),
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "log over a WebSocket ended");
    }
    session::close(socket).await;
    drop(held);
}

/// Sends a log in messages, after an empty one that reports the begin. Messages of the client are ignored.
///
/// upstream: k8s.io/streaming/pkg/httpstream/wsstream#messageCopy
async fn send_log(socket: &mut Socket, mut body: PassedBody, is_base64: bool) -> Result<(), tungstenite::Error> {
    let message = |data: Bytes| match is_base64 {
        true => Message::text(STANDARD.encode(&data)),
        false => Message::Binary(data),
    };
    socket.send(message(Bytes::new())).await?;
    loop {
        tokio::select! {
            received = socket.next() => match received {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            frame = body.frame() => match frame.and_then(Result::ok).map(http_body::Frame::into_data) {
                Some(Ok(data)) => socket.send(message(data)).await?,
                Some(Err(_)) => {}
                None => return Ok(()),
            },
        }
    }
}
