//! Counts of durations by bucket, for metrics: recording a duration increments two numbers.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counts of durations in `N` buckets and one for longer ones.
#[derive(Debug)]
pub struct Durations<const N: usize> {
    counts: [AtomicU64; N],
    longer: AtomicU64,
    nanoseconds: AtomicU64,
}

impl<const N: usize> Default for Durations<N> {
    fn default() -> Self {
        Self {
            counts: array::from_fn(|_| AtomicU64::new(0)),
            longer: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }
    }
}

impl<const N: usize> Durations<N> {
    /// Records a duration. `buckets` are the upper bounds of the buckets in seconds, in ascending order.
    pub fn observe(&self, buckets: &[f64; N], took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = buckets.iter().position(|longest| seconds <= *longest);
        let count = bucket.and_then(|at| self.counts.get(at)).unwrap_or(&self.longer);
        count.fetch_add(1, Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Relaxed);
    }

    /// Returns the current counts.
    pub fn read(&self) -> DurationCounts<N> {
        DurationCounts {
            counts: array::from_fn(|at| self.counts.get(at).map_or(0, |count| count.load(Relaxed))),
            longer: self.longer.load(Relaxed),
            sum: Duration::from_nanos(self.nanoseconds.load(Relaxed)),
        }
    }
}

/// Counts of durations by bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationCounts<const N: usize> {
    /// Counts of the buckets, not cumulative.
    pub counts: [u64; N],
    /// Count of durations longer than all buckets.
    pub longer: u64,
    /// Sum of all durations.
    pub sum: Duration,
}

impl<const N: usize> DurationCounts<N> {
    /// Returns the total count.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.longer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_that_is_as_long() {
        let durations = Durations::default();
        for milliseconds in [0, 5, 6, 100, 2000] {
            durations.observe(&[0.005, 0.1], Duration::from_millis(milliseconds));
        }
        let counts = durations.read();
        assert_eq!((counts.counts, counts.longer), ([2, 2], 1));
        assert_eq!((counts.count(), counts.sum), (5, Duration::from_millis(2111)));
    }
}
