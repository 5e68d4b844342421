//! Time comes in by argument.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the store reads the time of day, which it keeps with each event to know its age across restarts.
pub trait Clock: Send + Sync + 'static {
    /// Time since the Unix epoch.
    fn now(&self) -> Duration;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}
