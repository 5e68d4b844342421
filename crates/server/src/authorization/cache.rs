//! Answers of a webhook that are remembered for some time. The least recently used ones make room for others.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

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

/// Cache of answers.
#[derive(Default)]
pub(super) struct ReviewCache(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    by_key: HashMap<ReviewKey, Answer>,
    /// Keys by the time of their last use.
    by_use: BTreeMap<u64, ReviewKey>,
    /// Time of the last use.
    clock: u64,
}

struct Answer {
    status: ReviewStatus,
    until: Instant,
    used: u64,
}

impl ReviewCache {
    /// Returns the answer, if it is still valid.
    pub(super) fn get(&self, key: &ReviewKey) -> Option<ReviewStatus> {
        let mut answers = self.0.lock();
        if answers.by_key.get(key)?.until <= Instant::now() {
            answers.remove(key);
            return None;
        }
        answers.touch(key);
        answers.by_key.get(key).map(|answer| answer.status.clone())
    }

    /// Keeps an answer for `ttl`. If there is no room, the least recently used one is removed.
    pub(super) fn insert(&self, key: ReviewKey, status: ReviewStatus, ttl: Duration) {
        let until = Instant::now().checked_add(ttl);
        let Some(until) = until.filter(|_| !ttl.is_zero() && status.text_bytes() <= MAX_TEXT_BYTES) else {
            return;
        };
        let mut answers = self.0.lock();
        answers.remove(&key);
        if answers.by_key.len() >= MAX_ANSWERS
            && let Some((_, oldest)) = answers.by_use.pop_first()
        {
            answers.by_key.remove(&oldest);
        }
        let answer = Answer { status, until, used: 0 };
        answers.by_key.insert(key, answer);
        answers.touch(&key);
    }
}

impl Answers {
    /// Makes an answer the most recently used one.
    fn touch(&mut self, key: &ReviewKey) {
        let Some(answer) = self.by_key.get_mut(key) else { return };
        self.clock += 1;
        self.by_use.remove(&answer.used);
        answer.used = self.clock;
        self.by_use.insert(self.clock, *key);
    }

    fn remove(&mut self, key: &ReviewKey) {
        if let Some(answer) = self.by_key.remove(key) {
            self.by_use.remove(&answer.used);
        }
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
        let answers = cache.0.lock();
        assert_eq!((answers.by_key.len(), answers.by_use.len()), (MAX_ANSWERS, MAX_ANSWERS));
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
        assert!(cache.0.lock().by_key.is_empty());
    }
}
