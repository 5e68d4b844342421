//! The sources of the time of day and of new identifiers.

use std::time::SystemTime;

use aws_lc_rs::rand;
use parking_lot::Mutex;
use uuid::Uuid;

pub use holdfast_writes::Identifiers;

/// A source of the time of day.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> SystemTime;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that others use")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The number of random bytes that are drawn at once: each request uses a uid, and most need no system call for it.
const DRAWN: usize = 1024;

/// The number of random bytes of a uid.
const UID: usize = 16;

/// A source of unpredictable identifiers.
#[derive(Default)]
pub struct RandomIdentifiers(Mutex<Vec<u8>>);

impl RandomIdentifiers {
    /// Returns bytes that no other caller receives.
    fn draw(&self) -> [u8; UID] {
        let mut drawn = self.0.lock();
        if drawn.len() < UID {
            drawn.resize(DRAWN, 0);
            if rand::fill(&mut drawn).is_err() {
                drawn.clear();
            }
        }
        match drawn.split_last_chunk() {
            Some((rest, bytes)) => {
                let (left, bytes) = (rest.len(), *bytes);
                drawn.truncate(left);
                bytes
            }
            None => Uuid::new_v4().into_bytes(),
        }
    }
}

impl Identifiers for RandomIdentifiers {
    fn uid(&self) -> String {
        let uuid = uuid::Builder::from_random_bytes(self.draw()).into_uuid();
        let mut text = Uuid::encode_buffer();
        uuid.hyphenated().encode_lower(&mut text).to_owned()
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
    fn name_suffix(&self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let random = self.draw();
        let letters = random.iter().take(5);
        letters
            .map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_name_suffix_is_five_letters_that_names_may_have() {
        let suffix = RandomIdentifiers::default().name_suffix();
        assert_eq!(suffix.len(), 5);
        assert!(
            suffix
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        );
    }

    #[test]
    fn uids_are_random_uuids_and_each_is_another() {
        let identifiers = RandomIdentifiers::default();
        let uids: HashSet<String> = (0..1000).map(|_| identifiers.uid()).collect();
        assert_eq!(uids.len(), 1000);
        assert!(uids.iter().all(|uid| {
            let parsed = Uuid::parse_str(uid).unwrap();
            parsed.get_version_num() == 4 && parsed.hyphenated().to_string() == *uid
        }));
    }
}
