//! Clock of the store. Functions get the time as an argument.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Source of wall-clock time. The store keeps the time with each event, so that it knows the age of events across
/// restarts.
pub trait Clock: Send + Sync + 'static {
    /// Returns the time since the Unix epoch.
    fn now(&self) -> Duration;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that others use")]
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}
