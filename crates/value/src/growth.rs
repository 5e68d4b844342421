//! Limits on the growth of trees. A request body is small, but defaults, copies and expressions can make a large tree
//! of it, and shared subtrees hide the size until the tree is written.

use crate::error::Error;
use crate::number::write_float;
use crate::tree::Value;

/// Remaining number of JSON bytes that a tree may grow by. Escapes are not counted, because searching every text of
/// every object for them would cost too much. A step draws from this budget before it adds to a tree.
///
/// ```
/// use holdfast_value::{Growth, Value};
///
/// let mut growth = Growth::new(10);
/// growth.draw_value(&Value::from("text"))?;
/// assert_eq!(growth.left(), 4);
/// assert!(growth.draw(5).is_err());
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Growth {
    left: usize,
    limit: usize,
}

impl Growth {
    /// Maximum size of an object in JSON bytes after any step. It is several times the largest request, so that later
    /// steps can remove what an earlier one added.
    pub const OBJECT: usize = 8 << 20;

    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { left: limit, limit }
    }

    /// Returns the remaining bytes.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Draws `bytes` from the budget.
    ///
    /// # Errors
    /// Returns [`Error::Overgrown`] if the budget is too small.
    pub fn draw(&mut self, bytes: usize) -> Result<(), Error> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or(Error::Overgrown { limit: self.limit })?;
        Ok(())
    }

    /// Draws the JSON size of `value`. Visits no more of the value than the budget allows.
    ///
    /// # Errors
    /// Returns [`Error::Overgrown`] if the budget is too small.
    pub fn draw_value(&mut self, value: &Value) -> Result<(), Error> {
        match value {
            Value::List(list) => {
                // Brackets and commas.
                let mut bytes = list.len().max(1) + 1;
                for item in list {
                    match scalar_length(item) {
                        Some(length) => bytes += length,
                        None => self.draw_value(item)?,
                    }
                }
                self.draw(bytes)
            }
            Value::Map(map) => {
                if let Some(source) = map.source() {
                    return self.draw(source.length());
                }
                let mut bytes = map.len().max(1) + 1;
                for (key, value) in map {
                    bytes += string_length(key) + 1;
                    match scalar_length(value) {
                        Some(length) => bytes += length,
                        None => self.draw_value(value)?,
                    }
                }
                self.draw(bytes)
            }
            scalar => self.draw(scalar_length(scalar).unwrap_or_default()),
        }
    }

    /// Draws the JSON size of a map entry, without the comma.
    ///
    /// # Errors
    /// Returns [`Error::Overgrown`] if the budget is too small.
    pub fn draw_entry(&mut self, key: &str, value: &Value) -> Result<(), Error> {
        self.draw(string_length(key) + 1)?;
        self.draw_value(value)
    }
}

/// Returns the JSON size of a scalar, or `None` for a list or map.
#[inline]
fn scalar_length(value: &Value) -> Option<usize> {
    match value {
        Value::Null => Some("null".len()),
        Value::Bool(flag) => Some(if *flag { "true" } else { "false" }.len()),
        Value::String(text) => Some(string_length(text)),
        Value::List(_) | Value::Map(_) => None,
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => Some(number_length(value)),
    }
}

/// Returns the length of a string as [`json::write_string`](crate::json::write_string) writes it, in bytes, without escapes.
pub fn string_length(text: &str) -> usize {
    text.len() + 2
}

/// Returns the length of a number.
fn number_length(number: &Value) -> usize {
    match number {
        Value::Int(number) => usize::from(*number < 0) + digits(number.unsigned_abs()),
        Value::UInt(number) => digits(*number),
        Value::Float(number) => {
            let mut text = Vec::new();
            write_float(*number, &mut text);
            text.len()
        }
        _ => 0,
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or_default() as usize + 1
}

impl Default for Growth {
    /// Creates a budget of [`Growth::OBJECT`] bytes.
    fn default() -> Self {
        Self::new(Self::OBJECT)
    }
}
