//! Tables in which each thing is found again by a cheap hash.

use holdfast_value::Value;

use crate::PathElement;

/// Finds the numbers of things that were seen before. What is not found within a few steps counts as new, so that things
/// chosen to collide cost no time; they only take more room.
pub(super) struct Index {
    /// The numbers by hash, [`FREE`] where there is none. A power of two long.
    slots: Vec<u32>,
    /// The hashes of all things, by number.
    hashes: Vec<u32>,
}

const FREE: u32 = u32::MAX;

/// How many slots are looked at.
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
    /// The number of what has this hash and is the same, or `None`; then the next number is its own.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "a place is taken modulo the number of slots, and slots hold numbers of the table"
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
        reason = "a place is taken modulo the number of slots, and slots hold numbers of the table"
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

/// A hash of a text that looks at its length and at most sixteen of its bytes.
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

/// A hash of an element; equal elements have the same.
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
        // Numbers are equal across their types; adding zero makes one of both zeros.
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
