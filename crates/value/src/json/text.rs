//! JSON objects that keep the text they were read from.

use std::any::Any;

use super::{html_safe, is_compact, parse, to_string};
use crate::limits::Limits;
use crate::tree::{Entry, Map, Source, Value};

/// Text of a JSON object, which [`write`](super::write) writes as it is.
struct ObjectText(Box<[u8]>);

impl Source for ObjectText {
    fn entries(&self) -> Vec<Entry> {
        match parse(&self.0, &Limits::TRUSTED) {
            Ok(Value::Map(map)) => map.into_entries(),
            _ => Vec::new(),
        }
    }

    fn length(&self) -> usize {
        self.0.len()
    }

    fn json(&self) -> Option<&[u8]> {
        Some(&self.0)
    }

    fn same(&self, other: &dyn Source) -> Option<bool> {
        let other = (other as &dyn Any).downcast_ref::<Self>()?;
        (self.0 == other.0).then_some(true)
    }
}

/// Returns `value`, which was read from `text`, so that it is written as `text` until it changes: with the same order of keys
/// and the same forms of numbers. A text with blanks or unescaped HTML characters is not kept, and neither is one of anything
/// but an object.
///
/// ```
/// use holdfast_value::{Limits, json};
///
/// let text = br#"{"b":1.0,"a":2}"#;
/// let value = json::parse(text, &Limits::TRUSTED).unwrap();
/// assert_eq!(json::to_string(&value), r#"{"a":2,"b":1}"#);
/// let kept = json::with_text(value.clone(), text);
/// assert_eq!(json::to_string(&kept).as_bytes(), text);
/// assert_eq!(kept, value);
/// ```
pub fn with_text(value: Value, text: &[u8]) -> Value {
    let is_object = matches!(&value, Value::Map(map) if !map.is_empty());
    let is_kept =
        is_object && is_compact(text) && to_string(&value).as_bytes() != text && html_safe(text.to_vec()) == text;
    match is_kept {
        true => Value::Map(Map::made_of(std::sync::Arc::new(ObjectText(text.into())))),
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        to_string(&with_text(
            parse(text.as_bytes(), &Limits::TRUSTED).unwrap(),
            text.as_bytes(),
        ))
    }

    #[test]
    fn compact_text_is_written_as_it_is() {
        for text in [
            r#"{"b":1,"a":[2.50,{"d":1,"c":1}]}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":"\u0041"}"#,
        ] {
            assert_eq!(written(text), text);
        }
        assert_eq!(written(r#"{"b": 1,"a":1}"#), r#"{"a":1,"b":1}"#);
        assert_eq!(written(r#"{"b":"<","a":1}"#), r#"{"a":1,"b":"\u003c"}"#);
        assert_eq!(written("[1.0]"), "[1]");
    }

    #[test]
    fn changed_object_is_written_as_a_tree() {
        let text = br#"{"b":1,"a":1}"#;
        let mut value = with_text(parse(text, &Limits::TRUSTED).unwrap(), text);
        value.set_at(&["b"], 2.into());
        assert_eq!(to_string(&value), r#"{"a":1,"b":2}"#);
    }
}
