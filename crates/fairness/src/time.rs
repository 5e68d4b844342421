//! Time as an argument.

use std::time::Duration;

/// Moment: nanoseconds since an origin chosen by the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    /// Returns the nanoseconds since `earlier`; zero if that is not earlier.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the moment `later` after this one.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// Monotonic clock.
pub trait Clock: Send + Sync {
    /// Returns the current moment.
    fn now(&self) -> Moment;
}
