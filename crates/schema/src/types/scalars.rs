//! Scalars as the reference reads them: quantities, times, and JSON numbers, of which a field accepts only some.

use holdfast_gotext::quantity::{QuantityError, text_of};
use holdfast_gotext::time::{Precision, Timestamp};
use holdfast_value::Value;

use crate::types::{DecodeError, Shape};

pub(super) fn quantity(value: &Value) -> Result<Option<Value>, DecodeError> {
    let text = match value {
        Value::String(text) => text.trim(),
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => &value.to_string(),
        _ => return Err(QuantityError::Form.into()),
    };
    if is_plain_quantity(text) && matches!(value, Value::String(whole) if whole.len() == text.len()) {
        return Ok(None);
    }
    let canonical = text_of(text)?;
    let same = matches!(value, Value::String(text) if *text == canonical);
    Ok((!same).then_some(Value::String(canonical)))
}

/// Returns `number` as a whole number of 32 bits, if it is one.
pub(super) fn whole_32(number: f64) -> Option<i32> {
    let whole = number as i32;
    (f64::from(whole) == number).then_some(whole)
}

/// Returns true if the text is a quantity in one of the most common canonical forms: up to three digits, without a
/// leading zero, with an optional suffix. Returns false if in doubt.
fn is_plain_quantity(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    if text == "0" {
        return true;
    }
    let short = (1..=3).contains(&digits) && !number.starts_with('0');
    short && matches!(suffix, "" | "m" | "k" | "M" | "G" | "Ki" | "Mi" | "Gi")
}

pub(super) fn time(text: &str, precision: Precision) -> Result<Option<Value>, DecodeError> {
    let canonical = Timestamp::parse(text, precision)?.text(precision);
    if matches!(
        canonical.as_str(),
        "0001-01-01T00:00:00Z" | "0001-01-01T00:00:00.000000Z"
    ) {
        // Go's zero time is written as `null`.
        return Ok(Some(Value::Null));
    }
    Ok((canonical != text).then_some(Value::String(canonical)))
}

/// Returns a number of a tree as a whole number of the width of `shape`.
pub(super) fn restore_number(shape: &Shape, value: &Value) -> Result<Option<Value>, DecodeError> {
    let whole = match value {
        Value::Int(number) => *number,
        other => {
            let number = match other {
                Value::Float(number) => *number,
                Value::UInt(number) => *number as f64,
                _ => f64::NAN,
            };
            if number.trunc() != number {
                return Err(DecodeError::Tree(not_restored(value, shape, None)));
            }
            // Go converts an out-of-range number to the least number.
            if number >= -(2f64.powi(63)) && number < 2f64.powi(63) {
                number as i64
            } else {
                i64::MIN
            }
        }
    };
    let cut = if matches!(shape, Shape::Int32) {
        i64::from(whole as i32)
    } else {
        whole
    };
    Ok(Some(Value::Int(cut)))
}

/// Returns the reference's error for a value of a tree that cannot be converted to `shape`, whose type may have a name
/// of its own.
pub(super) fn not_restored(value: &Value, shape: &Shape, named: Option<&str>) -> String {
    let found = match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::UInt(_) | Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) => "map",
    };
    let is_integer = matches!(value, Value::Int(_));
    let is_number = matches!(value, Value::Int(_) | Value::UInt(_) | Value::Float(_));
    let scalar = |name: &str, convertible: bool| {
        if convertible {
            format!("cannot convert {found} to {}", named.unwrap_or(name))
        } else {
            format!("unrecognized type: {name}")
        }
    };
    match shape {
        // Go converts a whole number to the character with that code.
        Shape::String => scalar("string", is_integer),
        Shape::Bool => scalar("bool", false),
        Shape::Int32 => scalar("int32", is_number),
        Shape::Int64 => scalar("int64", is_number),
        Shape::Double => scalar("float64", is_number),
        Shape::Bytes | Shape::List(_) => format!("cannot restore slice from {found}"),
        Shape::Map(_) => format!("cannot restore map from {found}"),
        Shape::Ref(_) | Shape::Any => format!("cannot restore struct from: {found}"),
    }
}

/// Returns the error of a value of the wrong type in a type with its own JSON decoder, which therefore does not know
/// its path.
pub(super) fn wrong_value(value: &Value, expected: &str) -> DecodeError {
    DecodeError::Type {
        found: found(value, expected == "int32"),
        place: "value".to_owned(),
        expected: expected.to_owned(),
    }
}

/// Returns the reference's description of the value; a number that does not fit is included.
pub(super) fn found(value: &Value, show_number: bool) -> String {
    match value {
        Value::Int(_) | Value::UInt(_) | Value::Float(_) if show_number => format!("number {value}"),
        value => value.json_kind().to_owned(),
    }
}
