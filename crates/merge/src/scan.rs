//! Small JSON scanner for field sets and the values within their elements. It reads strings that contain JSON without
//! building a tree of the surrounding text.

use std::borrow::Cow;

use holdfast_value::{List, Map, SmolStr, Value};
use memchr::{memchr, memchr2};
use smallvec::SmallVec;

/// Maximum nesting of a field set or of a value within an element.
pub(crate) const MAX_DEPTH: usize = 512;

/// Syntax error with its byte offset.
///
/// ```
/// use holdfast_merge::{FieldsError, Set};
///
/// let Err(FieldsError::Json(error)) = Set::from_fields_v1(b"{") else { panic!("it is not JSON") };
/// assert_eq!(error.at, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct ScanError {
    /// Description of the error.
    pub what: &'static str,
    /// Byte offset from 0.
    pub at: usize,
}

/// Members of an object. Few objects within elements have more than two.
pub(crate) type Members = SmallVec<[(SmolStr, Value); 2]>;

pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// String as written between its quotes.
pub(crate) struct RawString<'a> {
    pub(crate) text: &'a str,
    /// True if the string has escapes.
    escapes: bool,
}

impl<'a> RawString<'a> {
    /// Returns the string with its escapes decoded.
    #[expect(clippy::indexing_slicing, reason = "the offset never exceeds the length of the text")]
    pub(crate) fn unescaped(&self) -> Result<Cow<'a, str>, ScanError> {
        if !self.escapes {
            return Ok(Cow::Borrowed(self.text));
        }
        let mut unescaped = String::with_capacity(self.text.len());
        let mut scanner = Scanner::new(self.text);
        while let Some(length) = memchr(b'\\', &scanner.bytes()[scanner.at..]) {
            let escape = scanner.at + length;
            unescaped.push_str(self.text.get(scanner.at..escape).unwrap_or_default());
            scanner.at = escape + 1;
            unescaped.push(scanner.escape()?);
        }
        unescaped.push_str(self.text.get(scanner.at..).unwrap_or_default());
        Ok(Cow::Owned(unescaped))
    }
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    pub(crate) fn error<T>(&self, what: &'static str) -> Result<T, ScanError> {
        Err(ScanError { what, at: self.at })
    }

    /// Returns the next byte that is not white space without consuming it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes().get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Consumes `byte` if it is next.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    /// Consumes and returns the text before the next of these ASCII bytes, or up to the end.
    pub(crate) fn until(&mut self, stops: &[u8]) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest
            .bytes()
            .position(|byte| stops.contains(&byte))
            .unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    /// Returns the text that is not consumed yet.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Consumes a word such as `null`.
    #[expect(clippy::indexing_slicing, reason = "the offset never exceeds the length of the text")]
    pub(crate) fn word(&mut self, word: &'static str) -> Result<(), ScanError> {
        if self.bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        self.error("expected null, true or false")
    }

    /// Rejects anything but white space up to the end.
    pub(crate) fn end(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.error("unexpected trailing data"),
        }
    }

    /// Reads a text that consists of one value.
    pub(crate) fn only_value(mut self) -> Result<Value, ScanError> {
        let value = self.value(0)?;
        self.end()?;
        Ok(value)
    }

    /// Reads a text that consists of one object, or null for an empty one. Repeated names are kept.
    pub(crate) fn only_members(mut self) -> Result<Members, ScanError> {
        let members = match self.peek() {
            Some(b'{') => self.members(0)?,
            Some(b'n') => self.word("null").map(|()| Members::new())?,
            _ => return self.error("expected an object"),
        };
        self.end()?;
        Ok(members)
    }

    /// Reads the next value. Numbers become floats.
    pub(crate) fn value(&mut self, depth: usize) -> Result<Value, ScanError> {
        if depth >= MAX_DEPTH {
            return self.error("too deeply nested");
        }
        match self.peek() {
            Some(b'"') => Ok(Value::String(SmolStr::from(self.string()?.unescaped()?))),
            Some(b'{') => Ok(Value::Map(Map::from_unsorted(self.members(depth + 1)?.into_vec()))),
            Some(b'[') => Ok(Value::List(List::from(self.items(depth + 1)?))),
            Some(b't') => self.word("true").map(|()| Value::Bool(true)),
            Some(b'f') => self.word("false").map(|()| Value::Bool(false)),
            Some(b'n') => self.word("null").map(|()| Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.error("expected a value"),
        }
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Value>, ScanError> {
        let mut items = Vec::new();
        self.at += 1;
        if self.take(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.value(depth)?);
            if self.take(b']') {
                return Ok(items);
            }
            if !self.take(b',') {
                return self.error("expected , or ]");
            }
        }
    }

    fn members(&mut self, depth: usize) -> Result<Members, ScanError> {
        let mut members = Members::new();
        self.at += 1;
        if self.take(b'}') {
            return Ok(members);
        }
        loop {
            let name = SmolStr::from(self.name()?.unescaped()?);
            members.push((name, self.value(depth)?));
            if self.take(b'}') {
                return Ok(members);
            }
            if !self.take(b',') {
                return self.error("expected , or }");
            }
        }
    }

    /// Reads a member's name, with its escapes, and the colon after it.
    pub(crate) fn name(&mut self) -> Result<RawString<'a>, ScanError> {
        if self.peek() != Some(b'"') {
            return self.error("expected a name in quotes");
        }
        let name = self.string()?;
        if !self.take(b':') {
            return self.error("expected :");
        }
        Ok(name)
    }

    /// Reads a string whose opening quote is next.
    #[expect(clippy::indexing_slicing, reason = "the offset never exceeds the length of the text")]
    fn string(&mut self) -> Result<RawString<'a>, ScanError> {
        let bytes = self.bytes();
        let start = self.at + 1;
        let mut end = start;
        let mut escapes = false;
        while let Some(length) = memchr2(b'"', b'\\', bytes.get(end..).unwrap_or_default()) {
            end += length;
            if bytes[end] == b'"' {
                self.at = end + 1;
                return Ok(RawString {
                    text: self.text.get(start..end).unwrap_or_default(),
                    escapes,
                });
            }
            escapes = true;
            end += 2;
        }
        self.at = bytes.len();
        self.error("unexpected end of a string")
    }

    /// Reads the rest of an escape after the backslash.
    fn escape(&mut self) -> Result<char, ScanError> {
        let Some(byte) = self.bytes().get(self.at) else {
            return self.error("unexpected end of a string");
        };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(*byte),
            b'b' => '\u{08}',
            b'f' => '\u{0C}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => self.unicode_escape()?,
            _ => return self.error("unknown escape"),
        })
    }

    /// Reads the digits of `\u`, and those of a second escape if both form a surrogate pair. An unpaired surrogate
    /// becomes U+FFFD.
    #[expect(clippy::indexing_slicing, reason = "the offset never exceeds the length of the text")]
    fn unicode_escape(&mut self) -> Result<char, ScanError> {
        let first = self.four_digits()?;
        if !(0xD800..0xDC00).contains(&first) || !self.bytes()[self.at..].starts_with(b"\\u") {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after_first = self.at;
        self.at += 2;
        let second = self.four_digits()?;
        if (0xDC00..0xE000).contains(&second) {
            let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.at = after_first;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_digits(&mut self) -> Result<u32, ScanError> {
        let digits = self.text.get(self.at..self.at + 4);
        let code = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.error("expected four hexadecimal digits"),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the offset never exceeds the length of the text")]
    fn number(&mut self) -> Result<Value, ScanError> {
        let rest = &self.bytes()[self.at..];
        let length = rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            .unwrap_or(rest.len());
        let token = &rest[..length];
        if !is_number(token) {
            return self.error("malformed number");
        }
        // Ports and counts are exact, well below the precision of a float.
        let number = if token.len() <= 9 && token.iter().all(u8::is_ascii_digit) {
            Some(
                token
                    .iter()
                    .fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'))
                    .into(),
            )
        } else {
            self.text
                .get(self.at..self.at + length)
                .and_then(|token| token.parse::<f64>().ok())
        };
        match number {
            Some(number) if number.is_finite() => {
                self.at += length;
                Ok(Value::Float(number))
            }
            _ => self.error("number out of range"),
        }
    }
}

/// True if a token is a number in JSON's grammar.
#[expect(clippy::indexing_slicing, reason = "no more is removed than was counted")]
fn is_number(token: &[u8]) -> bool {
    fn digits(text: &[u8]) -> usize {
        text.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }
    let mut rest = token.strip_prefix(b"-").unwrap_or(token);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = match exponent {
            [b'+' | b'-', unsigned @ ..] => unsigned,
            unsigned => unsigned,
        };
        let length = digits(exponent);
        return length > 0 && length == exponent.len();
    }
    rest.is_empty()
}
