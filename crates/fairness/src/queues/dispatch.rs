//! Selection and time of the next dispatch.

use super::{Dispatched, Key, NONE, QueueSet, SERVICE_NANOS};
use crate::configuration::Limiting;
use crate::time::Moment;
use crate::work::SeatSeconds;

impl<D> QueueSet<D> {
    /// Ensures that a queue's next request starts no earlier than it arrived.
    pub(super) fn bound(&mut self, index: Option<u32>, head: Key) {
        let Some(arrival) = self.entry(head).map(|entry| entry.arrival_progress) else {
            return;
        };
        if let Some(queue) = index.and_then(|index| self.queues.get_mut(&index)) {
            queue.next_dispatch = queue.next_dispatch.max(arrival);
        }
    }

    pub(super) fn dispatch_all(&mut self, now: Moment) {
        while self.waiting > 0 && self.seats_in_use < self.limit && self.dispatch(now) {}
    }

    /// Dispatches the request that would end first, if there are enough seats for it.
    fn dispatch(&mut self, now: Moment) -> bool {
        let Some((index, key, bounds)) = self.next() else {
            return false;
        };
        let seats = self.entry(key).map_or(0, |entry| entry.max_seats());
        if !self.accommodates(seats) {
            if let Some(entry) = self.entry(key) {
                entry.request.flow.statistics.lock().unaccommodated += 1;
            }
            return false;
        }
        let Some(Some(entry)) = self.entries.get_mut(key) else {
            return false;
        };
        let (links, work, estimate) = ((entry.before, entry.after), entry.total_work, entry.request.estimate);
        // A request wider than the level gets fewer final seats for a longer time.
        if estimate.final_seats > self.limit {
            let all = self.limit.max(1);
            entry.request.estimate.additional_latency = estimate.final_work().per_seat(all as f64);
            entry.request.estimate.final_seats = all;
        }
        {
            let mut statistics = entry.request.flow.statistics.lock();
            statistics.queued_requests -= 1;
            statistics.queued_seats -= seats;
        }
        let turn = entry.turn.take();
        self.unlink(links, index, (&estimate, work));
        self.served = index;
        self.dispatched_last = Some(bounds);
        self.execute(key, now);
        let head = match self.queues.get_mut(&index) {
            Some(queue) => {
                queue.next_dispatch = queue.next_dispatch + work;
                queue.head
            }
            None => NONE,
        };
        self.bound(Some(index), head);
        // A request that no longer waits removes itself.
        let _ = turn.map(|turn| turn.send(()));
        true
    }

    pub(super) fn execute(&mut self, key: Key, now: Moment) {
        let Some(Some(entry)) = self.entries.get_mut(key) else {
            return;
        };
        entry.started = Some(now);
        let seats = entry.max_seats();
        self.executing += 1;
        self.totals.dispatched += 1;
        self.seats_in_use += seats;
        if let Some(queue) = entry.queue.and_then(|index| self.queues.get_mut(&index)) {
            queue.executing += 1;
            queue.seats_in_use += seats;
        }
        let mut statistics = entry.request.flow.statistics.lock();
        statistics.executing_requests += 1;
        statistics.executing_seats += seats;
        statistics.dispatched += 1;
        if self.limiting != Limiting::Exempt {
            let [_, executed] = &mut statistics.waits;
            executed.observe(now.since(entry.arrival) as f64 / 1e9);
        }
    }

    /// Returns the queue whose oldest request would end first, with that request. The search begins after the queue
    /// that was dispatched last.
    fn next(&self) -> Option<(u32, Key, Dispatched)> {
        let first = self.filled.partition_point(|index| *index <= self.served);
        let (before, behind) = self.filled.split_at_checked(first)?;
        let mut best: Option<(SeatSeconds, u32, Key)> = None;
        let mut ranges: Option<[SeatSeconds; 4]> = None;
        let mut start = SeatSeconds::ZERO;
        for index in behind.iter().chain(before) {
            let queue = self.queues.get(index)?;
            let oldest = self.entries.get(queue.head)?.as_ref()?;
            let from = queue.next_dispatch;
            let discounted = from - SeatSeconds::new(queue.seats_in_use as f64, SERVICE_NANOS as f64);
            ranges = Some(match ranges {
                None => [from, from, discounted, discounted],
                Some([low, high, less, more]) => [
                    low.min(from),
                    high.max(from),
                    less.min(discounted),
                    more.max(discounted),
                ],
            });
            let end = from + oldest.total_work;
            if best.is_none_or(|(sooner, ..)| end < sooner) {
                best = Some((end, *index, queue.head));
                start = from;
            }
        }
        let ((_, index, key), [low, high, less, more]) = (best?, ranges?);
        let bounds = Dispatched {
            now: self.progress,
            start,
            bounds: [low, high],
            discounted: [less, more],
        };
        Some((index, key, bounds))
    }

    pub(super) fn accommodates(&self, seats: u64) -> bool {
        match self.limiting {
            Limiting::Exempt => true,
            // A request wider than the level executes only when no other does.
            _ if seats > self.limit => self.executing == 0,
            _ => self.seats_in_use + seats <= self.limit,
        }
    }
}
