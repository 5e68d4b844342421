use std::time::{Duration, Instant};

/// Start of a piece of work whose duration is reported, for example in metrics.
///
/// It reads the clock of the system. Use it only for durations that decide nothing: code that decides by the time uses a clock
/// that a simulation controls.
///
/// ```
/// let begun = holdfast_limits::Stopwatch::start();
/// assert!(begun.elapsed() < std::time::Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts to measure.
    #[expect(clippy::disallowed_methods, reason = "the durations decide nothing")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the duration since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Returns the duration from an earlier start to this one.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}
