//! Numbers as Go formats and parses them.

use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

use crate::quote::quote;

/// Formats a float like Go's `%v` and `strconv.FormatFloat(f, 'g', -1, 64)`: the shortest digits, with an exponent
/// below 1e-4 and from 1e6.
///
/// ```
/// use holdfast_gotext::number::general;
///
/// assert_eq!(general(0.5), "0.5");
/// assert_eq!(general(1e6), "1e+06");
/// ```
pub fn general(float: f64) -> String {
    shape(&format!("{float:e}"))
}

/// Formats the nearest 32-bit float in the same way, as keys of YAML mappings are printed.
pub fn general_32(float: f64) -> String {
    shape(&format!("{:e}", float as f32))
}

/// Converts the form `-d.ddde-x` to Go's form.
fn shape(scientific: &str) -> String {
    let (sign, magnitude) = match scientific.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", scientific),
    };
    let Some((mantissa, exponent)) = magnitude.split_once('e') else {
        return match (magnitude, sign) {
            ("NaN", _) => "NaN".to_owned(),
            (_, "-") => "-Inf".to_owned(),
            _ => "+Inf".to_owned(),
        };
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..6).contains(&exponent) {
        let sign_of_exponent = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{sign_of_exponent}{:02}", exponent.abs());
    }
    let digits = mantissa.replace('.', "");
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent.unsigned_abs() as usize + 1;
    match digits.len().checked_sub(whole) {
        Some(0) => format!("{sign}{digits}"),
        Some(_) => format!("{sign}{}.{}", &digits[..whole], &digits[whole..]),
        None => format!("{sign}{digits:0<whole$}"),
    }
}

/// Parses a decimal number of type `T` like Go's `strconv.ParseInt`.
///
/// ```
/// use holdfast_gotext::number::parse_int;
///
/// assert_eq!(parse_int::<i64>("-12"), Ok(-12));
/// assert_eq!(parse_int::<i64>("x").unwrap_err(), r#"strconv.ParseInt: parsing "x": invalid syntax"#);
/// ```
///
/// # Errors
/// Returns Go's message if the text is not such a number.
pub fn parse_int<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    parse("ParseInt", text)
}

/// Parses a number like [`parse_int`], with the messages of `strconv.Atoi`.
///
/// # Errors
/// Returns the errors of [`parse_int`].
pub fn atoi<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    parse("Atoi", text)
}

/// Parses an unsigned decimal number of type `T` like Go's `strconv.ParseUint`, which allows no sign.
///
/// # Errors
/// Returns Go's message if the text is not such a number.
pub fn parse_uint<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    match text.strip_prefix('+') {
        Some(_) => Err(failure_message("ParseUint", text, "invalid syntax")),
        None => parse("ParseUint", text),
    }
}

fn parse<T: FromStr<Err = ParseIntError>>(function: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error: ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::NegOverflow | IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        failure_message(function, text, why)
    })
}

fn failure_message(function: &str, text: &str, why: &str) -> String {
    format!("strconv.{function}: parsing {}: {why}", quote(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_number_gives_go_error() {
        assert_eq!(parse_int::<i64>("+7"), Ok(7));
        assert_eq!(atoi::<i64>("-7"), Ok(-7));
        assert_eq!(parse_uint::<u64>("7"), Ok(7));
        let rejected = |outcome: Result<i32, String>| outcome.unwrap_err();
        assert_eq!(
            rejected(parse_int("9999999999")),
            "strconv.ParseInt: parsing \"9999999999\": value out of range"
        );
        assert_eq!(rejected(atoi("")), "strconv.Atoi: parsing \"\": invalid syntax");
        for signed in ["+7", "-7"] {
            assert_eq!(
                parse_uint::<u16>(signed),
                Err(format!("strconv.ParseUint: parsing \"{signed}\": invalid syntax"))
            );
        }
    }

    #[test]
    fn float_has_go_general_form() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (100000.0, "100000"),
            (123456.75, "123456.75"),
            (1e6, "1e+06"),
            (1234567.0, "1.234567e+06"),
            (9007199254740992.0, "9.007199254740992e+15"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (float, expected) in cases {
            assert_eq!(general(float), expected);
        }
        assert_eq!(general_32(0.1), "0.1");
        assert_eq!(general_32(1.1234567890123), "1.1234568");
    }
}
