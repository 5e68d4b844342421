//! Clients that do not read their responses. Requests have their time limits where they are read and handled; this
//! module limits the time for which a response may wait for its client.
//!
//! On any connection the socket must accept bytes now and then ([`WriteTimeout`]). One stream of an HTTP/2 connection
//! can be blocked while the others flow, so streams have a time limit of their own ([`Streams`]), except long-running
//! ones such as watches. A timer is set only if something has to wait; most responses are sent at once.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, Sleep};

use crate::wire::gathered::Watches;

tokio::task_local! {
    /// Stream that this task serves.
    static STREAM: ServedStream;
}

/// State of a stream while it is served.
struct ServedStream {
    /// True if it is long-running.
    lasts: Cell<bool>,
    /// Receiver that ends when the client has received the response.
    taken: Cell<Option<oneshot::Receiver<Infallible>>>,
    /// The watches of its connection.
    watches: Arc<Watches>,
}

impl Drop for ServedStream {
    fn drop(&mut self) {
        if self.lasts.get() {
            self.watches.leave();
        }
    }
}

/// Marks the response of the stream that this task serves as long-running, so that no time limit applies.
pub(crate) fn exempt_stream_from_limit() {
    // HTTP/1.1 connections have no streams, so there is nothing to mark.
    let _ = STREAM.try_with(|stream| {
        if !stream.lasts.replace(true) {
            stream.watches.enter();
        }
    });
}

/// Reports that the stream that this task serves has a piece of its response: an event, if it is long-running.
pub(crate) fn stream_has_event() {
    let _ = STREAM.try_with(|stream| {
        if stream.lasts.get() {
            stream.watches.note_event();
        }
    });
}

/// Returns a guard that the response of the stream that this task serves must hold until the client has received it;
/// `None` if there are no streams.
pub(crate) fn answer_untaken() -> Option<impl Send + Sync + 'static> {
    let (untaken, taken) = oneshot::channel();
    STREAM.try_with(|stream| stream.taken.set(Some(taken))).ok()?;
    Some(untaken)
}

/// Executor of the streams of an HTTP/2 connection, each for a limited time.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    /// Maximum duration of a request and its response together.
    limit: Duration,
    served: Arc<Served>,
    watches: Arc<Watches>,
}

/// Shared state of the streams of a connection.
#[derive(Debug, Default)]
struct Served {
    /// Number of open streams.
    open: AtomicUsize,
    /// Signal that a response was not received in time.
    untaken: Notify,
}

/// An open stream, counted until it is dropped.
struct Open(Arc<Served>);

impl Open {
    fn new(served: &Arc<Served>) -> Self {
        served.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(served))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Time without streams after which a connection that is to end is closed: the client must learn of the end and read
/// what was sent to it. Go's server waits for one second.
const FAREWELL: Duration = Duration::from_secs(5);

/// Interval between checks for open streams.
const LOOK: Duration = Duration::from_millis(500);

impl Streams {
    /// Creates streams with a time limit for a request and its response together.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            served: Arc::default(),
            watches: Arc::default(),
        }
    }

    /// Returns the watches among them.
    pub(crate) fn watches(&self) -> Arc<Watches> {
        Arc::clone(&self.watches)
    }

    /// Completes when a client does not receive in time a response that the connection has buffered, so that only
    /// closing the connection frees it.
    pub(crate) fn untaken(&self) -> impl Future<Output = ()> + Send + 'static {
        let served = Arc::clone(&self.served);
        async move { served.untaken.notified().await }
    }

    /// Completes when there has been no stream for [`FAREWELL`] from now on.
    pub(crate) fn left(&self) -> impl Future<Output = ()> + Send + 'static {
        let served = Arc::clone(&self.served);
        async move {
            let mut since = Instant::now();
            while since.elapsed() < FAREWELL {
                tokio::time::sleep(LOOK).await;
                if served.open.load(Ordering::Relaxed) > 0 {
                    since = Instant::now();
                }
            }
        }
    }
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let (limit, open) = (self.limit, Open::new(&self.served));
        let served = ServedStream {
            lasts: Cell::default(),
            taken: Cell::default(),
            watches: self.watches(),
        };
        tokio::spawn(STREAM.scope(served, async move {
            let late = late(limit);
            tokio::pin!(late);
            tokio::select! {
                biased;
                _ = stream => {}
                // Dropping the stream resets it.
                () = &mut late => return tracing::debug!(after = ?limit, "client did not read its answer in time"),
            }
            let Some(taken) = STREAM.with(|stream| stream.taken.take()) else {
                return;
            };
            tokio::select! {
                biased;
                _ = taken => {}
                () = late => open.0.untaken.notify_one(),
            }
        }));
    }
}

async fn late(limit: Duration) {
    tokio::time::sleep(limit).await;
    if STREAM.with(|stream| stream.lasts.get()) {
        std::future::pending::<()>().await;
    }
}

/// Number of bytes that must be sent within the time limit of a [`WriteTimeout`], unless nothing is left to be sent.
const LEAST_PROGRESS: usize = 64 * 1024;

/// A connection whose peer must read the written bytes.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Timer since bytes began to wait, and number of bytes sent from then on.
    waiting: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            waiting: None,
        }
    }

    /// Returns `written`, or an error if it waits for too long.
    fn timed(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                if let Some((_, progress)) = &mut self.waiting {
                    *progress += bytes;
                    if *progress >= LEAST_PROGRESS {
                        self.waiting = None;
                    }
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.wait(context).map(Err),
        }
    }

    fn wait(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let limit = self.limit;
        let (timer, _) = self
            .waiting
            .get_or_insert_with(|| (Box::pin(tokio::time::sleep(limit)), 0));
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the client does not take what is sent");
        timer.as_mut().poll(context).map(|()| late())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Pending => self.wait(context).map(Err),
            flushed => {
                self.waiting = None;
                flushed
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_shutdown(context) {
            Poll::Pending => self.wait(context).map(Err),
            ended => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up_after_the_limit() {
        let (server, _client) = tokio::io::duplex(1024);
        let mut server = WriteTimeout::new(server, LIMIT);
        let begun = tokio::time::Instant::now();
        let error = server.write_all(&[0; 2048]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_byte_at_a_time_is_given_up_too() {
        let (server, mut client) = tokio::io::duplex(1024);
        let mut server = WriteTimeout::new(server, LIMIT);
        tokio::spawn(async move {
            while client.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        assert!(server.write_all(&[0; 1 << 20]).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_keeps_up_is_not() {
        let (server, mut client) = tokio::io::duplex(8 * 1024);
        let mut server = WriteTimeout::new(server, LIMIT);
        let reader = tokio::spawn(async move {
            let (mut taken, mut buffer) = (0, [0; 8 * 1024]);
            while let Ok(bytes @ 1..) = client.read(&mut buffer).await {
                taken += bytes;
                // Ten minutes in total, but enough bytes in each interval.
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            taken
        });
        server.write_all(&[0; 1 << 20]).await.unwrap();
        drop(server);
        assert_eq!(reader.await.unwrap(), 1 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn stream_ends_after_its_limit_unless_exempt() {
        let streams = Streams::new(LIMIT);
        let (short, ended) = oneshot::channel::<()>();
        streams.execute(async move {
            std::future::pending::<()>().await;
            drop(short);
        });
        let (long, mut lasting) = oneshot::channel::<()>();
        streams.execute(async move {
            exempt_stream_from_limit();
            std::future::pending::<()>().await;
            drop(long);
        });
        assert!(ended.await.is_err());
        tokio::time::sleep(10 * LIMIT).await;
        assert_eq!(lasting.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[tokio::test(start_paused = true)]
    async fn buffered_unread_response_is_reported_after_the_limit() {
        let streams = Streams::new(LIMIT);
        let (hand_over, mut buffered) = tokio::sync::mpsc::channel(2);
        for _ in 0..2 {
            let hand_over = hand_over.clone();
            streams.execute(async move {
                let _ = hand_over.send(answer_untaken()).await;
            });
        }
        let begun = tokio::time::Instant::now();
        // The first response is received at once, the second never.
        drop(buffered.recv().await);
        let second = buffered.recv().await;
        streams.untaken().await;
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
        drop(second);
        let again = tokio::time::timeout(10 * LIMIT, streams.untaken());
        assert!(again.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_left_when_it_has_had_no_stream_for_a_while() {
        let streams = Streams::new(LIMIT);
        let (begun, left) = (Instant::now(), streams.left());
        left.await;
        assert!(begun.elapsed() < FAREWELL + 2 * LOOK);

        let (begun, left) = (Instant::now(), streams.left());
        let served = Duration::from_secs(20);
        streams.execute(tokio::time::sleep(served));
        left.await;
        assert!((served + FAREWELL..served + FAREWELL + 2 * LOOK).contains(&begun.elapsed()));
    }
}
