//! Bodies of other servers' answers that are streamed through to a client.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::runtime::shutdown::Shutdown;
use crate::wire::body::Broken;

/// Body of another server's answer, until the answer or its time limit ends. Each piece is read when the client has
/// read the one before.
pub(crate) struct PassedBody {
    body: Option<Incoming>,
    ends: BoxFuture<'static, Result<(), Broken>>,
}

impl PassedBody {
    /// Passes `body` on until `ends` returns; with an error, the answer is broken off.
    pub(crate) fn new(body: Incoming, ends: impl Future<Output = Result<(), Broken>> + Send + 'static) -> Self {
        Self {
            body: Some(body),
            ends: Box::pin(ends),
        }
    }

    /// Passes `body` on until its end or that of the server, as for the server's own watches.
    pub(crate) fn until_shutdown(body: Incoming, shutdown: Shutdown) -> Self {
        Self::new(body, async move {
            shutdown.closing().await;
            Ok(())
        })
    }
}

impl Body for PassedBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(|_| Broken)));
        }
        match self.ends.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(ended) => {
                self.body = None;
                Poll::Ready(ended.err().map(Err))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
