//! Values of literals.

use crate::lexer::{Kind, unquote, unquote_bytes};
use crate::value::CelValue;

/// Returns the value of a literal with its sign, or the error.
pub(super) fn value(kind: Kind, sign: &str, text: &str) -> Result<CelValue, &'static str> {
    match kind {
        Kind::True => Ok(CelValue::Bool(true)),
        Kind::False => Ok(CelValue::Bool(false)),
        Kind::Null => Ok(CelValue::Null),
        Kind::Int => int(sign, text).map(CelValue::Int).ok_or("invalid int literal"),
        Kind::Uint => uint(text).map(CelValue::Uint).ok_or("invalid uint literal"),
        Kind::Float => format!("{sign}{text}")
            .parse()
            .ok()
            .filter(|float: &f64| float.is_finite())
            .map(CelValue::Double)
            .ok_or("invalid double literal"),
        Kind::String => unquote(text)
            .map(CelValue::String)
            .map_err(|_| "invalid unicode code point"),
        _ => unquote_bytes(text)
            .map(|bytes| CelValue::Bytes(bytes.into()))
            .map_err(|_| "unable to unescape string"),
    }
}

fn int(sign: &str, text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(&format!("{sign}{digits}"), 16).ok(),
        None => format!("{sign}{text}").parse().ok(),
    }
}

fn uint(text: &str) -> Option<u64> {
    let digits = text.strip_suffix(['u', 'U'])?;
    match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}
