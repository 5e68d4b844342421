//! Dumps of queues and requests for operators.

use std::collections::HashMap;

use holdfast_value::SmolStr;

use super::{NONE, QueueSet};
use crate::configuration::Limiting;
use crate::time::Moment;
use crate::work::{SeatSeconds, WorkEstimate};

/// Queue in a dump.
#[derive(Clone, Debug, Default)]
pub struct QueueDump {
    /// Index among the queues of its level.
    pub index: u64,
    /// Number of executing requests from this queue.
    pub executing: usize,
    /// Number of waiting requests.
    pub waiting: usize,
    /// Seats of the executing requests.
    pub seats_in_use: u64,
    /// Start of its next request.
    pub next_dispatch: SeatSeconds,
    /// Initial seats of the waiting requests.
    pub initial_seats: u64,
    /// Maximum seats of the waiting requests.
    pub max_seats: u64,
    /// Work of the waiting requests.
    pub work: SeatSeconds,
}

/// Request in a dump.
#[derive(Clone, Debug)]
pub struct RequestDump<D> {
    /// Name of its schema.
    pub schema: SmolStr,
    /// Its queue, if it came through one.
    pub queue: Option<u32>,
    /// Number of requests before it in the queue; `None` if it executes.
    pub place: Option<usize>,
    /// Flow distinguisher.
    pub distinguisher: SmolStr,
    /// Time of arrival.
    pub arrival: Moment,
    /// Start of the execution.
    pub started: Option<Moment>,
    /// Estimated work.
    pub estimate: WorkEstimate,
    /// Details of the request.
    pub details: D,
}

impl<D: Clone> QueueSet<D> {
    /// Returns the number of queues, and those that are not idle.
    pub(crate) fn dump_queues(&self) -> (u64, Vec<QueueDump>) {
        let mut dumps: Vec<QueueDump> = self
            .queues
            .iter()
            .map(|(index, queue)| QueueDump {
                index: u64::from(*index),
                executing: queue.executing,
                waiting: queue.length,
                seats_in_use: queue.seats_in_use,
                next_dispatch: queue.next_dispatch,
                initial_seats: queue.initial_seats,
                max_seats: queue.max_seats,
                work: queue.work,
            })
            .collect();
        dumps.sort_unstable_by_key(|dump| dump.index);
        let wanted = match self.limiting {
            Limiting::Queue(queuing) => queuing.queues,
            _ => 0,
        };
        (wanted, dumps)
    }

    /// Returns all requests: for each queue those that wait, in order, then those that execute, and finally those that
    /// came through no queue.
    pub(crate) fn dump_requests(&self) -> Vec<RequestDump<D>> {
        let mut places = HashMap::new();
        for queue in self.queues.values() {
            let mut next = queue.head;
            for place in 0..queue.length {
                places.insert(next, place);
                next = self
                    .entries
                    .get(next)
                    .and_then(Option::as_ref)
                    .map_or(NONE, |entry| entry.after);
            }
        }
        let entries = self.entries.iter().enumerate();
        let mut dumps: Vec<RequestDump<D>> = entries
            .filter_map(|(key, entry)| {
                let entry = entry.as_ref()?;
                Some(RequestDump {
                    schema: entry.request.flow.schema.clone(),
                    queue: entry.queue,
                    place: places.get(&key).copied(),
                    distinguisher: entry.request.distinguisher.clone(),
                    arrival: entry.arrival,
                    started: entry.started,
                    estimate: entry.request.estimate,
                    details: entry.request.details.clone(),
                })
            })
            .collect();
        dumps.sort_by_key(|dump| {
            let (queue, place) = (dump.queue.unwrap_or(u32::MAX), dump.place.unwrap_or(usize::MAX));
            (queue, place, dump.arrival)
        });
        dumps
    }
}
