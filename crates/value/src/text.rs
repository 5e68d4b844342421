//! Text as Go's `%q` shows it, and values as the structured-merge reference prints them.

use crate::Value;
use crate::number::general;

impl Value {
    /// The printed form that the structured-merge reference uses in its messages: strings quoted as in Go, floats in Go's
    /// general form, lists in brackets, and maps as `key=value` pairs one after another.
    pub fn to_printed(&self) -> String {
        match self {
            Value::Float(float) => general(*float),
            Value::String(text) => quote(text),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Value::to_printed).collect();
                format!("[{}]", items.join(","))
            }
            Value::Map(entries) => entries
                .iter()
                .map(|(key, value)| format!("{key}={}", value.to_printed()))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::UInt(_) => self.to_string(),
        }
    }
}

/// Text in double quotes as Go's `strconv.Quote` gives it: what cannot be seen is escaped, other characters stand as they
/// are.
pub fn quote(text: &str) -> String {
    use std::fmt::Write;

    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            ' '..='~' => quoted.push(character),
            _ if is_printable(character) => quoted.push(character),
            // Writing to a string cannot fail.
            _ => {
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

/// Whether a character beyond ASCII can be seen. The standard library escapes by the same Unicode categories as Go, but
/// also combining characters at the start of a text.
fn is_printable(character: char) -> bool {
    let mut text = String::from("a");
    text.push(character);
    text.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, json};

    #[test]
    fn text_is_quoted_as_in_go() {
        let text = "a\"\\'\n\t\u{0}\u{7f}é\u{301}\u{a0}\u{ad}\u{200b}\u{2028}🚀\u{e000}\u{10ffff}<";
        let expected =
            r#""a\"\\'\n\t\x00\x7fé"#.to_owned() + "\u{301}" + r#"\u00a0\u00ad\u200b\u2028🚀\ue000\U0010ffff<""#;
        assert_eq!(quote(text), expected);
    }

    #[test]
    fn values_are_printed_as_in_messages_of_the_reference() {
        let value = json::parse(br#"{"a":[1,1.5,1e6,"x"],"b":null,"c":{}}"#, &Limits::default()).unwrap();
        assert_eq!(value.to_printed(), r#"a=[1,1.5,1e+06,"x"]b=nullc="#);
    }
}
