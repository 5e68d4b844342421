//! Token bucket: a rate limit.

use std::time::{Duration, Instant};

/// Rate limit: number per second, and burst after a pause.
#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    interval: Duration,
    burst: u32,
    /// Time at which the bucket is full.
    full: Option<Instant>,
}

impl Throttle {
    pub(crate) fn new(per_second: f32, burst: u32) -> Self {
        Self {
            interval: Duration::from_secs_f32(1.0 / per_second.max(f32::MIN_POSITIVE).max(1e-6)),
            burst: burst.max(1),
            full: None,
        }
    }

    /// Consumes a token and returns the time to wait for it.
    pub(crate) fn wait(&mut self) -> Duration {
        self.wait_at(Instant::now())
    }

    fn wait_at(&mut self, now: Instant) -> Duration {
        let full = self.full.unwrap_or(now).max(now) + self.interval;
        self.full = Some(full);
        let room = self.interval * self.burst;
        full.saturating_duration_since(now).saturating_sub(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_each_waits_its_turn() {
        let (mut throttle, now) = (Throttle::new(10.0, 2), Instant::now());
        let waits: Vec<u128> = (0..4).map(|_| throttle.wait_at(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        assert_eq!(throttle.wait_at(now + Duration::from_secs(10)), Duration::ZERO);
    }
}
