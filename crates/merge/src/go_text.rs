//! Texts as Go prints them, for messages that clients show and compare.

use std::fmt::Write as _;

use holdfast_value::Value;

/// A float as `%v` prints it: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub(crate) fn float(number: f64) -> String {
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..SHORTEST_EXPONENT).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// The least exponent that is printed.
const SHORTEST_EXPONENT: i32 = 6;

/// A string as `%q` prints it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{07}' => out.push_str("\\a"),
            '\u{08}' => out.push_str("\\b"),
            '\u{0C}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{0B}' => out.push_str("\\v"),
            _ if is_printable(character) => out.push(character),
            _ => push_escape(character, &mut out),
        }
    }
    out.push('"');
    out
}

fn push_escape(character: char, out: &mut String) {
    let code = u32::from(character);
    // Writing to a string cannot fail.
    let _ = match code {
        0..0x80 => write!(out, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Close to Go's `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols and the plain space. Rust's escaping of
/// text leaves the same classes as they are, marks only where a character stands before them.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    let text: String = ['a', character].iter().collect();
    !text.escape_debug().skip(1).eq(character.escape_unicode())
}

/// A scalar as `%v` prints what it holds; lists and maps as Go prints slices and maps of them.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => float(*number),
        Value::String(text) => text.to_string(),
        Value::List(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Map(map) => {
            let members: Vec<_> = map.iter().map(|(key, item)| format!("{key}:{}", plain(item))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// A value in Go's syntax, as `%#v` prints it.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Float(number) => float(*number),
        Value::String(text) => quoted(text),
        Value::Bool(_) | Value::Int(_) | Value::UInt(_) => plain(value),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Map(map) => {
            let members: Vec<_> = map
                .iter()
                .map(|(key, item)| format!("{}:{}", quoted(key), syntax(item)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
    }
}

/// The name of the type that holds a value, as `%T` prints it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::UInt(_) => "uint64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) => "map[string]interface {}",
    }
}
