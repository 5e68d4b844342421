//! Elements of a path, with their text in FieldsV1 and in messages.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use holdfast_gotext::number::general;
use holdfast_gotext::quote::quote;
use holdfast_value::{SmolStr, Value, json};

use crate::scan::{Members, ScanError, Scanner};

/// Element of a path into an object.
///
/// The order is that of the reference: fields, keys, values, indexes. Fields are compared by their UTF-8 bytes, keys
/// pair by pair, values by [`Value::compare`]; `1` and `1.0` are the same element.
///
/// ```
/// use holdfast_merge::PathElement;
///
/// assert_eq!(PathElement::field("spec").to_text(), "f:spec");
/// assert_eq!(PathElement::key([("port", 80)]).to_text(), r#"k:{"port":80}"#);
/// assert_eq!(PathElement::value("a").to_text(), r#"v:"a""#);
/// assert_eq!(PathElement::Index(3).to_text(), "i:3");
/// ```
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a struct or an entry of a map: `f:spec`.
    Field(SmolStr),
    /// An item of an associative list, identified by its key fields: `k:{"name":"a"}`.
    Key(Key),
    /// An item of a set, identified by its value: `v:"a"`.
    Value(Value),
    /// An item of a list by position: `i:0`.
    Index(i64),
}

/// Key fields that identify an item of an associative list, sorted by name. A clone shares them.
///
/// ```
/// use holdfast_merge::Key;
///
/// let key = Key::new(vec![("protocol".into(), "TCP".into()), ("port".into(), 80.into())]);
/// assert_eq!(key.fields()[0].0, "port");
/// ```
#[derive(Clone, Debug)]
pub struct Key(Arc<[(SmolStr, Value)]>);

/// Error of a text that is not a path element.
///
/// ```
/// use holdfast_merge::{PathElement, PathElementError};
///
/// assert!(matches!(PathElement::parse("x"), Err(PathElementError::TooShort(_))));
/// assert!(matches!(PathElement::parse("z:a"), Err(PathElementError::UnknownType)));
/// assert!(matches!(PathElement::parse("i:one"), Err(PathElementError::BadIndex(_))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathElementError {
    /// The text is shorter than a prefix.
    #[error("key must be 2 characters long: {0}")]
    TooShort(String),
    /// The second character is not a colon.
    #[error("missing colon: {0}")]
    MissingColon(String),
    /// The prefix is none of `f`, `k`, `v`, `i`. A reader of field sets ignores such elements.
    #[error("unknown path element type")]
    UnknownType,
    /// An index is not a number.
    #[error("index is not a number: {0}")]
    BadIndex(String),
    /// A key or value is not JSON, or a key is not a JSON object.
    #[error(transparent)]
    BadJson(#[from] ScanError),
}

impl Key {
    /// Creates a key from fields in any order.
    pub fn new(fields: Vec<(SmolStr, Value)>) -> Self {
        Self::from_members(fields.into())
    }

    pub(crate) fn from_members(mut fields: Members) -> Self {
        if !fields.is_sorted_by(|a, b| a.0 <= b.0) {
            fields.sort_by(|a, b| a.0.cmp(&b.0));
        }
        Self(fields.drain(..).collect())
    }

    /// Creates a key from one field.
    pub(crate) fn single(name: SmolStr, value: Value) -> Self {
        Self(Arc::new([(name, value)]))
    }

    /// Returns the fields, sorted by name.
    pub fn fields(&self) -> &[(SmolStr, Value)] {
        &self.0
    }

    fn compare(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        for ((a_name, a), (b_name, b)) in self.0.iter().zip(other.0.iter()) {
            let order = a_name.as_str().cmp(b_name.as_str()).then_with(|| a.compare(b));
            if order.is_ne() {
                return order;
            }
        }
        self.0.len().cmp(&other.0.len())
    }
}

impl PathElement {
    /// Creates the element of a field or map entry.
    pub fn field(name: impl Into<SmolStr>) -> Self {
        PathElement::Field(name.into())
    }

    /// Creates the element of an associative list's item.
    pub fn key<N: Into<SmolStr>, V: Into<Value>>(fields: impl IntoIterator<Item = (N, V)>) -> Self {
        PathElement::Key(Key::new(
            fields
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        ))
    }

    /// Creates the element of a set's item.
    pub fn value(item: impl Into<Value>) -> Self {
        PathElement::Value(item.into())
    }

    /// Parses the FieldsV1 form, such as `f:spec` or `k:{"name":"a"}`. Numbers are read as floats.
    ///
    /// ```
    /// use holdfast_merge::PathElement;
    ///
    /// let element = PathElement::parse(r#"k:{"name":"web"}"#)?;
    /// assert_eq!(element.to_string(), r#"[name="web"]"#);
    /// # Ok::<(), holdfast_merge::PathElementError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the text does not have this form.
    #[expect(clippy::indexing_slicing, reason = "the length is checked first")]
    pub fn parse(text: &str) -> Result<Self, PathElementError> {
        let bytes = text.as_bytes();
        if bytes.len() < 2 {
            return Err(PathElementError::TooShort(text.to_owned()));
        }
        if bytes[1] != b':' {
            return Err(PathElementError::MissingColon(text.to_owned()));
        }
        let kind = bytes[0];
        // A known prefix consists of two ASCII bytes.
        let rest = text.get(2..).unwrap_or_default();
        match kind {
            b'f' => Ok(PathElement::Field(SmolStr::new(rest))),
            b'k' => Ok(PathElement::Key(Key::from_members(Scanner::new(rest).only_members()?))),
            b'v' => Ok(PathElement::Value(Scanner::new(rest).only_value()?)),
            b'i' => match rest.parse() {
                Ok(index) => Ok(PathElement::Index(index)),
                Err(_) => Err(PathElementError::BadIndex(rest.to_owned())),
            },
            _ => Err(PathElementError::UnknownType),
        }
    }

    /// Returns the FieldsV1 form.
    pub fn to_text(&self) -> String {
        let mut out = Vec::new();
        self.write_text(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// Appends the FieldsV1 form.
    pub(crate) fn write_text(&self, out: &mut Vec<u8>) {
        match self {
            PathElement::Field(name) => {
                out.extend_from_slice(b"f:");
                out.extend_from_slice(name.as_bytes());
            }
            PathElement::Key(key) => {
                out.extend_from_slice(b"k:{");
                for (at, (name, value)) in key.fields().iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write_name(name, out);
                    out.push(b':');
                    write_value(value, out);
                }
                out.push(b'}');
            }
            PathElement::Value(value) => {
                out.extend_from_slice(b"v:");
                write_value(value, out);
            }
            PathElement::Index(index) => {
                out.extend_from_slice(b"i:");
                write_integer(*index, out);
            }
        }
    }

    /// Appends the FieldsV1 form, escaped for a JSON string.
    pub(crate) fn write_quoted(&self, out: &mut Vec<u8>) {
        match self {
            PathElement::Field(name) => {
                out.extend_from_slice(b"f:");
                write_escaped(name.as_bytes(), out);
            }
            PathElement::Key(key)
                if key
                    .fields()
                    .iter()
                    .all(|(name, value)| is_plain(name) && is_plain_value(value)) =>
            {
                out.extend_from_slice(b"k:{");
                for (at, (name, value)) in key.fields().iter().enumerate() {
                    out.extend_from_slice(if at > 0 { b",\\\"" } else { b"\\\"" });
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice(b"\\\":");
                    write_plain_value(value, out);
                }
                out.push(b'}');
            }
            PathElement::Value(value) if is_plain_value(value) => {
                out.extend_from_slice(b"v:");
                write_plain_value(value, out);
            }
            PathElement::Index(_) => self.write_text(out),
            PathElement::Key(_) | PathElement::Value(_) => {
                let mut text = Vec::with_capacity(64);
                self.write_text(&mut text);
                write_escaped(&text, out);
            }
        }
    }

    /// Returns the rank of the element kind in the order.
    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a.as_str().cmp(b.as_str()),
            (PathElement::Key(a), PathElement::Key(b)) => a.compare(b),
            (PathElement::Value(a), PathElement::Value(b)) => a.compare(b),
            (PathElement::Index(a), PathElement::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a == b,
            _ => self.cmp(other).is_eq(),
        }
    }
}

impl Eq for PathElement {}

/// Formats the element as in conflict messages: `.spec`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(out, ".{name}"),
            PathElement::Key(key) => {
                out.write_str("[")?;
                display_members(key.fields(), ",", out)?;
                out.write_str("]")
            }
            PathElement::Value(value) => {
                out.write_str("[=")?;
                display_value(value, out)?;
                out.write_str("]")
            }
            PathElement::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// Formats a value as the reference does within a path: strings quoted like Go, floats in Go's shortest form.
fn display_value(value: &Value, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Value::Null => out.write_str("null"),
        Value::Bool(flag) => write!(out, "{flag}"),
        Value::Int(number) => write!(out, "{number}"),
        Value::UInt(number) => write!(out, "{number}"),
        Value::Float(number) => out.write_str(&general(*number)),
        Value::String(text) => out.write_str(&quote(text)),
        Value::List(items) => {
            out.write_str("[")?;
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.write_str(",")?;
                }
                display_value(item, out)?;
            }
            out.write_str("]")
        }
        Value::Map(map) => display_members(map, "", out),
    }
}

fn display_members(members: &[(SmolStr, Value)], separator: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            out.write_str(separator)?;
        }
        write!(out, "{name}=")?;
        display_value(value, out)?;
    }
    Ok(())
}

/// True if a text needs no escape within a JSON string that is itself within a JSON string.
pub(crate) fn is_plain(text: &str) -> bool {
    // No early return: short texts are checked all at once.
    text.bytes().fold(true, |plain, byte| {
        plain & (byte >= 0x20) & !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xE2)
    })
}

/// True if a value is a scalar that needs no escape.
pub(crate) fn is_plain_value(value: &Value) -> bool {
    match value {
        Value::String(text) => is_plain(text),
        Value::List(_) | Value::Map(_) => false,
        _ => true,
    }
}

/// Appends a plain value as it appears within a JSON string.
pub(crate) fn write_plain_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => {
            out.extend_from_slice(b"\\\"");
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"\\\"");
        }
        other => write_value(other, out),
    }
}

/// Appends a key's field name in quotes. Unlike values, names are not escaped for HTML.
fn write_name(name: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(name.as_bytes(), out);
    out.push(b'"');
}

/// Appends text with only the escapes that JSON requires.
#[expect(
    clippy::indexing_slicing,
    reason = "a byte is an index into a table of 256, a nibble into one of 16"
)]
fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    let special = text.iter().fold(false, |special, byte| {
        special | (*byte < 0x20) | matches!(byte, b'"' | b'\\')
    });
    if !special {
        return out.extend_from_slice(text);
    }
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut written = 0;
    for (at, byte) in text.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0..0x20 => &[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 0xF)],
            ],
            _ => continue,
        };
        out.extend_from_slice(&text[written..at]);
        out.extend_from_slice(escape);
        written = at + 1;
    }
    out.extend_from_slice(&text[written..]);
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => json::write_string(text, out),
        Value::Int(number) => write_integer(*number, out),
        Value::Float(number) => write_float(*number, out),
        Value::List(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            out.push(b'{');
            for (at, (name, item)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_name(name, out);
                out.push(b':');
                write_value(item, out);
            }
            out.push(b'}');
        }
        Value::Null | Value::Bool(_) | Value::UInt(_) => json::write(value, out),
    }
}

fn write_integer(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[expect(clippy::indexing_slicing, reason = "`start` is a length that the text had")]
fn write_float(number: f64, out: &mut Vec<u8>) {
    // Most numbers in elements are ports and counts, which are read as floats.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT && !(number == 0.0 && number.is_sign_negative()) {
        write_integer(number as i64, out);
        return;
    }
    let start = out.len();
    json::write_float(number, out);
    // An exponent has at least two digits.
    if let Some(at) = out[start..].iter().position(|byte| *byte == b'e')
        && out.len() - (start + at) == 3
    {
        let last = out.len() - 1;
        out.insert(last, b'0');
    }
}
