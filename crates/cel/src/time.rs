//! Timestamps and durations: parsing, formatting, and the parts of a date.

use std::cmp::Ordering;
use std::fmt;

use holdfast_gotext::calendar::{civil_from_days, days_from_civil};
use holdfast_gotext::duration;
use holdfast_gotext::time::{self, Precision};

use crate::error::EvaluationError;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Timestamp between the years 1 and 9999 with nanoseconds. It keeps the zone offset of its text only for its text
/// form; everything else ignores it.
///
/// ```
/// use holdfast_cel::Timestamp;
///
/// let time = Timestamp::parse("1970-01-01T01:00:00+01:00").unwrap();
/// assert_eq!(time, Timestamp::new(0, 0).unwrap());
/// assert!(Timestamp::parse("yesterday").is_none());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    seconds: i64,
    nanoseconds: u32,
    /// Seconds east of UTC.
    offset: i32,
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanoseconds).cmp(&(other.seconds, other.nanoseconds))
    }
}

/// Error of parsing a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTimestamp {
    /// The text does not have the form of RFC 3339.
    Malformed,
    /// The time is outside the years 1 to 9999.
    OutOfRange,
}

/// First and last second of a timestamp.
const FIRST: i64 = time::Timestamp::ZERO.seconds;
const LAST: i64 = *time::Timestamp::WRITABLE.end();

/// Date and time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: u32,
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
    pub(crate) nanosecond: u32,
    /// Day of the week; 0 is Sunday.
    pub(crate) weekday: u32,
    /// Day of the year; 0 is the first of January.
    pub(crate) day_of_year: u32,
}

impl Timestamp {
    /// Returns the time `seconds` after 1970; `None` outside the years 1 to 9999.
    pub fn new(seconds: i64, nanoseconds: u32) -> Option<Self> {
        (FIRST..=LAST).contains(&seconds).then_some(Self {
            seconds,
            nanoseconds,
            offset: 0,
        })
    }

    /// Returns the offset of the timestamp's original zone in seconds east of UTC.
    pub(crate) fn offset(self) -> i64 {
        i64::from(self.offset)
    }

    /// Parses RFC 3339 like Go, which rejects lower-case letters.
    pub(crate) fn convert(text: &str) -> Result<Self, NoTimestamp> {
        let (time, offset) =
            time::Timestamp::parse_in_zone(text, Precision::Seconds).map_err(|_| NoTimestamp::Malformed)?;
        let at = Timestamp::new(time.seconds, time.nanos).ok_or(NoTimestamp::OutOfRange)?;
        Ok(at.in_offset(offset))
    }

    /// Returns the same time in UTC.
    pub(crate) fn utc(self) -> Self {
        self.in_offset(0)
    }

    fn in_offset(self, offset: i64) -> Self {
        let offset = i32::try_from(offset).unwrap_or_default();
        Self { offset, ..self }
    }

    /// Returns the whole seconds since 1970.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Parses RFC 3339, also with lower-case letters.
    pub fn parse(text: &str) -> Option<Self> {
        Self::convert(&text.to_ascii_uppercase()).ok()
    }

    /// Parses `2006-01-02`.
    pub(crate) fn parse_date(text: &str) -> Option<Self> {
        Timestamp::parse(&format!("{text}T00:00:00Z"))
    }

    /// Returns the time `duration` nanoseconds later.
    pub(crate) fn plus(self, duration: i64) -> Result<Self, EvaluationError> {
        let total = i128::from(self.seconds) * i128::from(SECOND) + i128::from(self.nanoseconds) + i128::from(duration);
        let seconds = i64::try_from(total.div_euclid(i128::from(SECOND)));
        let nanoseconds = total.rem_euclid(i128::from(SECOND)) as u32;
        seconds
            .ok()
            .and_then(|seconds| Timestamp::new(seconds, nanoseconds))
            .map(|at| at.in_offset(self.offset()))
            .ok_or(EvaluationError::Overflow("timestamp"))
    }

    /// Returns the nanoseconds since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Result<i64, EvaluationError> {
        let nanoseconds = |point: Self| i128::from(point.seconds) * i128::from(SECOND) + i128::from(point.nanoseconds);
        i64::try_from(nanoseconds(self) - nanoseconds(earlier)).map_err(|_| EvaluationError::Overflow("integer"))
    }

    /// Returns the date and time of day at `offset` seconds east of UTC.
    pub(crate) fn civil(self, offset: i64) -> Civil {
        let local = self.seconds + offset;
        let days = local.div_euclid(DAY);
        let of_day = local.rem_euclid(DAY) as u32;
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            nanosecond: self.nanoseconds,
            weekday: (days + 4).rem_euclid(7) as u32,
            day_of_year: (days - days_from_civil(year, 1, 1)) as u32,
        }
    }
}

impl fmt::Display for Timestamp {
    /// Formats RFC 3339 in the original zone, with the necessary digits of the second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.civil(self.offset());
        let (year, month, day) = (at.year, at.month, at.day);
        let (hour, minute, second) = (at.hour, at.minute, at.second);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanoseconds > 0 {
            write!(f, ".{}", format!("{:09}", self.nanoseconds).trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.unsigned_abs() / 60);
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Parses a text of the format `duration`: Go's syntax, and words such as `5 minutes` or `2d`.
pub(crate) fn parse_format_duration(text: &str) -> Option<i64> {
    if let Ok(duration) = duration::parse(text) {
        return Some(duration);
    }
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut rest = rest.trim_start();
    let mut total = 0_i64;
    let mut any = false;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let count: i64 = rest[..digits].parse().ok()?;
        let after = rest[digits..].trim_start();
        let letters = after
            .find(|character: char| !character.is_alphabetic())
            .unwrap_or(after.len());
        let scale = match &after[..letters] {
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
            "us" | "µs" | "μs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
            "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
            "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600 * SECOND,
            "d" | "day" | "days" => DAY * SECOND,
            "w" | "wk" | "week" | "weeks" => 7 * DAY * SECOND,
            _ => return None,
        };
        total = total.checked_add(count.checked_mul(scale)?)?;
        any = true;
        rest = after[letters..].trim_start();
    }
    any.then_some(if negative { -total } else { total })
}

/// Formats a duration in seconds like `string(duration)`: `1.5s`.
pub(crate) fn format_seconds(nanoseconds: i64) -> String {
    // The reference adds seconds and fraction in one float, which loses digits of long durations.
    let seconds = (nanoseconds / SECOND) as f64 + (nanoseconds % SECOND) as f64 / 1e9;
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_come_back_as_they_were_written() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59.5Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999999Z",
            "1969-12-31T23:59:59.000000001Z",
        ] {
            assert_eq!(Timestamp::parse(text).map(|at| at.to_string()).as_deref(), Some(text));
        }
        assert!(Timestamp::parse("2020-01-01T00:00:00+24:00").is_some());
        let shifted = Timestamp::parse("2024-01-01T00:30:00+01:00").map(|at| at.to_string());
        assert_eq!(shifted.as_deref(), Some("2024-01-01T00:30:00+01:00"));
        assert_eq!(
            Timestamp::parse("2024-01-01T00:30:00+01:00"),
            Timestamp::parse("2023-12-31T23:30:00Z")
        );
        assert_eq!(Timestamp::convert("2024-01-01t00:00:00z"), Err(NoTimestamp::Malformed));
        assert_eq!(Timestamp::convert("0000-01-01T00:00:00Z"), Err(NoTimestamp::OutOfRange));
        for text in [
            "2023-02-29T00:00:00Z",
            "2024-01-01",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00",
            "x",
            "",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_parts_of_a_date_follow_the_calendar() {
        let civil = Timestamp::parse("2024-03-01T05:06:07Z").map(|at| at.civil(0));
        let at = civil.map(|civil| (civil.weekday, civil.day_of_year, civil.hour, civil.minute, civil.second));
        assert_eq!(at, Some((5, 60, 5, 6, 7)));
    }

    #[test]
    fn durations_may_be_written_in_words() {
        assert_eq!(parse_format_duration("2 days"), Some(2 * DAY * SECOND));
        assert_eq!(parse_format_duration("soon"), None);
        assert_eq!(format_seconds(-1_500_000_000), "-1.5s");
        assert_eq!(format_seconds(i64::MAX), "9223372036.854776s");
    }
}
