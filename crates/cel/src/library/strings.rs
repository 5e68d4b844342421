//! The extended text functions (cel-go's `ext.Strings`, version 2).

use std::fmt::Write;

use smol_str::SmolStr;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::library::standard::show_double;
use crate::time::format_seconds;
use crate::value::{CelValue, ListValue, MapValue, Outcome};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "charAt",
        call: char_at,
        cost: Cost::Fixed(1),
        signatures: &["string.(int) string"],
    },
    Function {
        name: "format",
        call: format,
        cost: Cost::Format,
        signatures: &["string.(list(dyn)) string"],
    },
    Function {
        name: "join",
        call: join,
        cost: Cost::Join,
        signatures: &["list(string).() string", "list(string).(string) string"],
    },
    Function {
        name: "lowerAscii",
        call: lower_ascii,
        cost: Cost::SameSize,
        signatures: &["string.() string"],
    },
    Function {
        name: "upperAscii",
        call: upper_ascii,
        cost: Cost::SameSize,
        signatures: &["string.() string"],
    },
    Function {
        name: "replace",
        call: replace,
        cost: Cost::Replace,
        signatures: &["string.(string, string) string", "string.(string, string, int) string"],
    },
    Function {
        name: "split",
        call: split,
        cost: Cost::Split,
        signatures: &["string.(string) list(string)", "string.(string, int) list(string)"],
    },
    Function {
        name: "strings.quote",
        call: quote,
        cost: Cost::Quote,
        signatures: &["(string) string"],
    },
    Function {
        name: "substring",
        call: substring,
        cost: Cost::SameSize,
        signatures: &["string.(int) string", "string.(int, int) string"],
    },
    Function {
        name: "trim",
        call: trim,
        cost: Cost::SameSize,
        signatures: &["string.() string"],
    },
];

/// The longest text that a function makes, in bytes.
const MAX_TEXT: usize = 16 << 20;

fn too_long() -> EvaluationError {
    EvaluationError::failed("result is too long")
}

fn text(value: &CelValue) -> Outcome<&str> {
    value.as_str().ok_or(NoSuchOverload)
}

fn int(value: &CelValue) -> Outcome<i64> {
    match value {
        CelValue::Int(number) => Ok(*number),
        _ => Err(NoSuchOverload),
    }
}

fn out_of_range(index: i64) -> EvaluationError {
    EvaluationError::failed(format!("index out of range: {index}"))
}

/// The byte at which the character `index` begins; the end of the text counts as a character.
fn byte_at(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.into_iter().nth(index)
}

fn char_at(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let [subject, index] = args else {
        return Err(NoSuchOverload);
    };
    let (subject, index) = (text(subject)?, int(index)?);
    let at = byte_at(subject, index).ok_or_else(|| out_of_range(index))?;
    let character = subject[at..].chars().next();
    Ok(CelValue::String(
        character
            .map(|c| SmolStr::new(c.encode_utf8(&mut [0; 4])))
            .unwrap_or_default(),
    ))
}

/// `indexOf` of texts; the member of lists stands with the lists and calls this.
pub(crate) fn index_of(args: &[CelValue], last: bool) -> Outcome {
    let (subject, part) = (text(&args[0])?, text(args.get(1).ok_or(NoSuchOverload)?)?);
    let offset = args.get(2).map(int).transpose()?;
    let from = match offset {
        Some(offset) => byte_at(subject, offset).ok_or_else(|| out_of_range(offset)),
        None if last => Ok(subject.len()),
        None => Ok(0),
    };
    if part.is_empty() {
        let whole = || subject.chars().count() as i64;
        return Ok(CelValue::Int(offset.unwrap_or_else(|| if last { whole() } else { 0 })));
    }
    let from = from?;
    let found = if last {
        // The last place at which the part begins is `from` at most.
        let end = subject.len().min(from + part.len());
        let end = (end..=subject.len())
            .find(|&at| subject.is_char_boundary(at))
            .unwrap_or(subject.len());
        subject[..end].rfind(part)
    } else {
        subject[from..].find(part).map(|at| at + from)
    };
    Ok(CelValue::Int(
        found.map_or(-1, |at| subject[..at].chars().count() as i64),
    ))
}

fn join(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let CelValue::List(list) = &args[0] else {
        return Err(NoSuchOverload);
    };
    let separator = args.get(1).map(text).transpose()?.unwrap_or("");
    let mut joined = String::new();
    for index in 0..list.len() {
        if index > 0 {
            joined.push_str(separator);
        }
        let item = list.get(index)?;
        joined.push_str(text(&item)?);
        if joined.len() > MAX_TEXT {
            return Err(too_long());
        }
    }
    Ok(CelValue::text(joined))
}

fn lower_ascii(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    Ok(CelValue::text(text(&args[0])?.to_ascii_lowercase()))
}

fn upper_ascii(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    Ok(CelValue::text(text(&args[0])?.to_ascii_uppercase()))
}

fn replace(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let [subject, from, to, rest @ ..] = args else {
        return Err(NoSuchOverload);
    };
    let (subject, from, to) = (text(subject)?, text(from)?, text(to)?);
    let limit = rest.first().map(int).transpose()?.unwrap_or(-1);
    let found = if from.is_empty() {
        subject.chars().count() + 1
    } else {
        subject.matches(from).count()
    };
    let count = usize::try_from(limit).map_or(found, |limit| limit.min(found));
    if subject.len().saturating_add(count.saturating_mul(to.len())) > MAX_TEXT {
        return Err(too_long());
    }
    Ok(CelValue::text(subject.replacen(from, to, count)))
}

fn split(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let [subject, separator, rest @ ..] = args else {
        return Err(NoSuchOverload);
    };
    let (subject, separator) = (text(subject)?, text(separator)?);
    let limit = rest.first().map(int).transpose()?.unwrap_or(-1);
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let piece = |piece: &str| CelValue::String(SmolStr::new(piece));
    let pieces: Vec<CelValue> = match most {
        0 => Vec::new(),
        _ if separator.is_empty() => {
            let mut pieces = Vec::new();
            let mut rest = subject;
            while let Some(character) = rest.chars().next() {
                let length = if pieces.len() + 1 == most {
                    rest.len()
                } else {
                    character.len_utf8()
                };
                pieces.push(piece(&rest[..length]));
                rest = &rest[length..];
            }
            pieces
        }
        usize::MAX => subject.split(separator).map(piece).collect(),
        most => subject.splitn(most, separator).map(piece).collect(),
    };
    Ok(CelValue::list(pieces))
}

fn substring(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let [subject, start, rest @ ..] = args else {
        return Err(NoSuchOverload);
    };
    let (subject, start) = (text(subject)?, int(start)?);
    let from = byte_at(subject, start).ok_or_else(|| out_of_range(start))?;
    let to = match rest.first().map(int).transpose()? {
        None => subject.len(),
        Some(end) if end < start => {
            let message = format!("invalid substring range. start: {start}, end: {end}");
            return Err(EvaluationError::failed(message));
        }
        Some(end) => byte_at(subject, end).ok_or_else(|| out_of_range(end))?,
    };
    Ok(CelValue::String(SmolStr::new(&subject[from..to])))
}

fn trim(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    Ok(CelValue::String(SmolStr::new(text(&args[0])?.trim())))
}

fn quote(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let mut quoted = String::from('"');
    for character in text(&args[0])?.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(CelValue::text(quoted))
}

/// The most digits that a clause may ask for.
const MAX_PRECISION: usize = 1000;

/// `'%s is %d'.format([a, b])`.
fn format(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let [template, CelValue::List(values)] = args else {
        return Err(NoSuchOverload);
    };
    let mut rest = text(template)?;
    let mut out = String::new();
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let mut precision = None;
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            let number: usize = after[..digits].parse().map_err(|_| {
                EvaluationError::failed("error during formatting: could not find end of precision specifier")
            })?;
            if number > MAX_PRECISION {
                return Err(EvaluationError::failed(format!(
                    "error during formatting: precision {number} exceeds the limit {MAX_PRECISION}"
                )));
            }
            precision = Some(number);
            rest = &after[digits..];
        }
        let Some(clause) = rest.chars().next() else {
            return Err(EvaluationError::failed(
                "error during formatting: unexpected end of string",
            ));
        };
        rest = &rest[clause.len_utf8()..];
        if next >= values.len() {
            return Err(EvaluationError::failed(format!(
                "error during formatting: index {next} out of range"
            )));
        }
        write_clause(&mut out, clause, precision, &values.get(next)?)?;
        next += 1;
        if out.len() > MAX_TEXT {
            return Err(too_long());
        }
    }
    out.push_str(rest);
    Ok(CelValue::text(out))
}

fn write_clause(out: &mut String, clause: char, precision: Option<usize>, value: &CelValue) -> Outcome<()> {
    let refuse = |what: &str, takes: &str| {
        let given = value.type_name();
        Err(EvaluationError::failed(format!(
            "error during formatting: {what} clause can only be used on {takes}, was given {given}"
        )))
    };
    // Writing to a string does not fail.
    let _ = match (clause, value) {
        ('s', value) => return show(out, value),
        ('d', CelValue::Int(number)) => write!(out, "{number}"),
        ('d', CelValue::Uint(number)) => write!(out, "{number}"),
        ('d', CelValue::Double(float)) => write!(out, "{}", show_double(*float)),
        ('d', _) => return refuse("decimal", "integers"),
        ('f', number) => match as_double(number) {
            Some(float) if float.is_finite() => write!(out, "{float:.*}", precision.unwrap_or(6)),
            Some(float) => write!(out, "{}", show_double(float)),
            None => return refuse("fixed-point", "doubles"),
        },
        ('e', number) => match as_double(number) {
            Some(float) if float.is_finite() => {
                let shown = format!("{float:.*e}", precision.unwrap_or(6));
                let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
                let (sign, digits) = match exponent.strip_prefix('-') {
                    Some(digits) => ('-', digits),
                    None => ('+', exponent),
                };
                write!(out, "{mantissa}e{sign}{digits:0>2}")
            }
            Some(float) => write!(out, "{}", show_double(float)),
            None => return refuse("scientific", "doubles"),
        },
        ('b', CelValue::Int(number)) => {
            let sign = if *number < 0 { "-" } else { "" };
            write!(out, "{sign}{:b}", number.unsigned_abs())
        }
        ('b', CelValue::Uint(number)) => write!(out, "{number:b}"),
        ('b', CelValue::Bool(flag)) => write!(out, "{}", u8::from(*flag)),
        ('b', _) => return refuse("binary", "integers and bools"),
        ('o', CelValue::Int(number)) => {
            let sign = if *number < 0 { "-" } else { "" };
            write!(out, "{sign}{:o}", number.unsigned_abs())
        }
        ('o', CelValue::Uint(number)) => write!(out, "{number:o}"),
        ('o', _) => return refuse("octal", "integers"),
        ('x' | 'X', value) => {
            let shown = match value {
                CelValue::Int(number) if *number < 0 => format!("-{:x}", number.unsigned_abs()),
                CelValue::Int(number) => format!("{number:x}"),
                CelValue::Uint(number) => format!("{number:x}"),
                CelValue::String(text) => hex(text.as_bytes()),
                CelValue::Bytes(bytes) => hex(bytes),
                _ => return refuse("hex", "integers, byte buffers, and strings"),
            };
            write!(out, "{}", if clause == 'X' { shown.to_uppercase() } else { shown })
        }
        (other, _) => {
            return Err(EvaluationError::failed(format!(
                "error during formatting: unrecognized formatting clause \"{other}\""
            )));
        }
    };
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut shown, byte| {
            let _ = write!(shown, "{byte:02x}");
            shown
        })
}

fn as_double(value: &CelValue) -> Option<f64> {
    match value {
        CelValue::Double(float) => Some(*float),
        CelValue::Int(number) => Some(*number as f64),
        CelValue::Uint(number) => Some(*number as f64),
        _ => None,
    }
}

/// What `%s` writes.
fn show(out: &mut String, value: &CelValue) -> Outcome<()> {
    if out.len() > MAX_TEXT {
        return Err(too_long());
    }
    let _ = match value {
        CelValue::String(text) => write!(out, "{text}"),
        CelValue::Bool(flag) => write!(out, "{flag}"),
        CelValue::Int(number) => write!(out, "{number}"),
        CelValue::Uint(number) => write!(out, "{number}"),
        CelValue::Double(float) => write!(out, "{}", show_double(*float)),
        CelValue::Bytes(bytes) => write!(out, "{}", String::from_utf8_lossy(bytes)),
        CelValue::Duration(nanoseconds) => write!(out, "{}", format_seconds(*nanoseconds)),
        CelValue::Timestamp(at) => write!(out, "{at}"),
        CelValue::Type(name) => write!(out, "{name}"),
        CelValue::Null => write!(out, "null"),
        CelValue::List(list) => return show_list(out, list),
        CelValue::Map(map) => return show_map(out, map),
        other => {
            let name = other.type_name();
            return Err(EvaluationError::failed(format!(
                "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                 lists, types, durations, and timestamps, was given {name}"
            )));
        }
    };
    Ok(())
}

fn show_list(out: &mut String, list: &ListValue) -> Outcome<()> {
    out.push('[');
    for index in 0..list.len() {
        if index > 0 {
            out.push_str(", ");
        }
        show(out, &list.get(index)?)?;
    }
    out.push(']');
    Ok(())
}

fn show_map(out: &mut String, map: &MapValue) -> Outcome<()> {
    out.push('{');
    for (index, (key, value)) in map.entries().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        show(out, &key)?;
        out.push_str(": ");
        show(out, &value?)?;
    }
    out.push('}');
    Ok(())
}
