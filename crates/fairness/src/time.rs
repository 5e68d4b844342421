//! Time as an argument.

use std::time::Duration;

/// A moment: nanoseconds since an origin that the clock chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    /// The nanoseconds from `earlier` to this; zero where that is not earlier.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment that is `later` than this.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(later.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// A clock that never goes backwards.
pub trait Clock: Send + Sync {
    /// The moment that is now.
    fn now(&self) -> Moment;
}
