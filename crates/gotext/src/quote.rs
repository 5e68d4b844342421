//! Quoted text in the form of Go's `strconv` and `time`.

use std::fmt::Write as _;

/// Returns Go's short escape for a character within double quotes, if it has one.
pub fn short_escape(character: char) -> Option<&'static str> {
    Some(match character {
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{b}' => "\\v",
        '\\' => "\\\\",
        '"' => "\\\"",
        _ => return None,
    })
}

/// Quotes text like `strconv.Quote`: characters that are not printable are escaped, all others are kept.
///
/// ```
/// assert_eq!(holdfast_gotext::quote::quote("a\tb"), r#""a\tb""#);
/// ```
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match short_escape(character) {
            Some(escape) => quoted.push_str(escape),
            None if is_printable(character) => quoted.push(character),
            // Writing to a string cannot fail.
            None => {
                let code = u32::from(character);
                let _ = match code {
                    0..0x80 => write!(quoted, "\\x{code:02x}"),
                    0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Quotes text as `time` does in its errors: every byte that is not printable ASCII is escaped.
pub(crate) fn quote_bytes(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='\u{7f}' => quoted.push(character),
            other => {
                let mut bytes = [0; 4];
                for byte in other.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(quoted, "\\x{byte:02x}");
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

/// True if `strconv.IsPrint` counts the character as printable: letters, marks, numbers, punctuation, symbols and the
/// plain space.
pub fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    // The standard library escapes by the same Unicode categories as Go, but also escapes combining characters at the
    // start of a text. The letter in front prevents that.
    let mut text = String::from("a");
    text.push(character);
    text.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_in_go() {
        let text = "a\"\\'\n\t\u{0}\u{7f}é\u{301}\u{a0}\u{ad}\u{200b}\u{2028}🚀\u{e000}\u{10ffff}<";
        let expected =
            r#""a\"\\'\n\t\x00\x7fé"#.to_owned() + "\u{301}" + r#"\u00a0\u00ad\u200b\u2028🚀\ue000\U0010ffff<""#;
        assert_eq!(quote(text), expected);
        assert_eq!(quote_bytes("a\"\u{e9}\n"), r#""a\"\xc3\xa9\x0a""#);
    }

    #[test]
    fn letters_marks_and_symbols_are_printable_and_formats_are_not() {
        for character in ['a', ' ', '"', '\'', '\\', 'é', '\u{301}', '語', '€'] {
            assert!(is_printable(character), "{character:?}");
        }
        for character in ['\0', '\t', '\n', '\u{7f}', '\u{a0}', '\u{200b}', '\u{2028}', '\u{feff}'] {
            assert!(!is_printable(character), "{character:?}");
        }
    }
}
