//! Index of keys in a small map: a tag of one byte distinguishes most keys, and eight tags are compared at once.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::tree::Entry;
use smol_str::SmolStr;

/// Number of tags in a word.
const LANES: usize = u64::BITS as usize / 8;
/// Number of entries up to which a linear search is faster.
const MAX_LINEAR_ENTRIES: usize = 4;

const LOWEST_BITS: u64 = u64::MAX / 0xFF;
const HIGHEST_BITS: u64 = LOWEST_BITS << 7;

/// Tags of up to [`Tags::MAX_KEYS`] keys in their order. A word of them is computed at the first lookup and is zero
/// until then; a tag is never zero.
#[derive(Default)]
pub(crate) struct Tags([AtomicU64; 2]);

impl Tags {
    /// Maximum number of keys with tags.
    pub(crate) const MAX_KEYS: usize = 2 * LANES;

    /// Returns the index of `key` among at most [`Tags::MAX_KEYS`] entries. The caller always passes the same entries.
    #[inline]
    pub(crate) fn find(&self, entries: &[Entry], key: &str) -> Option<usize> {
        if entries.len() <= MAX_LINEAR_ENTRIES {
            return entries.iter().position(|(name, _)| name == key);
        }
        let wanted = LOWEST_BITS * u64::from(tag(key));
        let [first, second] = &self.0;
        match entries.split_at_checked(LANES) {
            None => find_in(first, entries, key, wanted),
            Some((begin, end)) => find_in(first, begin, key, wanted)
                .or_else(|| find_in(second, end, key, wanted).map(|lane| LANES + lane)),
        }
    }
}

/// Returns the index of `key` among the entries of one word of tags. All lanes of `wanted` hold the key's tag.
#[inline]
fn find_in(tags: &AtomicU64, entries: &[Entry], key: &str, wanted: u64) -> Option<usize> {
    let mut word = tags.load(Ordering::Relaxed);
    if word == 0 {
        word = word_of(entries);
        tags.store(word, Ordering::Relaxed);
    }
    // The highest bit of each equal lane, and of some lanes that differ.
    let differing = word ^ wanted;
    let mut alike = differing.wrapping_sub(LOWEST_BITS) & !differing & HIGHEST_BITS;
    while alike != 0 {
        let lane = alike.trailing_zeros() as usize / 8;
        if entries.get(lane).is_some_and(|(name, _)| name == key) {
            return Some(lane);
        }
        alike &= alike - 1;
    }
    None
}

impl Clone for Tags {
    fn clone(&self) -> Self {
        let [one, other] = &self.0;
        Self([one, other].map(|word| word.load(Ordering::Relaxed).into()))
    }
}

#[cold]
fn word_of(entries: &[Entry]) -> u64 {
    let tag_of = |(name, _): &(SmolStr, _)| u64::from(tag(name));
    entries.iter().rev().fold(0, |word, entry| word << 8 | tag_of(entry))
}

/// Returns a hash of the name that few names share, with its highest bit set.
#[inline]
fn tag(name: &str) -> u8 {
    let bytes = name.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return 0x80;
    };
    (first.wrapping_mul(3) ^ last.wrapping_mul(5)).wrapping_add(bytes.len() as u8) | 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Value;

    #[test]
    fn find_returns_index_of_each_key() {
        // Names with the same tag, names sorted between them, and the empty name.
        let names = ["", "a", "aba", "aca", "ada", "b", "m", "name", "nope", "note", "x"];
        for count in 0..=names.len() {
            let entries: Vec<Entry> = (names.iter().take(count))
                .map(|name| (SmolStr::new(name), Value::Null))
                .collect();
            let tags = Tags::default();
            for _ in 0..2 {
                for (at, name) in names.iter().enumerate() {
                    assert_eq!(
                        tags.find(&entries, name),
                        (at < count).then_some(at),
                        "{name} of {count}"
                    );
                }
                assert_eq!(tags.find(&entries, "aea"), None);
            }
            assert_eq!(tags.clone().find(&entries, "aca"), (count > 3).then_some(3));
        }
    }
}
