//! Resolution of scalars with the rules of `go.yaml.in/yaml/v2`: YAML 1.1 without base 60.

use base64::Engine;

use holdfast_gotext::number::{general, general_32};
use holdfast_gotext::quote::quote;

use crate::number::whole_as_integer;
use crate::tree::Value;
use smol_str::SmolStr;

/// Tags of the YAML repository (`!!…`) that have a meaning here; all others produce text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tag {
    Bool,
    Int,
    Float,
    Null,
    Timestamp,
    Text,
    Binary,
}

impl Tag {
    /// Returns the tag `!!name`.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "bool" => Tag::Bool,
            "int" => Tag::Int,
            "float" => Tag::Float,
            "null" => Tag::Null,
            "timestamp" => Tag::Timestamp,
            "binary" => Tag::Binary,
            _ => Tag::Text,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Tag::Bool => "bool",
            Tag::Int => "int",
            Tag::Float => "float",
            Tag::Null => "null",
            Tag::Timestamp => "timestamp",
            Tag::Text => "str",
            Tag::Binary => "binary",
        }
    }
}

/// Resolves plain text without a tag. Floats keep their value, including infinities and NaN.
pub(super) fn resolve_plain(text: &str) -> Value {
    untagged(text).1
}

/// Resolves text with a tag.
///
/// # Errors
/// Returns the reference's message if the text does not fit the tag.
pub(super) fn resolve_tagged(tag: Tag, text: &str) -> Result<Value, String> {
    match tag {
        Tag::Text => return Ok(Value::from(text)),
        Tag::Binary => {
            // The reference's decoder ignores line breaks.
            let text: String = text
                .chars()
                .filter(|character| !matches!(character, '\n' | '\r'))
                .collect();
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(text)
                .map_err(|_| "!!binary value contains invalid base64 data".to_owned())?;
            return Ok(Value::from(String::from_utf8_lossy(&bytes).into_owned()));
        }
        _ => {}
    }
    match untagged(text) {
        (found, value) if found == tag => Ok(value),
        (Tag::Int, Value::Int(number)) if tag == Tag::Float => Ok(Value::Float(number as f64)),
        (found, _) => Err(format!(
            "cannot decode !!{} `{text}` as a !!{}",
            found.name(),
            tag.name()
        )),
    }
}

/// Converts a scalar to a value that JSON can represent.
///
/// # Errors
/// Returns the reference's message for infinite floats and NaN.
pub(super) fn to_json_value(value: Value) -> Result<Value, String> {
    match value {
        Value::Float(float) if float.is_finite() => Ok(whole_as_integer(float)),
        Value::Float(float) => Err(format!("json: unsupported value: {}", general(float))),
        other => Ok(other),
    }
}

/// Converts a scalar to the key of a map; `value` is the value of the entry.
///
/// # Errors
/// Returns the reference's message if the scalar cannot be a key.
pub(super) fn to_key(key: Value, value: &Value) -> Result<SmolStr, String> {
    let unsupported = |of: &str, key: &str| {
        let value = go_syntax(value);
        Err(format!("unsupported map key of type: {of}, key: {key}, value: {value}"))
    };
    match key {
        Value::String(text) => Ok(text),
        Value::Bool(flag) => Ok(SmolStr::new_static(if flag { "true" } else { "false" })),
        Value::Int(number) => Ok(SmolStr::new(itoa::Buffer::new().format(number))),
        Value::Float(float) if float.is_nan() => Ok(SmolStr::new_static(".nan")),
        Value::Float(f64::INFINITY) => Ok(SmolStr::new_static(".inf")),
        Value::Float(f64::NEG_INFINITY) => Ok(SmolStr::new_static("-.inf")),
        Value::Float(float) => Ok(SmolStr::from(general_32(float))),
        Value::Null => unsupported("%!s(<nil>)", "<nil>"),
        Value::UInt(number) => unsupported("uint64", &format!("{number:#x}")),
        Value::List(_) | Value::Map(_) => Err(format!("yaml: invalid map key: {}", go_syntax(&key))),
    }
}

/// Formats a value like Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    let nested = |value: &Value| match value {
        Value::Null => "interface {}(nil)".to_owned(),
        value => go_syntax(value),
    };
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::UInt(number) => format!("{number:#x}"),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(nested).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Map(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| format!("{}:{}", quote(key), nested(value)));
            format!(
                "map[interface {{}}]interface {{}}{{{}}}",
                entries.collect::<Vec<_>>().join(", ")
            )
        }
        scalar => shown_key(scalar).into(),
    }
}

/// Formats a key like Go's `%#v`.
pub(super) fn shown_key(value: &Value) -> SmolStr {
    match value {
        Value::String(text) => SmolStr::from(quote(text)),
        Value::Float(float) => SmolStr::from(general(*float)),
        other => SmolStr::from(other.to_string()),
    }
}

/// True if plain text would be read as a string.
pub(super) fn is_text(text: &str) -> bool {
    match text.as_bytes().first() {
        None => false,
        Some(first) if may_begin_a_value(*first) => untagged(text).0 == Tag::Text,
        Some(_) => text != "<<",
    }
}

/// True if text with this first byte may be something other than a string.
fn may_begin_a_value(first: u8) -> bool {
    matches!(first, b'+' | b'-' | b'.' | b'~' | b'0'..=b'9')
        || matches!(first.to_ascii_lowercase(), b'y' | b'n' | b't' | b'f' | b'o')
}

fn untagged(text: &str) -> (Tag, Value) {
    let as_text = || (Tag::Text, Value::from(text));
    match text.as_bytes().first() {
        None => (Tag::Null, Value::Null),
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => match text {
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                (Tag::Bool, Value::Bool(true))
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
                (Tag::Bool, Value::Bool(false))
            }
            "~" | "null" | "Null" | "NULL" => (Tag::Null, Value::Null),
            _ => as_text(),
        },
        Some(b'.') => match text {
            ".nan" | ".NaN" | ".NAN" => (Tag::Float, Value::Float(f64::NAN)),
            ".inf" | ".Inf" | ".INF" => (Tag::Float, Value::Float(f64::INFINITY)),
            _ => float(text).map_or_else(as_text, |float| (Tag::Float, Value::Float(float))),
        },
        Some(b'+' | b'-' | b'0'..=b'9') => match text {
            "+.inf" | "+.Inf" | "+.INF" => (Tag::Float, Value::Float(f64::INFINITY)),
            "-.inf" | "-.Inf" | "-.INF" => (Tag::Float, Value::Float(f64::NEG_INFINITY)),
            _ if is_timestamp(text) => (Tag::Timestamp, Value::from(text)),
            _ => number(text).unwrap_or_else(as_text),
        },
        Some(_) => as_text(),
    }
}

fn number(text: &str) -> Option<(Tag, Value)> {
    let without_underscores;
    let plain = match text.contains('_') {
        true => {
            without_underscores = text.replace('_', "");
            &without_underscores
        }
        false => text,
    };
    if let Some(value) = integer(plain) {
        return Some((Tag::Int, value));
    }
    if let Some(float) = float(plain) {
        return Some((Tag::Float, Value::Float(float)));
    }
    beyond_64_bits(plain).map(|float| (Tag::Int, Value::Float(float)))
}

/// Splits an integer into sign, base and digits: `0x`, `0o`, `0b`, or a bare `0` for octal.
fn integer_parts(text: &str) -> Option<(bool, u32, &str)> {
    let (negative, magnitude) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match magnitude.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &magnitude[2..]),
        [b'0', b'o' | b'O', ..] => (8, &magnitude[2..]),
        [b'0', b'b' | b'B', ..] => (2, &magnitude[2..]),
        [b'0', _, ..] => (8, &magnitude[1..]),
        _ => (10, magnitude),
    };
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
    is_number.then_some((negative, base, digits))
}

fn integer(text: &str) -> Option<Value> {
    let (negative, base, digits) = integer_parts(text)?;
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    match negative {
        true if magnitude <= i64::MIN.unsigned_abs() => Some(Value::Int(0_i64.wrapping_sub_unsigned(magnitude))),
        true => None,
        // With a sign the reference accepts at most 63 bits for an integer.
        false if text.starts_with('+') => i64::try_from(magnitude).ok().map(Value::Int),
        false => Some(Value::from(magnitude)),
    }
}

/// Parses a float in decimal notation: digits with an optional point anywhere and an optional exponent.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_float = (!whole.is_empty() || !fraction.is_empty())
        && all_digits(whole)
        && all_digits(fraction)
        && exponent.is_none_or(|exponent| !exponent.is_empty() && all_digits(exponent));
    let float = is_float.then(|| text.parse::<f64>().ok()).flatten()?;
    float.is_finite().then_some(float)
}

/// Parses an integer that is too large for 64 bits in a base other than ten, as JSON represents it.
fn beyond_64_bits(text: &str) -> Option<f64> {
    let (negative, base, digits) = integer_parts(text)?;
    let magnitude = u128::from_str_radix(digits, base).ok()? as f64;
    Some(if negative { -magnitude } else { magnitude })
}

/// True if the text is a date, or a date with a time, in a form that the reference parses as a timestamp. Such text
/// stays text when it is read, and is quoted when it is written.
fn is_timestamp(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else {
        return false;
    };
    let Some((month, rest)) = rest.split_once('-') else {
        return false;
    };
    if year.len() != 4 || !is_number_below(year, 4, 10_000) || !is_number_below(month, 2, 13) || is_zero(month) {
        return false;
    }
    let (day, time) = match rest.find(['T', 't', ' ']) {
        Some(at) => (&rest[..at], Some(&rest[at..])),
        None => (rest, None),
    };
    if !is_number_below(day, 2, days(year, month) + 1) || is_zero(day) {
        return false;
    }
    match time {
        None => true,
        Some(time) => match time.strip_prefix(' ') {
            Some(clock) => is_clock(clock),
            None => {
                let zone = time.find(['Z', '+']).or_else(|| time.rfind('-'));
                zone.is_some_and(|at| is_clock(&time[1..at]) && is_zone(&time[at..]))
            }
        },
    }
}

fn days(year: &str, month: &str) -> u32 {
    let year: u32 = year.parse().unwrap_or_default();
    match month.trim_start_matches('0') {
        "2" if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        "2" => 28,
        "4" | "6" | "9" | "11" => 30,
        _ => 31,
    }
}

fn is_zero(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'0')
}

fn is_number_below(text: &str, max_digits: usize, bound: u32) -> bool {
    (1..=max_digits).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<u32>().is_ok_and(|number| number < bound)
}

/// True for `hour:minute:second` with an optional fraction.
fn is_clock(text: &str) -> bool {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let bounds = [24, 60, 60];
    let in_bounds = bounds
        .into_iter()
        .all(|bound| parts.next().is_some_and(|part| is_number_below(part, 2, bound)));
    in_bounds && parts.next().is_none() && !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// True for `Z` or an offset in hours and minutes.
fn is_zone(text: &str) -> bool {
    match text.strip_prefix(['+', '-']) {
        None => text == "Z",
        Some(offset) => offset.split_once(':').is_some_and(|(hours, minutes)| {
            hours.len() == 2 && minutes.len() == 2 && is_number_below(hours, 2, 25) && is_number_below(minutes, 2, 60)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_typed_as_in_yaml_1_1() {
        let cases = [
            ("yes", "true"),
            ("Y", "true"),
            ("on", "true"),
            ("TRUE", "true"),
            ("n", "false"),
            ("Off", "false"),
            ("", "null"),
            ("~", "null"),
            ("Null", "null"),
            ("yEs", r#""yEs""#),
            ("nULL", r#""nULL""#),
            ("1", "1"),
            ("-0", "0"),
            ("+1", "1"),
            ("0755", "493"),
            ("0o14", "12"),
            ("0x1F", "31"),
            ("-0x1f", "-31"),
            ("0b101", "5"),
            ("-0b101", "-5"),
            ("1_000", "1000"),
            ("1_0.5_0", "10.5"),
            ("08", "8"),
            ("0x", r#""0x""#),
            ("0xg", r#""0xg""#),
            ("1.", "1"),
            (".5", "0.5"),
            ("-.5", "-0.5"),
            ("1e3", "1000"),
            ("1.5e-7", "1.5e-7"),
            ("1e", r#""1e""#),
            (".", r#"".""#),
            ("-", r#""-""#),
            ("1e400", r#""1e400""#),
            ("1.2.3", r#""1.2.3""#),
            ("1:30", r#""1:30""#),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "18446744073709552000"),
            ("-9223372036854775809", "-9223372036854775809"),
            ("0x1ffffffffffffffff", "36893488147419103000"),
            ("2024-01-02", r#""2024-01-02""#),
            ("2001-12-14t21:59:43.10-05:00", r#""2001-12-14t21:59:43.10-05:00""#),
            ("=", r#""=""#),
            ("nan", r#""nan""#),
        ];
        for (text, expected) in cases {
            let value = to_json_value(resolve_plain(text)).unwrap();
            let expected = match expected {
                // JSON has the digits of the nearest float.
                "-9223372036854775809" => "-9223372036854775808",
                other => other,
            };
            assert_eq!(value.to_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn infinite_floats_have_no_json_form() {
        for (text, shown) in [(".inf", "+Inf"), ("-.Inf", "-Inf"), (".NaN", "NaN")] {
            assert_eq!(
                to_json_value(resolve_plain(text)),
                Err(format!("json: unsupported value: {shown}"))
            );
        }
    }

    #[test]
    fn keys_become_text() {
        let cases = [
            ("on", "true"),
            ("1", "1"),
            ("0x10", "16"),
            ("1.5", "1.5"),
            (".inf", ".inf"),
            ("1e6", "1e+06"),
            ("a", "a"),
        ];
        for (text, expected) in cases {
            assert_eq!(to_key(resolve_plain(text), &Value::Null).unwrap(), expected);
        }
        let rejected = |key: Value, value: &Value| to_key(key, value).unwrap_err();
        let list = Value::from(vec![Value::from("a"), Value::Null]);
        assert_eq!(
            rejected(Value::Null, &Value::from("x")),
            r#"unsupported map key of type: %!s(<nil>), key: <nil>, value: "x""#
        );
        assert_eq!(
            rejected(Value::UInt(u64::MAX), &list),
            r#"unsupported map key of type: uint64, key: 0xffffffffffffffff, value: []interface {}{"a", interface {}(nil)}"#
        );
        assert_eq!(
            rejected(list, &Value::Null),
            r#"yaml: invalid map key: []interface {}{"a", interface {}(nil)}"#
        );
    }

    #[test]
    fn tags_force_a_type_or_fail() {
        assert_eq!(resolve_tagged(Tag::Text, "1"), Ok(Value::from("1")));
        assert_eq!(resolve_tagged(Tag::Int, "3"), Ok(Value::from(3_i64)));
        assert!(matches!(resolve_tagged(Tag::Float, "3"), Ok(Value::Float(3.0))));
        assert_eq!(resolve_tagged(Tag::Binary, "aGk=\n"), Ok(Value::from("hi")));
        assert_eq!(
            resolve_tagged(Tag::Int, "x"),
            Err("cannot decode !!str `x` as a !!int".to_owned())
        );
        assert_eq!(
            resolve_tagged(Tag::Bool, "1"),
            Err("cannot decode !!int `1` as a !!bool".to_owned())
        );
        assert!(resolve_tagged(Tag::Binary, "?").is_err());
    }

    #[test]
    fn timestamps_are_distinguished_from_other_text() {
        let timestamps = [
            "2024-01-02",
            "2024-2-29",
            "2004-01-01T01:01:01Z",
            "2004-01-01T01:01:01.000004Z",
            "2001-12-14t21:59:43.10-05:00",
            "2001-12-14 21:59:43.10",
        ];
        for text in timestamps {
            assert!(is_timestamp(text), "{text}");
        }
        for text in [
            "2024-13-02",
            "2023-02-29",
            "24-01-02",
            "2024-01",
            "2024-01-02T",
            "2024-01-02T1:1:1",
            "1-2-3",
            "2024-",
        ] {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
