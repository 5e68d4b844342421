//! The shutdown of the server, in phases: first it reports that it is not ready, then it accepts no more connections
//! and ends its watches, while running writes are finished.

use tokio::sync::watch;

/// The phases of the shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The server serves normally.
    #[default]
    Serving,
    /// Readiness checks fail, so that new clients use other servers; requests that still arrive are served.
    NotReady,
    /// No connection is accepted, and unbounded requests such as watches end.
    Closing,
}

/// A trigger for the phases of the shutdown.
#[derive(Debug, Default)]
pub struct ShutdownTrigger(watch::Sender<Phase>);

/// A receiver of the shutdown phase.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Phase>);

impl ShutdownTrigger {
    /// Creates the trigger of a server that serves.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the receiver of the phases that this trigger begins. If the trigger is dropped, the server continues to
    /// serve.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown(self.0.subscribe())
    }

    /// Makes readiness checks fail.
    pub fn not_ready(&self) {
        self.begin(Phase::NotReady);
    }

    /// Stops accepting connections and ends watches.
    pub fn close(&self) {
        self.begin(Phase::Closing);
    }

    fn begin(&self, phase: Phase) {
        self.0.send_modify(|current| *current = phase.max(*current));
    }
}

impl Shutdown {
    /// Returns true if new clients are still accepted.
    pub fn is_ready(&self) -> bool {
        *self.0.borrow() == Phase::Serving
    }

    /// Returns true if unbounded requests, such as watches, have to end.
    pub fn is_closing(&self) -> bool {
        *self.0.borrow() == Phase::Closing
    }

    /// Waits until unbounded requests, such as watches, have to end.
    pub async fn closing(&self) {
        let mut phase = self.0.clone();
        if phase.wait_for(|phase| *phase == Phase::Closing).await.is_err() {
            // The trigger is dropped, so the shutdown can never begin.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn readiness_goes_before_watches_end() {
        let trigger = ShutdownTrigger::new();
        let shutdown = trigger.shutdown();
        assert!(shutdown.is_ready());
        trigger.not_ready();
        assert!(!shutdown.is_ready());
        assert!(shutdown.closing().now_or_never().is_none());
        trigger.close();
        trigger.not_ready();
        assert!(shutdown.closing().now_or_never().is_some());
    }
}
