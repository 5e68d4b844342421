//! Bodies of requests and responses.
//!
//! A response is most often bytes that exist already: a stored object, or the pieces of a list. They are sent
//! unchanged, without being copied together. A watch is a stream whose pieces arrive as events do.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, Stream, StreamExt};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use parking_lot::Mutex;

use crate::wire::heads::Exchange;
use crate::wire::in_flight::{AnswerSeat, Seat};
use crate::wire::slow_clients::stream_has_event;

/// Response to a request.
pub type Response = http::Response<ResponseBody>;

/// Maximum size of the body of a request, in bytes.
pub const MAX_REQUEST_BYTES: usize = 3 * 1024 * 1024;

/// Reason why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It has more bytes than the limit.
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    /// The client broke off.
    #[error("{0}")]
    Broken(std::io::Error),
    /// It did not arrive in time.
    #[error("the body did not come in time")]
    Slow,
    /// Too many bodies are being received, or too many requests are being served when the body has arrived.
    #[error("too many requests are received or served")]
    TooMany,
}

/// The body of a request, not read yet.
///
/// If it is dropped unread, as when a request is rejected by its path, a small rest is read in the background: an
/// HTTP/1.1 connection can be reused only when the whole body has arrived.
pub struct RequestBody {
    /// In a lock that is never contended, so that threads can share a request while it is handled.
    source: Mutex<Option<Source>>,
    read_timeout: Duration,
    /// Seat of the request, which it gives up while its body arrives.
    place: Option<Arc<Seat>>,
    /// Exchange on an HTTP/1.1 connection. It ends when the body was read.
    exchange: Option<Exchange>,
}

type Source = UnsyncBoxBody<Bytes, std::io::Error>;

impl RequestBody {
    /// Wraps the body `source`; reading it fails after `read_timeout` in total.
    pub fn new<B>(source: B, read_timeout: Duration) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // Most requests have no body, so they need no allocation for one.
        let source = (!source.is_end_stream()).then(|| source.map_err(std::io::Error::other).boxed_unsync());
        Self {
            source: Mutex::new(source),
            read_timeout,
            place: None,
            exchange: None,
        }
    }

    /// Keeps `exchange` going until the body was read, if there is one.
    pub(crate) fn belong_to(&mut self, exchange: &Exchange) {
        if self.source.get_mut().is_some() {
            self.exchange = Some(exchange.clone());
        }
    }

    /// Gives up `place` while the body arrives.
    pub(crate) fn leaving(&mut self, place: Arc<Seat>) {
        self.place = Some(place);
    }

    /// Creates a body of these bytes.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        let source = http_body_util::Full::new(bytes.into());
        Self::new(source, Duration::MAX)
    }

    /// Returns the body as a stream to pass on. It has no size limit, because none of it is kept.
    pub(crate) fn pass_on(mut self) -> Source {
        let inner = self.source.lock().take();
        let source = match (inner, self.exchange.take()) {
            (Some(source), Some(exchange)) => Some(
                source
                    .map_frame(move |frame| {
                        let _ = &exchange;
                        frame
                    })
                    .boxed_unsync(),
            ),
            (source, _) => source,
        };
        source.unwrap_or_else(|| {
            http_body_util::Empty::new()
                .map_err(|never| match never {})
                .boxed_unsync()
        })
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// If it has more than [`MAX_REQUEST_BYTES`], or does not arrive completely and in time.
    pub async fn read(mut self) -> Result<Bytes, BodyError> {
        let Some(source) = self.source.lock().take() else {
            return Ok(Bytes::new());
        };
        let read = tokio::time::timeout(self.read_timeout, collect(source, self.place.take())).await;
        read.unwrap_or(Err(BodyError::Slow))
    }
}

/// Number of bytes of an unwanted body that are read, and the time limit, before the connection is closed.
const MAX_UNWANTED_BYTES: u64 = 256 * 1024;
const UNWANTED_TIMEOUT: Duration = Duration::from_millis(500);

impl Drop for RequestBody {
    fn drop(&mut self) {
        let Some(source) = self.source.get_mut().take() else {
            return;
        };
        let small = source.size_hint().lower() <= MAX_UNWANTED_BYTES;
        if let (true, Ok(runtime)) = (small, tokio::runtime::Handle::try_current()) {
            let exchange = self.exchange.take();
            runtime.spawn(async move {
                let _exchange = exchange;
                tokio::time::timeout(UNWANTED_TIMEOUT, discard(source)).await
            });
        }
    }
}

async fn discard(mut source: Source) {
    let mut size = 0;
    while let Some(Ok(frame)) = source.frame().await {
        size += frame.data_ref().map_or(0, |data| data.len() as u64);
        if size > MAX_UNWANTED_BYTES {
            return;
        }
    }
}

/// Number of further bytes of a too large body that are read and discarded. Most clients read the response only when
/// the whole body is sent, and would see a broken connection instead.
const MAX_DISCARDED_BYTES: usize = 16 * 1024 * 1024;

async fn collect(mut source: Source, mut place: Option<Arc<Seat>>) -> Result<Bytes, BodyError> {
    let (mut collected, mut receiving) = (Collected::new(&source), None);
    loop {
        let frame = match source.frame().now_or_never() {
            Some(frame) => frame,
            None => {
                // Most bodies have arrived when they are requested.
                if let Some(place) = place.take() {
                    receiving = Some(place.receive(collected.kept())?);
                }
                source.frame().await
            }
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(BodyError::Broken)?;
        let Ok(data) = frame.into_data() else { continue };
        let before = collected.kept();
        collected.add(data);
        if let Some(receiving) = &mut receiving {
            receiving.keep(collected.kept().saturating_sub(before))?;
        }
        if collected.size > MAX_REQUEST_BYTES + MAX_DISCARDED_BYTES {
            break;
        }
    }
    if let Some(receiving) = receiving {
        receiving.finish().await?;
    }
    collected.finish()
}

/// Part of a body that has arrived.
struct Collected {
    first: Bytes,
    rest: Vec<u8>,
    /// Number of bytes that have arrived.
    size: usize,
    /// Minimum total length that the client states.
    stated: u64,
}

impl Collected {
    fn new(source: &Source) -> Self {
        Self {
            first: Bytes::new(),
            rest: Vec::new(),
            size: 0,
            stated: source.size_hint().lower(),
        }
    }

    /// Returns the number of bytes that are kept.
    fn kept(&self) -> usize {
        if self.rest.is_empty() {
            self.first.len()
        } else {
            self.rest.len()
        }
    }

    fn add(&mut self, data: Bytes) {
        self.size += data.len();
        // A stated length is checked before anything is kept.
        if self.size > MAX_REQUEST_BYTES || self.stated > MAX_REQUEST_BYTES as u64 {
            (self.first, self.rest) = (Bytes::new(), Vec::new());
        } else if self.first.is_empty() {
            // Most bodies arrive in one piece, which is not copied.
            self.first = data;
        } else {
            if self.rest.is_empty() {
                // Memory is reserved for the received bytes, not for the stated length.
                self.rest.reserve(2 * (self.first.len() + data.len()));
                self.rest.extend_from_slice(&self.first);
            }
            self.rest.extend_from_slice(&data);
        }
    }

    fn finish(self) -> Result<Bytes, BodyError> {
        if self.size > MAX_REQUEST_BYTES {
            return Err(BodyError::TooLarge(MAX_REQUEST_BYTES));
        }
        Ok(if self.rest.is_empty() {
            self.first
        } else {
            self.rest.into()
        })
    }
}

/// Body of a response.
pub struct ResponseBody {
    content: Content,
    /// Value that is dropped when the client has received the response.
    held: Option<Held>,
}

type Held = Arc<dyn Any + Send + Sync>;

/// Maximum length of a response that counts as received once the connection has it: connections buffer this much of any
/// response.
const SMALL_ANSWER: u64 = 16 * 1024;

/// Content of a response.
enum Content {
    /// Nothing, or one chunk of bytes.
    Full(Option<Bytes>),
    /// Chunks of bytes, sent one after the other.
    Chunks {
        /// Chunks still to be sent.
        rest: std::vec::IntoIter<Bytes>,
        /// Number of bytes still to be sent.
        remaining: u64,
    },
    /// Chunks of bytes that become available over time; the response ends with the stream.
    Stream(BoxStream<'static, Bytes>),
    /// Response of another server, streamed through.
    Passed {
        body: UnsyncBoxBody<Bytes, Broken>,
        sent: Option<Box<dyn FnMut(u64) + Send>>,
        observer: Option<Box<dyn BodyObserver>>,
    },
}

/// Error of a response that is streamed through and that its server broke off, so that this server must break off too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer that is passed on was broken off")]
pub struct Broken;

/// Bytes of a response that holds a value.
struct HeldBytes {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Content> for ResponseBody {
    fn from(content: Content) -> Self {
        Self { content, held: None }
    }
}

impl ResponseBody {
    /// Creates a body without bytes.
    pub fn empty() -> Self {
        Content::Full(None).into()
    }

    /// Keeps `what` until the last byte is written to the connection, or the response is abandoned. Small responses
    /// keep it until the connection has them.
    pub(crate) fn hold(&mut self, what: impl Send + Sync + 'static) {
        self.held = Some(match self.held.take() {
            Some(before) => Arc::new((before, what)),
            None => Arc::new(what),
        });
    }

    /// Keeps the seat of a request as [`Self::hold`] does. A response that is sent in pieces gives the seat back while the
    /// client reads nothing.
    pub(crate) fn hold_seat(&mut self, seat: Arc<Seat>) {
        let Content::Stream(stream) = &mut self.content else {
            return self.hold(seat);
        };
        let pieces = std::mem::replace(stream, Box::pin(futures_util::stream::empty()));
        let seat = AnswerSeat::new(seat);
        let paced = (pieces, Arc::clone(&seat));
        *stream = Box::pin(futures_util::stream::unfold(paced, |(mut pieces, seat)| async move {
            seat.begin_piece().await;
            let piece = pieces.next().await?;
            seat.end_piece();
            Some((piece, (pieces, seat)))
        }));
        self.hold(seat);
    }

    /// Returns true if the connection may have the response long before its client has it.
    pub(crate) fn is_large(&self) -> bool {
        self.length().is_none_or(|length| length > SMALL_ANSWER)
    }

    /// Returns the next chunk together with the held value, if it is the last chunk or may be.
    fn tie(&mut self, bytes: Bytes) -> Bytes {
        let held = match &self.content {
            Content::Full(_) | Content::Chunks { remaining: 0, .. } => self.held.take(),
            Content::Chunks { .. } => None,
            Content::Stream(_) | Content::Passed { .. } => self.held.clone(),
        };
        match held {
            Some(held) => Bytes::from_owner(HeldBytes { bytes, _held: held }),
            None => bytes,
        }
    }

    /// Creates a body of chunks, none of which is copied. Its length is known.
    pub fn chunks(chunks: Vec<Bytes>) -> Self {
        let remaining = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let rest = chunks.into_iter();
        Content::Chunks { rest, remaining }.into()
    }

    /// Creates a body that `stream` provides over time.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Content::Stream(Box::pin(stream)).into()
    }

    /// Streams the response of another server through.
    pub(crate) fn passed(body: impl Body<Data = Bytes, Error = Broken> + Send + 'static) -> Self {
        let body = body.boxed_unsync();
        Content::Passed {
            body,
            sent: None,
            observer: None,
        }
        .into()
    }

    /// Calls `sent` with the length of each piece of a stream, which drops it when it ends.
    pub(crate) fn record(&mut self, mut sent: impl FnMut(u64) + Send + 'static) {
        match &mut self.content {
            Content::Stream(stream) => {
                let pieces = std::mem::replace(stream, Box::pin(futures_util::stream::empty()));
                *stream = Box::pin(pieces.inspect(move |piece| sent(piece.len() as u64)));
            }
            Content::Passed { sent: reported, .. } => *reported = Some(Box::new(sent)),
            Content::Full(_) | Content::Chunks { .. } => {}
        }
    }

    /// Shows `observer` each piece of a stream, and its end; a body that is streamed through has only the last
    /// observer. If the observer is dropped before the end, the client read no more.
    pub(crate) fn observe(&mut self, observer: impl BodyObserver) {
        match &mut self.content {
            Content::Stream(stream) => {
                let pieces = std::mem::replace(stream, Box::pin(futures_util::stream::empty()));
                *stream = Box::pin(Observed { pieces, observer });
            }
            Content::Passed { observer: reported, .. } => *reported = Some(Box::new(observer)),
            Content::Full(_) | Content::Chunks { .. } => {}
        }
    }

    /// Returns the bytes of the body, if all of them are available.
    pub(crate) fn whole(&self) -> Option<Bytes> {
        match &self.content {
            Content::Full(bytes) => Some(bytes.clone().unwrap_or_default()),
            Content::Chunks { rest, .. } => Some(rest.as_slice().concat().into()),
            Content::Stream(_) | Content::Passed { .. } => None,
        }
    }

    /// Returns the length in bytes, if it is known.
    pub fn length(&self) -> Option<u64> {
        match &self.content {
            Content::Full(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Content::Chunks { remaining, .. } => Some(*remaining),
            Content::Stream(_) | Content::Passed { .. } => None,
        }
    }
}

/// Observer of a stream that is sent.
pub(crate) trait BodyObserver: Send + Unpin + 'static {
    /// Called when a piece is sent.
    fn piece(&mut self, piece: &Bytes);

    /// Called when all is sent.
    fn end(&mut self);
}

/// A stream with an observer. The stream is dropped before the observer.
struct Observed<O> {
    pieces: BoxStream<'static, Bytes>,
    observer: O,
}

impl<O: BodyObserver> Stream for Observed<O> {
    type Item = Bytes;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = self.get_mut();
        let next = this.pieces.as_mut().poll_next(cx);
        match &next {
            Poll::Ready(Some(piece)) => this.observer.piece(piece),
            Poll::Ready(None) => this.observer.end(),
            Poll::Pending => {}
        }
        next
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Content::Full(if bytes.is_empty() { None } else { Some(bytes) }).into()
    }
}

impl From<Vec<u8>> for ResponseBody {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let body = self.get_mut();
        let is_small = body.held.is_some() && !body.is_large();
        let next = match &mut body.content {
            Content::Full(bytes) => bytes.take(),
            Content::Chunks { rest, remaining } => {
                let next = rest.next();
                *remaining -= next.as_ref().map_or(0, |bytes| bytes.len() as u64);
                next
            }
            Content::Stream(stream) => match stream.as_mut().poll_next(cx) {
                Poll::Ready(next) => {
                    stream_has_event();
                    next
                }
                Poll::Pending => return Poll::Pending,
            },
            Content::Passed { body, sent, observer } => match poll_data(Pin::new(body), cx) {
                Poll::Ready(Some(Ok(bytes))) => {
                    if let Some(sent) = sent {
                        sent(bytes.len() as u64);
                    }
                    if let Some(observer) = observer {
                        observer.piece(&bytes);
                    }
                    Some(bytes)
                }
                Poll::Ready(Some(Err(broken))) => return Poll::Ready(Some(Err(broken))),
                Poll::Ready(None) => {
                    *sent = None;
                    if let Some(mut observer) = observer.take() {
                        observer.end();
                    }
                    None
                }
                Poll::Pending => return Poll::Pending,
            },
        };
        let next = match next {
            Some(bytes) if body.held.is_some() && !is_small => Some(body.tie(bytes)),
            next => next,
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        if let Content::Passed { body, .. } = &self.content {
            return body.is_end_stream();
        }
        self.length() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        if let Content::Passed { body, .. } = &self.content {
            return body.size_hint();
        }
        self.length().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Polls the next bytes of a body; skips other frames, such as trailers.
fn poll_data<B: Body<Data = Bytes>>(
    mut body: Pin<&mut B>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, B::Error>>> {
    loop {
        return match body.as_mut().poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(bytes) => Poll::Ready(Some(Ok(bytes))),
                Err(_) => continue,
            },
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn collect(body: ResponseBody) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn chunks_are_sent_in_order_and_their_length_is_known() {
        let body = ResponseBody::chunks(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]);
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(collect(body).await, "abc");
        assert!(ResponseBody::empty().is_end_stream());
    }

    #[tokio::test]
    async fn value_held_by_a_response_is_dropped_with_its_last_bytes() {
        let large = || Bytes::from(vec![b' '; 20 * 1024]);
        let stream = || futures_util::stream::iter([large(), large()]);
        for (mut body, small) in [
            (ResponseBody::from(large()), false),
            (ResponseBody::chunks(vec![large(), large()]), false),
            (ResponseBody::stream(stream()), false),
            (ResponseBody::from(Bytes::from_static(b"small")), true),
        ] {
            let place = Arc::new(());
            body.hold(Arc::clone(&place));
            body.hold("more");
            let mut taken = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                assert_eq!(Arc::strong_count(&place), 2);
                taken.push(frame.into_data().unwrap());
            }
            drop(body);
            assert_eq!(Arc::strong_count(&place), if small { 1 } else { 2 });
            // A part of the last bytes holds the value as well as all of them.
            let rest = taken.pop().map(|last| last.slice(1..));
            drop(taken);
            assert_eq!(Arc::strong_count(&place), if small { 1 } else { 2 });
            drop(rest);
            assert_eq!(Arc::strong_count(&place), 1);
        }
    }

    #[tokio::test]
    async fn too_large_body_is_rejected_with_or_without_stated_length() {
        let stated = RequestBody::from_bytes(vec![b' '; MAX_REQUEST_BYTES + 1]);
        let pieces = futures_util::stream::repeat(Bytes::from(vec![b' '; 1 << 20]));
        let unstated = RequestBody::new(ResponseBody::stream(pieces), Duration::from_secs(60));
        for body in [stated, unstated] {
            let error = body.read().await.unwrap_err();
            assert!(matches!(error, BodyError::TooLarge(MAX_REQUEST_BYTES)), "{error}");
        }
        let largest = RequestBody::from_bytes(vec![b' '; MAX_REQUEST_BYTES]);
        assert_eq!(largest.read().await.unwrap().len(), MAX_REQUEST_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        let body = ResponseBody::stream(futures_util::stream::pending());
        let error = RequestBody::new(body, Duration::from_secs(5)).read().await.unwrap_err();
        assert!(matches!(error, BodyError::Slow), "{error}");
    }
}
