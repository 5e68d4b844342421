//! How much trees may grow. What a client sends is small; what defaults, copies and expressions make of it need not be,
//! and shared subtrees hide it until the tree is written.

use crate::{Error, Value, json};

/// How many bytes of JSON a tree may still come to, without what escapes add: looking for them in every text of every object
/// would cost more than it is worth. A step that adds to a tree draws from this before it adds.
#[derive(Clone, Debug)]
pub struct Growth {
    left: usize,
    limit: usize,
}

impl Growth {
    /// The most bytes of JSON that any step may make of an object: several times the largest request, so that steps which
    /// follow can take away again what one has added.
    pub const OBJECT: usize = 8 << 20;

    /// Room for `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { left: limit, limit }
    }

    /// How many bytes there is still room for.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Draws as many bytes.
    ///
    /// # Errors
    /// [`Error::Overgrown`] where there is no room for them.
    pub fn draw(&mut self, bytes: usize) -> Result<(), Error> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or(Error::Overgrown { limit: self.limit })?;
        Ok(())
    }

    /// Draws the bytes that `value` takes. Looks at no more of it than there is room for.
    ///
    /// # Errors
    /// [`Error::Overgrown`] where there is no room for them.
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
                    bytes += json::string_length(key) + 1;
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

    /// Draws the bytes that an entry of a map takes, without the comma.
    ///
    /// # Errors
    /// [`Error::Overgrown`] where there is no room for them.
    pub fn draw_entry(&mut self, key: &str, value: &Value) -> Result<(), Error> {
        self.draw(json::string_length(key) + 1)?;
        self.draw_value(value)
    }
}

/// How many bytes of JSON a value takes that is neither a list nor a map.
#[inline]
fn scalar_length(value: &Value) -> Option<usize> {
    match value {
        Value::Null => Some("null".len()),
        Value::Bool(flag) => Some(if *flag { "true" } else { "false" }.len()),
        Value::String(text) => Some(json::string_length(text)),
        Value::List(_) | Value::Map(_) => None,
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => Some(json::number_length(value)),
    }
}

impl Default for Growth {
    /// Room for [`Growth::OBJECT`] bytes.
    fn default() -> Self {
        Self::new(Self::OBJECT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn a_tree_takes_the_bytes_of_its_json() {
        for text in [
            "null",
            "[]",
            "{}",
            r#"[1,-20,1.5,1e300,18446744073709551615,true,false,null]"#,
            r#"{"a":{"b":["c",{}]},"d":"é\ufffd","â":""}"#,
        ] {
            let value = json::parse(text.as_bytes(), &Limits::default()).unwrap();
            let length = json::to_vec(&value).len();
            assert_eq!(json::length(&value), length);
            assert_eq!(Growth::new(length).draw_value(&value), Ok(()), "{text}");
            let limit = length - 1;
            assert_eq!(Growth::new(limit).draw_value(&value), Err(Error::Overgrown { limit }));
        }
    }

    #[test]
    fn escapes_are_not_counted() {
        let value = Value::from("<\n\u{2028}");
        assert_eq!(Growth::new("<\n\u{2028}".len() + 2).draw_value(&value), Ok(()));
    }

    #[test]
    fn shared_subtrees_count_each_time() {
        let mut value = Value::from("x".repeat(1000));
        for _ in 0..40 {
            value = Value::from(vec![value.clone(), value]);
        }
        // Written out it would have 2^40 kilobytes.
        let limit = Growth::OBJECT;
        assert_eq!(Growth::default().draw_value(&value), Err(Error::Overgrown { limit }));
    }
}
