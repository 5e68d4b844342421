//! Which characters are printable, as the reference's language counts them.

use std::fmt::Write as _;

/// Whether a character can be printed: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub(crate) fn is_printable(character: char) -> bool {
    // The standard library keeps the table of this question behind its escapes. Only at the start of a text does it
    // escape combining marks, which are printable; hence the letter before.
    matches!(character, '"' | '\'' | '\\') || {
        let text: &str = &String::from_iter(['a', character]);
        text.escape_debug().nth(2).is_none()
    }
}

/// Text in double quotes with Go's escapes: printable characters stand as they are.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        // Writing to a String cannot fail.
        let _ = match character {
            '"' | '\\' => write!(quoted, "\\{character}"),
            '\x07' => write!(quoted, "\\a"),
            '\x08' => write!(quoted, "\\b"),
            '\t' => write!(quoted, "\\t"),
            '\n' => write!(quoted, "\\n"),
            '\x0b' => write!(quoted, "\\v"),
            '\x0c' => write!(quoted, "\\f"),
            '\r' => write!(quoted, "\\r"),
            printable if is_printable(printable) => write!(quoted, "{printable}"),
            control @ ('\0'..' ' | '\x7f') => write!(quoted, "\\x{:02x}", u32::from(control)),
            short @ '\u{80}'..='\u{ffff}' => write!(quoted, "\\u{:04x}", u32::from(short)),
            long => write!(quoted, "\\U{:08x}", u32::from(long)),
        };
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_marks_and_symbols_are_printable_and_formats_are_not() {
        for character in ['a', ' ', '"', '\'', '\\', 'é', '\u{301}', '語', '€'] {
            assert!(is_printable(character), "{character:?}");
        }
        for character in ['\0', '\t', '\n', '\u{7f}', '\u{a0}', '\u{200b}', '\u{2028}', '\u{feff}'] {
            assert!(!is_printable(character), "{character:?}");
        }
    }

    #[test]
    fn quoted_text_is_escaped_as_go_does() {
        assert_eq!(quoted("a\"b\\c\nd\u{1}é\u{a0}'"), r#""a\"b\\c\nd\x01é\u00a0'""#);
    }
}
