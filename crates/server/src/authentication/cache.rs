//! Answers about tokens that are remembered for some time. The tokens themselves are not kept.

use std::collections::HashMap;
use std::time::Duration;

use holdfast_resource::access::{TokenError, TokenUser};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Answer about a token.
pub(super) type Outcome = Result<TokenUser, TokenError>;

/// Maximum number of answers.
const MAX_ANSWERS: usize = 4096;

/// Hash of a token and the requested audiences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenKey([u8; 32]);

impl TokenKey {
    pub(super) fn new(token: &str, audiences: &[&str]) -> Self {
        let mut hash = Sha256::new();
        // With their lengths, no two lists of texts look the same.
        for text in [token].iter().chain(audiences) {
            hash.update(text.len().to_be_bytes());
            hash.update(text);
        }
        Self(hash.finalize().into())
    }

    /// Returns a number from 0 to 1 that depends on the token.
    pub(super) fn fraction(&self) -> f64 {
        let [first, ..] = self.0;
        f64::from(first) / 255.0
    }
}

/// Cache of answers.
pub(super) struct TokenCache {
    answers: Mutex<HashMap<TokenKey, (Instant, Outcome)>>,
    ttl: Duration,
}

impl TokenCache {
    /// Creates a cache that keeps answers for `ttl`; for zero it keeps none.
    pub(super) fn new(ttl: Duration) -> Self {
        Self {
            answers: Mutex::default(),
            ttl,
        }
    }

    /// Returns the answer, if it is still valid.
    pub(super) fn get(&self, key: &TokenKey) -> Option<Outcome> {
        let answers = self.answers.lock();
        let (until, outcome) = answers.get(key)?;
        (Instant::now() < *until).then(|| outcome.clone())
    }

    /// Keeps an answer. If there is no room, it replaces any other one.
    pub(super) fn insert(&self, key: TokenKey, outcome: &Outcome) {
        if self.ttl.is_zero() {
            return;
        }
        let (now, mut answers) = (Instant::now(), self.answers.lock());
        if answers.len() >= MAX_ANSWERS {
            answers.retain(|_, (until, _)| now < *until);
        }
        if answers.len() >= MAX_ANSWERS
            && let Some(other) = answers.keys().next().copied()
        {
            answers.remove(&other);
        }
        answers.insert(key, (now + self.ttl, outcome.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_expire_and_are_bounded() {
        let key = |at: usize| TokenKey::new(&at.to_string(), &[]);
        let cache = TokenCache::new(Duration::from_secs(60));
        for at in 0..=MAX_ANSWERS {
            cache.insert(key(at), &Err(TokenError::Unknown));
        }
        assert_eq!(cache.answers.lock().len(), MAX_ANSWERS);
        assert_eq!(cache.get(&key(MAX_ANSWERS)), Some(Err(TokenError::Unknown)));
        let short = TokenCache::new(Duration::from_nanos(1));
        short.insert(key(0), &Err(TokenError::Unknown));
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(short.get(&key(0)), None);
        let none = TokenCache::new(Duration::ZERO);
        none.insert(key(0), &Err(TokenError::Unknown));
        assert!(none.answers.lock().is_empty());
    }

    #[test]
    fn audiences_are_part_of_the_key() {
        assert_ne!(TokenKey::new("ab", &[]), TokenKey::new("a", &["b"]));
        assert_ne!(TokenKey::new("a", &["b", "c"]), TokenKey::new("a", &["bc"]));
        assert_eq!(TokenKey::new("a", &["b"]), TokenKey::new("a", &["b"]));
    }
}
