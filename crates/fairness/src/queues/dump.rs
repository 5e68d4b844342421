//! Queues and requests as operators look at them.

use std::collections::HashMap;

use holdfast_value::SmolStr;

use super::{NONE, QueueSet};
use crate::configuration::Limiting;
use crate::time::Moment;
use crate::work::{SeatSeconds, WorkEstimate};

/// A queue, as a dump shows it.
#[derive(Clone, Debug, Default)]
pub struct QueueDump {
    /// Its place among the queues of its level.
    pub index: u64,
    /// How many are served that came through it.
    pub executing: usize,
    /// How many wait in it.
    pub waiting: usize,
    /// The seats of those that are served.
    pub seats_in_use: u64,
    /// Where its next request begins.
    pub next_dispatch: SeatSeconds,
    /// The seats at the beginning of those that wait.
    pub initial_seats: u64,
    /// The most seats of those that wait.
    pub max_seats: u64,
    /// The work of those that wait.
    pub work: SeatSeconds,
}

/// A request, as a dump shows it.
#[derive(Clone, Debug)]
pub struct RequestDump<D> {
    /// The name of its schema.
    pub schema: SmolStr,
    /// Its queue, if it came through one.
    pub queue: Option<u32>,
    /// How many are before it in the queue; `None` where it is served.
    pub place: Option<usize>,
    /// The flow distinguisher.
    pub distinguisher: SmolStr,
    /// When it came.
    pub arrival: Moment,
    /// When it began to be served.
    pub started: Option<Moment>,
    /// What it takes.
    pub estimate: WorkEstimate,
    /// What it is.
    pub details: D,
}

impl<D: Clone> QueueSet<D> {
    /// How many queues there are, and those that are not idle.
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

    /// All requests: queue by queue those that wait, in their order, then those that are served, and at last those that came
    /// through no queue.
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
