//! JSON writer.

use crate::growth::Growth;
use crate::number::write_float;
use crate::tree::Value;

/// Appends the compact form of `value` to `out`, without a trailing line break.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Value::UInt(number) => out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Value::Float(number) => write_float(*number, out),
        Value::String(text) => write_string(text, out),
        Value::List(list) => {
            out.push(b'[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            if let Some(text) = map.source().and_then(|source| source.json()) {
                return out.extend_from_slice(text);
            }
            out.push(b'{');
            for (at, (key, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

/// Appends the form of `value` with one member per line to `out`, each level indented by `indent`: two spaces for
/// `pretty=true` of the API. There is no trailing line break.
pub fn write_pretty(value: &Value, indent: &str, out: &mut Vec<u8>) {
    write_indented(value, indent, 0, out);
}

/// Returns the compact form of `value`.
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out);
    out
}

/// Returns the compact form of `value`.
pub fn to_string(value: &Value) -> String {
    // The writer produces only UTF-8.
    String::from_utf8(to_vec(value)).unwrap_or_default()
}

impl std::fmt::Display for Value {
    /// Writes the compact JSON form.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&to_string(self))
    }
}

fn write_indented(value: &Value, indent: &str, level: usize, out: &mut Vec<u8>) {
    match value {
        Value::List(list) if !list.is_empty() => {
            out.push(b'[');
            for (at, item) in list.iter().enumerate() {
                start_line(at > 0, indent, level + 1, out);
                write_indented(item, indent, level + 1, out);
            }
            start_line(false, indent, level, out);
            out.push(b']');
        }
        Value::Map(map) if !map.is_empty() => {
            out.push(b'{');
            for (at, (key, value)) in map.iter().enumerate() {
                start_line(at > 0, indent, level + 1, out);
                write_string(key, out);
                out.extend_from_slice(b": ");
                write_indented(value, indent, level + 1, out);
            }
            start_line(false, indent, level, out);
            out.push(b'}');
        }
        _ => write(value, out),
    }
}

fn start_line(comma: bool, indent: &str, level: usize, out: &mut Vec<u8>) {
    if comma {
        out.push(b',');
    }
    out.push(b'\n');
    for _ in 0..level {
        out.extend_from_slice(indent.as_bytes());
    }
}

/// Appends a quoted string, escaped so that it is also safe within HTML.
#[expect(clippy::indexing_slicing, reason = "the part is within the scanned text")]
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    match first_special(bytes) {
        None => out.extend_from_slice(bytes),
        Some(at) => {
            out.extend_from_slice(&bytes[..at]);
            write_escaped(&bytes[at..], out);
        }
    }
    out.push(b'"');
}

/// Appends a quoted string that needs no escapes, such as the name of a field of a type.
pub fn write_plain_string(text: &str, out: &mut Vec<u8>) {
    debug_assert!(first_special(text.as_bytes()).is_none());
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Returns the length of the compact form of `value` in bytes, without escapes.
pub fn length(value: &Value) -> usize {
    let mut room = Growth::new(usize::MAX);
    // No value in memory is as large as this.
    let _ = room.draw_value(value);
    usize::MAX - room.left()
}

/// Appends JSON of another writer, made safe within HTML like [`write_string`] does: only strings contain characters to
/// escape.
#[expect(clippy::indexing_slicing, reason = "the part is within the scanned text")]
pub fn html_safe(text: Vec<u8>) -> Vec<u8> {
    const ESCAPED: [(&[u8], &[u8]); 5] = [
        (b"<", b"\\u003c"),
        (b">", b"\\u003e"),
        (b"&", b"\\u0026"),
        ("\u{2028}".as_bytes(), b"\\u2028"),
        ("\u{2029}".as_bytes(), b"\\u2029"),
    ];
    let begins = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xE2);
    if !text.iter().any(begins) {
        return text;
    }
    let (mut out, mut rest) = (Vec::with_capacity(text.len() + 64), text.as_slice());
    while let Some(at) = rest.iter().position(begins) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let escape = ESCAPED.iter().find(|(raw, _)| special.starts_with(raw));
        let (raw, escaped) = escape.map_or((&special[..1], &special[..1]), |(raw, escaped)| (*raw, *escaped));
        out.extend_from_slice(escaped);
        rest = &special[raw.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// Returns the offset of the first byte that may need an escape.
#[expect(
    clippy::indexing_slicing,
    reason = "a byte is an index into a table of 256, a nibble into one of 16"
)]
fn first_special(bytes: &[u8]) -> Option<usize> {
    let (blocks, rest) = bytes.as_chunks::<16>();
    for (number, block) in blocks.iter().enumerate() {
        // Without a branch per byte the compiler compares all bytes of a block at once.
        let is_plain = |byte: u8| {
            (byte >= 0x20)
                & (byte != b'"')
                & (byte != b'\\')
                & (byte != b'<')
                & (byte != b'>')
                & (byte != b'&')
                & (byte != 0xE2)
        };
        if !block.iter().fold(true, |plain, byte| plain & is_plain(*byte)) {
            let within = block.iter().position(|byte| ESCAPES[usize::from(*byte)] != 0)?;
            return Some(number * 16 + within);
        }
    }
    let within = rest.iter().position(|byte| ESCAPES[usize::from(*byte)] != 0)?;
    Some(bytes.len() - rest.len() + within)
}

#[cold]
#[expect(
    clippy::indexing_slicing,
    reason = "a byte is an index into a table of 256, a nibble into one of 16"
)]
fn write_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut written = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[usize::from(*byte)];
        if escape == 0 {
            continue;
        }
        // U+2028 and U+2029 (E2 80 A8 and E2 80 A9) are the only non-ASCII characters that are escaped.
        let (length, digits) = match (escape, bytes.get(at + 1), bytes.get(at + 2)) {
            (SEPARATOR, Some(0x80), Some(last @ (0xA8 | 0xA9))) => {
                (3, [b'2', b'0', b'2', HEX[usize::from(last & 0xF)]])
            }
            (SEPARATOR, ..) => continue,
            _ => (
                1,
                [b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xF)]],
            ),
        };
        out.extend_from_slice(&bytes[written..at]);
        out.push(b'\\');
        match escape {
            UNICODE | SEPARATOR => {
                out.push(b'u');
                out.extend_from_slice(&digits);
            }
            short => out.push(short),
        }
        written = at + length;
    }
    out.extend_from_slice(&bytes[written..]);
}

const UNICODE: u8 = b'u';
const SEPARATOR: u8 = b's';

/// Character after the backslash in the escape of each byte; zero for bytes without an escape.
#[expect(clippy::indexing_slicing, reason = "a byte is an index into a table of 256")]
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = UNICODE;
        control += 1;
    }
    table[0x08] = b'b';
    table[0x0c] = b'f';
    table[b'\n' as usize] = b'n';
    table[b'\r' as usize] = b'r';
    table[b'\t' as usize] = b't';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'<' as usize] = UNICODE;
    table[b'>' as usize] = UNICODE;
    table[b'&' as usize] = UNICODE;
    table[0xE2] = SEPARATOR;
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::limits::Limits;

    #[test]
    fn floats_are_printed_as_go_prints_them() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.25e-10, "1.25e-10"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-2.5e300, "-2.5e+300"),
            (9007199254740992.0, "9007199254740992"),
            (0.1, "0.1"),
        ];
        for (number, expected) in cases {
            assert_eq!(json::to_string(&Value::Float(number)), expected);
        }
    }

    #[test]
    fn strings_are_escaped_for_html_too() {
        let text = "q\"\\<&>\u{8}\u{c}\n\r\t\u{1}\u{7f}é\u{2028}\u{2029}\u{202a}🚀";
        let expected =
            r#""q\"\\\u003c\u0026\u003e\b\f\n\r\t\u0001"#.to_owned() + "\u{7f}é" + r"\u2028\u2029" + "\u{202a}🚀\"";
        assert_eq!(json::to_string(&Value::from(text)), expected);
    }

    #[test]
    fn pretty_form_has_one_member_per_line() {
        let value = json::parse(br#"{"b":[1,{"c":null}],"a":{},"d":[]}"#, &Limits::default()).unwrap();
        let mut out = Vec::new();
        write_pretty(&value, "  ", &mut out);
        let expected = "{\n  \"a\": {},\n  \"b\": [\n    1,\n    {\n      \"c\": null\n    }\n  ],\n  \"d\": []\n}";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn integers_are_printed_exactly() {
        for text in [
            "-9223372036854775808",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
        ] {
            assert_eq!(
                json::to_string(&json::parse(text.as_bytes(), &Limits::default()).unwrap()),
                text
            );
        }
    }

    #[test]
    fn json_of_others_is_made_safe_too() {
        let text = "{\"a\":\"<b> & \u{2028}\u{20ac}\u{2029}\"}\n";
        let safe = r#"{"a":"\u003cb\u003e \u0026 \u2028€\u2029"}"#;
        assert_eq!(html_safe(text.into()), format!("{safe}\n").into_bytes());
        assert_eq!(html_safe(b"{}".to_vec()), b"{}");
    }
}
