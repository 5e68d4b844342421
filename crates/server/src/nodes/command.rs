//! Commands in containers over WebSockets, translated to SPDY for the kubelet
//! (<https://kubernetes.io/blog/2024/08/20/websockets-transition/>).
//!
//! A message of the client begins with a byte that names its channel; each channel is a SPDY stream. Output is read from
//! the kubelet only as fast as the client reads it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use holdfast_resource::{CommandStreams, Destination};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::{self, Message};

use super::proxy::{PROTOCOL_VERSION, switch_to_spdy};
use super::spdy::{Frame, SpdyReader, SpdyWriter};
use super::status::{self, CommandEnd};
use super::{Client, session, url};
use crate::http::ApiError;
use crate::http::response::{self, Response};
use crate::runtime::shutdown::Shutdown;
use crate::webhooks::Backend;
use crate::wire::upgrade::{self, SwitchingClient};
use crate::wire::websocket::{Handshake, Socket};

/// Channels of a command, as the first byte of messages.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;

/// First byte of a message that closes the channel that the second byte names.
const CLOSE: u8 = 255;

/// Subprotocol of WebSockets that is translated.
const PROTOCOL: &str = "v5.channel.k8s.io";

/// Protocols of SPDY connections, in order of preference.
const SPDY_PROTOCOLS: [&str; 5] = [
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
];

/// Maximum size of a message of a client.
const MAX_RECEIVED: usize = 1 << 20;

/// Maximum length of the error that ends a command.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Time limit for the kubelet to begin the command.
const DIAL_TIMEOUT: Duration = Duration::from_secs(3 * 60);

/// Time limit for the kubelet to accept a stream.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval of pings to the kubelet.
const PING_PERIOD: Duration = Duration::from_secs(5);

/// Number of ping intervals without a message after which a session ends: four hours.
const MAX_IDLE_PERIODS: u32 = 4 * 3600 / 5;

/// Maximum number of pings of the kubelet that wait for their replies; others get none.
const WAITING_PINGS: usize = 8;

/// Returns true if a subprotocol of WebSockets is translated.
///
/// upstream: k8s.io/streaming/pkg/httpstream/wsstream#IsWebSocketRequestWithStreamCloseProtocol
pub(super) fn is_translated(protocol: &str) -> bool {
    protocol == PROTOCOL
}

/// Answers the handshake of a client, and then runs the command. Errors of the kubelet are messages of the error channel.
///
/// upstream: k8s.io/apiserver/pkg/util/proxy#StreamTranslatorHandler.ServeHTTP
///
/// # Errors
/// If the connection cannot be upgraded.
pub(super) fn open(
    backend: &Backend,
    destination: &Destination,
    streams: CommandStreams,
    mut client: Client<'_>,
) -> Result<Response, ApiError> {
    let Some(switching) = client.raw.switching.take() else {
        return Err(ApiError::bad_request("Upgrade request required"));
    };
    let handshake = match Handshake::negotiate(&client.headers, is_translated) {
        Ok((handshake, _)) => handshake,
        Err(rejection) => return Ok(response::handshake_refused(rejection)),
    };
    let command = Command {
        backend: backend.clone(),
        destination: destination.clone(),
        streams,
    };
    let session = command.serve(switching, client.shutdown.clone());
    Ok(upgrade::switching(handshake.headers(), session))
}

/// A command of a client.
struct Command {
    backend: Backend,
    destination: Destination,
    streams: CommandStreams,
}

/// Connection to a kubelet.
struct Kubelet {
    connection: Upgraded,
    /// Protocol of the streams; empty if the kubelet names none.
    protocol: String,
}

type KubeletIo = TokioIo<Upgraded>;

/// Identifiers of the SPDY streams of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StreamIds {
    error: Option<u32>,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    resize: Option<u32>,
}

impl Command {
    async fn serve(self, client: SwitchingClient, shutdown: Shutdown) {
        let Some((mut socket, held)) = session::accept(client, MAX_RECEIVED).await else {
            return;
        };
        let outcome = tokio::select! {
            outcome = self.run(&mut socket) => outcome,
            () = shutdown.closing() => Ok(()),
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "command over a WebSocket ended");
        }
        session::close(socket).await;
        drop(held);
    }

    /// Runs the command until its end or that of the client, and reports the end to the client.
    async fn run(&self, socket: &mut Socket) -> Result<(), tungstenite::Error> {
        // An empty message reports that the connection is established.
        let first = match self.streams {
            CommandStreams { stdout: true, .. } => STDOUT,
            CommandStreams { stderr: true, .. } => STDERR,
            _ => ERROR,
        };
        socket.send(Message::Binary(Bytes::copy_from_slice(&[first]))).await?;
        let outcome = match tokio::time::timeout(DIAL_TIMEOUT, self.dial()).await {
            Ok(Ok(kubelet)) => self.relay(socket, kubelet).await,
            Ok(Err(why)) => Some(CommandEnd::Failed(why)),
            Err(_) => Some(CommandEnd::Failed("i/o timeout".to_owned())),
        };
        let Some(end) = outcome else { return Ok(()) };
        let mut message = vec![ERROR];
        message.extend(end.to_json());
        socket.send(Message::Binary(message.into())).await
    }

    /// Connects to the kubelet.
    async fn dial(&self) -> Result<Kubelet, String> {
        let protocols = SPDY_PROTOCOLS.map(HeaderValue::from_static);
        let answer = switch_to_spdy(&self.backend, &self.destination, HeaderMap::new(), protocols).await;
        let place = || {
            url::of_kubelet(&self.destination)
                .map(|uri| uri.to_string())
                .unwrap_or_default()
        };
        let failed = |why: &str| format!("error sending request: Post {:?}: {why}", place());
        let mut answer = answer.map_err(|why| failed(&why))?;
        if answer.status().is_redirection() {
            return Err(failed("redirect not allowed"));
        }
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(format!("unable to upgrade connection: {}", error_text(answer).await));
        }
        let named = answer
            .headers()
            .get(PROTOCOL_VERSION)
            .and_then(|value| value.to_str().ok());
        let protocol = named.unwrap_or_default().to_owned();
        let connection = hyper::upgrade::on(&mut answer)
            .await
            .map_err(|error| error.to_string())?;
        Ok(Kubelet { connection, protocol })
    }

    /// Passes data in both directions. Returns the end of the command; `None` if the client is gone.
    async fn relay(&self, socket: &mut Socket, kubelet: Kubelet) -> Option<CommandEnd> {
        let (receiver, sender) = tokio::io::split(TokioIo::new(kubelet.connection));
        let mut reader = SpdyReader::new(BufReader::new(receiver));
        let mut writer = SpdyWriter::new(sender);
        let ids = match self.open_streams(&mut reader, &mut writer).await {
            Ok(ids) => ids,
            Err(error) => return Some(CommandEnd::Failed(error.to_string())),
        };
        let (sink, messages) = (&mut *socket).split();
        let (pings, waiting) = mpsc::channel(WAITING_PINGS);
        let is_active = Arc::new(AtomicBool::new(true));
        let down = Down {
            reader,
            sink,
            ids,
            pings,
            is_active: Arc::clone(&is_active),
        };
        let up = Up {
            messages,
            writer,
            ids,
            waiting,
            is_active: Arc::clone(&is_active),
        };
        tokio::select! {
            received = down.run() => match received {
                Ok(text) => Some(status::of_command(&kubelet.protocol, &text)),
                Err(DownError::Kubelet(error)) => Some(CommandEnd::Failed(format!("error reading from error stream: {error}"))),
                Err(DownError::Client) => None,
            },
            () = up.run() => None,
            () = idle_for_too_long(&is_active) => None,
        }
    }

    /// Opens the streams of the command, each after the kubelet has accepted the one before.
    ///
    /// upstream: k8s.io/client-go/tools/remotecommand#streamProtocolV3.createStreams
    async fn open_streams(
        &self,
        reader: &mut SpdyReader<impl AsyncRead + Unpin>,
        writer: &mut SpdyWriter<impl AsyncWrite + Unpin>,
    ) -> io::Result<StreamIds> {
        let CommandStreams {
            stdin,
            stdout,
            stderr,
            tty,
        } = self.streams;
        let mut ids = StreamIds::default();
        let mut next = 1;
        let requested = [
            (true, "error", &mut ids.error),
            (stdin, "stdin", &mut ids.stdin),
            (stdout, "stdout", &mut ids.stdout),
            (stderr && !tty, "stderr", &mut ids.stderr),
            (tty, "resize", &mut ids.resize),
        ];
        for (is_requested, name, id) in requested {
            if is_requested {
                let opened = tokio::time::timeout(STREAM_TIMEOUT, open_stream(reader, writer, next, name)).await;
                opened.unwrap_or_else(|_| Err(io::Error::other("Timed out waiting for stream")))?;
                *id = Some(next);
                next += 2;
            }
        }
        Ok(ids)
    }
}

/// Opens a stream and waits until the kubelet has accepted it: it discards data that comes before.
async fn open_stream(
    reader: &mut SpdyReader<impl AsyncRead + Unpin>,
    writer: &mut SpdyWriter<impl AsyncWrite + Unpin>,
    id: u32,
    name: &str,
) -> io::Result<()> {
    writer.open(id, "streamtype", name).await?;
    loop {
        match reader.frame().await? {
            Frame::Reply(accepted, _) if accepted == id => return Ok(()),
            Frame::Reply(..) => {}
            Frame::Ping(ping) => writer.ping(ping).await?,
            Frame::Reset(_) => return Err(io::Error::other("stream was rejected")),
            Frame::Data(..) => return Err(io::Error::other("data came before all streams were created")),
            Frame::End => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Returns the message of a kubelet that did not switch protocols.
///
/// upstream: k8s.io/streaming/pkg/httpstream/spdy#upgradeErrorMessage
async fn error_text(answer: http::Response<Incoming>) -> String {
    let body = Limited::new(answer.into_body(), MAX_ERROR_BYTES).collect().await;
    let Ok(body) = body else {
        return "unable to read error from server response".to_owned();
    };
    let body = body.to_bytes();
    let status: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let field = |name: &str| {
        status
            .get(name)
            .and_then(|text| text.as_str())
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let body = String::from_utf8_lossy(&body).trim().to_owned();
    let texts = [field("message"), field("error"), body];
    let text = texts.into_iter().find(|text| !text.is_empty());
    text.unwrap_or_else(|| "empty server response".to_owned())
}

/// Waits until nothing has passed for [`MAX_IDLE_PERIODS`]. It also ends a session in which the command does not read the
/// input of a client that is gone.
async fn idle_for_too_long(is_active: &AtomicBool) {
    let mut ticks = tokio::time::interval(PING_PERIOD);
    let mut idle_periods = 0;
    while idle_periods < MAX_IDLE_PERIODS {
        ticks.tick().await;
        let was_active = is_active.swap(false, Ordering::Relaxed);
        idle_periods = if was_active { 0 } else { idle_periods + 1 };
    }
}

/// Direction from the kubelet to the client.
struct Down<'a> {
    reader: SpdyReader<BufReader<tokio::io::ReadHalf<KubeletIo>>>,
    sink: SplitSink<&'a mut Socket, Message>,
    ids: StreamIds,
    /// Pings of the kubelet to reply to.
    pings: mpsc::Sender<u32>,
    is_active: Arc<AtomicBool>,
}

/// Reason why nothing more is passed to the client.
enum DownError {
    Kubelet(io::Error),
    Client,
}

impl From<io::Error> for DownError {
    fn from(error: io::Error) -> Self {
        Self::Kubelet(error)
    }
}

impl Down<'_> {
    /// Passes all output on, and returns the content of the error stream.
    async fn run(mut self) -> Result<Vec<u8>, DownError> {
        let mut open: Vec<u32> = [self.ids.error, self.ids.stdout, self.ids.stderr]
            .into_iter()
            .flatten()
            .collect();
        let mut error = Vec::new();
        while !open.is_empty() {
            let frame = match self.reader.frame().await {
                // The status is the last that a kubelet sends. Then it may close the connection before it has read all
                // input, which resets the connection.
                Ok(Frame::End) | Err(_) if !error.is_empty() => return Ok(error),
                frame => frame?,
            };
            match frame {
                Frame::Data(id, is_last) => {
                    self.is_active.store(true, Ordering::Relaxed);
                    self.data(id, &mut error).await?;
                    open.retain(|other| !is_last || *other != id);
                }
                Frame::Reset(id) | Frame::Reply(id, true) => open.retain(|other| *other != id),
                // The replies to this server's pings have odd numbers.
                Frame::Ping(id) if id % 2 == 0 => drop(self.pings.try_send(id)),
                Frame::Ping(_) | Frame::Reply(..) => {}
                Frame::End => return Err(DownError::Kubelet(io::ErrorKind::UnexpectedEof.into())),
            }
        }
        Ok(error)
    }

    /// Passes the data of a frame on, or adds it to the error.
    async fn data(&mut self, id: u32, error: &mut Vec<u8>) -> Result<(), DownError> {
        let channel = match Some(id) {
            id if id == self.ids.stdout => STDOUT,
            id if id == self.ids.stderr => STDERR,
            _ => ERROR,
        };
        while let Some(piece) = self.reader.piece(channel).await? {
            if channel != ERROR {
                let sent = self.sink.send(Message::Binary(piece.into())).await;
                sent.map_err(|_| DownError::Client)?;
            } else if Some(id) == self.ids.error && error.len() + piece.len() <= MAX_ERROR_BYTES {
                error.extend(piece.iter().skip(1));
            }
        }
        Ok(())
    }
}

/// Direction from the client to the kubelet.
struct Up<'a> {
    messages: SplitStream<&'a mut Socket>,
    writer: SpdyWriter<tokio::io::WriteHalf<KubeletIo>>,
    ids: StreamIds,
    waiting: mpsc::Receiver<u32>,
    is_active: Arc<AtomicBool>,
}

impl Up<'_> {
    /// Passes messages on until the client is gone. While the command does not read its input, no further messages are
    /// read, and so the end of the client is not noticed.
    async fn run(mut self) {
        let mut ticks = tokio::time::interval(PING_PERIOD);
        let mut own_ping = 1;
        // If the kubelet accepts no more input, there may still be output.
        let mut accepts = true;
        loop {
            let passed = tokio::select! {
                message = self.messages.next() => match message {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(message @ (Message::Binary(_) | Message::Text(_)))) => {
                        self.is_active.store(true, Ordering::Relaxed);
                        match self.pass(accepts, &message.into_data()).await {
                            Some(passed) => passed,
                            None => return,
                        }
                    }
                    Some(Ok(_)) => Ok(()),
                },
                Some(ping) = self.waiting.recv(), if accepts => self.writer.ping(ping).await,
                _ = ticks.tick(), if accepts => {
                    own_ping += 2;
                    self.writer.ping(own_ping).await
                }
            };
            accepts &= passed.is_ok();
        }
    }

    /// Passes a message to the stream of its channel. Returns `None` if it is invalid.
    ///
    /// upstream: k8s.io/streaming/pkg/httpstream/wsstream#Conn.handle
    async fn pass(&mut self, accepts: bool, message: &[u8]) -> Option<io::Result<()>> {
        let (channel, data) = match message.split_first() {
            Some((channel, data)) => (*channel, data),
            None => return Some(Ok(())),
        };
        let (channel, data, is_last) = match (channel, data) {
            (CLOSE, [closed @ STDIN..=RESIZE]) => (*closed, &[][..], true),
            (CLOSE, _) => return None,
            _ => (channel, data, false),
        };
        let id = match channel {
            STDIN => self.ids.stdin,
            RESIZE => self.ids.resize,
            _ => None,
        };
        let Some(id) = id.filter(|_| accepts) else {
            return Some(Ok(()));
        };
        if is_last && channel == STDIN {
            self.ids.stdin = None;
        }
        Some(self.writer.data(id, data, is_last).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(streams: CommandStreams) -> Command {
        Command {
            backend: Backend::for_nodes(crate::webhooks::Trust::Anyone, None, None).unwrap(),
            destination: Destination {
                tls: None,
                host: "127.0.0.1".to_owned(),
                port: Some(1),
                path: "/exec/n/p/c".to_owned(),
                query: Vec::new(),
                exchange: holdfast_resource::ExchangeKind::Command {
                    streams,
                    translates: true,
                },
            },
            streams,
        }
    }

    /// Returns a SYN_REPLY for each of the first streams.
    fn replies(count: u8) -> Vec<u8> {
        let reply = |at| [0x80, 3, 0, 2, 0, 0, 0, 4, 0, 0, 0, 2 * at + 1];
        (0..count).flat_map(reply).collect()
    }

    #[tokio::test]
    async fn terminal_has_resize_stream_instead_of_stderr() {
        let all = CommandStreams {
            stdin: true,
            stdout: true,
            stderr: true,
            tty: true,
        };
        let open = async |streams, count| {
            let mut sent = Vec::new();
            let replies = replies(count);
            let mut reader = SpdyReader::new(replies.as_slice());
            command(streams)
                .open_streams(&mut reader, &mut SpdyWriter::new(&mut sent))
                .await
        };
        let ids = open(all, 4).await.unwrap();
        assert_eq!(
            (ids.error, ids.stdin, ids.stdout, ids.stderr, ids.resize),
            (Some(1), Some(3), Some(5), None, Some(7))
        );
        let plain = CommandStreams { tty: false, ..all };
        assert_eq!(open(plain, 4).await.unwrap().stderr, Some(7));
        assert_eq!(open(all, 3).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test(start_paused = true)]
    async fn session_without_data_ends_after_four_hours() {
        let begin = tokio::time::Instant::now();
        idle_for_too_long(&AtomicBool::new(true)).await;
        assert_eq!(begin.elapsed().as_secs(), 4 * 3600);
    }

    #[tokio::test]
    async fn unreachable_kubelet_is_named() {
        let why = command(CommandStreams::default()).dial().await.err().unwrap();
        assert!(
            why.starts_with("error sending request: Post \"http://127.0.0.1:1/exec/n/p/c\": dial tcp 127.0.0.1:1: "),
            "{why}"
        );
    }
}
