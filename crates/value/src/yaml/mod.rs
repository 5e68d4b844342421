//! YAML reader and writer with the rules of `sigs.k8s.io/yaml`: YAML 1.1 scalars, and only trees that JSON can
//! represent.
//!
//! The JSON reader reads a text on which both agree, because clients send apply patches as JSON under the YAML media
//! type.

mod order;
mod read;
mod scalar;
mod syntax;
mod write;

use crate::error::{Error, Position};
use crate::finding::{Duplicates, Parsed};
use crate::json::{Dialect, Reader};
use crate::limits::Limits;
use crate::tree::Value;

pub use write::{to_string, write};

/// Treatment of documents after the first.
///
/// ```
/// use holdfast_value::{Limits, yaml, yaml::Documents};
///
/// let text = b"a: 1\n---\nb: 2\n";
/// assert_eq!(yaml::parse_with(text, &Limits::REQUEST, Documents::First)?.value.to_string(), r#"{"a":1}"#);
/// assert!(yaml::parse_with(text, &Limits::REQUEST, Documents::Single).is_err());
/// # Ok::<(), holdfast_value::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Documents {
    /// They are ignored without being parsed, as an API server does.
    #[default]
    First,
    /// The text is rejected.
    Single,
}

/// Reads the first document. The last value of a repeated key wins. A text without a document is `null`.
///
/// ```
/// use holdfast_value::{Limits, json, yaml};
///
/// let value = yaml::parse(b"ports:\n- 80\n- 443\n", &Limits::REQUEST)?;
/// assert_eq!(json::to_string(&value), r#"{"ports":[80,443]}"#);
/// # Ok::<(), holdfast_value::Error>(())
/// ```
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, Error> {
    Ok(parse_with(bytes, limits, Documents::First)?.value)
}

/// Reads the first document and reports repeated keys. The last value of a repeated key wins.
pub fn parse_with_findings(bytes: &[u8], limits: &Limits) -> Result<Parsed, Error> {
    parse_with(bytes, limits, Documents::First)
}

/// Reads a document and reports repeated keys. Further documents are treated according to `documents`.
pub fn parse_with(bytes: &[u8], limits: &Limits, documents: Documents) -> Result<Parsed, Error> {
    limits.check_bytes(bytes.len())?;
    let utf8 = from_utf16(bytes);
    let text = checked_text(utf8.as_deref().map_or(bytes, str::as_bytes))?;
    match read_as_json(text, limits) {
        Some(Ok(value)) => {
            check_rest(text)?;
            Ok(Parsed {
                value,
                findings: Vec::new(),
            })
        }
        Some(Err(detail)) => {
            let read = read::read(text, limits, documents);
            read.map_err(|error| syntax::of_json(text, &detail).unwrap_or(error))
        }
        None => read::read(text, limits, documents),
    }
}

/// Decodes bytes that begin with the byte order mark of UTF-16. Unpaired surrogates become U+FFFD.
#[expect(
    clippy::indexing_slicing,
    reason = "called with the two bytes of the byte order mark at the start"
)]
fn from_utf16(bytes: &[u8]) -> Option<String> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xFF, 0xFE, ..] => u16::from_le_bytes,
        [0xFE, 0xFF, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let (units, _) = bytes[2..].as_chunks::<2>();
    let units: Vec<u16> = units.iter().map(|bytes| unit(*bytes)).collect();
    Some(String::from_utf16_lossy(&units))
}

/// Rejects a tab at the start of a line after JSON: no token can begin with it.
fn check_rest(text: &str) -> Result<(), Error> {
    let end = text.trim_end_matches([' ', '\n', '\r', '\t']).len();
    let mut offset = end;
    for (number, line) in text[end..].split_inclusive('\n').enumerate() {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        if number > 0 && line[blanks..].starts_with('\t') {
            let position = Position::at_offset(text.as_bytes(), offset + blanks);
            return Err(syntax::scanner_error(
                "found character that cannot start any token",
                position,
            ));
        }
        offset += line.len();
    }
    Ok(())
}

/// Reads a text that is JSON with the same meaning in YAML, or returns the JSON error. In doubt, returns `None` and
/// leaves the text to the YAML reader.
fn read_as_json(text: &str, limits: &Limits) -> Option<Result<Value, Error>> {
    let begins_as_json = text.trim_start_matches([' ', '\n', '\r', '\t']).starts_with(['{', '[']);
    if !begins_as_json || (!text.is_ascii() && text.chars().any(is_line_break)) {
        return None;
    }
    let read_json = |text| Reader::new(text, limits, Dialect::Yaml, Duplicates::Replace).read();
    let read = read_json(text).or_else(|error| match syntax::without_stray_end(text, &error) {
        Some(text) => read_json(text),
        None => Err(error),
    });
    match read {
        Ok((value, false)) => Some(Ok(value)),
        Ok((_, true)) => None,
        Err(error) => Some(Err(error)),
    }
}

/// True for characters that are line breaks in YAML but not in JSON.
fn is_line_break(character: char) -> bool {
    matches!(character, '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns the input as text without a byte order mark, if it holds only characters that YAML allows.
#[expect(clippy::indexing_slicing, reason = "the part is within the scanned text")]
fn checked_text(bytes: &[u8]) -> Result<&str, Error> {
    let rejected = |message: &str, offset| Error::Yaml {
        message: format!("yaml: {message}"),
        position: Position::at_offset(bytes, offset),
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        rejected(broken_character(&bytes[offset..]), offset)
    })?;
    // Nearly all texts are plain ASCII, which needs no decoding.
    if bytes.iter().fold(true, |plain, byte| {
        plain & (matches!(byte, b' '..=b'~') | matches!(byte, b'\t' | b'\n' | b'\r'))
    }) {
        return Ok(text);
    }
    let is_rejected = |character: char| {
        matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{84}')
            || matches!(character, '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
    };
    match text.char_indices().find(|(_, character)| is_rejected(*character)) {
        Some((offset, _)) => Err(rejected("control characters are not allowed", offset)),
        None => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
    }
}

/// Returns libyaml's message for bytes that do not begin with a UTF-8 character.
fn broken_character(bytes: &[u8]) -> &'static str {
    let width = match bytes.first() {
        Some(0xC0..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF7) => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    let Some([first, rest @ ..]) = bytes.get(..width) else {
        return "incomplete UTF-8 octet sequence";
    };
    if rest.iter().any(|byte| byte & 0xC0 != 0x80) {
        return "invalid trailing UTF-8 octet";
    }
    let first = u32::from(*first) & (0x7F >> width);
    let code = rest.iter().fold(first, |code, byte| code << 6 | u32::from(byte & 0x3F));
    match (width, code) {
        (2, 0..0x80) | (3, 0..0x800) | (4, 0..0x1_0000) => "invalid length of a UTF-8 sequence",
        _ => "invalid Unicode character",
    }
}

#[cfg(test)]
mod tests;
