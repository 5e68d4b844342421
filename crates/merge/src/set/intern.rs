//! Interning tables that find equal entries by a cheap hash.

use holdfast_value::Value;

use crate::PathElement;

/// Hash index of entries seen before. An entry that is not found within a few steps counts as new: entries chosen to
/// collide cost memory, but no time.
pub(super) struct Index {
    /// Entry numbers by hash, [`FREE`] for an empty slot. The length is a power of two.
    slots: Vec<u32>,
    /// Hashes of all entries, by number.
    hashes: Vec<u32>,
}

const FREE: u32 = u32::MAX;

/// Maximum number of slots that are probed.
const STEPS: usize = 8;

impl Default for Index {
    fn default() -> Self {
        Self {
            slots: vec![FREE; 128],
            hashes: Vec::with_capacity(64),
        }
    }
}

impl Index {
    /// Returns the number of the equal entry with this hash, or `None`; then the entry gets the next number.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "an index is reduced modulo the number of slots, and slots hold numbers of the table"
    )]
    pub(super) fn find_or_add(&mut self, hash: u32, is_same: impl Fn(usize) -> bool) -> Option<u32> {
        if self.hashes.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mut free = None;
        for step in 0..STEPS {
            let at = self.slot(hash, step);
            match self.slots[at] {
                FREE => {
                    free = Some(at);
                    break;
                }
                number => {
                    if self.hashes[number as usize] == hash && is_same(number as usize) {
                        return Some(number);
                    }
                }
            }
        }
        let number = u32::try_from(self.hashes.len()).unwrap_or(FREE);
        self.hashes.push(hash);
        if let Some(at) = free {
            self.slots[at] = number;
        }
        None
    }

    fn slot(&self, hash: u32, step: usize) -> usize {
        (hash as usize + step) & (self.slots.len() - 1)
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "an index is reduced modulo the number of slots, and slots hold numbers of the table"
    )]
    fn grow(&mut self) {
        self.slots = vec![FREE; self.slots.len() * 4];
        for (number, hash) in self.hashes.iter().enumerate() {
            let free = (0..STEPS)
                .map(|step| self.slot(*hash, step))
                .find(|at| self.slots[*at] == FREE);
            if let (Some(at), Ok(number)) = (free, u32::try_from(number)) {
                self.slots[at] = number;
            }
        }
    }
}

/// Returns a hash of a text that depends on its length and at most sixteen of its bytes.
#[inline]
pub(super) fn hash_text(text: &[u8]) -> u32 {
    let word = match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        (Some(first), Some(last)) => u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(29),
        _ => match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
            }
            _ => text.iter().fold(0, |word, byte| (word << 8) | u64::from(*byte)),
        },
    };
    mix(word ^ (text.len() as u64).rotate_left(53))
}

/// Returns a hash of an element; equal elements have equal hashes.
#[inline]
pub(super) fn hash_element(element: &PathElement) -> u32 {
    match element {
        PathElement::Field(name) => hash_text(name.as_bytes()),
        PathElement::Key(key) => key
            .fields()
            .iter()
            .fold(1, |hash, (_, value)| hash.rotate_left(7) ^ hash_value(value)),
        PathElement::Value(value) => !hash_value(value),
        PathElement::Index(index) => mix(index.unsigned_abs()),
    }
}

fn hash_value(value: &Value) -> u32 {
    match value {
        Value::String(text) => hash_text(text.as_bytes()),
        Value::Bool(flag) => 2 + u32::from(*flag),
        // Numbers are equal across types; adding zero unifies both zeros.
        Value::Int(number) => mix((*number as f64 + 0.0).to_bits()),
        Value::UInt(number) => mix((*number as f64 + 0.0).to_bits()),
        Value::Float(number) => mix((number + 0.0).to_bits()),
        Value::Null | Value::List(_) | Value::Map(_) => 4,
    }
}

#[inline]
fn mix(word: u64) -> u32 {
    let mixed = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed >> 32) ^ (mixed >> 47)) as u32
}
