//! Gathers the events of many watches on one connection. An event is a small frame, and HTTP/2 writes and flushes each
//! frame separately: a TLS record and a system call for each watcher. A connection with several watches therefore first
//! runs the watches that have an event, gathers their writes, and sends them at once.
//!
//! Other connections write directly, as do these for a large frame.

use std::error::Error;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Number of watches on a connection from which writes are gathered.
const SEVERAL: usize = 2;

/// Size from which one write gains nothing from buffering.
const LARGE: usize = 8 * 1024;

/// Maximum size of the buffer: TLS accepts this much at a time.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// The watches of a connection.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    open: AtomicUsize,
    /// True if a watch has given an event to the connection since the connection was last served.
    has_events: AtomicBool,
}

impl Watches {
    /// Counts a watch that begins.
    pub(crate) fn enter(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a watch that ends.
    pub(crate) fn leave(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records that a watch has an event.
    pub(crate) fn note_event(&self) {
        self.has_events.store(true, Ordering::Release);
    }

    fn are_several(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= SEVERAL
    }

    /// Returns true if there are new events, which others may follow. Marks them as seen.
    fn take_events(&self) -> bool {
        self.are_several() && self.has_events.swap(false, Ordering::AcqRel)
    }
}

/// Stream of a connection, whose handles all write to the same stream: one for the HTTP/2 protocol, one that sends the
/// gathered bytes.
pub(crate) struct Gathered<S> {
    stream: Arc<Mutex<Gathering<S>>>,
    watches: Arc<Watches>,
}

struct Gathering<S> {
    stream: S,
    /// Bytes still to be written, before anything else.
    waiting: BytesMut,
    /// True if anything was written since the last flush: TLS may hold back bytes that the socket had no room for.
    unflushed: bool,
}

impl<S> Clone for Gathered<S> {
    fn clone(&self) -> Self {
        Self {
            stream: Arc::clone(&self.stream),
            watches: Arc::clone(&self.watches),
        }
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    /// Wraps the stream of a connection that carries these watches.
    pub(crate) fn new(stream: S, watches: Arc<Watches>) -> Self {
        let gathering = Gathering {
            stream,
            waiting: BytesMut::new(),
            unflushed: false,
        };
        Self {
            stream: Arc::new(Mutex::new(gathering)),
            watches,
        }
    }

    /// Serves the connection, and sends the bytes that it wrote meanwhile.
    ///
    /// # Errors
    /// If the connection or sending fails.
    pub(crate) async fn serve<C, E>(&self, mut connection: Pin<&mut C>) -> io::Result<()>
    where
        C: Future<Output = Result<(), E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut waited = false;
        std::future::poll_fn(move |context| {
            // Other watches with an event run first.
            if !waited && self.watches.take_events() {
                waited = true;
                return give_way(context);
            }
            waited = false;
            let outcome = connection.as_mut().poll(context);
            match self.stream.lock().send(context) {
                Poll::Ready(Err(error)) if outcome.is_pending() => Poll::Ready(Err(error)),
                _ => outcome.map_err(io::Error::other),
            }
        })
        .await
    }
}

/// Yields to the tasks that are ready.
fn give_way<T>(context: &mut Context<'_>) -> Poll<T> {
    // The runtime keeps the waker: the task is polled again after the other tasks.
    let turn = std::pin::pin!(tokio::task::yield_now());
    if turn.poll(context).is_ready() {
        context.waker().wake_by_ref();
    }
    Poll::Pending
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    /// Sends all written bytes, gathered or not.
    fn send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.unflushed {
            true => self.flush(context),
            false => Poll::Ready(Ok(())),
        }
    }

    fn flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(context))?;
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Writes the gathered bytes.
    fn drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, &self.waiting))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.advance(sent);
        }
        // Idle watches need no buffer.
        self.waiting = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream.lock().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gathering = self.stream.lock();
        gathering.unflushed = true;
        let length = slices.iter().map(|slice| slice.len()).sum();
        if length >= LARGE || !self.watches.are_several() {
            ready!(gathering.drain(context))?;
            return Pin::new(&mut gathering.stream).poll_write_vectored(context, slices);
        }
        if gathering.waiting.len() + length > MAX_BUFFER_BYTES {
            ready!(gathering.drain(context))?;
        }
        for slice in slices {
            gathering.waiting.extend_from_slice(slice);
        }
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing for several watches, because their bytes are sent after the connection was served.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.watches.are_several() {
            return Poll::Ready(Ok(()));
        }
        self.stream.lock().flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathering = self.stream.lock();
        ready!(gathering.drain(context))?;
        Pin::new(&mut gathering.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// Keeps each write separately, and accepts no more than it has room for.
    struct Pieces {
        taken: Vec<Vec<u8>>,
        room: usize,
    }

    impl AsyncWrite for Pieces {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let length = bytes.len().min(self.room);
            if length == 0 {
                return Poll::Pending;
            }
            self.room -= length;
            self.taken.push(bytes[..length].to_vec());
            Poll::Ready(Ok(length))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Accepts every write and holds it back until it is flushed and the socket has room, as TLS does.
    #[derive(Default)]
    struct HoldingBack {
        held: usize,
        has_room: bool,
    }

    impl AsyncWrite for HoldingBack {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.held += bytes.len();
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if !self.has_room {
                return Poll::Pending;
            }
            self.held = 0;
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.poll_flush(context)
        }
    }

    fn watches(number: usize) -> Arc<Watches> {
        let open = Arc::new(Watches::default());
        (0..number).for_each(|_| open.enter());
        open
    }

    fn gathered(number: usize, room: usize) -> Gathered<Pieces> {
        let taken = Vec::new();
        Gathered::new(Pieces { taken, room }, watches(number))
    }

    fn lengths(stream: &Gathered<Pieces>) -> Vec<usize> {
        stream.stream.lock().stream.taken.iter().map(Vec::len).collect()
    }

    /// Writes pieces of these lengths as a connection would, each flushed by itself.
    async fn write(stream: &Gathered<Pieces>, pieces: &[usize]) {
        let mut writer = stream.clone();
        let served = async move {
            for length in pieces {
                writer.write_all(&vec![b'x'; *length]).await.unwrap();
                writer.flush().await.unwrap();
            }
            Ok::<_, io::Error>(())
        };
        let mut connection = std::pin::pin!(served);
        stream.serve(connection.as_mut()).await.unwrap();
    }

    #[tokio::test]
    async fn small_frames_of_watches_are_gathered_and_large_ones_are_not() {
        let stream = gathered(2, usize::MAX);
        write(&stream, &[100, 200, 300]).await;
        assert_eq!(lengths(&stream), [600]);
        write(&stream, &[100, LARGE, 50]).await;
        assert_eq!(lengths(&stream), [600, 100, LARGE, 50]);
    }

    #[tokio::test]
    async fn a_connection_without_watches_writes_what_it_is_given() {
        let stream = gathered(1, usize::MAX);
        write(&stream, &[100, 200]).await;
        assert_eq!(lengths(&stream), [100, 200]);
    }

    #[tokio::test]
    async fn no_more_is_gathered_than_goes_out_at_a_time() {
        let stream = gathered(2, 0);
        let mut writer = stream.clone();
        let mut frames = 0;
        while writer.write(&[b'x'; 1024]).now_or_never().is_some() {
            frames += 1;
        }
        assert_eq!(frames * 1024, MAX_BUFFER_BYTES);
        stream.stream.lock().stream.room = usize::MAX;
        write(&stream, &[10]).await;
        assert_eq!(lengths(&stream), [MAX_BUFFER_BYTES, 10]);
    }

    #[tokio::test]
    async fn held_back_bytes_are_sent_when_there_is_room() {
        for length in [100, LARGE] {
            let stream = Gathered::new(HoldingBack::default(), watches(2));
            let mut writer = stream.clone();
            let served = async move {
                writer.write_all(&vec![b'x'; length]).await?;
                writer.flush().await?;
                std::future::pending::<io::Result<()>>().await
            };
            let mut connection = std::pin::pin!(served);
            let mut served = std::pin::pin!(stream.serve(connection.as_mut()));
            for (has_room, held) in [(false, length), (true, 0)] {
                stream.stream.lock().stream.has_room = has_room;
                assert!(served.as_mut().now_or_never().is_none());
                assert_eq!(stream.stream.lock().stream.held, held);
            }
        }
    }

    #[tokio::test]
    async fn connection_with_events_is_served_after_other_tasks() {
        let stream = gathered(2, usize::MAX);
        let order = Arc::new(Mutex::new(Vec::new()));
        stream.watches.note_event();
        let other = tokio::spawn({
            let order = Arc::clone(&order);
            async move { order.lock().push("a watch") }
        });
        let served = async {
            order.lock().push("the connection");
            Ok::<_, io::Error>(())
        };
        let mut connection = std::pin::pin!(served);
        stream.serve(connection.as_mut()).await.unwrap();
        other.await.unwrap();
        assert_eq!(*order.lock(), ["a watch", "the connection"]);
    }
}
