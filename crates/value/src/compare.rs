//! Equality and order of values as structured merge defines them. Numbers compare by value, whatever their type;
//! numbers sort before strings, booleans, lists, maps and null.

use std::cmp::Ordering;

use crate::tree::{List, Map, Value};

impl Value {
    /// Compares two values in the total order: numbers, strings, booleans (false first), lists, maps, null. Numbers are
    /// compared by value, lists item by item, maps entry by entry in key order; a prefix sorts first.
    pub fn compare(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::String(a), Value::String(b)) => a.as_str().cmp(b.as_str()),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) => compare_lists(a, b),
            (Value::Map(a), Value::Map(b)) => compare_maps(a, b),
            _ => match rank(self).cmp(&rank(other)) {
                Ordering::Equal => compare_numbers(self, other),
                unequal => unequal,
            },
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => a == b,
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Map(a), Value::Map(b)) => a == b,
            _ => rank(self) == 0 && rank(other) == 0 && compare_numbers(self, other).is_eq(),
        }
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || self[..] == other[..]
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        if self.same(other) {
            return true;
        }
        let sources = self.source().zip(other.source());
        let same = sources.and_then(|(one, other)| one.same(other));
        same.unwrap_or_else(|| self[..] == other[..])
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::List(_) => 3,
        Value::Map(_) => 4,
        Value::Null => 5,
    }
}

/// Compares two numbers; any other values count as equal.
fn compare_numbers(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::UInt(a), Value::UInt(b)) => a.cmp(b),
        (Value::Int(_), Value::UInt(_)) => Ordering::Less,
        (Value::UInt(_), Value::Int(_)) => Ordering::Greater,
        (Value::Int(_) | Value::UInt(_) | Value::Float(_), Value::Int(_) | Value::UInt(_) | Value::Float(_)) => {
            as_float(a).total_cmp(&as_float(b))
        }
        _ => Ordering::Equal,
    }
}

fn as_float(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::UInt(number) => *number as f64,
        // Adding zero turns -0.0 into 0.0, so that both compare equal.
        Value::Float(number) => *number + 0.0,
        _ => 0.0,
    }
}

fn compare_lists(a: &List, b: &List) -> Ordering {
    if a.same(b) {
        return Ordering::Equal;
    }
    a.iter()
        .zip(b.iter())
        .map(|(a, b)| a.compare(b))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn compare_maps(a: &Map, b: &Map) -> Ordering {
    if a.same(b) {
        return Ordering::Equal;
    }
    a.iter()
        .zip(b.iter())
        .map(|((a_key, a), (b_key, b))| a_key.as_str().cmp(b_key.as_str()).then_with(|| a.compare(b)))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}
