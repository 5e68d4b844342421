//! JSON in and out, as Kubernetes reads and writes it.
//!
//! Reading is that of `sigs.k8s.io/json`: keys are case-sensitive, integers stay exact, bytes that are no UTF-8 and lone
//! surrogates become U+FFFD, and a repeated key is no error but a [`Finding`](crate::Finding). Writing is that of Go's
//! `encoding/json`: `<`, `>`, `&`, U+2028 and U+2029 are escaped, and floats take an exponent below 1e-6 and from 1e21.

mod indent;
mod places;
mod read;
mod scan;
mod select;
mod text;
mod write;

use std::borrow::Cow;
use std::sync::Arc;

use crate::{Duplicates, Error, Limits, Parsed, Position, Source, Value};

pub use indent::Indenter;
pub use places::{number_behind, places};
pub(crate) use read::{Dialect, Reader};
use scan::end_of_open_container;
pub use scan::{end_of_string, end_of_value, is_compact};
pub use select::{Selected, parse_selected, parse_selected_beside, texts_at};
pub use text::with_text;
pub(crate) use write::number_length;
pub use write::{
    html_safe, length, string_length, to_string, to_vec, write, write_float, write_plain_string, write_pretty,
    write_string,
};

/// Reads one JSON value; of repeated keys the last wins.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let text = checked_text(bytes, limits)?;
    let read = Reader::new(&text, limits, Dialect::Json, Duplicates::Replace).read();
    Ok(read.map_err(|error| as_it_came(error, bytes, &text))?.0)
}

/// Maps that are not read but made of their text: those at one path of a value.
#[derive(Clone, Copy)]
pub struct Deferred<'d> {
    /// The names of the members that lead there; the items of lists between them have none.
    pub path: &'d [&'d str],
    /// What the map is made of; it is read after all where that is nothing.
    pub make: fn(&str) -> Option<Arc<dyn Source>>,
}

/// Reads one JSON value that was written by a program, and leaves some of its maps as their text.
pub fn parse_deferring(bytes: &[u8], limits: &Limits, deferred: Deferred<'_>) -> Result<Value, Error> {
    let text = checked_text(bytes, limits)?;
    let reader = Reader::new(&text, limits, Dialect::Json, Duplicates::Replace).deferring(deferred);
    Ok(reader.read().map_err(|error| as_it_came(error, bytes, &text))?.0)
}

/// Reads one JSON value and reports repeated keys, of which the last wins.
pub fn parse_with_findings(bytes: &[u8], limits: &Limits) -> Result<Parsed, Error> {
    parse_with(bytes, limits, Duplicates::Replace)
}

/// Reads one JSON value and reports repeated keys; `duplicates` says what they do.
pub fn parse_with(bytes: &[u8], limits: &Limits, duplicates: Duplicates) -> Result<Parsed, Error> {
    let text = checked_text(bytes, limits)?;
    let read = Reader::new(&text, limits, Dialect::Json, duplicates).read();
    let (value, has_duplicates) = read.map_err(|error| as_it_came(error, bytes, &text))?;
    let findings = match has_duplicates {
        // Looking for the places costs a set of keys for each map: only texts that have something to report pay for it.
        true => Reader::new(&text, limits, Dialect::Json, duplicates).find_duplicates()?,
        false => Vec::new(),
    };
    Ok(Parsed { value, findings })
}

/// Reads one JSON value for those who want to know only what is wrong with it: numbers beyond 64-bit floats become infinite, so
/// that it is found what their fields should hold. Repeated keys are merged.
pub fn parse_with_infinities(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    let text = checked_text(bytes, limits)?;
    let reader = Reader::new(&text, limits, Dialect::Json, Duplicates::Merge);
    Ok(reader.with_infinities().read()?.0)
}

/// The input as text, each byte that is no UTF-8 replaced by U+FFFD as Go does.
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

/// The error with the byte that stands in its place, where that is no UTF-8 and was replaced before the text was read.
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

/// The byte that is no UTF-8 at `position` of the text that is made of `bytes`.
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
