//! The shutdown of the server, in phases: first it reports that it is not ready, then it accepts no more connections
//! and ends its watches, while running writes are finished.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

/// Minimum number of watches that end in a second, as in the reference.
const MIN_WATCHES_PER_SECOND: f64 = 200.0;

/// The phases of the shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The server serves normally.
    #[default]
    Serving,
    /// Readiness checks fail, so that new clients use other servers; requests that still arrive are served.
    NotReady,
    /// Watches end, in the order in which they notice it.
    EndingWatches,
    /// No connection is accepted, and unbounded requests such as watches end.
    Closing,
}

/// A trigger for the phases of the shutdown.
#[derive(Debug, Default)]
pub struct ShutdownTrigger {
    phase: watch::Sender<Phase>,
    /// Pace at which watches end; `None` if they end at once.
    pace: Option<Arc<WatchPace>>,
}

/// A receiver of the shutdown phase.
#[derive(Clone, Debug)]
pub struct Shutdown {
    phase: watch::Receiver<Phase>,
    /// Pace at which watches end; `None` if they end at once.
    pace: Option<Arc<WatchPace>>,
}

/// Pace at which watches end, so that not all clients connect to another server at once.
#[derive(Debug)]
struct WatchPace {
    /// Time in which all watches end.
    grace: Duration,
    /// Number of running watches.
    running: watch::Sender<usize>,
    /// Number of watches that have begun to end.
    ending: AtomicUsize,
    /// Watches that end in a second. It is fixed by the first watch that ends.
    rate: OnceLock<f64>,
}

impl WatchPace {
    /// Returns the delay of the next watch that ends.
    ///
    /// upstream: k8s.io/apiserver/pkg/server#preparedGenericAPIServer.RunWithContext
    fn next_delay(&self) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "a server has far fewer watches")]
        let seconds = |count: usize, rate: f64| count as f64 / rate;
        let rate = self.rate.get_or_init(|| {
            let even = seconds(*self.running.borrow(), self.grace.as_secs_f64());
            even.max(MIN_WATCHES_PER_SECOND)
        });
        let earlier = self.ending.fetch_add(1, Ordering::Relaxed);
        Duration::from_secs_f64(seconds(earlier, *rate)).min(self.grace)
    }
}

/// Counts a watch while it runs.
struct RunningWatch<'a>(&'a WatchPace);

impl<'a> RunningWatch<'a> {
    fn new(pace: &'a WatchPace) -> Self {
        pace.running.send_modify(|running| *running += 1);
        Self(pace)
    }
}

impl Drop for RunningWatch<'_> {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running -= 1);
    }
}

impl ShutdownTrigger {
    /// Creates the trigger of a server that serves.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the trigger of a server whose watches end one after the other within `grace`. If it is zero, they end at
    /// once.
    pub fn with_watch_grace(grace: Duration) -> Self {
        let pace = WatchPace {
            grace,
            running: watch::Sender::default(),
            ending: AtomicUsize::new(0),
            rate: OnceLock::new(),
        };
        Self {
            phase: watch::Sender::default(),
            pace: (!grace.is_zero()).then(|| Arc::new(pace)),
        }
    }

    /// Returns the receiver of the phases that this trigger begins. If the trigger is dropped, the server continues to
    /// serve.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown {
            phase: self.phase.subscribe(),
            pace: self.pace.clone(),
        }
    }

    /// Makes readiness checks fail.
    pub fn not_ready(&self) {
        self.begin(Phase::NotReady);
    }

    /// Ends watches at their pace, and waits until none runs or their time is over. Returns at once if they have no pace.
    pub async fn end_watches(&self) {
        let Some(pace) = &self.pace else {
            return;
        };
        self.begin(Phase::EndingWatches);
        let mut running = pace.running.subscribe();
        // The sender is in `pace`, so that only the time limit or zero ends the wait.
        let _ = tokio::time::timeout(pace.grace, running.wait_for(|running| *running == 0)).await;
    }

    /// Stops accepting connections and ends watches.
    pub fn close(&self) {
        self.begin(Phase::Closing);
    }

    fn begin(&self, phase: Phase) {
        self.phase.send_modify(|current| *current = phase.max(*current));
    }
}

impl Shutdown {
    /// Returns true if new clients are still accepted.
    pub fn is_ready(&self) -> bool {
        *self.phase.borrow() == Phase::Serving
    }

    /// Returns true if unbounded requests, such as watches, have to end.
    pub fn is_closing(&self) -> bool {
        *self.phase.borrow() == Phase::Closing
    }

    /// Waits until unbounded requests, such as watches, have to end.
    pub async fn closing(&self) {
        self.reached(Phase::Closing).await;
    }

    /// Waits until the calling watch has to end. It counts as running while it waits.
    pub async fn watch_ending(&self) {
        let Some(pace) = &self.pace else {
            return self.closing().await;
        };
        let _running = RunningWatch::new(pace);
        self.reached(Phase::EndingWatches).await;
        tokio::time::sleep(pace.next_delay()).await;
    }

    async fn reached(&self, wanted: Phase) {
        let mut phase = self.phase.clone();
        if phase.wait_for(|phase| *phase >= wanted).await.is_err() {
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

    #[tokio::test(start_paused = true)]
    async fn watches_with_grace_end_one_after_the_other() {
        // 1,000 watches in two seconds: 500 in a second.
        let trigger = ShutdownTrigger::with_watch_grace(Duration::from_secs(2));
        let begin = tokio::time::Instant::now();
        let ends: Vec<_> = (0..1000)
            .map(|_| {
                let shutdown = trigger.shutdown();
                tokio::spawn(async move {
                    shutdown.watch_ending().await;
                    begin.elapsed()
                })
            })
            .collect();
        let mut running = trigger.pace.as_ref().unwrap().running.subscribe();
        running.wait_for(|running| *running == 1000).await.unwrap();
        trigger.end_watches().await;
        trigger.close();
        let mut times = Vec::new();
        for end in ends {
            times.push(end.await.unwrap());
        }
        times.sort_unstable();
        let middle = times[500].as_millis();
        assert!((995..=1005).contains(&middle), "{middle}");
        assert!(times[999] <= Duration::from_millis(2000), "{:?}", times[999]);
        assert!(begin.elapsed() <= Duration::from_millis(2001));
    }

    #[tokio::test(start_paused = true)]
    async fn watches_without_grace_end_when_the_server_closes() {
        let trigger = ShutdownTrigger::with_watch_grace(Duration::ZERO);
        let shutdown = trigger.shutdown();
        trigger.end_watches().await;
        assert!(shutdown.watch_ending().now_or_never().is_none());
        trigger.close();
        assert!(shutdown.watch_ending().now_or_never().is_some());
    }
}
