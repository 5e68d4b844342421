//! Time since an event, in the format of `kubectl get`.

use std::time::{Duration, SystemTime};

use holdfast_gotext::time::{Precision, Timestamp};

/// A length in seconds and its symbol.
type Unit = (u64, char);

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// Maximum duration of the reference.
const LONGEST: Duration = Duration::from_nanos(i64::MAX as u64);

/// Returns the time from the RFC 3339 `time` to `now`; `<unknown>` without a time.
pub fn age(time: Option<&str>, now: SystemTime) -> String {
    let Some(time) = time.and_then(parse_time) else {
        return "<unknown>".to_owned();
    };
    match now.duration_since(time) {
        Ok(passed) => duration(passed.min(LONGEST)),
        Err(ahead) if ahead.duration() < Duration::from_secs(2) => "0s".to_owned(),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// Formats a duration for people: two units at most, and the smaller one only if it matters.
pub fn duration(passed: Duration) -> String {
    let seconds = passed.as_secs();
    // Below each bound: the unit, and the smaller unit that is added to it.
    let steps: [(u64, u64, char, Option<Unit>); 9] = [
        (2 * MINUTE, 1, 's', None),
        (10 * MINUTE, MINUTE, 'm', Some((1, 's'))),
        (3 * HOUR, MINUTE, 'm', None),
        (8 * HOUR, HOUR, 'h', Some((MINUTE, 'm'))),
        (2 * DAY, HOUR, 'h', None),
        (8 * DAY, DAY, 'd', Some((HOUR, 'h'))),
        (2 * YEAR, DAY, 'd', None),
        (8 * YEAR, YEAR, 'y', Some((DAY, 'd'))),
        (u64::MAX, YEAR, 'y', None),
    ];
    let step = steps.iter().find(|(bound, ..)| seconds < *bound);
    let Some((_, unit, sign, smaller)) = step else {
        return String::new();
    };
    let text = format!("{}{sign}", seconds / unit);
    match smaller {
        Some((smaller, sign)) if seconds % unit / smaller > 0 => format!("{text}{}{sign}", seconds % unit / smaller),
        _ => text,
    }
}

/// Reads a time in the form of objects: RFC 3339, with or without a fraction of a second.
pub fn parse_time(text: &str) -> Option<SystemTime> {
    let (time, _) = Timestamp::parse_in_zone(text, Precision::Seconds).ok()?;
    Some(time.into())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn durations_are_written_as_kubectl_does() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (8 * HOUR + 60, "8h"),
            (48 * HOUR, "2d"),
            (50 * HOUR, "2d2h"),
            (8 * DAY + HOUR, "8d"),
            (730 * DAY, "2y"),
            (735 * DAY, "2y5d"),
            (8 * YEAR, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn times_are_read_with_and_without_a_fraction() {
        let at = |seconds, nanos| Some(UNIX_EPOCH + Duration::new(seconds, nanos));
        assert_eq!(parse_time("2000-02-29T00:00:00Z"), at(951_782_400, 0));
        assert_eq!(parse_time("1970-01-01T00:00:01.5Z"), at(1, 500_000_000));
        for text in ["", "yesterday", "2000-13-01T00:00:00Z", "2000-01-01"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
        assert_eq!(age(None, UNIX_EPOCH), "<unknown>");
    }
}
