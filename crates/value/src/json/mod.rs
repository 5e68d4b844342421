//! JSON reader and writer with the rules of Kubernetes.
//!
//! The reader follows `sigs.k8s.io/json`: keys are case-sensitive, integers stay exact, invalid UTF-8 and unpaired
//! surrogates become U+FFFD, and a repeated key is a [`Finding`](crate::Finding) rather than an error. The writer
//! follows Go's `encoding/json`: `<`, `>`, `&`, U+2028 and U+2029 are escaped, and floats have an exponent below 1e-6
//! and from 1e21.

mod indent;
mod layout;
mod paths;
mod places;
mod read;
mod scan;
mod select;
mod text;
mod write;

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Error, Position};
use crate::finding::{Duplicates, Parsed};
use crate::limits::Limits;
use crate::tree::{Source, Value};

pub use crate::growth::string_length;
pub use crate::number::write_float;
pub use indent::Indenter;
pub use layout::{Layout, MAX_LAYOUT_BYTES};
pub use paths::{PathSet, PathValue, read_paths};
pub use places::{number_behind, places};
pub(crate) use read::{Dialect, Reader};
pub use read::{plain_run, unescape};
use scan::end_of_open_container;
pub use scan::{end_of_string, end_of_value, escapes_only_quotes, is_compact};
pub use select::{Selected, parse_selected, parse_selected_with_range, texts_at};
pub use text::{text_of, with_text, without_text};
pub use write::{html_safe, length, to_string, to_vec, write, write_plain_string, write_pretty, write_string};

/// Reads one JSON value. The last value of a repeated key wins.
///
/// ```
/// use holdfast_value::{Limits, json};
///
/// let value = json::parse(br#"{"b": 1, "a": [true]}"#, &Limits::REQUEST)?;
/// assert_eq!(json::to_string(&value), r#"{"a":[true],"b":1}"#);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let text = checked_text(bytes, limits)?;
    let read = Reader::new(&text, limits, Dialect::Json, Duplicates::Replace).read();
    Ok(read.map_err(|error| as_it_came(error, bytes, &text))?.0)
}

/// Maps at one path of a value that are represented by their text instead of being read.
///
/// ```
/// use holdfast_value::json::{Deferred, parse_deferring};
/// use holdfast_value::{Limits, Value};
///
/// // `make` decides for each map at the path if it stays as text. Here it never does.
/// let deferred = Deferred { path: &["metadata", "managedFields", "fieldsV1"], make: |_| None };
/// let text = br#"{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{}}}]}}"#;
/// assert_eq!(parse_deferring(text, &Limits::TRUSTED, deferred)?.to_string().as_bytes(), text);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Deferred<'d> {
    /// Names of the members on the path; items of lists between them have no name.
    pub path: &'d [&'d str],
    /// Creates the source of the map; if it returns `None`, the map is read.
    pub make: fn(&str) -> Option<Arc<dyn Source>>,
}

/// Reads one JSON value that was written by a program, and leaves some of its maps as their text.
pub fn parse_deferring(bytes: &[u8], limits: &Limits, deferred: Deferred<'_>) -> Result<Value, Error> {
    let text = checked_text(bytes, limits)?;
    let reader = Reader::new(&text, limits, Dialect::Json, Duplicates::Replace).deferring(deferred);
    Ok(reader.read().map_err(|error| as_it_came(error, bytes, &text))?.0)
}

/// Reads one JSON value and reports repeated keys. The last value of a repeated key wins.
///
/// ```
/// use holdfast_value::{Limits, json};
///
/// let parsed = json::parse_with_findings(br#"{"a": 1, "a": 2}"#, &Limits::REQUEST)?;
/// assert_eq!(json::to_string(&parsed.value), r#"{"a":2}"#);
/// assert_eq!(parsed.findings[0].to_string(), r#"duplicate field "a""#);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
pub fn parse_with_findings(bytes: &[u8], limits: &Limits) -> Result<Parsed, Error> {
    parse_with(bytes, limits, Duplicates::Replace)
}

/// Reads one JSON value and reports repeated keys, which are treated according to `duplicates`.
pub fn parse_with(bytes: &[u8], limits: &Limits, duplicates: Duplicates) -> Result<Parsed, Error> {
    let text = checked_text(bytes, limits)?;
    let read = Reader::new(&text, limits, Dialect::Json, duplicates).read();
    let (value, has_duplicates) = read.map_err(|error| as_it_came(error, bytes, &text))?;
    let findings = match has_duplicates {
        // Finding the paths costs a set of keys per map, so only texts with repetitions pay for it.
        true => Reader::new(&text, limits, Dialect::Json, duplicates).find_duplicates()?,
        false => Vec::new(),
    };
    Ok(Parsed { value, findings })
}

/// Reads one JSON value for a check of its field types: numbers beyond 64-bit floats become infinite, so that the error
/// names the type of their field. Repeated keys are merged.
pub fn parse_with_infinities(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let text = checked_text(bytes, limits)?;
    let reader = Reader::new(&text, limits, Dialect::Json, Duplicates::Merge);
    Ok(reader.with_infinities().read()?.0)
}

/// Returns the input as text, with each invalid UTF-8 byte replaced by U+FFFD as in Go.
pub(crate) fn checked_text<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Cow<'a, str>, Error> {
    limits.check_bytes(bytes.len())?;
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(Cow::Borrowed(text));
    }
    let mut text = String::with_capacity(bytes.len() + 64);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(Cow::Owned(text))
}

/// Restores the original byte in an error about a byte that was replaced because it is not UTF-8.
fn as_it_came(mut error: Error, bytes: &[u8], text: &str) -> Error {
    if let Error::Json { message, position } = &mut error
        && let Some(byte) = replaced_at(*position, bytes).filter(|_| text.len() > bytes.len())
    {
        let shown = read::quoted(REPLACED);
        *message = message.replacen(&shown, &read::quoted(byte), 1);
    }
    error
}

/// The first byte of U+FFFD.
const REPLACED: u8 = 0xEF;

/// Returns the invalid UTF-8 byte behind the character at `position` of the text made from `bytes`.
fn replaced_at(position: Position, bytes: &[u8]) -> Option<u8> {
    let mut at = Position { line: 1, column: 1 };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => {
                    at = Position {
                        line: at.line + 1,
                        column: 1,
                    }
                }
                _ => at.column += 1,
            }
        }
        for byte in chunk.invalid() {
            if at == position {
                return Some(*byte);
            }
            at.column += 1;
        }
    }
    None
}
