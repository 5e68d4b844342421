//! Gate that a test closes while it restores a checkpoint: watches pause, and may expire afterwards.

use tokio::sync::watch;

/// State of the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Phase {
    /// Number of times that all watches expired.
    generation: u64,
    is_closed: bool,
}

/// Gate of all watches of a server.
#[derive(Debug, Default)]
pub struct WatchGate(watch::Sender<Phase>);

/// Pass of one watch. It is valid until all watches expire.
#[derive(Debug)]
pub struct WatchPass {
    phase: watch::Receiver<Phase>,
    generation: u64,
}

impl WatchGate {
    /// Pauses all watches.
    pub fn close(&self) {
        self.0.send_modify(|phase| phase.is_closed = true);
    }

    /// Lets the watches continue. If `expires`, all that began before get the error 410.
    pub fn open(&self, expires: bool) {
        self.0.send_modify(|phase| {
            phase.is_closed = false;
            phase.generation += u64::from(expires);
        });
    }

    /// Returns the pass of a new watch.
    pub fn pass(&self) -> WatchPass {
        let phase = self.0.subscribe();
        let generation = phase.borrow().generation;
        WatchPass { phase, generation }
    }
}

impl WatchPass {
    /// Waits while the gate is closed. Returns false if the watch has expired.
    pub(crate) async fn is_valid(&mut self) -> bool {
        match self.phase.wait_for(|phase| !phase.is_closed).await {
            Ok(phase) => phase.generation == self.generation,
            // The server ends.
            Err(_) => true,
        }
    }

    /// Waits until the watch expires.
    pub(crate) async fn expired(&mut self) {
        let generation = self.generation;
        let is_over = |phase: &Phase| !phase.is_closed && phase.generation != generation;
        if self.phase.wait_for(is_over).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn watch_waits_for_the_gate_and_expires_if_asked() {
        let gate = WatchGate::default();
        let mut pass = gate.pass();
        assert_eq!(pass.is_valid().now_or_never(), Some(true));
        gate.close();
        assert_eq!(pass.is_valid().now_or_never(), None);
        let mut during = gate.pass();
        gate.open(false);
        assert_eq!(pass.is_valid().now_or_never(), Some(true));
        assert_eq!(pass.expired().now_or_never(), None);
        gate.close();
        gate.open(true);
        assert_eq!(pass.is_valid().now_or_never(), Some(false));
        assert_eq!(pass.expired().now_or_never(), Some(()));
        assert_eq!(during.is_valid().now_or_never(), Some(false));
        assert_eq!(gate.pass().is_valid().now_or_never(), Some(true));
    }
}
