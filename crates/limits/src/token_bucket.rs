//! Token bucket: a rate with bursts.

use std::time::{Duration, Instant, SystemTime};

/// A time of a monotonic clock or of the wall clock.
pub trait Moment: Copy {
    /// Returns the time since `earlier`; zero if the clock went back.
    fn since(self, earlier: Self) -> Duration;
}

impl Moment for Instant {
    fn since(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl Moment for SystemTime {
    fn since(self, earlier: Self) -> Duration {
        self.duration_since(earlier).unwrap_or_default()
    }
}

/// Rate limit: a number per second, and a burst after a pause.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use holdfast_limits::TokenBucket;
///
/// let now = Instant::now();
/// let mut bucket = TokenBucket::new(10.0, 2, now);
/// assert!(bucket.spend(now) && bucket.spend(now) && !bucket.spend(now));
/// assert!(bucket.spend(now + Duration::from_millis(100)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket<T> {
    per_second: f64,
    burst: f64,
    /// Tokens at `filled`; below zero if some are reserved.
    tokens: f64,
    filled: T,
}

/// Lowest rate, so that every wait is a finite time.
const MIN_PER_SECOND: f64 = 1e-6;

impl<T: Moment> TokenBucket<T> {
    /// Creates a full bucket of at least one token.
    pub fn new(per_second: f64, burst: u32, now: T) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            per_second: per_second.max(MIN_PER_SECOND),
            burst,
            tokens: burst,
            filled: now,
        }
    }

    /// Removes a token. Returns false if there is none.
    pub fn spend(&mut self, now: T) -> bool {
        let tokens = self.tokens_at(now);
        let is_taken = tokens >= 1.0;
        if is_taken {
            self.set(tokens - 1.0, now);
        }
        is_taken
    }

    /// Removes a token that may not exist yet, and returns the time until it does.
    pub fn reserve(&mut self, now: T) -> Duration {
        let tokens = self.tokens_at(now);
        self.set(tokens - 1.0, now);
        let seconds = (-self.tokens).max(0.0) / self.per_second;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn tokens_at(&self, now: T) -> f64 {
        let passed = now.since(self.filled).as_secs_f64();
        (self.tokens + passed * self.per_second).min(self.burst)
    }

    /// Sets the tokens at `now`. If the clock went back, the later time stays.
    fn set(&mut self, tokens: f64, now: T) {
        self.tokens = tokens;
        if !now.since(self.filled).is_zero() {
            self.filled = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_passes_and_then_each_waits_its_turn() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(10.0, 2, now);
        let waits: Vec<u128> = (0..4).map(|_| bucket.reserve(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        assert!(!bucket.spend(now));
        assert_eq!(bucket.reserve(now + Duration::from_secs(10)), Duration::ZERO);
    }

    #[test]
    fn clock_that_goes_back_neither_fills_nor_empties() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let mut bucket = TokenBucket::new(1.0, 1, now);
        assert!(bucket.spend(now));
        assert!(!bucket.spend(now - Duration::from_secs(50)));
        assert!(!bucket.spend(now + Duration::from_millis(900)));
        assert!(bucket.spend(now + Duration::from_secs(1)));
    }

    #[test]
    fn rate_of_zero_waits_for_a_finite_time() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(0.0, 0, now);
        assert!(bucket.spend(now) && !bucket.spend(now));
        assert!(bucket.reserve(now) > Duration::from_secs(1_000));
    }
}
