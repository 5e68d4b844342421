//! Work estimate of a request, with the reference's rules: seats, and the time that they are occupied.

use std::fmt;
use std::time::Duration;

/// Seats times seconds in units of 1e-8: the measure of work and of the progress of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatSeconds(pub(crate) i128);

const SCALE: i128 = 100_000_000;
/// Nanoseconds in a unit of one seat.
const NANOS_PER_UNIT: f64 = 10.0;

impl SeatSeconds {
    pub(crate) const ZERO: Self = Self(0);

    /// Returns the work of `seats` during `nanos` nanoseconds.
    pub(crate) fn new(seats: f64, nanos: f64) -> Self {
        Self((seats * nanos / NANOS_PER_UNIT).round() as i128)
    }

    /// Returns the number of seat-seconds.
    pub fn to_float(self) -> f64 {
        self.0 as f64 / SCALE as f64
    }

    /// Returns the time that `seats` seats need for the work.
    pub(crate) fn per_seat(self, seats: f64) -> Duration {
        let nanos = self.0 as f64 / seats * NANOS_PER_UNIT;
        Duration::from_nanos(nanos.max(0.0) as u64)
    }
}

impl fmt::Display for SeatSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0.div_euclid(SCALE), self.0.rem_euclid(SCALE));
        write!(f, "{whole}.{rest:08}ss")
    }
}

impl std::ops::Add for SeatSeconds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::ops::Sub for SeatSeconds {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Estimated work of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEstimate {
    /// Seats during the execution.
    pub initial_seats: u64,
    /// Seats during the additional latency.
    pub final_seats: u64,
    /// Time that seats stay occupied after the end of the request, for work that continues without it.
    pub additional_latency: Duration,
}

impl WorkEstimate {
    /// Returns the estimate of a request with `seats` seats during its execution.
    pub const fn seats(seats: u64) -> Self {
        Self {
            initial_seats: seats,
            final_seats: 0,
            additional_latency: Duration::ZERO,
        }
    }

    /// Returns the maximum number of seats at a time.
    pub fn max_seats(&self) -> u64 {
        self.initial_seats.max(self.final_seats)
    }

    /// Returns the work of the final seats.
    pub(crate) fn final_work(&self) -> SeatSeconds {
        SeatSeconds::new(self.final_seats as f64, self.additional_latency.as_nanos() as f64)
    }

    /// Returns the total work if the execution lasts `service_nanos` nanoseconds.
    pub(crate) fn total_work(&self, service_nanos: u64) -> SeatSeconds {
        SeatSeconds::new(self.initial_seats as f64, service_nanos as f64) + self.final_work()
    }
}

/// Minimum number of seats of a request.
const MIN_SEATS: u64 = 1;
/// Maximum number of seats of a list, unless its level allows fewer.
const MAX_LIST_SEATS: u64 = 100;
/// Maximum number of seats of a mutating request, unless its level allows fewer.
const MAX_MUTATING_SEATS: u64 = 10;
/// Number of objects per seat if objects are counted.
const OBJECTS_PER_SEAT: f64 = 100.0;
/// Maximum number of seats of a list if objects are counted, unless its level allows fewer.
const MAX_COUNTED_LIST_SEATS: u64 = 10;
const BYTES_PER_SEAT: f64 = 100_000.0;
/// Size of a list from the watch cache at a time. It is streamed, so its length does not matter.
const MAX_STREAMED_BYTES: i64 = 1_000_000;
/// Assumed size of an object if no size is known.
const MAX_OBJECT_BYTES: i64 = 1_500_000;
/// Number of watchers per seat for an event.
const WATCHES_PER_SEAT: f64 = 10.0;
const EVENT_DURATION_NANOS: f64 = 5_000_000.0;

/// Statistics of the stored objects of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectStatistics {
    /// Number of objects.
    pub count: i64,
    /// Average size in bytes.
    pub average_bytes: i64,
}

/// Query of a list or watch.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListQuery<'a> {
    /// True if it is a watch.
    pub watch: bool,
    /// True if it names one object.
    pub single: bool,
    /// `limit`; 0 for none.
    pub limit: i64,
    /// `resourceVersion`.
    pub resource_version: &'a str,
    /// `resourceVersionMatch`.
    pub version_match: &'a str,
    /// True if there is a `continue`.
    pub continues: bool,
    /// True if there is a selector.
    pub selects: bool,
    /// `sendInitialEvents`.
    pub sends_initial_events: bool,
}

impl ListQuery<'_> {
    /// True if it begins with the existing objects.
    fn has_initial_events(&self) -> bool {
        !self.watch || self.sends_initial_events || matches!(self.resource_version, "" | "0")
    }

    /// True if the reference answers from its watch cache.
    fn is_from_cache(&self) -> bool {
        if self.watch {
            return true;
        }
        match self.version_match {
            "NotOlderThan" => true,
            "" if self.continues => false,
            "" => self.limit <= 0 || matches!(self.resource_version, "" | "0"),
            _ => false,
        }
    }

    /// Returns the number of objects in a response, limited by `limit`.
    fn limited(&self, count: i64) -> i64 {
        match self.limit {
            1.. => self.limit.min(count),
            _ => count,
        }
    }

    /// `seatsBasedOnObjectSize`: returns the number of bytes in memory at a time.
    fn bytes(&self, objects: ObjectStatistics) -> i64 {
        let average = match objects.average_bytes {
            ..=0 if objects.count != 0 => MAX_OBJECT_BYTES,
            known => known,
        };
        let (limited, from_cache) = (self.limited(objects.count), self.is_from_cache());
        let loaded = if self.single {
            1
        } else if !from_cache && self.selects {
            limited.max(objects.count / 2)
        } else {
            limited
        };
        let bytes = loaded.saturating_mul(average);
        if from_cache {
            bytes.min(MAX_STREAMED_BYTES)
        } else {
            bytes
        }
    }

    /// `seatsBasedOnObjectCount`: returns the number of objects out of `count` that are examined.
    fn looked_at(&self, count: i64) -> i64 {
        let limited = self.limited(count);
        if self.single {
            1
        } else if self.is_from_cache() {
            count
        } else if self.selects {
            count.saturating_add(limited)
        } else {
            limited.saturating_mul(2)
        }
    }
}

/// Returns `most`, or the level's own maximum `of_level` if that is smaller; 0 means no limit.
fn bounded(of_level: u64, most: u64) -> u64 {
    if of_level == 0 { most } else { of_level.min(most) }
}

/// Method of estimating the work of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListEstimate {
    /// By the bytes of the objects in memory at a time.
    #[default]
    Bytes,
    /// By the number of examined objects.
    Objects,
}

impl ListEstimate {
    /// Returns the maximum number of seats of a list, unless its level allows fewer.
    fn most(self) -> u64 {
        match self {
            Self::Bytes => MAX_LIST_SEATS,
            Self::Objects => MAX_COUNTED_LIST_SEATS,
        }
    }

    fn seats(self, query: &ListQuery<'_>, objects: ObjectStatistics) -> u64 {
        let units = match self {
            Self::Bytes => query.bytes(objects) as f64 / BYTES_PER_SEAT,
            Self::Objects => query.looked_at(objects.count) as f64 / OBJECTS_PER_SEAT,
        };
        units.ceil() as u64
    }
}

/// Returns the seats of a list or watch. `query` is `None` if its parameters are invalid, `objects` if there are no
/// statistics of the resource.
pub fn list_seats(
    query: Option<&ListQuery<'_>>,
    objects: Option<ObjectStatistics>,
    of_level: u64,
    estimate: ListEstimate,
) -> WorkEstimate {
    let most = bounded(of_level, estimate.most());
    let Some(query) = query else {
        return WorkEstimate::seats(most);
    };
    let Some(objects) = objects.filter(|_| query.has_initial_events()) else {
        return WorkEstimate::seats(MIN_SEATS);
    };
    let seats = estimate.seats(query, objects);
    WorkEstimate::seats(seats.max(MIN_SEATS).min(most))
}

/// Returns the work of a request whose change has `watchers` watchers.
pub fn mutating_work(watchers: usize, of_level: u64) -> WorkEstimate {
    let watchers = watchers as f64;
    if watchers < WATCHES_PER_SEAT {
        return WorkEstimate::seats(MIN_SEATS);
    }
    let seats = (watchers / WATCHES_PER_SEAT).ceil();
    let work = SeatSeconds::new(seats, EVENT_DURATION_NANOS);
    // Fewer seats for a longer time, so that it does not wait for many seats at once.
    let seats = (seats as u64).min(bounded(of_level, MAX_MUTATING_SEATS));
    WorkEstimate {
        initial_seats: MIN_SEATS,
        final_seats: seats,
        additional_latency: work.per_seat(seats as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(query: &ListQuery<'_>, count: i64, average_bytes: i64) -> u64 {
        let objects = ObjectStatistics { count, average_bytes };
        list_seats(Some(query), Some(objects), 0, ListEstimate::Bytes).initial_seats
    }

    #[test]
    fn list_takes_seat_per_hundred_kilobytes() {
        let all = ListQuery::default();
        assert_eq!(seats(&all, 0, 0), 1);
        assert_eq!(seats(&all, 100, 1000), 1);
        assert_eq!(seats(&all, 101, 1000), 2);
        // Lists from memory are streamed, so the size is limited.
        assert_eq!(seats(&all, 100_000, 1000), 10);
        let limited = ListQuery { limit: 250, ..all };
        assert_eq!(seats(&limited, 100_000, 1000), 3);
        let single = ListQuery { single: true, ..all };
        assert_eq!(seats(&single, 100_000, 1000), 1);
    }

    #[test]
    fn objects_of_unknown_size_count_as_largest() {
        assert_eq!(
            seats(
                &ListQuery {
                    limit: 500,
                    resource_version: "5",
                    ..ListQuery::default()
                },
                3,
                0
            ),
            45
        );
    }

    #[test]
    fn lists_from_the_store_weigh_what_they_weigh() {
        let exact = ListQuery {
            version_match: "Exact",
            resource_version: "5",
            ..ListQuery::default()
        };
        let next = ListQuery {
            continues: true,
            limit: 10,
            ..ListQuery::default()
        };
        let legacy = ListQuery {
            limit: 2000,
            resource_version: "5",
            ..ListQuery::default()
        };
        assert_eq!(seats(&exact, 3000, 1000), 30);
        assert_eq!(seats(&exact, 1_000_000, 1000), 100);
        assert_eq!(seats(&next, 3000, 1000), 1);
        assert_eq!(seats(&legacy, 3000, 1000), 20);
        // A list with a selector examines more objects than its limit.
        assert_eq!(seats(&ListQuery { selects: true, ..next }, 3000, 1000), 15);
        let not_older = ListQuery {
            version_match: "NotOlderThan",
            resource_version: "5",
            limit: 2000,
            ..next
        };
        assert_eq!(seats(&not_older, 3000, 1000), 10);
        assert_eq!(
            seats(
                &ListQuery {
                    version_match: "Odd",
                    ..ListQuery::default()
                },
                3000,
                1000
            ),
            30
        );
    }

    #[test]
    fn watches_are_lists_where_they_begin_with_what_is_there() {
        let watch = |resource_version, sends_initial_events| ListQuery {
            watch: true,
            resource_version,
            sends_initial_events,
            ..ListQuery::default()
        };
        assert_eq!(seats(&watch("", false), 3000, 1000), 10);
        assert_eq!(seats(&watch("0", false), 3000, 1000), 10);
        assert_eq!(seats(&watch("7", true), 3000, 1000), 10);
        assert_eq!(seats(&watch("7", false), 3000, 1000), 1);
    }

    #[test]
    fn list_seats_are_limited_by_level() {
        let (all, objects) = (
            ListQuery::default(),
            ObjectStatistics {
                count: 3000,
                average_bytes: 1000,
            },
        );
        let seats = |query, objects, of_level, estimate| list_seats(query, objects, of_level, estimate).initial_seats;
        let (bytes, counted) = (ListEstimate::Bytes, ListEstimate::Objects);
        assert_eq!(seats(Some(&all), Some(objects), 8, bytes), 8);
        assert_eq!(seats(None, Some(objects), 8, bytes), 8);
        assert_eq!(seats(None, None, 0, bytes), 100);
        assert_eq!(seats(None, None, 0, counted), 10);
        assert_eq!(seats(Some(&all), None, 8, bytes), 1);
    }

    #[test]
    fn list_takes_seat_per_hundred_examined_objects() {
        let seats = |query: ListQuery<'_>| {
            let objects = ObjectStatistics {
                count: 301,
                average_bytes: 1_000_000,
            };
            list_seats(Some(&query), Some(objects), 0, ListEstimate::Objects).initial_seats
        };
        let all = ListQuery::default();
        assert_eq!(seats(all), 4);
        // A list from memory examines all objects, whatever its limit.
        assert_eq!(seats(ListQuery { limit: 10, ..all }), 4);
        let exact = ListQuery {
            resource_version: "5",
            version_match: "Exact",
            ..all
        };
        assert_eq!(seats(exact), 7);
        assert_eq!(seats(ListQuery { limit: 60, ..exact }), 2);
        let selecting = ListQuery {
            selects: true,
            limit: 60,
            ..exact
        };
        assert_eq!(seats(selecting), 4);
        assert_eq!(seats(ListQuery { single: true, ..exact }), 1);
    }

    #[test]
    fn many_watchers_make_a_change_linger() {
        assert_eq!(mutating_work(9, 0), WorkEstimate::seats(1));
        let lingering = |watchers, of_level| {
            let work = mutating_work(watchers, of_level);
            assert_eq!(work.initial_seats, 1);
            (work.final_seats, work.additional_latency)
        };
        assert_eq!(lingering(10, 0), (1, Duration::from_millis(5)));
        assert_eq!(lingering(11, 0), (2, Duration::from_millis(5)));
        assert_eq!(lingering(1000, 0), (10, Duration::from_millis(50)));
        assert_eq!(lingering(1000, 4), (4, Duration::from_millis(125)));
    }

    #[test]
    fn seat_seconds_read_as_those_of_the_reference() {
        assert_eq!(SeatSeconds::new(2.0, 3_000_000.0).to_string(), "0.00600000ss");
        assert_eq!(SeatSeconds(123_456_789_012).to_string(), "1234.56789012ss");
        assert_eq!(SeatSeconds::new(2.0, 3_000_000.0).to_float(), 0.006);
    }
}
