//! Watches over WebSockets (RFC 6455), which browsers use:
//! <https://kubernetes.io/docs/reference/using-api/api-concepts/>.
//!
//! A watch is handled as any other up to its stream. A request for a WebSocket then gets that stream as messages, one
//! for each event: text for JSON, binary for protobuf. The next event is read when the one before was sent, so that a
//! slow client costs no memory and is disconnected as other watchers are.

mod handshake;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::{SinkExt as _, StreamExt as _};
use http::HeaderMap;
use http_body_util::BodyExt as _;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use crate::wire::body::{Response, ResponseBody};

pub(crate) use handshake::{Handshake, Rejection, VERSION, is_requested, protocols};

/// The kind of the messages of a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// One line of JSON for each message.
    Text,
    /// Bytes after their length, which the frame already has.
    Binary,
}

/// Value that a connection holds while it is open; a WebSocket keeps holding it when HTTP is done with the connection.
#[derive(Clone)]
pub(crate) struct Held {
    _what: Arc<dyn Any + Send + Sync>,
}

impl Held {
    /// Holds `what` until the last clone is dropped.
    pub(crate) fn new(what: impl Any + Send + Sync) -> Self {
        Self { _what: Arc::new(what) }
    }
}

/// A request to upgrade a connection to a WebSocket.
pub struct Upgrade {
    connection: OnUpgrade,
    held: Option<Held>,
}

impl Upgrade {
    /// Removes the upgrade from the head of a request, if it requests a WebSocket.
    pub(crate) fn take(head: &mut http::request::Parts) -> Option<Self> {
        if !handshake::is_requested(&head.headers) {
            return None;
        }
        let held = head.extensions.remove();
        let connection = head.extensions.remove()?;
        Some(Self { connection, held })
    }

    /// Returns the response that makes the connection a WebSocket, which then carries the frames of a watch.
    ///
    /// # Errors
    /// If the handshake is invalid.
    pub(crate) fn answer(
        self,
        headers: &HeaderMap,
        messages: MessageKind,
        frames: ResponseBody,
    ) -> Result<Response, Rejection> {
        let mut response = Handshake::read(headers)?.response(frames);
        response.extensions_mut().insert(Accepted {
            connection: self.connection,
            held: self.held,
            messages,
        });
        Ok(response)
    }
}

/// A successful handshake; the body of its response provides the frames to send.
#[derive(Clone)]
struct Accepted {
    connection: OnUpgrade,
    held: Option<Held>,
    messages: MessageKind,
}

/// Sends the frames of a response that accepts a WebSocket, once its head was sent.
pub(crate) fn begin(response: &mut Response) {
    let Some(accepted) = response.extensions_mut().remove::<Accepted>() else {
        return;
    };
    let frames = std::mem::replace(response.body_mut(), ResponseBody::empty());
    tokio::spawn(accepted.send(frames));
}

/// Maximum size of a message of a client, which is read and discarded: clients have nothing to send.
const MAX_RECEIVED: usize = 64 * 1024;

/// Number of bytes that are buffered before they are written.
const WRITE_BUFFER: usize = 16 * 1024;

const READ_BUFFER: usize = 4 * 1024;

/// Maximum wait for the reply of the client to the end of a WebSocket.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// WebSocket of a client.
pub(crate) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Returns the WebSocket on a connection that has switched; messages of the client have at most `max_received` bytes.
pub(crate) async fn open(connection: Upgraded, max_received: usize) -> Socket {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(max_received))
        .max_frame_size(Some(max_received));
    Socket::from_raw_socket(TokioIo::new(connection), Role::Server, Some(config)).await
}

/// Ends a WebSocket. Waits a moment for the reply of the client, so that it has read all messages. A client that does not
/// reply has `read_timeout` to read them and to close the connection: bytes that it has not read would be lost if this
/// server closed the connection first.
///
/// # Errors
/// If the connection is broken.
pub(crate) async fn close(socket: &mut Socket, read_timeout: Duration) -> Result<(), tungstenite::Error> {
    let end = CloseFrame {
        code: CloseCode::Normal,
        reason: Default::default(),
    };
    socket.close(Some(end)).await?;
    let answered = async { while let Some(Ok(_)) = socket.next().await {} };
    let has_answered = tokio::time::timeout(CLOSE_WAIT, answered).await.is_ok();
    let connection = socket.get_mut();
    let ended = async {
        // The client is notified of the end of TLS too.
        connection.shutdown().await?;
        if !has_answered {
            tokio::io::copy(&mut *connection, &mut tokio::io::sink()).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let _ = tokio::time::timeout(read_timeout, ended).await;
    Ok(())
}

impl Accepted {
    async fn send(self, frames: ResponseBody) {
        let connection = match self.connection.await {
            Ok(connection) => connection,
            Err(error) => return tracing::debug!(%error, "cannot upgrade a connection to a WebSocket"),
        };
        let mut socket = open(connection, MAX_RECEIVED).await;
        if let Err(error) = pump(&mut socket, frames, self.messages).await {
            tracing::debug!(%error, "WebSocket ended");
        }
        // The client is notified of the end of TLS too.
        let _ = tokio::time::timeout(CLOSE_WAIT, socket.get_mut().shutdown()).await;
        drop(self.held);
    }
}

/// Sends frames until the stream or the client ends.
async fn pump(socket: &mut Socket, mut frames: ResponseBody, messages: MessageKind) -> Result<(), tungstenite::Error> {
    loop {
        tokio::select! {
            received = socket.next() => match received {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            frame = frames.frame() => match frame.and_then(Result::ok).map(http_body::Frame::into_data) {
                Some(Ok(run)) => send_run(socket, run, messages).await?,
                Some(Err(_)) => {}
                None => break,
            },
        }
    }
    close(socket, CLOSE_WAIT).await
}

async fn send_run(socket: &mut Socket, mut run: Bytes, messages: MessageKind) -> Result<(), tungstenite::Error> {
    while let Some(message) = next_message(&mut run, messages)? {
        socket.feed(message).await?;
    }
    socket.flush().await
}

/// Removes the first message from the bytes of a stream's frames: a line of JSON, or protobuf after its length.
fn next_message(run: &mut Bytes, messages: MessageKind) -> Result<Option<Message>, tungstenite::Error> {
    if run.is_empty() {
        return Ok(None);
    }
    if messages == MessageKind::Binary {
        let length = if run.len() < 4 { 0 } else { run.get_u32() as usize };
        return Ok(Some(Message::Binary(run.split_to(length.min(run.len())))));
    }
    // JSON escapes line ends within strings.
    let end = run
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(run.len(), |at| at + 1);
    Ok(Some(Message::Text(run.split_to(end).try_into()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(mut run: Bytes, kind: MessageKind) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = next_message(&mut run, kind).unwrap() {
            messages.push(message);
        }
        messages
    }

    #[test]
    fn a_run_of_frames_becomes_a_message_an_event() {
        let run = Bytes::from_static(b"{\"a\":\"\\n\"}\n{}\n");
        let texts = messages(run, MessageKind::Text);
        assert_eq!(texts, [Message::text("{\"a\":\"\\n\"}\n"), Message::text("{}\n")]);
        let run = Bytes::from_static(b"\0\0\0\x02ab\0\0\0\x01c");
        let binary = messages(run, MessageKind::Binary);
        assert_eq!(binary, [Message::binary(&b"ab"[..]), Message::binary(&b"c"[..])]);
    }
}
