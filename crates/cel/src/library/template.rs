//! Format templates: `'%s is %d'.format([a, b])`.

use std::fmt::Write;

use holdfast_gotext::number::{atoi, general};
use holdfast_gotext::quote::quote;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::Context;
use crate::library::strings::{MAX_TEXT, text, too_long};
use crate::time::format_seconds;
use crate::value::{CelValue, ListValue, MapValue, Outcome};

/// Maximum precision of a clause.
const MAX_PRECISION: usize = 1000;

/// Part of a template.
pub(crate) enum Piece<'a> {
    Text(&'a str),
    /// A clause such as `%.2f`: the verb and the number of digits.
    Clause {
        verb: char,
        precision: Option<usize>,
    },
}

/// Pieces of a template for this many arguments, up to the first invalid one.
pub(crate) struct Pieces<'a> {
    rest: &'a str,
    used: usize,
    values: usize,
}

pub(crate) fn pieces(template: &str, values: usize) -> Pieces<'_> {
    Pieces {
        rest: template,
        used: 0,
        values,
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Result<Piece<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        if let Some(after) = self.rest.strip_prefix("%%") {
            let percent = &self.rest[..1];
            self.rest = after;
            return Some(Ok(Piece::Text(percent)));
        }
        let Some(after) = self.rest.strip_prefix('%') else {
            let end = self.rest.find('%').unwrap_or(self.rest.len());
            let (text, after) = self.rest.split_at(end);
            self.rest = after;
            return Some(Ok(Piece::Text(text)));
        };
        let clause = self.clause(after);
        if clause.is_err() {
            self.rest = "";
        }
        Some(clause)
    }
}

impl<'a> Pieces<'a> {
    fn clause(&mut self, after: &'a str) -> Result<Piece<'a>, String> {
        if self.used >= self.values {
            return Err(format!("index {} out of range", self.used));
        }
        if after.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let (precision, after) = precision(after)
            .map_err(|why| format!("could not parse formatting clause: error while parsing precision: {why}"))?;
        // The reference reads bytes here.
        let byte = after.as_bytes().first().copied().unwrap_or_default();
        let verb = char::from(byte);
        if !"sdfebxXo".contains(verb) {
            return Err(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            ));
        }
        self.used += 1;
        self.rest = &after[1..];
        Ok(Piece::Clause { verb, precision })
    }
}

fn precision(after: &str) -> Result<(Option<usize>, &str), String> {
    let Some(after) = after.strip_prefix('.') else {
        return Ok((None, after));
    };
    let length = after.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = after.split_at(length);
    if after.is_empty() {
        return Err("could not find end of precision specifier".to_owned());
    }
    match atoi(digits) {
        Ok(precision) if precision <= MAX_PRECISION => Ok((Some(precision), after)),
        Ok(precision) => Err(format!("precision {precision} exceeds the limit {MAX_PRECISION}")),
        Err(why) => Err(format!("error while converting precision to integer: {why}")),
    }
}

/// Returns the error of a clause for a value of the wrong type.
pub(crate) fn rejection(verb: char) -> &'static str {
    match verb {
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        _ => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
             timestamps"
        }
    }
}

fn failed(why: impl std::fmt::Display) -> EvaluationError {
    EvaluationError::failed(format!("error during formatting: {why}"))
}

/// Evaluates `template.format(values)`.
pub(super) fn format(_: &Context<'_>, args: &[CelValue]) -> Outcome {
    let [template, CelValue::List(values)] = args else {
        return Err(NoSuchOverload);
    };
    let (mut out, mut next) = (String::new(), 0);
    for piece in pieces(text(template)?, values.len()) {
        match piece.map_err(EvaluationError::failed)? {
            Piece::Text(text) => out.push_str(text),
            Piece::Clause { verb, precision } => {
                write_clause(&mut out, verb, precision, &values.get(next)?)?;
                next += 1;
            }
        }
        if out.len() > MAX_TEXT {
            return Err(too_long());
        }
    }
    Ok(CelValue::text(out))
}

fn write_clause(out: &mut String, verb: char, precision: Option<usize>, value: &CelValue) -> Outcome<()> {
    let reject = || {
        Err(failed(format_args!(
            "{}, was given {}",
            rejection(verb),
            value.type_name()
        )))
    };
    let signed = |number: &i64| if *number < 0 { "-" } else { "" };
    // Writing to a string does not fail.
    let _ = match (verb, value) {
        ('s', value) => return show(out, value),
        ('d', CelValue::Int(number)) => write!(out, "{number}"),
        ('d', CelValue::Uint(number)) => write!(out, "{number}"),
        ('f' | 'e', value) => match as_double(value) {
            Some(float) => {
                write_double(out, verb, precision.unwrap_or(6), float);
                Ok(())
            }
            None => return reject(),
        },
        ('b', CelValue::Int(number)) => write!(out, "{}{:b}", signed(number), number.unsigned_abs()),
        ('b', CelValue::Uint(number)) => write!(out, "{number:b}"),
        ('b', CelValue::Bool(flag)) => write!(out, "{}", u8::from(*flag)),
        ('o', CelValue::Int(number)) => write!(out, "{}{:o}", signed(number), number.unsigned_abs()),
        ('o', CelValue::Uint(number)) => write!(out, "{number:o}"),
        ('x', CelValue::Int(number)) => write!(out, "{}{:x}", signed(number), number.unsigned_abs()),
        ('X', CelValue::Int(number)) => write!(out, "{}{:X}", signed(number), number.unsigned_abs()),
        ('x', CelValue::Uint(number)) => write!(out, "{number:x}"),
        ('X', CelValue::Uint(number)) => write!(out, "{number:X}"),
        ('x' | 'X', CelValue::String(text)) => write_hex(out, verb, text.as_bytes()),
        ('x' | 'X', CelValue::Bytes(bytes)) => write_hex(out, verb, bytes),
        _ => return reject(),
    };
    Ok(())
}

fn write_hex(out: &mut String, verb: char, bytes: &[u8]) -> std::fmt::Result {
    bytes.iter().try_for_each(|byte| match verb {
        'X' => write!(out, "{byte:02X}"),
        _ => write!(out, "{byte:02x}"),
    })
}

/// Returns a float, also from the texts for floats without a JSON form.
fn as_double(value: &CelValue) -> Option<f64> {
    match value {
        CelValue::Double(float) => Some(*float),
        CelValue::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Formats a float like the reference does for American English. For `%e` the precision is used as the minimum width.
fn write_double(out: &mut String, verb: char, precision: usize, float: f64) {
    let sign = if float < 0.0 { "-" } else { "" };
    let magnitude = float.abs();
    let digits = match verb {
        _ if float.is_nan() => "NaN".to_owned(),
        _ if magnitude.is_infinite() => "∞".to_owned(),
        'f' => grouped(&format!("{magnitude:.precision$}")),
        _ => scientific(magnitude),
    };
    let shown = format!("{sign}{digits}");
    let width = if verb == 'e' { precision } else { 0 };
    // Writing to a string does not fail.
    let _ = write!(out, "{shown:>width$}");
}

/// Groups the digits before the point by three.
fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut grouped = String::with_capacity(number.len() * 4 / 3);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction
}

/// Formats `1.500000×10⁰⁰`.
fn scientific(magnitude: f64) -> String {
    let shown = format!("{magnitude:.6e}");
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ("⁻", digits),
        None => ("", exponent),
    };
    let padded = format!("{digits:0>2}");
    let raised = padded.bytes().map(|digit| match digit {
        b'1' => '¹',
        b'2' => '²',
        b'3' => '³',
        digit => char::from_u32(0x2070 + u32::from(digit - b'0')).unwrap_or('⁰'),
    });
    format!("{mantissa}×10{sign}{}", raised.collect::<String>())
}

/// Formats a value for `%s`.
fn show(out: &mut String, value: &CelValue) -> Outcome<()> {
    if out.len() > MAX_TEXT {
        return Err(too_long());
    }
    match value {
        CelValue::List(list) => show_list(out, list),
        CelValue::Map(map) => show_map(out, map),
        other => {
            out.push_str(&plain(other)?);
            Ok(())
        }
    }
}

/// Formats a value without parts as text.
fn plain(value: &CelValue) -> Outcome<String> {
    Ok(match value {
        CelValue::String(text) => text.to_string(),
        CelValue::Bool(flag) => flag.to_string(),
        CelValue::Int(number) => number.to_string(),
        CelValue::Uint(number) => number.to_string(),
        CelValue::Double(float) => general(*float),
        CelValue::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                return Err(failed(
                    "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string",
                ));
            }
        },
        CelValue::Duration(nanoseconds) => format_seconds(*nanoseconds),
        CelValue::Timestamp(at) => at.to_string(),
        CelValue::Type(name) => name.to_string(),
        CelValue::Null => "null".to_owned(),
        other => {
            return Err(failed(format_args!(
                "{}, was given {}",
                rejection('s'),
                other.type_name()
            )));
        }
    })
}

/// Formats a value within a list or map in the syntax of the language.
fn show_part(out: &mut String, value: &CelValue) -> Outcome<()> {
    // Writing to a string does not fail.
    let _ = match value {
        CelValue::List(_) | CelValue::Map(_) => return show(out, value),
        CelValue::String(text) => write!(out, "{}", quote(text)),
        CelValue::Bytes(_) => write!(out, "b{}", quote(&plain(value)?)),
        CelValue::Double(float) if float.is_finite() => write!(out, "{float:.6}"),
        CelValue::Double(float) => write!(out, "{}", quote(&general(*float))),
        CelValue::Timestamp(_) => write!(out, "timestamp({})", quote(&plain(value)?)),
        CelValue::Duration(_) => write!(out, "duration({})", quote(&plain(value)?)),
        CelValue::Bool(_) | CelValue::Int(_) | CelValue::Uint(_) | CelValue::Type(_) | CelValue::Null => {
            write!(out, "{}", plain(value)?)
        }
        other => return Err(failed(format_args!("no formatting function for {}", other.type_name()))),
    };
    Ok(())
}

fn show_list(out: &mut String, list: &ListValue) -> Outcome<()> {
    out.push('[');
    for index in 0..list.len() {
        if index > 0 {
            out.push_str(", ");
        }
        if out.len() > MAX_TEXT {
            return Err(too_long());
        }
        show_part(out, &list.get(index)?)?;
    }
    out.push(']');
    Ok(())
}

/// Formats the entries, ordered by the text of their keys.
fn show_map(out: &mut String, map: &MapValue) -> Outcome<()> {
    let mut entries = Vec::with_capacity(map.len());
    let mut size = out.len();
    for (key, value) in map.entries() {
        let (mut shown_key, mut shown) = (String::new(), String::new());
        show_part(&mut shown_key, &key)?;
        show_part(&mut shown, &value?)?;
        size += shown_key.len() + shown.len();
        if size > MAX_TEXT {
            return Err(too_long());
        }
        entries.push((shown_key, shown));
    }
    entries.sort();
    let entries: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    // Writing to a string does not fail.
    let _ = write!(out, "{{{}}}", entries.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_for_american_english() {
        let shown = |verb, precision, float| {
            let mut out = String::new();
            write_double(&mut out, verb, precision, float);
            out
        };
        assert_eq!(shown('f', 6, 1e6), "1,000,000.000000");
        assert_eq!(shown('f', 1, -123_456.25), "-123,456.2");
        assert_eq!(shown('f', 0, -0.0), "0");
        assert_eq!(shown('f', 2, f64::NEG_INFINITY), "-∞");
        assert_eq!(shown('e', 6, 1.5), "1.500000×10⁰⁰");
        assert_eq!(shown('e', 2, -0.1), "-1.000000×10⁻⁰¹");
        assert_eq!(shown('e', 16, 1e300), "  1.000000×10³⁰⁰");
    }

    #[test]
    fn templates_that_cannot_be_read_are_reported() {
        for (template, values, why) in [
            ("%d", 0, "index 0 out of range"),
            ("a%", 1, "unexpected end of string"),
            (
                "%a",
                1,
                "could not parse formatting clause: unrecognized formatting clause \"a\"",
            ),
            (
                "%.2",
                1,
                "could not parse formatting clause: error while parsing precision: could not find end of precision specifier",
            ),
            (
                "%.f",
                1,
                "could not parse formatting clause: error while parsing precision: error while converting precision to \
                 integer: strconv.Atoi: parsing \"\": invalid syntax",
            ),
        ] {
            let message = pieces(template, values).find_map(Result::err);
            assert_eq!(message.as_deref(), Some(why), "{template}");
        }
        assert_eq!(
            pieces("%%%s 100%%", 1)
                .filter(|piece| matches!(piece, Ok(Piece::Clause { .. })))
                .count(),
            1
        );
    }
}
