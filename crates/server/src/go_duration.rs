//! Durations as Go writes them (`300ms`, `1m30s`, `1.5h`), which flags and query parameters are given in.

use std::time::Duration;

/// The units and how many nanoseconds they are; a longer name stands before those that it begins with.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Reads a duration. One below zero is none at all.
///
/// # Errors
/// What Go says of a text that is no duration.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let is_number = |character: char| character.is_ascii_digit() || character == '.';
        let (number, behind) = rest.split_at(rest.find(|character| !is_number(character)).unwrap_or(rest.len()));
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let (unit, behind) = behind.split_at(behind.find(is_number).unwrap_or(behind.len()));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, factor) = known.ok_or_else(|| format!("time: unknown unit {unit:?} in duration {text:?}"))?;
        nanoseconds += number * factor;
        rest = behind;
    }
    // Go counts nanoseconds in 63 bits.
    if nanoseconds >= i64::MAX as f64 {
        return Err(invalid());
    }
    Ok(if negative {
        Duration::ZERO
    } else {
        Duration::from_nanos(nanoseconds as u64)
    })
}

/// A duration of whole seconds, as Go writes it: `1m30s`, `10s`.
pub fn text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let cases = [
            ("0", 0),
            ("0s", 0),
            ("1m30s", 90_000),
            ("300ms", 300),
            ("1.5h", 5_400_000),
            ("2h45m", 9_900_000),
            (".5s", 500),
            ("-1s", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_in_the_words_of_go() {
        let cases = [
            ("", "time: invalid duration \"\""),
            ("s", "time: invalid duration \"s\""),
            ("invalid", "time: invalid duration \"invalid\""),
            ("5", "time: missing unit in duration \"5\""),
            ("1x", "time: unknown unit \"x\" in duration \"1x\""),
            ("1..5s", "time: invalid duration \"1..5s\""),
            ("9999999h", "time: invalid duration \"9999999h\""),
        ];
        for (text, why) in cases {
            assert_eq!(parse(text).unwrap_err(), why, "{text}");
        }
    }
}
