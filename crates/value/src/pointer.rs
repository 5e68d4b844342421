//! JSON pointers ([RFC 6901](https://www.rfc-editor.org/rfc/rfc6901)).

use std::borrow::Cow;
use std::fmt;

use crate::error::Error;
use crate::tree::Value;
use smol_str::SmolStr;

/// Path in a tree: keys of maps and indices of lists, from the root.
///
/// ```
/// use holdfast_value::{Limits, Value, json, pointer::Pointer};
///
/// let mut value = json::parse(br#"{"ports": [80, 443]}"#, &Limits::REQUEST)?;
/// let second = Pointer::parse("/ports/1")?;
/// *second.get_mut(&mut value).unwrap() = Value::Int(8443);
/// assert_eq!(value.to_string(), r#"{"ports":[80,8443]}"#);
/// assert!(Pointer::parse("ports").is_err());
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pointer {
    tokens: Vec<SmolStr>,
}

impl Pointer {
    /// Parses the text form: empty for the root, otherwise each token with a leading slash.
    ///
    /// # Errors
    /// Returns [`Error::Pointer`] if the text does not begin with a slash, or has a `~` that is not followed by `0` or
    /// `1`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let invalid = || Error::Pointer(text.to_owned());
        if text.is_empty() {
            return Ok(Self::default());
        }
        let is_valid = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        let tokens = text.strip_prefix('/').filter(|_| is_valid).ok_or_else(invalid)?;
        Ok(Self {
            tokens: tokens.split('/').map(|token| SmolStr::from(unescape(token))).collect(),
        })
    }

    /// Returns the keys and indices from the root.
    pub fn tokens(&self) -> &[SmolStr] {
        &self.tokens
    }

    /// Returns the value at this path, if there is one.
    ///
    /// ```
    /// use holdfast_value::{Limits, Value, json, pointer::Pointer};
    ///
    /// let value = json::parse(br#"{"a/b": [7]}"#, &Limits::REQUEST)?;
    /// assert_eq!(Pointer::parse("/a~1b/0")?.get(&value), Some(&Value::Int(7)));
    /// # Ok::<(), holdfast_value::Error>(())
    /// ```
    pub fn get<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.tokens.iter().try_fold(value, |node, token| match node {
            Value::Map(map) => map.get(token),
            Value::List(items) => items.get(index(token)?),
            _ => None,
        })
    }

    /// Returns the value at this path for modification; copies shared lists and maps on the way.
    pub fn get_mut<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        // The check comes first so that shared trees stay shared if there is no such value.
        self.get(value)?;
        self.tokens.iter().try_fold(value, |node, token| match node {
            Value::Map(map) => map.get_mut(token),
            Value::List(items) => items.make_mut().get_mut(index(token)?),
            _ => None,
        })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tokens.iter().try_for_each(|token| write!(f, "/{}", escape(token)))
    }
}

/// Escapes a key as a token of a pointer's text: `~` and `/` become `~0` and `~1`.
///
/// ```
/// assert_eq!(holdfast_value::pointer::escape("a/b~c"), "a~1b~0c");
/// ```
pub fn escape(token: &str) -> Cow<'_, str> {
    match token.contains(['~', '/']) {
        true => Cow::Owned(token.replace('~', "~0").replace('/', "~1")),
        false => Cow::Borrowed(token),
    }
}

/// Decodes a token of a pointer's text into a key. A `~` that does not begin an escape is kept.
pub(crate) fn unescape(token: &str) -> Cow<'_, str> {
    match token.contains('~') {
        true => Cow::Owned(token.replace("~1", "/").replace("~0", "~")),
        false => Cow::Borrowed(token),
    }
}

/// Parses an index: digits without a leading zero.
fn index(token: &str) -> Option<usize> {
    let is_index = token == "0" || (!token.starts_with('0') && token.bytes().all(|byte| byte.is_ascii_digit()));
    is_index.then(|| token.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::limits::Limits;

    #[test]
    fn pointers_lead_through_maps_and_lists() {
        let text = r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"m~n":8,"~1":9}"#;
        let value = json::parse(text.as_bytes(), &Limits::default()).unwrap();
        let cases = [
            ("", Some(text_of(&value))),
            ("/foo/0", Some(r#""bar""#.to_owned())),
            ("/", Some("0".to_owned())),
            ("/a~1b", Some("1".to_owned())),
            ("/c%d", Some("2".to_owned())),
            ("/m~0n", Some("8".to_owned())),
            ("/~01", Some("9".to_owned())),
            ("/foo/2", None),
            ("/foo/01", None),
            ("/foo/-", None),
            ("/foo/0/x", None),
        ];
        for (pointer, expected) in cases {
            let pointer = Pointer::parse(pointer).unwrap();
            assert_eq!(pointer.get(&value).map(text_of), expected, "{pointer}");
            assert_eq!(
                pointer.get_mut(&mut value.clone()).map(|found| text_of(found)),
                expected
            );
        }
    }

    fn text_of(value: &Value) -> String {
        value.to_string()
    }

    #[test]
    fn text_forms_are_read_and_written() {
        for text in ["", "/", "/a~1b/~01/0"] {
            assert_eq!(Pointer::parse(text).unwrap().to_string(), text);
        }
        for text in ["a", "/~", "/~2", "a/b"] {
            assert_eq!(Pointer::parse(text), Err(Error::Pointer(text.to_owned())));
        }
    }

    #[test]
    fn a_change_leaves_shared_trees_alone() {
        let original = json::parse(br#"{"a":[{"b":1}],"c":{}}"#, &Limits::default()).unwrap();
        let mut changed = original.clone();
        *Pointer::parse("/a/0/b").unwrap().get_mut(&mut changed).unwrap() = Value::from(2_i64);
        assert_eq!(original.to_string(), r#"{"a":[{"b":1}],"c":{}}"#);
        assert_eq!(changed.to_string(), r#"{"a":[{"b":2}],"c":{}}"#);
    }
}
