//! Timestamps of the API: RFC 3339 in UTC, with whole seconds ([`Precision::Seconds`], `Time`) or six digits of a
//! second ([`Precision::Micros`], `MicroTime`).

use std::fmt;
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use smol_str::{SmolStr, format_smolstr};

use crate::calendar::{civil_from_days, days_from_civil, days_in_month};

/// Point in time: seconds since 1970 in UTC, and nanoseconds after that second.
///
/// ```
/// use holdfast_gotext::time::Timestamp;
///
/// let earlier = Timestamp { seconds: 0, nanos: 5 };
/// assert!(earlier < Timestamp { seconds: 1, nanos: 0 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z; negative before that time.
    pub seconds: i64,
    /// Nanoseconds after `seconds`.
    pub nanos: u32,
}

/// Resolution of the text form.
///
/// ```
/// use holdfast_gotext::time::{Precision, Timestamp};
///
/// let time = Timestamp::parse("2026-01-02T03:04:05.678901Z", Precision::Micros)?;
/// assert_eq!(time.text(Precision::Micros), "2026-01-02T03:04:05.678901Z");
/// assert_eq!(time.text(Precision::Seconds), "2026-01-02T03:04:05Z");
/// # Ok::<(), holdfast_gotext::time::TimeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Whole seconds; the input may have a fraction.
    Seconds,
    /// Microseconds; the input must have exactly six digits.
    Micros,
}

/// Parse error with the reference's message.
///
/// ```
/// use holdfast_gotext::time::{Precision, Timestamp};
///
/// let error = Timestamp::parse("yesterday", Precision::Seconds).unwrap_err();
/// assert!(error.to_string().starts_with(r#"parsing time "yesterday" as"#));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parsing time {}{problem}", quoted(text))]
pub struct TimeError {
    text: String,
    problem: TimeProblem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TimeProblem {
    /// The rest of the text does not begin with the next element of the layout.
    Element {
        layout: &'static str,
        rest: String,
        element: &'static str,
    },
    /// A number is out of the range of its field.
    Range(&'static str),
    /// The time is followed by extra text.
    Extra(String),
}

impl fmt::Display for TimeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Element { layout, rest, element } => {
                let rest = quoted(rest);
                write!(f, " as {layout:?}: cannot parse {rest} as {element:?}")
            }
            Self::Range(what) => write!(f, ": {what} out of range"),
            Self::Extra(rest) => write!(f, ": extra text: {}", quoted(rest)),
        }
    }
}

/// Quotes text as Go's package `time` does: control characters and non-ASCII characters are escaped byte by byte.
fn quoted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 2);
    shown.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => shown.extend(['\\', char::from(byte)]),
            b' '..=0x7f => shown.push(char::from(byte)),
            _ => shown.push_str(&format!("\\x{byte:02x}")),
        }
    }
    shown.push('"');
    shown
}

const SECONDS_A_DAY: i64 = 86_400;

impl Timestamp {
    /// Go's zero time, which means "not set": 0001-01-01T00:00:00Z.
    pub const ZERO: Self = Self {
        seconds: -62_135_596_800,
        nanos: 0,
    };

    /// Seconds since 1970 that RFC 3339 can express: the years 0 to 9999.
    pub const WRITABLE: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

    /// Parses a time and truncates it to `precision`.
    ///
    /// ```
    /// use holdfast_gotext::time::{Precision, Timestamp};
    ///
    /// let time = Timestamp::parse("2024-03-01T07:06:07.5+02:00", Precision::Seconds).unwrap();
    /// assert_eq!(time.text(Precision::Seconds), "2024-03-01T05:06:07Z");
    /// ```
    ///
    /// # Errors
    /// Returns Go's message if the text is not a time.
    pub fn parse(text: &str, precision: Precision) -> Result<Self, TimeError> {
        let (time, _) = Self::parse_in_zone(text, precision)?;
        Ok(match precision {
            Precision::Seconds => Self { nanos: 0, ..time },
            Precision::Micros => time,
        })
    }

    /// Parses a time with all its digits; also returns the offset of its zone in seconds east of UTC.
    ///
    /// # Errors
    /// Returns Go's message if the text is not a time.
    pub fn parse_in_zone(text: &str, precision: Precision) -> Result<(Self, i64), TimeError> {
        if precision == Precision::Seconds
            && let Some(time) = parse_canonical(text)
        {
            return Ok((time, 0));
        }
        Self::parse_step_by_step(text, precision)
    }

    fn parse_step_by_step(text: &str, precision: Precision) -> Result<(Self, i64), TimeError> {
        let layout = match precision {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Micros => "2006-01-02T15:04:05.000000Z07:00",
        };
        let mut reader = Reader { rest: text, layout };
        reader.time(precision).map_err(|problem| TimeError {
            text: text.to_owned(),
            problem,
        })
    }

    /// Formats the time with `precision`.
    pub fn text(self, precision: Precision) -> SmolStr {
        let (days, second) = (
            self.seconds.div_euclid(SECONDS_A_DAY),
            self.seconds.rem_euclid(SECONDS_A_DAY),
        );
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let (sign, year) = (if year < 0 { "-" } else { "" }, year.abs());
        match precision {
            Precision::Seconds => {
                format_smolstr!("{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
            }
            Precision::Micros => {
                let micros = self.nanos / 1000;
                format_smolstr!("{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
            }
        }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self {
                seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                nanos: since.subsec_nanos(),
            },
            Err(before) => {
                let before = before.duration();
                let whole = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                let nanos = before.subsec_nanos();
                Self {
                    seconds: -whole - i64::from(nanos > 0),
                    nanos: (1_000_000_000 - nanos) % 1_000_000_000,
                }
            }
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let whole = Duration::from_secs(time.seconds.unsigned_abs());
        let nanos = Duration::from_nanos(u64::from(time.nanos));
        let shifted = match time.seconds < 0 {
            true => UNIX_EPOCH.checked_sub(whole),
            false => UNIX_EPOCH.checked_add(whole),
        };
        shifted.and_then(|time| time.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
    }
}

/// Returns the time of a text in the form that [`Timestamp::text`] writes with whole seconds. The full parser decides on
/// all others, and on days that not every month has.
fn parse_canonical(text: &str) -> Option<Timestamp> {
    let [
        a,
        b,
        c,
        d,
        b'-',
        e,
        f,
        b'-',
        g,
        h,
        b'T',
        i,
        j,
        b':',
        k,
        l,
        b':',
        m,
        n,
        b'Z',
    ] = text.as_bytes()
    else {
        return None;
    };
    let pair = |tens: &u8, ones: &u8| {
        let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
        (tens <= 9 && ones <= 9).then_some(u32::from(tens) * 10 + u32::from(ones))
    };
    let year = i64::from(pair(a, b)? * 100 + pair(c, d)?);
    let (month, day) = (pair(e, f)?, pair(g, h)?);
    let (hour, minute, second) = (pair(i, j)?, pair(k, l)?, pair(m, n)?);
    let is_certain = (1..=12).contains(&month) && (1..=28).contains(&day) && hour < 24 && minute < 60 && second < 60;
    let days = is_certain.then(|| days_from_civil(year, month, day))?;
    Some(Timestamp {
        seconds: days * SECONDS_A_DAY + i64::from(hour * 3600 + minute * 60 + second),
        nanos: 0,
    })
}

/// True if the text is certainly a time in the form that [`Timestamp::text`] writes with whole seconds. In doubt the
/// answer is false.
#[expect(
    clippy::indexing_slicing,
    reason = "evaluated only if the length fits the form, because `&&` short-circuits"
)]
pub fn is_canonical(text: &str) -> bool {
    const FORM: &[u8; 20] = b"0000-00-00T00:00:00Z";
    let bytes = text.as_bytes();
    let has_form = bytes.len() == FORM.len()
        && bytes.iter().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        });
    let pair = |at: usize| (bytes[at] - b'0') * 10 + (bytes[at + 1] - b'0');
    // The full parser decides on days that not every month has, and on the year of Go's zero time.
    has_form
        && !text.starts_with("0001")
        && (1..=12).contains(&pair(5))
        && (1..=28).contains(&pair(8))
        && pair(11) < 24
        && pair(14) < 60
        && pair(17) < 60
}

struct Reader<'t> {
    rest: &'t str,
    layout: &'static str,
}

impl Reader<'_> {
    fn time(&mut self, precision: Precision) -> Result<(Timestamp, i64), TimeProblem> {
        let year = self.number(4, "2006")?;
        self.literal("-")?;
        let month = self.number(2, "01")?;
        if !(1..=12).contains(&month) {
            return Err(TimeProblem::Range("month"));
        }
        self.literal("-")?;
        let day = self.number(2, "02")?;
        self.literal("T")?;
        let hour = self.hour()?;
        self.literal(":")?;
        let minute = self.bounded("04", 60, "minute")?;
        self.literal(":")?;
        let second = self.bounded("05", 60, "second")?;
        let nanos = self.fraction(precision)?;
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(TimeProblem::Extra(self.rest.to_owned()));
        }
        if day < 1 || day > i64::from(days_in_month(year, month as u32)) {
            return Err(TimeProblem::Range("day"));
        }
        let seconds =
            days_from_civil(year, month as u32, day as u32) * SECONDS_A_DAY + hour * 3600 + minute * 60 + second
                - offset;
        Ok((Timestamp { seconds, nanos }, offset))
    }

    fn bad(&self, element: &'static str) -> TimeProblem {
        TimeProblem::Element {
            layout: self.layout,
            rest: self.rest.to_owned(),
            element,
        }
    }

    fn number(&mut self, digits: usize, element: &'static str) -> Result<i64, TimeProblem> {
        let digits_ahead = self
            .rest
            .get(..digits)
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits_ahead.ok_or_else(|| self.bad(element))?;
        self.rest = &self.rest[digits..];
        number.parse().map_err(|_| self.bad(element))
    }

    fn bounded(&mut self, element: &'static str, bound: i64, what: &'static str) -> Result<i64, TimeProblem> {
        let number = self.number(2, element)?;
        if number >= bound {
            return Err(TimeProblem::Range(what));
        }
        Ok(number)
    }

    /// Parses the hour. Like in Go, it may have one digit.
    fn hour(&mut self) -> Result<i64, TimeProblem> {
        let mut digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit);
        match (digits.next(), digits.next()) {
            (Some(digit), None) => {
                self.rest = &self.rest[1..];
                Ok(i64::from(digit - b'0'))
            }
            _ => self.bounded("15", 24, "hour"),
        }
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), TimeProblem> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.bad(literal))?;
        Ok(())
    }

    /// Parses the fraction in nanoseconds. A layout without fraction allows one of any length; a layout with fraction
    /// requires six characters that form a number.
    fn fraction(&mut self, precision: Precision) -> Result<u32, TimeProblem> {
        let behind = self.rest.strip_prefix(['.', ',']);
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, length) = match (precision, behind) {
            (Precision::Seconds, Some(behind)) => match digits(behind) {
                0 => return Ok(0),
                length => (&behind[..length], length),
            },
            (Precision::Seconds, None) => return Ok(0),
            (Precision::Micros, behind) => {
                let micros = behind.and_then(|behind| behind.get(..6));
                (micros.ok_or_else(|| self.bad(".000000"))?, 6)
            }
        };
        // Go parses these characters as a number, which may have a sign.
        let (negative, unsigned) = match number.strip_prefix(['+', '-']) {
            Some(unsigned) => (number.starts_with('-'), unsigned),
            None => (false, number),
        };
        if unsigned.is_empty() || digits(unsigned) != unsigned.len() {
            return Err(self.bad(".000000"));
        }
        let counted = unsigned.get(..9).unwrap_or(unsigned);
        let value: u32 = counted.parse().map_err(|_| self.bad(".000000"))?;
        if negative && value > 0 {
            return Err(TimeProblem::Range("fractional second"));
        }
        self.rest = &self.rest[1 + length..];
        let scale = u32::try_from(9usize.saturating_sub(number.len())).unwrap_or_default();
        Ok(value * 10u32.pow(scale))
    }

    /// Parses the zone as seconds east of UTC.
    #[expect(clippy::indexing_slicing, reason = "the length is checked first")]
    fn zone(&mut self) -> Result<i64, TimeProblem> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let digit = |at: usize| {
            bytes
                .get(at)
                .filter(|byte| byte.is_ascii_digit())
                .map(|byte| i64::from(byte - b'0'))
        };
        let pair = |at: usize| Some(digit(at)? * 10 + digit(at + 1)?);
        if bytes.len() < 6 || bytes[3] != b':' {
            return Err(self.bad("Z07:00"));
        }
        // Go reports values out of range first, and the minutes after the hours.
        let hours = pair(1);
        let minutes = hours.and_then(|_| pair(4));
        if minutes.is_some_and(|minutes| minutes > 60) {
            return Err(TimeProblem::Range("time zone offset minute"));
        }
        if hours.is_some_and(|hours| hours > 24) {
            return Err(TimeProblem::Range("time zone offset hour"));
        }
        let (Some(sign @ (b'+' | b'-')), Some(hours), Some(minutes)) = (bytes.first(), hours, minutes) else {
            return Err(self.bad("Z07:00"));
        };
        let distance = hours * 3600 + minutes * 60;
        let offset = if *sign == b'-' { -distance } else { distance };
        self.rest = &self.rest[6..];
        Ok(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_brought_to_utc_and_whole_seconds() {
        for (text, canonical) in [
            ("2026-11-21T04:03:28Z", "2026-11-21T04:03:28Z"),
            ("2026-11-21T04:03:28.75+01:00", "2026-11-21T03:03:28Z"),
            ("2000-02-29T23:59:59-00:30", "2000-03-01T00:29:59Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
            ("2010-10-10T0:00:00Z", "2010-10-10T00:00:00Z"),
            ("2010-10-10T9:00:00,5+24:60", "2010-10-09T08:00:00Z"),
            ("2010-10-10T10:00:00.12345678901234567890Z", "2010-10-10T10:00:00Z"),
            ("0000-01-01T00:00:00+01:00", "-0001-12-31T23:00:00Z"),
        ] {
            let time = Timestamp::parse(text, Precision::Seconds).unwrap();
            assert_eq!(time.text(Precision::Seconds), canonical);
            let again = Timestamp::parse(canonical, Precision::Seconds);
            assert!(
                !Timestamp::WRITABLE.contains(&time.seconds) || again == Ok(time),
                "{text}"
            );
            assert!(is_canonical(text) <= (text == canonical), "{text}");
        }
    }

    #[test]
    fn canonical_times_are_read_as_by_the_full_parser() {
        let days = (-719_530_i64..2_932_900).step_by(997);
        for seconds in days.map(|day| day * SECONDS_A_DAY + day.rem_euclid(SECONDS_A_DAY)) {
            let time = Timestamp { seconds, nanos: 0 };
            let text = time.text(Precision::Seconds);
            if let Some(parsed) = parse_canonical(&text) {
                assert_eq!(parsed, time, "{text}");
            }
            let full = Timestamp::parse_step_by_step(&text, Precision::Seconds);
            assert_eq!(Timestamp::parse_in_zone(&text, Precision::Seconds), full, "{text}");
        }
        let noon = "2026-11-21T12:00:00Z";
        assert!(parse_canonical(noon).is_some());
        for (at, byte) in (0..noon.len()).flat_map(|at| [(at, "x"), (at, "9"), (at, "0"), (at, "/")]) {
            let mut text = noon.to_owned();
            text.replace_range(at..=at, byte);
            let full = Timestamp::parse_step_by_step(&text, Precision::Seconds);
            assert_eq!(Timestamp::parse_in_zone(&text, Precision::Seconds), full, "{text}");
        }
    }

    #[test]
    fn micro_times_have_six_digits() {
        let time = Timestamp::parse("2026-11-21T04:03:28.000123Z", Precision::Micros).unwrap();
        assert_eq!(time.nanos, 123_000);
        assert_eq!(time.text(Precision::Micros), "2026-11-21T04:03:28.000123Z");
        let signed = Timestamp::parse("2026-11-21T4:03:28,+12345Z", Precision::Micros).unwrap();
        assert_eq!(signed.text(Precision::Micros), "2026-11-21T04:03:28.012345Z");
        let error = Timestamp::parse("2026-11-21T04:03:28Z", Precision::Micros).unwrap_err();
        assert_eq!(
            error.to_string(),
            "parsing time \"2026-11-21T04:03:28Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\""
        );
    }

    #[test]
    fn invalid_time_gives_go_error() {
        for (text, problem) in [
            (
                "yesterday",
                " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
            ),
            (
                "2026-11-21",
                " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\"",
            ),
            ("2026-13-21T04:03:28Z", ": month out of range"),
            ("2026-02-30T04:03:28Z", ": day out of range"),
            ("2026-02-20T24:03:28Z", ": hour out of range"),
            ("2026-02-20T04:03:28Zulu", ": extra text: \"ulu\""),
            ("2026-02-20T04:03:28+25:00", ": time zone offset hour out of range"),
            ("2026-02-20T04:03:28x25:61", ": time zone offset minute out of range"),
            (
                "2026-02-20T4:3:28Z",
                " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"3:28Z\" as \"04\"",
            ),
            (
                "2026-02-20T04:03:28+1",
                " as \"2006-01-02T15:04:05Z07:00\": cannot parse \"+1\" as \"Z07:00\"",
            ),
        ] {
            let error = Timestamp::parse(text, Precision::Seconds).unwrap_err();
            assert_eq!(error.to_string(), format!("parsing time {text:?}{problem}"));
            assert!(!is_canonical(text));
        }
    }

    #[test]
    fn invalid_time_is_quoted_byte_by_byte() {
        let rejection = |text: &str| Timestamp::parse(text, Precision::Seconds).unwrap_err().to_string();
        assert_eq!(
            rejection("\u{e9}\n\"\\"),
            r#"parsing time "\xc3\xa9\x0a\"\\" as "2006-01-02T15:04:05Z07:00": cannot parse "\xc3\xa9\x0a\"\\" as "2006""#
        );
        assert!(rejection("2026-02-20T04:03:28Z\u{e9}").ends_with(r#": extra text: "\xc3\xa9""#));
    }

    #[test]
    fn the_zero_time_is_left_to_the_reader() {
        assert!(!is_canonical("0001-01-01T00:00:00Z"));
        assert!(is_canonical("2020-01-01T00:00:00Z"));
    }

    #[test]
    fn the_clock_and_a_timestamp_agree() {
        for seconds in [-1_000_000_001, -1, 0, 1_795_000_000] {
            let time = Timestamp { seconds, nanos: 5 };
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }
}
