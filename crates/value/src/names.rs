//! Search index over names that rarely change.

use std::cmp::Ordering;

/// Sorted index of names: the first eight bytes of each, which distinguish nearly all of them. The owner keeps the
/// names themselves.
///
/// ```
/// use holdfast_value::Names;
///
/// let sorted = ["image", "name", "ports"];
/// let names = Names::from_sorted(sorted.into_iter());
/// let position = |name: &str| names.position(0, name, |at| sorted.get(at).copied());
/// assert_eq!(position("name"), Ok(1));
/// assert_eq!(position("kind"), Err(1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Names {
    prefixes: Box<[u64]>,
    /// Hash table from a prefix to the index of its first name, or [`NONE`]. A prefix without a slot is found by
    /// searching.
    slots: Box<[u16]>,
}

/// Content of an empty slot.
const NONE: u16 = u16::MAX;

/// Number of slots that a prefix may occupy.
const PROBES: usize = 16;

/// Number of names compared one by one before the binary search: lookups mostly follow the order of the names, so the
/// next one is near.
const NEAR: usize = 4;

impl Names {
    /// Creates an index of names in the order of their UTF-8 bytes, each once.
    pub fn from_sorted<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut names = Self {
            prefixes: names.map(prefix).collect(),
            slots: Box::default(),
        };
        names.fill_slots();
        names
    }

    fn fill_slots(&mut self) {
        let count = self.prefixes.len();
        if count <= NEAR || count >= usize::from(NONE) {
            return;
        }
        self.slots = vec![NONE; (2 * count).next_power_of_two()].into();
        let mut last = None;
        for (at, prefix) in (0..).zip(&self.prefixes) {
            if last.replace(prefix) == Some(prefix) {
                continue;
            }
            let free = probes(*prefix, self.slots.len()).find(|slot| self.slots.get(*slot) == Some(&NONE));
            if let Some(slot) = free.and_then(|slot| self.slots.get_mut(slot)) {
                *slot = at;
            }
        }
    }

    /// Returns the index of `name` at or after `from`, or the index to insert it as an error. `name_at` returns the
    /// name at an index.
    #[inline]
    pub fn position<'a>(
        &self,
        from: usize,
        name: &str,
        name_at: impl Fn(usize) -> Option<&'a str>,
    ) -> Result<usize, usize> {
        let prefix = prefix(name);
        if let Some(first) = self.first_of(prefix) {
            let mut at = first.max(from);
            while self.prefixes.get(at) == Some(&prefix) {
                if name_at(at).is_some_and(|other| is_same_behind_prefix(other, name)) {
                    return Ok(at);
                }
                at += 1;
            }
        }
        self.search(from, prefix, name, &name_at)
    }

    /// Returns the index of the first name with this prefix if it has a slot.
    #[inline]
    fn first_of(&self, prefix: u64) -> Option<usize> {
        for slot in probes(prefix, self.slots.len()) {
            let at = usize::from(*self.slots.get(slot)?);
            // No name has the index `NONE`.
            if *self.prefixes.get(at)? == prefix {
                return Some(at);
            }
        }
        None
    }

    fn search<'a>(
        &self,
        from: usize,
        prefix: u64,
        name: &str,
        name_at: &impl Fn(usize) -> Option<&'a str>,
    ) -> Result<usize, usize> {
        let rest = self.prefixes.get(from..).unwrap_or_default();
        let (near, far) = rest.split_at_checked(NEAR).unwrap_or((rest, &[]));
        let skipped = match near.iter().position(|other| *other >= prefix) {
            Some(skipped) => skipped,
            None => near.len() + far.partition_point(|other| *other < prefix),
        };
        let mut at = from + skipped;
        while self.prefixes.get(at) == Some(&prefix) {
            match name_at(at).map(|other| other.cmp(name)) {
                Some(Ordering::Less) => at += 1,
                Some(Ordering::Equal) => return Ok(at),
                Some(Ordering::Greater) | None => break,
            }
        }
        Err(at)
    }
}

/// Returns the candidate slots of a prefix. `slots` is a power of two. There are few candidates, so that names chosen
/// to collide do not slow down lookups.
#[inline]
fn probes(prefix: u64, slots: usize) -> impl Iterator<Item = usize> {
    let first = (prefix.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
    (0..PROBES).map(move |step| first.wrapping_add(step) & slots.wrapping_sub(1))
}

/// True if two names with the same prefix are equal.
#[inline]
fn is_same_behind_prefix(name: &str, other: &str) -> bool {
    name.len() == other.len() && name.as_bytes().get(8..) == other.as_bytes().get(8..)
}

/// Returns the first eight bytes of a text as a number with the same order.
#[inline]
fn prefix(text: &str) -> u64 {
    let bytes = text.as_bytes();
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    // Fewer than eight bytes: a text of at least four bytes is made of its first four and last four bytes, which may
    // overlap.
    let free = 64 - 8 * bytes.len() as u32;
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << free;
    }
    let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    // The shift is below 64 except for an empty text, whose number is zero.
    number.checked_shl(free).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_from_any_position_before_them() {
        let names = [
            "",
            "a",
            "ab",
            "containerPort",
            "containers",
            "host",
            "hostAliases",
            "hostIP",
            "hostIPC",
            "hostNetwork",
            "z",
        ];
        let index = Names::from_sorted(names.iter().copied());
        for from in 0..=names.len() {
            for (at, name) in names.iter().enumerate() {
                let expected = if at >= from { Ok(at) } else { Err(from) };
                assert_eq!(
                    index.position(from, name, |at| names.get(at).copied()),
                    expected,
                    "{name} from {from}"
                );
            }
        }
    }

    #[test]
    fn a_name_that_is_missing_has_the_place_where_it_would_be() {
        let names = ["containers", "hostIP", "hostNetwork"];
        let index = Names::from_sorted(names.iter().copied());
        for (name, at) in [
            ("", 0),
            ("containerPort", 0),
            ("hostI", 1),
            ("hostIPC", 2),
            ("hostNetworks", 3),
            ("z", 3),
        ] {
            assert_eq!(index.position(0, name, |at| names.get(at).copied()), Err(at), "{name}");
        }
    }

    #[test]
    fn names_that_share_their_slots_are_found() {
        let all = (0..).map(|number| format!("{number:06}"));
        let names: Vec<String> = all
            .filter(|name| probes(prefix(name), 128).next() == Some(0))
            .take(3 * PROBES)
            .collect();
        let index = Names::from_sorted(names.iter().map(String::as_str));
        assert_eq!(index.slots.len(), 128);
        assert_eq!(index.slots.iter().filter(|slot| **slot != NONE).count(), PROBES);
        let name_at = |at: usize| names.get(at).map(String::as_str);
        for (at, name) in names.iter().enumerate() {
            assert_eq!(index.position(0, name, name_at), Ok(at));
        }
        assert_eq!(index.position(0, "x", name_at), Err(names.len()));
    }
}
