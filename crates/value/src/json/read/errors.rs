//! Errors in the words of Go's `encoding/json`.

use super::Reader;
use crate::error::{Error, Position};

impl Reader<'_> {
    pub(super) fn check_depth(&self) -> Result<(), Error> {
        match self.frames.len() < self.limits.max_depth {
            true => Ok(()),
            false => Err(Error::TooDeep {
                limit: self.limits.max_depth,
                position: self.position(),
                message: format!(
                    "invalid character {} exceeded max depth",
                    quoted(self.peek().unwrap_or_default())
                ),
            }),
        }
    }

    pub(super) fn position(&self) -> Position {
        Position::at_offset(self.bytes, self.at)
    }

    /// Returns the error for the unexpected byte here, or for the end of the text.
    pub(super) fn unexpected(&self, context: &str) -> Error {
        let message = match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => format!("invalid character {} {context}", quoted(byte)),
        };
        Error::Json {
            message,
            position: self.position(),
        }
    }
}

/// Quotes a byte like Go's `encoding/json`.
pub(in crate::json) fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}
