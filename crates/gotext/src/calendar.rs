//! The proleptic Gregorian calendar for years of any size.
//!
//! The crate `time` ends at the year 9999. A time in that year with a zone offset may fall after it once it is in UTC,
//! and the reference still reads and writes such a time.

/// Days from 1970-01-01 to a date. Months and days count from 1.
///
/// ```
/// use holdfast_gotext::calendar::{civil_from_days, days_from_civil};
///
/// assert_eq!(days_from_civil(2000, 3, 1), 11_017);
/// assert_eq!(civil_from_days(11_017), (2000, 3, 1));
/// ```
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    // The computed year begins in March, so that the leap day is its last day.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * i64::from((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of the date that lies `days` after 1970-01-01:
/// <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = ((shifted_month + 2) % 12 + 1) as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the number of days of a month.
///
/// ```
/// use holdfast_gotext::calendar::days_in_month;
///
/// assert_eq!(days_in_month(2024, 2), 29);
/// assert_eq!(days_in_month(2100, 2), 28);
/// ```
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_are_each_others_reverse() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
            (-719_528, (0, 1, 1)),
            (2_932_896, (9999, 12, 31)),
            (2_932_897, (10_000, 1, 1)),
        ] {
            assert_eq!(civil_from_days(days), date);
            assert_eq!(days_from_civil(date.0, date.1, date.2), days);
        }
    }

    #[test]
    fn every_month_ends_before_the_next_begins() {
        for year in [1900, 1999, 2000, 2024] {
            for month in 1..12 {
                let length = days_from_civil(year, month + 1, 1) - days_from_civil(year, month, 1);
                assert_eq!(i64::from(days_in_month(year, month)), length, "{year}-{month}");
            }
        }
    }
}
