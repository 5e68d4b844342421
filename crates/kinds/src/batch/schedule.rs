//! Schedules of CronJobs: five cron fields, or a descriptor such as `@daily`.

use holdfast_gotext::duration;
use holdfast_gotext::number::atoi;

/// Validates a schedule, with the messages of the reference's parser.
///
/// upstream: github.com/robfig/cron/v3#Parser.Parse
pub(super) fn check(line: &str) -> Result<(), String> {
    let line = match line.strip_prefix("TZ=").or_else(|| line.strip_prefix("CRON_TZ=")) {
        None => line,
        Some(zoned) => {
            let (zone, rest) = zoned.split_once(' ').unwrap_or((zoned, ""));
            load_zone(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
            rest.trim()
        }
    };
    if let Some(descriptor) = line.strip_prefix('@') {
        return check_descriptor(line, descriptor);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly {} fields, found {}: [{}]",
            FIELDS.len(),
            words.len(),
            words.join(" ")
        ));
    }
    for (word, bounds) in words.iter().zip(&FIELDS) {
        for part in word.split(',') {
            check_range(part, bounds)?;
        }
    }
    Ok(())
}

/// Values that a field of a schedule allows.
struct Bounds {
    least: i64,
    most: i64,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const fn bounds(least: i64, most: i64, names: &'static [&'static str]) -> Bounds {
    Bounds { least, most, names }
}

const FIELDS: [Bounds; 5] = [
    bounds(0, 59, &[]),
    bounds(0, 23, &[]),
    bounds(1, 31, &[]),
    bounds(1, 12, &MONTHS),
    bounds(0, 6, &DAYS),
];

const DESCRIPTORS: [&str; 7] = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];

/// upstream: github.com/robfig/cron/v3#parseDescriptor
fn check_descriptor(line: &str, descriptor: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&descriptor) {
        return Ok(());
    }
    match descriptor.strip_prefix("every ") {
        Some(every) => match duration::parse(every) {
            Ok(_) => Ok(()),
            Err(why) => Err(format!("failed to parse duration {line}: {why}")),
        },
        None => Err(format!("unrecognized descriptor: {line}")),
    }
}

/// Validates `number | number "-" number [ "/" number ]`, with `*` and `?` for all.
///
/// upstream: github.com/robfig/cron/v3#getRange
fn check_range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let mut steps = text.split('/');
    let (range, step, extra) = (steps.next().unwrap_or_default(), steps.next(), steps.next());
    let mut ends = range.split('-');
    let (low, high, more) = (ends.next().unwrap_or_default(), ends.next(), ends.next());
    let single = high.is_none();
    let (start, mut end) = if matches!(low, "*" | "?") {
        (bounds.least, bounds.most)
    } else {
        let start = number_or_name(low, bounds)?;
        let end = match (high, more) {
            (None, _) => start,
            (Some(high), None) => number_or_name(high, bounds)?,
            (Some(_), Some(_)) => return Err(format!("too many hyphens: {text}")),
        };
        (start, end)
    };
    let step = match (step, extra) {
        (None, _) => 1,
        (Some(step), None) => {
            // `N/step` is a range that starts at N.
            if single {
                end = bounds.most;
            }
            number(step)?
        }
        (Some(_), Some(_)) => return Err(format!("too many slashes: {text}")),
    };
    if start < bounds.least {
        return Err(format!(
            "beginning of range ({start}) below minimum ({}): {text}",
            bounds.least
        ));
    }
    if end > bounds.most {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.most));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<i64, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(at) => Ok(bounds.least + at as i64),
        None => number(text),
    }
}

fn number(text: &str) -> Result<i64, String> {
    match atoi(text) {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number),
        Err(why) => Err(format!("failed to parse int from {text}: {why}")),
    }
}

/// Validates the name of a time zone.
///
/// upstream: pkg/apis/batch/validation#validateTimeZone
pub(super) fn check_time_zone(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let mut errors = Vec::new();
    if name.eq_ignore_ascii_case("local") {
        errors.push("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned());
    }
    let well_formed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+/".contains(&byte);
    let loaded = if name.starts_with(['/', '.']) || !name.bytes().all(well_formed) {
        Err(format!("unknown time zone {name}"))
    } else {
        load_zone(name)
    };
    errors.extend(loaded.err());
    errors
}

/// Validates that Go can load a time zone: the database must have this exact name.
fn load_zone(name: &str) -> Result<(), String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(());
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    let zone = jiff::tz::TimeZone::get(name).ok();
    match zone.as_ref().and_then(jiff::tz::TimeZone::iana_name) {
        Some(found) if found == name => Ok(()),
        _ => Err(format!("unknown time zone {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_hold_five_fields_within_bounds() {
        for good in [
            "*/5 * * * *",
            "0 22 * * 1-5",
            "@daily",
            "@every 1h30m",
            "1,2 3 ? JAN sun",
            "5/15 * * * *",
            "TZ=UTC * * * * *",
            "CRON_TZ=Europe/Berlin @daily",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (odd, error) in [
            ("bad", "expected exactly 5 fields, found 1: [bad]"),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("@never", "unrecognized descriptor: @never"),
            (
                "@every 5x",
                "failed to parse duration @every 5x: time: unknown unit \"x\" in duration \"5x\"",
            ),
            (
                "TZ=Nowhere * * * * *",
                "provided bad location Nowhere: unknown time zone Nowhere",
            ),
        ] {
            assert_eq!(check(odd), Err(error.to_owned()));
        }
    }

    #[test]
    fn time_zones_are_named_as_the_database_names_them() {
        for good in [
            "Etc/UTC",
            "Europe/Berlin",
            "UTC",
            "US/Pacific",
            "America/Argentina/Buenos_Aires",
        ] {
            assert_eq!(check_time_zone(good), Vec::<String>::new());
        }
        for odd in [
            "No/Where",
            "Etc/UTCx",
            "utc",
            "../etc/passwd",
            "/Etc/UTC",
            "Asia\\Tokyo",
            " Etc/UTC",
        ] {
            assert_eq!(check_time_zone(odd), [format!("unknown time zone {odd}")]);
        }
        assert_eq!(check_time_zone("a..b"), ["time: invalid location name"]);
        assert_eq!((check_time_zone("Local").len(), check_time_zone("local").len()), (1, 2));
        assert_eq!(check_time_zone("").len(), 1);
    }
}
