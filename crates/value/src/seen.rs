//! Sets of values that detect repetitions.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use crate::tree::Value;

// Numbers are finite, so each value equals itself.
impl Eq for Value {}

/// Hashes equal values equally: numbers hash by value, whatever their type.
impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Value::Null => state.write_u8(0),
            Value::Bool(flag) => state.write_u8(1 + u8::from(*flag)),
            Value::Int(number) => hash_number(*number as f64, state),
            Value::UInt(number) => hash_number(*number as f64, state),
            Value::Float(number) => hash_number(*number, state),
            Value::String(text) => text.hash(state),
            Value::List(list) => list[..].hash(state),
            Value::Map(map) => map[..].hash(state),
        }
    }
}

fn hash_number<H: Hasher>(number: f64, state: &mut H) {
    state.write_u8(3);
    // Adding zero turns -0.0 into 0.0.
    state.write_u64((number + 0.0).to_bits());
}

/// Set of values seen so far. A few are compared one by one, many are found by their hash.
///
/// ```
/// use holdfast_value::{SeenValues, Value};
///
/// let mut seen = SeenValues::new();
/// assert!(seen.insert(Value::Int(1)));
/// // Numbers are equal by value.
/// assert!(!seen.insert(Value::Float(1.0)));
/// ```
#[derive(Clone, Debug)]
pub struct SeenValues<T> {
    few: Vec<T>,
    many: HashSet<T>,
}

impl<T: Eq + Hash> SeenValues<T> {
    const FEW: usize = 16;

    /// Creates an empty set.
    pub fn new() -> Self {
        Self {
            few: Vec::new(),
            many: HashSet::new(),
        }
    }

    /// Adds a value; returns false if it was there before.
    pub fn insert(&mut self, met: T) -> bool {
        if !self.many.is_empty() {
            return self.many.insert(met);
        }
        if self.few.contains(&met) {
            return false;
        }
        self.few.push(met);
        if self.few.len() > Self::FEW {
            self.many.extend(self.few.drain(..));
        }
        true
    }

    /// True if the value was added before.
    pub fn contains(&self, wanted: &T) -> bool {
        self.few.contains(wanted) || self.many.contains(wanted)
    }

    /// True if no value was added.
    pub fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }
}

impl<T: Eq + Hash> Default for SeenValues<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Eq + Hash> FromIterator<T> for SeenValues<T> {
    fn from_iter<I: IntoIterator<Item = T>>(met: I) -> Self {
        let mut seen = Self::new();
        for one in met {
            seen.insert(one);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;
    use crate::json;
    use crate::limits::Limits;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn equal_values_have_one_hash() {
        let hasher = std::hash::RandomState::new();
        for (a, b) in [
            (r#"{"a":[1,0,null]}"#, r#"{"a":[1.0,-0.0,null]}"#),
            ("9223372036854775808", "9223372036854775808.0"),
            (r#""text""#, r#""text""#),
        ] {
            let (a, b) = (parse(a), parse(b));
            assert!(a == b && hasher.hash_one(&a) == hasher.hash_one(&b), "{a} {b}");
        }
        let different = [
            parse("null"),
            parse("[]"),
            parse("{}"),
            parse("0"),
            parse("false"),
            parse(r#""""#),
        ];
        assert!(different.iter().collect::<SeenValues<_>>().few.len() == different.len());
    }

    #[test]
    fn seen_finds_values_among_few_and_many() {
        for count in [3, 1000] {
            let values: Vec<Value> = (0..count).map(Value::from).collect();
            let mut seen = SeenValues::new();
            assert!(seen.is_empty());
            assert!(values.iter().all(|value| seen.insert(value)), "{count}");
            assert!(values.iter().all(|value| !seen.insert(value) && seen.contains(&value)));
            assert!(!seen.contains(&&Value::Int(-1)) && seen.contains(&&Value::Float(1.0)));
        }
    }
}
