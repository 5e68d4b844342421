//! Durations in the text form of Go's `time`: `300ms`, `1m30s`, `-1.5h`.

use std::time::Duration;

use crate::quote::quote_bytes;

/// Units with their length in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    // Both micro signs.
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", MINUTE),
    ("h", HOUR),
];

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Largest absolute value in nanoseconds. Only a negative duration can have it.
const MAX_NANOSECONDS: u64 = 1 << 63;

/// Parses a duration in nanoseconds, like `time.ParseDuration`.
///
/// ```
/// assert_eq!(holdfast_gotext::duration::parse("1m0.5s"), Ok(60_500_000_000));
/// ```
///
/// # Errors
/// Returns Go's message if the text is not a duration.
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote_bytes(text));
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (whole, behind) = digits(rest);
        let (fraction, behind) = behind.strip_prefix('.').map_or(("", behind), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let ends = |character: char| character.is_ascii_digit() || character == '.';
        let (unit, behind) = behind.split_at(behind.find(ends).unwrap_or(behind.len()));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote_bytes(text)));
        }
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, scale) = known.ok_or_else(|| {
            format!(
                "time: unknown unit {} in duration {}",
                quote_bytes(unit),
                quote_bytes(text)
            )
        })?;
        let nanoseconds = nanoseconds(whole, fraction, *scale);
        let sum = nanoseconds.and_then(|nanoseconds| total.checked_add(nanoseconds));
        total = sum.filter(|sum| *sum <= MAX_NANOSECONDS).ok_or_else(invalid)?;
        rest = behind;
    }
    let total = i128::from(total);
    i64::try_from(if negative { -total } else { total }).map_err(|_| invalid())
}

/// Parses a duration that cannot be negative, like [`parse`]. A negative duration becomes zero.
///
/// # Errors
/// Returns Go's message if the text is not a duration.
pub fn parse_from_zero(text: &str) -> Result<Duration, String> {
    let nanoseconds = parse(text)?;
    Ok(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default()))
}

/// Splits `text` into its leading digits and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Returns `whole.fraction` units in nanoseconds, or `None` on overflow. Like Go, computes the fraction in floating
/// point.
fn nanoseconds(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    let number: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let whole = number.checked_mul(unit)?;
    let (mut behind, mut scale) = (0_u64, 1.0);
    for digit in fraction.bytes().map(|digit| u64::from(digit - b'0')) {
        let next = behind.checked_mul(10).and_then(|next| next.checked_add(digit));
        // Digits that no longer fit are ignored.
        let Some(next) = next.filter(|next| *next <= MAX_NANOSECONDS) else {
            break;
        };
        (behind, scale) = (next, scale * 10.0);
    }
    whole.checked_add((behind as f64 * (unit as f64 / scale)) as u64)
}

/// Formats a duration like Go: `1h0m0s`, `1m30s`, `1.5s`, `300ms`.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(holdfast_gotext::duration::text(Duration::from_secs(90)), "1m30s");
/// assert_eq!(holdfast_gotext::duration::text(Duration::from_millis(1500)), "1.5s");
/// ```
pub fn text(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    let (second, minute, hour) = (u128::from(SECOND), u128::from(MINUTE), u128::from(HOUR));
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    if nanoseconds < second {
        let (unit, scale) = match nanoseconds {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("\u{b5}s", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!("{}{unit}", decimal(nanoseconds, scale));
    }
    let seconds = decimal(nanoseconds % minute, second);
    match (nanoseconds / hour, nanoseconds / minute % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Formats `value / scale` without trailing zeros. The scale is a power of ten.
fn decimal(value: u128, scale: u128) -> String {
    let (whole, fraction) = (value / scale, value % scale);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = scale.ilog10() as usize;
    let fraction = format!("{fraction:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_parses_like_go() {
        const MILLI: i64 = 1_000_000;
        let cases = [
            ("0", 0),
            ("+0", 0),
            ("0s", 0),
            ("1m30s", 90_000 * MILLI),
            ("300ms", 300 * MILLI),
            ("1.5h", 5_400_000 * MILLI),
            ("1.h", 3_600_000 * MILLI),
            ("2h45m", 9_900_000 * MILLI),
            (".5s", 500 * MILLI),
            ("-1.5s", -1500 * MILLI),
            ("100ms1us2\u{b5}s3\u{3bc}s", 100 * MILLI + 6_000),
            ("0.3333333333333333333h", 1_200_000 * MILLI),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ];
        for (text, nanoseconds) in cases {
            assert_eq!(parse(text), Ok(nanoseconds), "{text}");
        }
        assert_eq!(parse_from_zero("-1s"), Ok(Duration::ZERO));
    }

    #[test]
    fn invalid_duration_gives_go_error() {
        let cases = [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            ("s", r#"time: invalid duration "s""#),
            (".s", r#"time: invalid duration ".s""#),
            ("invalid", r#"time: invalid duration "invalid""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1x", r#"time: unknown unit "x" in duration "1x""#),
            ("1..5s", r#"time: missing unit in duration "1..5s""#),
            (
                "1\u{e9}\n\"",
                r#"time: unknown unit "\xc3\xa9\x0a\"" in duration "1\xc3\xa9\x0a\"""#,
            ),
            ("9999999h", r#"time: invalid duration "9999999h""#),
            (
                "9223372036854775808ns",
                r#"time: invalid duration "9223372036854775808ns""#,
            ),
            (
                "99999999999999999999s",
                r#"time: invalid duration "99999999999999999999s""#,
            ),
        ];
        for (text, why) in cases {
            assert_eq!(parse(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn duration_formats_like_go() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (2_200_000, "2.2ms"),
            (10_000_000_000, "10s"),
            (90_500_000_000, "1m30.5s"),
            (3_600_000_000_000, "1h0m0s"),
        ];
        for (nanoseconds, expected) in cases {
            assert_eq!(text(Duration::from_nanos(nanoseconds)), expected);
        }
    }
}
