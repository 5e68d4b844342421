//! Parts of timestamps and durations.

#![expect(
    clippy::indexing_slicing,
    reason = "a call has the number of arguments of its chosen overload"
)]

use std::sync::LazyLock;

use holdfast_gotext::number::atoi;
use jiff::tz::TimeZoneDatabase;

use crate::error::EvaluationError::{self, NoSuchOverload};
use crate::functions::{Context, Cost, Function};
use crate::time::{Civil, Timestamp};
use crate::value::{CelValue, Outcome};

/// Signatures of a part that only timestamps have.
const OF_A_DATE: &[&str] = &["timestamp.() int", "timestamp.(string) int"];
/// Signatures of a part that durations have, too.
const OF_A_CLOCK: &[&str] = &["timestamp.() int", "timestamp.(string) int", "duration.() int"];

macro_rules! part {
    ($name:literal, $signatures:expr, $of_date:expr, $unit:expr) => {
        Function {
            name: $name,
            call: |_, args| part(args, $of_date, $unit),
            cost: Cost::Fixed(1),
            signatures: $signatures,
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    part!("getFullYear", OF_A_DATE, |at| at.year, None),
    part!("getMonth", OF_A_DATE, |at| i64::from(at.month) - 1, None),
    part!("getDayOfYear", OF_A_DATE, |at| i64::from(at.day_of_year), None),
    part!("getDayOfMonth", OF_A_DATE, |at| i64::from(at.day) - 1, None),
    part!("getDate", OF_A_DATE, |at| i64::from(at.day), None),
    part!("getDayOfWeek", OF_A_DATE, |at| i64::from(at.weekday), None),
    part!("getHours", OF_A_CLOCK, |at| i64::from(at.hour), Some(3_600_000_000_000)),
    part!(
        "getMinutes",
        OF_A_CLOCK,
        |at| i64::from(at.minute),
        Some(60_000_000_000)
    ),
    part!("getSeconds", OF_A_CLOCK, |at| i64::from(at.second), Some(1_000_000_000)),
    Function {
        name: "getMilliseconds",
        call: milliseconds,
        cost: Cost::Fixed(1),
        signatures: OF_A_CLOCK,
    },
];

fn part(args: &[CelValue], of_date: fn(Civil) -> i64, unit: Option<i64>) -> Outcome {
    match (&args[0], unit) {
        (CelValue::Timestamp(at), _) => Ok(CelValue::Int(of_date(in_zone(*at, args.get(1))?))),
        (CelValue::Duration(nanoseconds), Some(unit)) => Ok(CelValue::Int(nanoseconds / unit)),
        _ => Err(NoSuchOverload),
    }
}

/// Returns the milliseconds within the second of a timestamp, or the total milliseconds of a duration.
fn milliseconds(context: &Context<'_>, args: &[CelValue]) -> Outcome {
    let _ = context;
    part(args, |at| i64::from(at.nanosecond / 1_000_000), Some(1_000_000))
}

/// Returns the date and time of day in the zone of the argument: a zone of the time zone database, or an offset such as
/// `+02:00`.
fn in_zone(at: Timestamp, zone: Option<&CelValue>) -> Outcome<Civil> {
    let offset = match zone {
        None => 0,
        Some(CelValue::String(zone)) => match zone.split_once(':') {
            Some((hours, minutes)) => numeric_offset(zone, hours, minutes)?,
            None => zone_offset(at, zone)?,
        },
        Some(_) => return Err(NoSuchOverload),
    };
    Ok(at.civil(offset))
}

/// Returns the seconds of an offset east of UTC. Any numbers are allowed if the result is a valid date.
fn numeric_offset(zone: &str, hours: &str, minutes: &str) -> Outcome<i64> {
    let number = |text: &str| atoi::<i64>(text).map_err(EvaluationError::failed);
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minutes = if zone.starts_with('-') {
        hours.saturating_mul(60).saturating_sub(minutes)
    } else {
        hours.saturating_mul(60).saturating_add(minutes)
    };
    // A century exceeds any zone; larger values would leave the calendar.
    Ok(minutes.clamp(-MAX_OFFSET_MINUTES, MAX_OFFSET_MINUTES) * 60)
}

const MAX_OFFSET_MINUTES: i64 = 100 * 366 * 24 * 60;

/// Returns the seconds east of UTC of a zone of the time zone database at that time. Names are case-sensitive, like
/// file names.
fn zone_offset(at: Timestamp, zone: &str) -> Outcome<i64> {
    static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
    if matches!(zone, "" | "UTC" | "Local") {
        return Ok(0);
    }
    if zone.contains("..") || zone.starts_with(['/', '\\']) {
        return Err(EvaluationError::failed("time: invalid location name"));
    }
    let unknown = || EvaluationError::failed(format!("unknown time zone {zone}"));
    let found = ZONES
        .get(zone)
        .ok()
        .filter(|found| found.iana_name() == Some(zone))
        .ok_or_else(unknown)?;
    // The last representable day is beyond the range of the crate; no zone has a special rule for it.
    let time = jiff::Timestamp::from_second(at.seconds()).unwrap_or(jiff::Timestamp::MAX);
    Ok(i64::from(found.to_offset(time).seconds()))
}
