//! YAML in and out, as `sigs.k8s.io/yaml` reads and writes it: YAML 1.1 scalars, each tree one that JSON can say.
//!
//! JSON is read by the JSON reader where both agree, since clients send apply patches as JSON under the YAML media type.

mod order;
mod read;
mod scalar;
mod syntax;
mod write;

use crate::json::{Dialect, Reader};
use crate::{Duplicates, Error, Limits, Parsed, Position, Value};

pub use write::{to_string, write};

/// What to do with documents after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Documents {
    /// Nothing: they are not even looked at. So does an API server.
    #[default]
    First,
    /// Refuse the text.
    Single,
}

/// Reads the first document; of repeated keys the last wins. A text without a document is `null`.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    Ok(parse_with(bytes, limits, Documents::First)?.value)
}

/// Reads the first document and reports repeated keys, of which the last wins.
pub fn parse_with_findings(bytes: &[u8], limits: &Limits) -> Result<Parsed, Error> {
    parse_with(bytes, limits, Documents::First)
}

/// Reads a document and reports repeated keys; `documents` says what becomes of further ones.
pub fn parse_with(bytes: &[u8], limits: &Limits, documents: Documents) -> Result<Parsed, Error> {
    if bytes.len() > limits.max_bytes {
        return Err(Error::TooLarge {
            size: bytes.len(),
            limit: limits.max_bytes,
        });
    }
    let text = checked_text(bytes)?;
    if let Some(value) = read_as_json(text, limits) {
        return Ok(Parsed {
            value,
            findings: Vec::new(),
        });
    }
    read::read(text, limits, documents)
}

/// The value of a text that is JSON and means the same in YAML. Anything in doubt is left to the YAML reader.
fn read_as_json(text: &str, limits: &Limits) -> Option<Value> {
    let begins_as_json = text.trim_start_matches([' ', '\n', '\r', '\t']).starts_with(['{', '[']);
    if !begins_as_json || (!text.is_ascii() && text.chars().any(is_line_break)) {
        return None;
    }
    match Reader::new(text, limits, Dialect::Yaml, Duplicates::Replace).read() {
        Ok((value, false)) => Some(value),
        _ => None,
    }
}

/// Characters that YAML takes for line breaks and JSON does not.
fn is_line_break(character: char) -> bool {
    matches!(character, '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The input as text without a byte order mark, if it holds nothing but characters that YAML allows.
fn checked_text(bytes: &[u8]) -> Result<&str, Error> {
    let refused = |message: &str, offset| Error::Yaml {
        message: format!("yaml: {message}"),
        position: Position::of(bytes, offset),
    };
    let text = std::str::from_utf8(bytes).map_err(|error| refused("invalid UTF-8 octet", error.valid_up_to()))?;
    // Nearly all texts are plain ASCII, which takes no look at characters.
    if bytes.iter().fold(true, |plain, byte| {
        plain & (matches!(byte, b' '..=b'~') | matches!(byte, b'\t' | b'\n' | b'\r'))
    }) {
        return Ok(text);
    }
    let is_refused = |character: char| {
        matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{84}')
            || matches!(character, '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
    };
    match text.char_indices().find(|(_, character)| is_refused(*character)) {
        Some((offset, _)) => Err(refused("control characters are not allowed", offset)),
        None => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests;
