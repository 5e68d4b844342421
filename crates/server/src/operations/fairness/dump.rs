//! Debugging pages for operators: levels, queues and requests, as tables.

use std::time::UNIX_EPOCH;

use holdfast_fairness::{LevelDump, Moment, QueueDump, RequestDump, SeatSeconds};
use holdfast_gotext::duration;
use holdfast_gotext::time::{Precision, Timestamp};
use http::StatusCode;

use super::PriorityAndFairness;
use crate::http::query::Query;
use crate::http::request_info::RequestInfo;
use crate::http::response::{self, PLAIN_TEXT, Response};
use crate::wire::fairness::RequestDetails;

const FOLDER: &str = "/debug/api_priority_and_fairness/";

const LEVELS: [&str; 10] = [
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
];
const QUEUES: [&str; 9] = [
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
];
const REQUESTS: [&str; 10] = [
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    // The spelling of the reference.
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
];
const DETAILS: [&str; 8] = [
    "UserName",
    "Verb",
    "APIPath",
    "Namespace",
    "Name",
    "APIVersion",
    "Resource",
    "SubResource",
];

/// The maximum number of idle queues of a level in a dump, in addition to the busy ones.
const MAX_IDLE_QUEUES: u64 = 4096;

type Row = Vec<String>;

impl PriorityAndFairness {
    /// Returns the answer at a path of the dumps.
    pub(crate) fn respond(&self, path: &str, query: &Query) -> Option<Response> {
        let rows = match path.strip_prefix(FOLDER)? {
            "dump_priority_levels" => self.levels_table(),
            "dump_queues" => self.queues_table(),
            "dump_requests" => {
                let detailed = query.get("includeRequestDetails").is_some_and(|text| !text.is_empty());
                self.requests_table(detailed)
            }
            _ => return None,
        };
        Some(response::bytes(StatusCode::OK, PLAIN_TEXT, table(&rows).into_bytes()))
    }

    fn levels_table(&self) -> Vec<Row> {
        let levels = self.levels.dump().into_iter().map(|level| {
            let active = level.queues.iter().filter(|queue| queue.waiting > 0).count();
            let mut row = vec![
                level.name.to_string(),
                active.to_string(),
                level.idle.to_string(),
                level.quiescing.to_string(),
            ];
            row.extend(level.counts.iter().map(u64::to_string));
            row
        });
        with_heads(&LEVELS, levels)
    }

    fn queues_table(&self) -> Vec<Row> {
        let levels = self.levels.dump();
        with_heads(&QUEUES, levels.iter().flat_map(queue_rows))
    }

    fn requests_table(&self, detailed: bool) -> Vec<Row> {
        let levels = self.levels.dump();
        let rows = levels.iter().flat_map(|level| {
            let requests = level.requests.iter();
            requests.map(move |request| self.request_row(&level.name, request, detailed))
        });
        let heads: Vec<&str> = match detailed {
            true => REQUESTS.into_iter().chain(DETAILS).collect(),
            false => REQUESTS.to_vec(),
        };
        with_heads(&heads, rows)
    }

    fn request_row(&self, level: &str, request: &RequestDump<RequestDetails>, detailed: bool) -> Row {
        let number = |place: Option<String>| place.unwrap_or_else(|| "-1".to_owned());
        let mut row = vec![
            level.to_owned(),
            request.schema.to_string(),
            number(request.queue.map(|queue| queue.to_string())),
            number(request.place.map(|place| place.to_string())),
            request.distinguisher.to_string(),
            self.format_time(Some(request.arrival)),
            request.estimate.initial_seats.to_string(),
            request.estimate.final_seats.to_string(),
            duration::text(request.estimate.additional_latency),
            self.format_time(request.started),
        ];
        if detailed {
            row.extend(details(&request.details));
        }
        row
    }

    /// Formats a time like Go; the zero time if there is none.
    fn format_time(&self, moment: Option<Moment>) -> String {
        match moment {
            None => "0001-01-01T00:00:00Z".to_owned(),
            Some(moment) => {
                let time = self.time_of(moment);
                let seconds = Timestamp::from(time).text(Precision::Seconds).to_string();
                let nanos = time.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
                // Trailing zeros of a fraction are omitted, and so is the point if no digits follow.
                let digits = format!(".{nanos:09}");
                let fraction = digits.trim_end_matches('0').trim_end_matches('.');
                format!("{}{fraction}Z", seconds.trim_end_matches('Z'))
            }
        }
    }
}

/// Returns all queues of a level in their order, including idle ones up to the limit.
fn queue_rows(level: &LevelDump<RequestDetails>) -> impl Iterator<Item = Row> {
    let idle = (0..level.queue_count.min(MAX_IDLE_QUEUES)).map(|index| QueueDump {
        index,
        ..QueueDump::default()
    });
    let mut queues: Vec<QueueDump> = idle.collect();
    for queue in &level.queues {
        match queues.binary_search_by_key(&queue.index, |known| known.index) {
            Ok(at) => {
                if let Some(known) = queues.get_mut(at) {
                    *known = queue.clone();
                }
            }
            Err(at) => queues.insert(at, queue.clone()),
        }
    }
    let name = level.name.clone();
    queues.into_iter().map(move |queue| {
        let work = |work: SeatSeconds| work.to_string();
        vec![
            name.to_string(),
            queue.index.to_string(),
            queue.waiting.to_string(),
            queue.executing.to_string(),
            queue.seats_in_use.to_string(),
            work(queue.next_dispatch),
            queue.initial_seats.to_string(),
            queue.max_seats.to_string(),
            work(queue.work),
        ]
    })
}

fn details(request: &RequestDetails) -> Row {
    let info = RequestInfo::parse(&request.method, &request.uri).ok();
    let target = info.as_ref().and_then(|info| info.resource.clone()).unwrap_or_default();
    let (verb, path) = info.map_or_else(Default::default, |info| (info.verb.to_string(), info.path));
    let version = match target.group.as_str() {
        "" => target.version.to_string(),
        group => format!("{group}/{}", target.version),
    };
    vec![
        request.user.name.to_string(),
        verb,
        path,
        target.namespace.to_string(),
        target.name.to_string(),
        version,
        target.resource.to_string(),
        target.subresource.to_string(),
    ]
}

fn with_heads(heads: &[&str], rows: impl Iterator<Item = Row>) -> Vec<Row> {
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    std::iter::once(heads).chain(rows).collect()
}

/// Formats rows as Go's `tabwriter` aligns them: each cell but the last of a row is as wide as the widest of its
/// column, followed by the comma and a blank.
fn table(rows: &[Row]) -> String {
    const NARROWEST: usize = 8;
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or_default();
        (widest + 2).max(NARROWEST)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if at + 1 == columns {
                text.push_str(cell);
            } else {
                let cell = format!("{cell},");
                text.push_str(&format!("{cell:width$}"));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_as_those_of_the_reference() {
        let texts = [["PriorityLevelName", "Index", "Last"], ["a", "12345678", ""]];
        let rows: Vec<Row> = texts.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        assert_eq!(
            table(&rows),
            "PriorityLevelName, Index,    Last\na,                 12345678, \n"
        );
    }
}
