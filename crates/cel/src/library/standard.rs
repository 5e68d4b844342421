//! Sizes, conversions, and the text functions of the language itself.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use holdfast_gotext::duration;
use holdfast_gotext::number::general;
use smol_str::SmolStr;

use crate::error::EvaluationError::{self, NoSuchOverload, Overflow};
use crate::functions::{Context, Cost, Function};
use crate::library::regex;
use crate::time::{NoTimestamp, Timestamp, format_seconds};
use crate::value::{CelValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "size",
        call: size,
        cost: Cost::Fixed(1),
        signatures: &[
            "(string) int",
            "(bytes) int",
            "(list(A)) int",
            "(map(A, B)) int",
            "string.() int",
            "bytes.() int",
            "list(A).() int",
            "map(A, B).() int",
        ],
    },
    Function {
        name: "bool",
        call: to_bool,
        cost: Cost::Fixed(1),
        signatures: &["(bool) bool", "(string) bool"],
    },
    Function {
        name: "int",
        call: to_int,
        cost: Cost::Fixed(1),
        signatures: &[
            "(int) int",
            "(double) int",
            "(duration) int",
            "(string) int",
            "(timestamp) int",
            "(uint) int",
        ],
    },
    Function {
        name: "uint",
        call: to_uint,
        cost: Cost::Fixed(1),
        signatures: &["(uint) uint", "(double) uint", "(int) uint", "(string) uint"],
    },
    Function {
        name: "double",
        call: to_double,
        cost: Cost::Fixed(1),
        signatures: &["(double) double", "(int) double", "(string) double", "(uint) double"],
    },
    Function {
        name: "string",
        call: to_string,
        cost: Cost::BytesToString,
        signatures: &[
            "(string) string",
            "(bool) string",
            "(bytes) string",
            "(double) string",
            "(duration) string",
            "(int) string",
            "(timestamp) string",
            "(uint) string",
            "(ip) string",
            "(cidr) string",
        ],
    },
    Function {
        name: "bytes",
        call: to_bytes,
        cost: Cost::StringToBytes,
        signatures: &["(bytes) bytes", "(string) bytes"],
    },
    Function {
        name: "duration",
        call: to_duration,
        cost: Cost::Fixed(1),
        signatures: &["(duration) duration", "(int) duration", "(string) duration"],
    },
    Function {
        name: "timestamp",
        call: to_timestamp,
        cost: Cost::Fixed(1),
        signatures: &["(timestamp) timestamp", "(int) timestamp", "(string) timestamp"],
    },
    Function {
        name: "dyn",
        call: as_it_is,
        cost: Cost::Fixed(1),
        signatures: &["(A) dyn"],
    },
    Function {
        name: "type",
        call: type_of,
        cost: Cost::Fixed(1),
        signatures: &["(A) type(A)"],
    },
    Function {
        name: "contains",
        call: contains,
        cost: Cost::Contains,
        signatures: &["string.(string) bool"],
    },
    Function {
        name: "startsWith",
        call: starts_with,
        cost: Cost::Affix,
        signatures: &["string.(string) bool"],
    },
    Function {
        name: "endsWith",
        call: ends_with,
        cost: Cost::Affix,
        signatures: &["string.(string) bool"],
    },
    Function {
        name: "matches",
        call: regex::matches,
        cost: Cost::Matches,
        signatures: &["(string, string) bool", "string.(string) bool"],
    },
];

fn conversion(value: &CelValue, to: &'static str) -> EvaluationError {
    EvaluationError::Conversion {
        from: value.type_name().as_str().into(),
        to,
    }
}

fn size(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    match &args[0] {
        value @ (CelValue::String(_) | CelValue::Bytes(_) | CelValue::List(_) | CelValue::Map(_)) => {
            Ok(CelValue::Int(value.size() as i64))
        }
        _ => Err(NoSuchOverload),
    }
}

fn to_bool(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    match &args[0] {
        CelValue::Bool(flag) => Ok(CelValue::Bool(*flag)),
        CelValue::String(text) => match text.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(CelValue::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(CelValue::Bool(false)),
            _ => Err(conversion(&args[0], "bool")),
        },
        _ => Err(NoSuchOverload),
    }
}

/// True if Go parses `text` as a decimal number: a sign and digits.
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn to_int(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let number = match &args[0] {
        CelValue::Int(number) => *number,
        CelValue::Uint(number) => i64::try_from(*number).map_err(|_| Overflow("integer"))?,
        // The limits themselves are not 64-bit integers and are rejected together with values beyond them.
        CelValue::Double(float) if float.abs() < 9_223_372_036_854_775_807.0 => *float as i64,
        CelValue::Double(_) => return Err(Overflow("integer")),
        CelValue::String(text) if is_decimal(text) => text.parse().map_err(|_| conversion(&args[0], "int"))?,
        CelValue::String(_) => return Err(conversion(&args[0], "int")),
        CelValue::Timestamp(at) => at.seconds(),
        CelValue::Duration(nanoseconds) => *nanoseconds,
        _ => return Err(NoSuchOverload),
    };
    Ok(CelValue::Int(number))
}

fn to_uint(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let number = match &args[0] {
        CelValue::Uint(number) => *number,
        CelValue::Int(number) => u64::try_from(*number).map_err(|_| Overflow("unsigned integer"))?,
        CelValue::Double(float) if (0.0..18_446_744_073_709_551_615.0).contains(float) => *float as u64,
        CelValue::Double(_) => return Err(Overflow("unsigned integer")),
        CelValue::String(text) if is_decimal(text) && !text.starts_with(['-', '+']) => {
            text.parse().map_err(|_| conversion(&args[0], "uint"))?
        }
        CelValue::String(_) => return Err(conversion(&args[0], "uint")),
        _ => return Err(NoSuchOverload),
    };
    Ok(CelValue::Uint(number))
}

/// Parses a float like Go's `strconv.ParseFloat`: also hexadecimal, with underscores between digits, and without
/// overflow.
fn parse_float(text: &str) -> Option<f64> {
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => (-1.0, magnitude),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match magnitude.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        "nan" => return (text.len() == magnitude.len()).then_some(f64::NAN),
        _ => {}
    }
    if !magnitude.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    let hexadecimal = magnitude.strip_prefix("0x").or_else(|| magnitude.strip_prefix("0X"));
    let between_digits = |text: &str, first: bool| {
        let bytes = text.as_bytes();
        let digit = |at: Option<&u8>| at.is_some_and(u8::is_ascii_hexdigit);
        (0..bytes.len()).all(|at| {
            let before = at.checked_sub(1).map_or(first, |before| digit(bytes.get(before)));
            bytes[at] != b'_' || before && digit(bytes.get(at + 1))
        })
    };
    let value = match hexadecimal {
        Some(digits) if between_digits(digits, true) => parse_hexadecimal(&digits.replace('_', ""))?,
        None if between_digits(magnitude, false) => magnitude.replace('_', "").parse().ok()?,
        _ => return None,
    };
    value.is_finite().then_some(sign * value)
}

/// Parses `1.8p3`: hexadecimal digits and a power of two.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0_f64;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let exponent = exponent.clamp(-4096, 4096) - 4 * i32::try_from(fraction.len()).ok()?;
    // Two steps avoid underflow of a small number with many digits.
    let half = exponent / 2;
    Some(value * 2_f64.powi(half) * 2_f64.powi(exponent - half))
}

fn to_double(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let number = match &args[0] {
        CelValue::Double(float) => *float,
        CelValue::Int(number) => *number as f64,
        CelValue::Uint(number) => *number as f64,
        CelValue::String(text) => parse_float(text).ok_or_else(|| conversion(&args[0], "double"))?,
        _ => return Err(NoSuchOverload),
    };
    Ok(CelValue::Double(number))
}

fn to_string(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    Ok(CelValue::String(match &args[0] {
        CelValue::String(text) => text.clone(),
        CelValue::Bool(flag) => SmolStr::new(flag.to_string()),
        CelValue::Int(number) => SmolStr::new(number.to_string()),
        CelValue::Uint(number) => SmolStr::new(number.to_string()),
        CelValue::Double(float) => SmolStr::new(general(*float)),
        CelValue::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => SmolStr::new(text),
            Err(_) => {
                return Err(EvaluationError::failed(
                    "invalid UTF-8 in bytes, cannot convert to string",
                ));
            }
        },
        CelValue::Duration(nanoseconds) => SmolStr::new(format_seconds(*nanoseconds)),
        CelValue::Timestamp(at) => SmolStr::new(at.to_string()),
        CelValue::Ip(address) => SmolStr::new(address.to_string()),
        CelValue::Cidr(cidr) => SmolStr::new(cidr.to_string()),
        _ => return Err(NoSuchOverload),
    }))
}

fn to_bytes(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    match &args[0] {
        CelValue::Bytes(bytes) => Ok(CelValue::Bytes(bytes.clone())),
        CelValue::String(text) => Ok(CelValue::Bytes(text.as_bytes().into())),
        _ => Err(NoSuchOverload),
    }
}

fn to_duration(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    match &args[0] {
        CelValue::Duration(nanoseconds) => Ok(CelValue::Duration(*nanoseconds)),
        CelValue::Int(nanoseconds) => Ok(CelValue::Duration(*nanoseconds)),
        CelValue::String(text) => duration::parse(text)
            .map(CelValue::Duration)
            .map_err(|_| conversion(&args[0], "google.protobuf.Duration")),
        _ => Err(NoSuchOverload),
    }
}

fn to_timestamp(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    match &args[0] {
        CelValue::Timestamp(at) => Ok(CelValue::Timestamp(*at)),
        CelValue::Int(seconds) => Timestamp::new(*seconds, 0)
            .map(CelValue::Timestamp)
            .ok_or(Overflow("timestamp")),
        CelValue::String(text) => match Timestamp::convert(text) {
            Ok(at) => Ok(CelValue::Timestamp(at)),
            Err(NoTimestamp::OutOfRange) => Err(Overflow("timestamp")),
            Err(NoTimestamp::Malformed) => Err(conversion(&args[0], "google.protobuf.Timestamp")),
        },
        _ => Err(NoSuchOverload),
    }
}

fn as_it_is(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    Ok(args[0].clone())
}

fn type_of(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    Ok(CelValue::Type(args[0].type_name()))
}

fn two_texts(args: &[CelValue]) -> Outcome<(&str, &str)> {
    match args {
        [CelValue::String(text), CelValue::String(other)] => Ok((text, other)),
        _ => Err(NoSuchOverload),
    }
}

fn contains(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    two_texts(args).map(|(text, part)| CelValue::Bool(text.contains(part)))
}

fn starts_with(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    two_texts(args).map(|(text, part)| CelValue::Bool(text.starts_with(part)))
}

fn ends_with(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    two_texts(args).map(|(text, part)| CelValue::Bool(text.ends_with(part)))
}
