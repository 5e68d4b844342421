//! Retry time of rejected clients: longer if many are rejected.

use std::collections::VecDeque;

/// Maximum retry time in seconds.
const MAX_RETRY_SECONDS: u64 = 32;

/// Rejections of a level by second.
#[derive(Debug)]
pub(crate) struct Dropped {
    /// Seconds with the number of rejections in each.
    history: VecDeque<(u64, u64)>,
    second: u64,
    count: u64,
    retry_after: u64,
    raised: Option<u64>,
}

impl Default for Dropped {
    fn default() -> Self {
        Self {
            history: VecDeque::new(),
            second: 0,
            count: 0,
            retry_after: 1,
            raised: None,
        }
    }
}

impl Dropped {
    /// Counts a rejection in that second; returns the number of seconds until its client should retry.
    pub(crate) fn count(&mut self, second: u64) -> u64 {
        if self.second == second {
            self.count += 1;
            return self.retry_after;
        }
        self.history.push_back((self.second, self.count));
        let kept = (2 * self.retry_after).min(MAX_RETRY_SECONDS);
        while self
            .history
            .front()
            .is_some_and(|(old, _)| second.saturating_sub(*old) > kept)
        {
            self.history.pop_front();
        }
        (self.second, self.count) = (second, 1);
        self.adjust(second);
        self.retry_after
    }

    /// Doubles the retry time if the rejections within it reach three per second, at most once per retry time; reduces
    /// it by a second if there is less than one per second.
    fn adjust(&mut self, second: u64) {
        let after = self.retry_after;
        let recent = self
            .history
            .iter()
            .filter(|(old, _)| second.saturating_sub(*old) <= after);
        let rejected: u64 = recent.map(|(_, count)| count).sum();
        let is_calm = self.raised.is_none_or(|raised| second.saturating_sub(raised) >= after);
        if is_calm && rejected >= 3 * after {
            self.retry_after = (2 * after).min(MAX_RETRY_SECONDS);
            self.raised = Some(second);
        } else if rejected < after && after > 1 {
            self.retry_after -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reject(dropped: &mut Dropped, second: u64, times: u64) -> u64 {
        (0..times).map(|_| dropped.count(second)).last().unwrap_or_default()
    }

    #[test]
    fn retry_time_follows_rejection_rate() {
        let mut dropped = Dropped::default();
        assert_eq!(reject(&mut dropped, 1000, 5), 1);
        assert_eq!(reject(&mut dropped, 1001, 10), 2);
        // It was increased a second ago, which is too recent.
        assert_eq!(reject(&mut dropped, 1002, 10), 2);
        assert_eq!(reject(&mut dropped, 1003, 100), 4);
        assert_eq!(reject(&mut dropped, 1007, 100), 8);
        assert_eq!(reject(&mut dropped, 1030, 1), 7);
        assert_eq!(reject(&mut dropped, 1060, 1), 6);
    }

    #[test]
    fn there_is_a_longest_time() {
        let mut dropped = Dropped::default();
        for second in 0..400 {
            reject(&mut dropped, 1000 + second, 500);
        }
        assert_eq!(dropped.retry_after, MAX_RETRY_SECONDS);
    }
}
