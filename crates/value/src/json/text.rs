//! JSON objects that keep the text they were read from.

use std::any::Any;
use std::borrow::Cow;

use super::{Layout, parse, to_string, to_vec};
use crate::limits::Limits;
use crate::tree::{Entry, Map, Source, Value};

/// Text of a JSON object. [`write`](super::write) writes its compact form, in which characters are escaped as within
/// HTML.
struct ObjectText {
    text: Box<[u8]>,
    /// The compact form if it differs from the text.
    compact: Option<Box<[u8]>>,
}

impl Source for ObjectText {
    fn entries(&self) -> Vec<Entry> {
        match parse(&self.text, &Limits::TRUSTED) {
            Ok(Value::Map(map)) => map.into_entries(),
            _ => Vec::new(),
        }
    }

    fn length(&self) -> usize {
        self.text.len()
    }

    fn json(&self) -> Option<&[u8]> {
        Some(self.compact.as_deref().unwrap_or(&self.text))
    }

    fn text(&self) -> Option<&[u8]> {
        Some(&self.text)
    }

    fn same(&self, other: &dyn Source) -> Option<bool> {
        let other = (other as &dyn Any).downcast_ref::<Self>()?;
        (self.text == other.text).then_some(true)
    }
}

/// Returns `value`, which was read from `text`, so that it keeps the text until it changes. It is written in the compact
/// form of the text, with the same order of keys and the same forms of numbers; [`text_of`] returns the text itself. Only
/// the text of an object with members is kept.
///
/// ```
/// use holdfast_value::{Limits, json};
///
/// let text = br#"{"b": 1.0, "a": 2}"#;
/// let value = json::parse(text, &Limits::TRUSTED).unwrap();
/// assert_eq!(json::to_string(&value), r#"{"a":2,"b":1}"#);
/// let kept = json::with_text(value.clone(), text);
/// assert_eq!(json::to_string(&kept), r#"{"b":1.0,"a":2}"#);
/// assert_eq!(&*json::text_of(&kept), text);
/// assert_eq!(kept, value);
/// ```
pub fn with_text(value: Value, text: &[u8]) -> Value {
    let is_object = matches!(&value, Value::Map(map) if !map.is_empty());
    if !is_object {
        return value;
    }
    let (compact, _) = Layout::split(text);
    let has_layout = compact != text;
    let is_marshalled = !has_layout && to_string(&without_text(value.clone())).as_bytes() == text;
    match is_marshalled {
        true => without_text(value),
        false => Value::Map(Map::made_of(std::sync::Arc::new(ObjectText {
            text: text.into(),
            compact: has_layout.then(|| compact.into()),
        }))),
    }
}

/// Returns `value` without the text that [`with_text`] keeps.
pub fn without_text(value: Value) -> Value {
    match value {
        Value::Map(map) if map.source().is_some_and(|source| source.text().is_some()) => {
            Value::Map(map.iter().cloned().collect())
        }
        other => other,
    }
}

/// Returns the text that [`with_text`] keeps; without one, the JSON of the value.
pub fn text_of(value: &Value) -> Cow<'_, [u8]> {
    let source = value.as_map().and_then(Map::source);
    match source.and_then(Source::text) {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(to_vec(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> Value {
        with_text(parse(text.as_bytes(), &Limits::TRUSTED).unwrap(), text.as_bytes())
    }

    #[test]
    fn text_of_object_is_kept() {
        for (text, compact) in [
            (r#"{"b":1,"a":[2.50,{"d":1,"c":1}]}"#, None),
            (r#"{"a":1,"a":2}"#, None),
            (r#"{"a":"\u0041"}"#, None),
            (r#"{ "b": 1,"a":1 }"#, Some(r#"{"b":1,"a":1}"#)),
            (r#"{"b":"<","a":1}"#, Some(r#"{"b":"\u003c","a":1}"#)),
            (r#"{"a": 1}"#, Some(r#"{"a":1}"#)),
        ] {
            let kept = kept(text);
            assert_eq!(to_string(&kept), compact.unwrap_or(text));
            assert_eq!(&*text_of(&kept), text.as_bytes());
            assert_eq!(
                &*text_of(&without_text(kept.clone())),
                to_string(&parse(text.as_bytes(), &Limits::TRUSTED).unwrap()).as_bytes()
            );
            // A text can be replaced.
            assert_eq!(&*text_of(&with_text(kept, br#"{"x": 1}"#)), br#"{"x": 1}"#);
        }
        assert_eq!(&*text_of(&kept("[1.0]")), b"[1]");
        assert_eq!(&*text_of(&kept("{ }")), b"{}");
    }

    #[test]
    fn changed_object_is_written_as_a_tree() {
        let text = br#"{"b":1,"a":1}"#;
        let mut value = with_text(parse(text, &Limits::TRUSTED).unwrap(), text);
        value.set_at(&["b"], 2.into());
        assert_eq!(to_string(&value), r#"{"a":1,"b":2}"#);
    }
}
