//! Escapes in strings.

use super::{Dialect, Reader};
use crate::error::Error;

impl Reader<'_> {
    /// Reads the rest of an escape after the backslash.
    pub(super) fn escape(&mut self) -> Result<char, Error> {
        let character = match self.peek() {
            Some(b'/') if self.dialect == Dialect::Json => '/',
            Some(escaped @ (b'"' | b'\\')) => char::from(escaped),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let unit = self.hex(4)?;
                if self.dialect == Dialect::Yaml && (0xD800..0xE000).contains(&unit) {
                    return Err(self.unexpected("in string escape code"));
                }
                return Ok(self.surrogates(unit));
            }
            Some(escaped) if self.dialect == Dialect::Yaml => return self.escape_of_yaml(escaped),
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(character)
    }

    /// Reads an escape that exists in YAML but not in JSON.
    fn escape_of_yaml(&mut self, escaped: u8) -> Result<char, Error> {
        let character = match escaped {
            b'\'' | b' ' | b'\t' => char::from(escaped),
            b'0' => '\0',
            b'a' => '\u{7}',
            b'v' => '\u{b}',
            b'e' => '\u{1b}',
            b'N' => '\u{85}',
            b'_' => '\u{a0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' | b'U' => {
                self.at += 1;
                let code = self.hex(if escaped == b'x' { 2 } else { 8 })?;
                return char::from_u32(code).ok_or_else(|| self.unexpected("in string escape code"));
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(character)
    }

    fn hex(&mut self, digits: usize) -> Result<u32, Error> {
        let mut unit = 0;
        for _ in 0..digits {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Returns the character of a UTF-16 unit, combined with that of a following escape if the two are a surrogate
    /// pair.
    fn surrogates(&mut self, unit: u32) -> char {
        if let (0xD800..0xDC00, Some([b'\\', b'u', digits @ ..])) = (unit, self.bytes.get(self.at..self.at + 6)) {
            let low = std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| u32::from_str_radix(digits, 16).ok());
            if let Some(low @ 0xDC00..0xE000) = low {
                self.at += 6;
                let code = 0x10000 + ((unit - 0xD800) << 10 | (low - 0xDC00));
                return char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
        }
        char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}
