//! Where the time of day and new identifiers come from.

use std::time::SystemTime;

pub use holdfast_writes::Identifiers;

/// Where the time of day comes from.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> SystemTime;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// Identifiers that cannot be predicted.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIdentifiers;

impl Identifiers for RandomIdentifiers {
    fn uid(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
    fn name_suffix(&self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let random = uuid::Uuid::new_v4();
        // The first bytes of a UUID are random through and through.
        let letters = random.as_bytes()[..5].iter();
        letters
            .map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_suffix_is_five_letters_that_names_may_have() {
        let suffix = RandomIdentifiers.name_suffix();
        assert_eq!(suffix.len(), 5);
        assert!(
            suffix
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        );
        assert_ne!(RandomIdentifiers.uid(), RandomIdentifiers.uid());
    }
}
