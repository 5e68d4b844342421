//! The drain of a server that ends: it counts running requests, and denies new ones once the drain has begun.

use std::sync::Arc;

use tokio::sync::watch;

/// A count of running requests that can be closed.
#[derive(Debug, Default)]
pub struct RequestDrain(watch::Sender<Requests>);

/// The state of a drain.
#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    running: usize,
    is_draining: bool,
}

/// A running request. The drain waits until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningRequest(Arc<RequestDrain>);

impl RequestDrain {
    /// Counts a request. Returns `None` once the drain has begun.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<RunningRequest> {
        let entered = self.0.send_if_modified(|requests| {
            requests.running += usize::from(!requests.is_draining);
            !requests.is_draining
        });
        entered.then(|| RunningRequest(Arc::clone(self)))
    }

    /// Returns true once the drain has begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.0.borrow().is_draining
    }

    /// Denies requests from now on, and waits until those that run have ended.
    pub async fn drain(&self) {
        self.0.send_modify(|requests| requests.is_draining = true);
        // The sender is `self`, so it outlives the wait.
        let _ = self.0.subscribe().wait_for(|requests| requests.running == 0).await;
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.0.send_modify(|requests| requests.running -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn drain_waits_for_running_and_denies_new() {
        let drain = Arc::<RequestDrain>::default();
        let (first, second) = (drain.enter().unwrap(), drain.enter().unwrap());
        assert!(!drain.is_draining());
        let mut drained = Box::pin(drain.drain());
        assert!(drained.as_mut().now_or_never().is_none());
        assert!(drain.is_draining());
        assert!(drain.enter().is_none());
        drop(first);
        assert!(drained.as_mut().now_or_never().is_none());
        drop(second);
        assert!(drained.now_or_never().is_some());
    }
}
