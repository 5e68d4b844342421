//! Answers of a webhook that are remembered for some time. The least recently used ones make room for others.

use std::time::Duration;

use holdfast_limits::LruMap;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::review::ReviewStatus;

/// Maximum number of answers.
const MAX_ANSWERS: usize = 8192;

/// Maximum size in bytes of the texts of an answer that is cached.
const MAX_TEXT_BYTES: usize = 8 << 10;

/// Hash of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReviewKey([u8; 32]);

impl ReviewKey {
    pub(super) fn new(spec: &str) -> Self {
        Self(Sha256::digest(spec).into())
    }

    /// Returns a number from 0 to 1 that depends on the review.
    pub(super) fn fraction(&self) -> f64 {
        let [first, ..] = self.0;
        f64::from(first) / 255.0
    }
}

/// Cache of answers and the times at which they expire.
pub(super) struct ReviewCache(Mutex<LruMap<ReviewKey, (ReviewStatus, Instant)>>);

impl Default for ReviewCache {
    fn default() -> Self {
        Self(Mutex::new(LruMap::new(MAX_ANSWERS)))
    }
}

impl ReviewCache {
    /// Returns the answer, if it is still valid.
    pub(super) fn get(&self, key: &ReviewKey) -> Option<ReviewStatus> {
        let mut answers = self.0.lock();
        let (status, until) = answers.get(key)?;
        if *until <= Instant::now() {
            answers.remove(key);
            return None;
        }
        Some(status.clone())
    }

    /// Keeps an answer for `ttl`. If there is no room, the least recently used one is removed.
    pub(super) fn insert(&self, key: ReviewKey, status: ReviewStatus, ttl: Duration) {
        let until = Instant::now().checked_add(ttl);
        let Some(until) = until.filter(|_| !ttl.is_zero() && status.text_bytes() <= MAX_TEXT_BYTES) else {
            return;
        };
        self.0.lock().insert(key, (status, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn key(at: usize) -> ReviewKey {
        ReviewKey::new(&at.to_string())
    }

    #[test]
    fn least_recently_used_answer_makes_room() {
        let cache = ReviewCache::default();
        for at in 0..MAX_ANSWERS {
            cache.insert(key(at), ReviewStatus::default(), LONG);
        }
        assert!(cache.get(&key(0)).is_some());
        cache.insert(key(MAX_ANSWERS), ReviewStatus::default(), LONG);
        assert!(cache.get(&key(0)).is_some() && cache.get(&key(MAX_ANSWERS)).is_some());
        assert!(cache.get(&key(1)).is_none());
        assert_eq!(cache.0.lock().len(), MAX_ANSWERS);
    }

    #[test]
    fn expired_or_huge_answers_are_not_cached() {
        let cache = ReviewCache::default();
        cache.insert(key(0), ReviewStatus::default(), Duration::from_nanos(1));
        std::thread::sleep(Duration::from_millis(1));
        assert!(cache.get(&key(0)).is_none());
        cache.insert(key(1), ReviewStatus::default(), Duration::ZERO);
        let huge = ReviewStatus {
            reason: "a".repeat(MAX_TEXT_BYTES + 1),
            ..ReviewStatus::default()
        };
        cache.insert(key(2), huge, LONG);
        assert!(cache.0.lock().is_empty());
    }
}
