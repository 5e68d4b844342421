//! Age of a timestamp in kubectl's format.

use std::time::{SystemTime, UNIX_EPOCH};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// Formats of ages: an age below the bound is written in whole units, with the rest in the next smaller unit if one is
/// given.
const STEPS: [(u64, Unit, Option<Unit>); 9] = [
    (2 * MINUTE, (1, 's'), None),
    (10 * MINUTE, (MINUTE, 'm'), Some((1, 's'))),
    (3 * HOUR, (MINUTE, 'm'), None),
    (8 * HOUR, (HOUR, 'h'), Some((MINUTE, 'm'))),
    (2 * DAY, (HOUR, 'h'), None),
    (8 * DAY, (DAY, 'd'), Some((HOUR, 'h'))),
    (2 * YEAR, (DAY, 'd'), None),
    (8 * YEAR, (YEAR, 'y'), Some((DAY, 'd'))),
    (u64::MAX, (YEAR, 'y'), None),
];

/// Length of a unit in seconds, and its letter.
type Unit = (u64, char);

/// Returns the age at `now` of an event at `time`, in seconds since 1970; `-` if the time is unknown.
pub(super) fn describe(time: Option<i64>, now: SystemTime) -> String {
    let Some(time) = time else {
        return "-".to_owned();
    };
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    // Clocks differ: a time in the future counts as now.
    let age = u64::try_from(i64::try_from(now).unwrap_or(i64::MAX).saturating_sub(time)).unwrap_or(0);
    let (_, (seconds, letter), below) = STEPS
        .iter()
        .find(|(bound, ..)| age < *bound)
        .copied()
        .unwrap_or(STEPS[8]);
    let whole = format!("{}{letter}", age / seconds);
    match below.map(|(unit, letter)| (age % seconds / unit, letter)) {
        Some((rest, letter)) if rest > 0 => format!("{whole}{rest}{letter}"),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ages_are_shown_in_one_or_two_units() {
        for (age, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (10 * MINUTE, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR + 5 * MINUTE, "3h5m"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (100 * DAY, "100d"),
            (2 * YEAR + 5 * DAY, "2y5d"),
            (9 * YEAR, "9y"),
        ] {
            let now = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            let time = 1_000_000_000 - i64::try_from(age).unwrap();
            assert_eq!(describe(Some(time), now), expected);
        }
        assert_eq!(describe(Some(i64::MAX), UNIX_EPOCH), "0s");
        assert_eq!(describe(None, UNIX_EPOCH), "-");
    }
}
