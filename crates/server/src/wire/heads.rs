//! Bounds on incomplete heads of requests. The user of a request is unknown until its head is complete, so the bound on
//! bytes applies to all connections together, and each head has a time limit.
//!
//! On HTTP/1.1, all bytes outside of an exchange belong to a head. On HTTP/2, a head consists of HEADERS and CONTINUATION
//! frames, up to the one that ends the block.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Bytes of a head that each connection may hold without a share of the budget: as many as hyper reads at a time.
const FREE_HEAD_BYTES: usize = 8 * 1024;

/// Budget for the bytes of incomplete heads of all connections, beyond [`FREE_HEAD_BYTES`] each.
#[derive(Debug)]
pub(crate) struct HeadBudget {
    limit: usize,
    used: AtomicUsize,
}

impl HeadBudget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let used = AtomicUsize::new(0);
        Arc::new(Self { limit, used })
    }

    /// Reserves `bytes`. Returns false if the budget does not have as many left.
    fn take(&self, bytes: usize) -> bool {
        let taken = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            used.checked_add(bytes).filter(|used| *used <= self.limit)
        });
        taken.is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Incomplete head of one connection.
#[derive(Debug)]
pub(crate) struct PendingHead {
    budget: Arc<HeadBudget>,
    /// Received bytes of the head.
    bytes: AtomicUsize,
    /// Bytes that are reserved from the budget.
    charged: AtomicUsize,
    /// Number of HTTP/1.1 exchanges in progress: 0 or 1, except for copies of [`Exchange`].
    exchanges: AtomicUsize,
    /// True if the connection has switched to another protocol.
    upgraded: AtomicBool,
}

impl PendingHead {
    pub(crate) fn new(budget: &Arc<HeadBudget>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            bytes: AtomicUsize::new(0),
            charged: AtomicUsize::new(0),
            exchanges: AtomicUsize::new(0),
            upgraded: AtomicBool::new(false),
        })
    }

    /// Returns true if the bytes that are read now belong to a head of HTTP/1.1.
    fn is_awaited(&self) -> bool {
        self.exchanges.load(Ordering::Acquire) == 0 && !self.upgraded.load(Ordering::Relaxed)
    }

    fn is_empty(&self) -> bool {
        self.bytes.load(Ordering::Acquire) == 0
    }

    /// Counts `more` bytes of the head. Returns false if they exceed the budget.
    fn add(&self, more: usize) -> bool {
        let bytes = self.bytes.fetch_add(more, Ordering::AcqRel) + more;
        let due = bytes.saturating_sub(FREE_HEAD_BYTES);
        let missing = due.saturating_sub(self.charged.load(Ordering::Acquire));
        if missing > 0 {
            if !self.budget.take(missing) {
                return false;
            }
            self.charged.fetch_add(missing, Ordering::AcqRel);
        }
        true
    }

    /// Releases the bytes of the head, which is complete.
    fn complete(&self) {
        self.bytes.store(0, Ordering::Release);
        let charged = self.charged.swap(0, Ordering::AcqRel);
        if charged > 0 {
            self.budget.give_back(charged);
        }
    }
}

impl Drop for PendingHead {
    fn drop(&mut self) {
        self.complete();
    }
}

/// Exchange on an HTTP/1.1 connection. While it or a copy exists, the connection reads no head.
#[derive(Debug)]
pub(crate) struct Exchange(Arc<PendingHead>);

impl Exchange {
    /// Begins the exchange at the end of `head`.
    pub(crate) fn new(head: &Arc<PendingHead>) -> Self {
        head.exchanges.fetch_add(1, Ordering::AcqRel);
        head.complete();
        Self(Arc::clone(head))
    }

    /// Marks the connection as switched to another protocol.
    pub(crate) fn upgrade(&self) {
        self.0.upgraded.store(true, Ordering::Relaxed);
    }
}

impl Clone for Exchange {
    fn clone(&self) -> Self {
        self.0.exchanges.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.exchanges.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Connection whose heads are bounded in time and, together with those of others, in bytes.
pub(crate) struct BoundedHeads<S> {
    stream: S,
    head: Arc<PendingHead>,
    /// Parser of HTTP/2 frames; `None` for HTTP/1.1.
    frames: Option<Frames>,
    /// Time limit of a head, from its first byte.
    limit: Duration,
    /// Timer that runs while a head is incomplete.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> BoundedHeads<S> {
    pub(crate) fn new(stream: S, head: Arc<PendingHead>, http2: bool, limit: Duration) -> Self {
        Self {
            stream,
            head,
            frames: http2.then(Frames::default),
            limit,
            timer: None,
        }
    }

    /// Counts the bytes that were read.
    fn count(&mut self, read: &[u8]) -> io::Result<()> {
        let allowed = match &mut self.frames {
            Some(frames) => frames.count(read, &self.head),
            None => !self.head.is_awaited() || self.head.add(read.len()),
        };
        match allowed {
            true => Ok(()),
            false => Err(io::Error::other("too many bytes are held in heads of requests")),
        }
    }

    /// Fails if the time limit of an incomplete head has passed.
    fn check_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.head.is_empty() {
            self.timer = None;
            return Ok(());
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the head of a request took too long",
            )),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedHeads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        match outcome {
            Poll::Ready(Ok(())) => {
                let read = buffer.filled().get(before..).unwrap_or_default();
                // The next read checks the time limit.
                self.count(read)?;
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => {}
        }
        self.check_time(context)?;
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedHeads<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Length of the connection preface of HTTP/2.
const PREFACE_BYTES: usize = 24;
const FRAME_HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Position in the frames of an HTTP/2 connection.
#[derive(Debug)]
struct Frames {
    /// Remaining bytes before the head of the next frame.
    payload: usize,
    /// Received part of the head of the next frame.
    frame_head: [u8; FRAME_HEAD_BYTES],
    frame_head_bytes: usize,
    kind: FrameKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    /// A part of a head, with or without its end.
    Head {
        ends: bool,
    },
    Other,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            payload: PREFACE_BYTES,
            frame_head: [0; FRAME_HEAD_BYTES],
            frame_head_bytes: 0,
            kind: FrameKind::Other,
        }
    }
}

impl Frames {
    /// Counts the bytes of `read` that belong to heads. Returns false if they exceed the budget.
    fn count(&mut self, mut read: &[u8], head: &PendingHead) -> bool {
        while !read.is_empty() {
            if self.payload == 0 {
                let Some((next, rest)) = read.split_first() else { break };
                read = rest;
                self.take_frame_head(*next);
            }
            let of_frame = self.payload.min(read.len());
            if self.frame_head_bytes > 0 {
                continue;
            }
            read = read.get(of_frame..).unwrap_or_default();
            self.payload -= of_frame;
            if let FrameKind::Head { ends } = self.kind {
                if !head.add(of_frame) {
                    return false;
                }
                if self.payload == 0 && ends {
                    head.complete();
                    self.kind = FrameKind::Other;
                }
            }
        }
        true
    }

    fn take_frame_head(&mut self, next: u8) {
        if let Some(place) = self.frame_head.get_mut(self.frame_head_bytes) {
            *place = next;
            self.frame_head_bytes += 1;
        }
        if self.frame_head_bytes < FRAME_HEAD_BYTES {
            return;
        }
        self.frame_head_bytes = 0;
        let [first, second, third, kind, flags, ..] = self.frame_head;
        self.payload = u32::from_be_bytes([0, first, second, third]) as usize;
        self.kind = match kind {
            HEADERS | CONTINUATION => FrameKind::Head {
                ends: flags & END_HEADERS != 0,
            },
            _ => FrameKind::Other,
        };
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(32);

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEAD_BYTES + payload, 0);
        frame
    }

    #[test]
    fn head_beyond_free_bytes_takes_part_of_budget() {
        let budget = HeadBudget::new(1000);
        let (first, second) = (PendingHead::new(&budget), PendingHead::new(&budget));
        assert!(first.add(FREE_HEAD_BYTES) && second.add(FREE_HEAD_BYTES));
        assert!(first.add(700));
        assert!(!second.add(400));
        let exchange = Exchange::new(&first);
        assert!(second.add(0));
        assert!(!first.is_awaited());
        drop(exchange.clone());
        assert!(!first.is_awaited());
        drop(exchange);
        assert!(first.is_awaited());
        drop((first, second));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn http2_header_blocks_are_counted_until_their_end() {
        let budget = HeadBudget::new(1 << 20);
        let text = [
            vec![b'P'; PREFACE_BYTES],
            frame(4, 0, 12),
            frame(HEADERS, 0, 16_000),
            frame(CONTINUATION, 0, 1000),
        ]
        .concat();
        let end = [frame(CONTINUATION, END_HEADERS, 10), frame(0, 1, 9000)].concat();
        for step in [1, 7, 100_000] {
            let (mut frames, head) = (Frames::default(), PendingHead::new(&budget));
            assert!(text.chunks(step).all(|read| frames.count(read, &head)));
            assert_eq!(head.bytes.load(Ordering::Relaxed), 17_000);
            assert_eq!(budget.used.load(Ordering::Relaxed), 17_000 - FREE_HEAD_BYTES);
            assert!(end.chunks(step).all(|read| frames.count(read, &head)));
            assert!(head.is_empty());
            assert_eq!(budget.used.load(Ordering::Relaxed), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn head_that_trickles_in_is_given_up() {
        let budget = HeadBudget::new(1 << 20);
        let (server, mut client) = tokio::io::duplex(1024);
        let mut server = BoundedHeads::new(server, PendingHead::new(&budget), false, LIMIT);
        tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let begun = tokio::time::Instant::now();
        let mut read = Vec::new();
        let error = server.read_to_end(&mut read).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() <= LIMIT + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn connection_without_bytes_is_not_timed() {
        let budget = HeadBudget::new(1 << 20);
        let (server, client) = tokio::io::duplex(1024);
        let mut server = BoundedHeads::new(server, PendingHead::new(&budget), false, LIMIT);
        let silent = tokio::time::timeout(10 * LIMIT, server.read_u8()).await;
        assert!(silent.is_err());
        drop(client);
    }
}
