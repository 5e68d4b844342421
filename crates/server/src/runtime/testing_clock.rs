//! Clock that a test moves forward.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::{Clock, SystemClock};

/// Maximum time by which a clock is ahead of the system clock: 100 years.
pub const MAX_ADVANCE: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// System clock plus the time by which tests have moved it.
#[derive(Debug, Default)]
pub struct TestingClock(watch::Sender<Duration>);

/// Receiver of the moves of a clock. Without a clock for tests, it never receives one.
#[derive(Clone, Debug, Default)]
pub struct Advances {
    receiver: Option<watch::Receiver<Duration>>,
    known: Duration,
}

impl TestingClock {
    /// Moves the clock forward, and returns the time by which it is ahead of the system clock.
    ///
    /// # Errors
    /// If it would be ahead by more than [`MAX_ADVANCE`].
    pub fn advance(&self, by: Duration) -> Result<Duration, String> {
        let mut outcome = Err("the clock is at most 100 years ahead".to_owned());
        self.0.send_if_modified(|ahead| match ahead.checked_add(by) {
            Some(sum) if sum <= MAX_ADVANCE => {
                *ahead = sum;
                outcome = Ok(sum);
                true
            }
            _ => false,
        });
        outcome
    }

    /// Returns the time by which the clock is ahead of the system clock.
    pub fn ahead(&self) -> Duration {
        *self.0.borrow()
    }

    /// Returns a receiver of the moves from now on.
    pub fn advances(&self) -> Advances {
        let receiver = self.0.subscribe();
        let known = *receiver.borrow();
        Advances {
            receiver: Some(receiver),
            known,
        }
    }
}

impl Clock for TestingClock {
    fn now(&self) -> SystemTime {
        SystemClock.now() + self.ahead()
    }
}

impl holdfast_store::Clock for TestingClock {
    fn now(&self) -> Duration {
        Clock::now(self).duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl Advances {
    /// Waits until the clock moves, and returns the time by which it has moved since the last call.
    pub async fn next(&mut self) -> Duration {
        let Some(receiver) = &mut self.receiver else {
            return std::future::pending().await;
        };
        let known = self.known;
        let moved = receiver.wait_for(|ahead| *ahead > known).await.map(|ahead| *ahead);
        match moved {
            Ok(ahead) => {
                self.known = ahead;
                ahead.saturating_sub(known)
            }
            // The server ends.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn clock_moves_forward_and_reports_each_move() {
        let clock = TestingClock::default();
        let mut advances = clock.advances();
        assert_eq!(advances.next().now_or_never(), None);
        assert_eq!(clock.advance(HOUR), Ok(HOUR));
        assert_eq!(clock.advance(HOUR), Ok(2 * HOUR));
        assert_eq!(advances.next().now_or_never(), Some(2 * HOUR));
        assert_eq!(advances.next().now_or_never(), None);
        let ahead = Clock::now(&clock).duration_since(SystemTime::now()).unwrap();
        assert!(ahead > HOUR && ahead <= 2 * HOUR, "{ahead:?}");
        assert!(clock.advance(MAX_ADVANCE).is_err());
        assert_eq!(clock.ahead(), 2 * HOUR);
        assert_eq!(Advances::default().next().now_or_never(), None);
    }
}
