//! Work queue of a controller: each item once, failed items again after a delay.
//!
//! An item that is pushed while it is being processed is processed once more afterwards, so that no change is missed
//! and no item is processed twice at a time. Time is an argument of the methods.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use holdfast_server::metrics::QueueMetrics;
use tokio::time::Instant;

/// Delay of an item after its first failure; each further failure doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(10);

/// Maximum delay of an item.
const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// Items that a controller has yet to process.
pub(crate) struct Queue<T> {
    items: HashMap<T, ItemState>,
    ready: VecDeque<T>,
    /// Items by the time at which they become ready; the number distinguishes items of one instant.
    waiting: BTreeMap<(Instant, u64), T>,
    failures: HashMap<T, u32>,
    next_number: u64,
    metrics: Option<QueueMetrics>,
}

/// State of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemState {
    /// Ready since then.
    Ready(Instant),
    Waiting(Instant, u64),
    /// Being processed, with a unique number.
    Running(u64, Again),
}

/// Repetition that was requested for an item that is being processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    No,
    At(Instant),
    /// Requested again since then.
    Now(Instant),
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            items: HashMap::new(),
            ready: VecDeque::new(),
            waiting: BTreeMap::new(),
            failures: HashMap::new(),
            next_number: 0,
            metrics: None,
        }
    }
}

impl<T: Clone + Eq + Hash> Queue<T> {
    /// Creates a queue that `metrics` measure.
    pub(crate) fn measured(metrics: Option<QueueMetrics>) -> Self {
        Self {
            metrics,
            ..Self::default()
        }
    }

    /// Adds `item` to be processed as soon as possible.
    pub(crate) fn push(&mut self, item: T) {
        match self.items.get(&item).copied() {
            Some(ItemState::Ready(_) | ItemState::Running(_, Again::Now(_))) => return,
            Some(ItemState::Running(number, _)) => {
                let now = self.added();
                self.items.insert(item, ItemState::Running(number, Again::Now(now)));
                return;
            }
            Some(ItemState::Waiting(at, number)) => {
                self.waiting.remove(&(at, number));
            }
            None => {}
        }
        let now = self.added();
        self.push_since(item, now);
    }

    fn push_since(&mut self, item: T, since: Instant) {
        self.items.insert(item.clone(), ItemState::Ready(since));
        self.ready.push_back(item);
    }

    /// Counts an item that becomes ready. Returns the current time.
    fn added(&self) -> Instant {
        if let Some(metrics) = &self.metrics {
            metrics.added();
        }
        Instant::now()
    }

    /// Adds `item` to be processed at `at`, unless it is scheduled earlier.
    pub(crate) fn push_at(&mut self, item: T, at: Instant) {
        if let Some(metrics) = &self.metrics {
            metrics.retried();
        }
        self.wait_until(item, at);
    }

    fn wait_until(&mut self, item: T, at: Instant) {
        match self.items.get(&item).copied() {
            Some(ItemState::Ready(_)) => return,
            Some(ItemState::Running(number, again)) => {
                let again = match again {
                    Again::No => Again::At(at),
                    Again::At(sooner) => Again::At(sooner.min(at)),
                    Again::Now(since) => Again::Now(since),
                };
                self.items.insert(item, ItemState::Running(number, again));
                return;
            }
            Some(ItemState::Waiting(sooner, _)) if sooner <= at => return,
            Some(ItemState::Waiting(later, number)) => {
                self.waiting.remove(&(later, number));
            }
            None => {}
        }
        self.next_number += 1;
        self.items
            .insert(item.clone(), ItemState::Waiting(at, self.next_number));
        self.waiting.insert((at, self.next_number), item);
    }

    /// Returns the next item to process, until [`Queue::done`] or [`Queue::failed`] reports the result.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<T> {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= now) {
            let item = first.remove();
            let now = self.added();
            self.push_since(item, now);
        }
        let item = self.ready.pop_front()?;
        self.next_number += 1;
        let running = ItemState::Running(self.next_number, Again::No);
        let before = self.items.insert(item.clone(), running);
        if let (Some(metrics), Some(ItemState::Ready(since))) = (&self.metrics, before) {
            metrics.begun(self.next_number, since);
        }
        Some(item)
    }

    /// Reports that the item was processed.
    pub(crate) fn done(&mut self, item: T) {
        self.failures.remove(&item);
        match self.ended(&item) {
            Some(Again::Now(since)) => self.push_since(item, since),
            Some(Again::At(at)) => self.wait_until(item, at),
            _ => {}
        }
    }

    /// Marks the item as no longer being processed. Returns the requested repetition.
    fn ended(&mut self, item: &T) -> Option<Again> {
        let Some(ItemState::Running(number, again)) = self.items.remove(item) else {
            return None;
        };
        if let Some(metrics) = &self.metrics {
            metrics.done(number);
        }
        Some(again)
    }

    /// Reports that the processing of the item failed; it is retried later.
    pub(crate) fn failed(&mut self, item: T, now: Instant) {
        let failures = self.failures.entry(item.clone()).or_default();
        let delay = FIRST_DELAY.saturating_mul(1 << (*failures).min(20)).min(LONGEST_DELAY);
        *failures += 1;
        if let (Some(Again::Now(_)), Some(metrics)) = (self.ended(&item), &self.metrics) {
            metrics.withdrawn();
        }
        self.push_at(item, now + delay);
    }

    /// Brings the turns of all waiting items closer, because the clock was moved at the time `now`.
    pub(crate) fn advance(&mut self, by: Duration, now: Instant) {
        let sooner = |at: Instant| at.checked_sub(by).unwrap_or(now);
        let waiting = std::mem::take(&mut self.waiting);
        for ((at, number), item) in waiting {
            self.items.insert(item.clone(), ItemState::Waiting(sooner(at), number));
            self.waiting.insert((sooner(at), number), item);
        }
        for state in self.items.values_mut() {
            if let ItemState::Running(_, Again::At(at)) = state {
                *at = sooner(*at);
            }
        }
    }

    /// Returns the time at which the first waiting item becomes ready.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        self.waiting.keys().next().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_worked_on_once_however_often_it_is_pushed() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push("a");
        queue.push("b");
        queue.push("a");
        assert_eq!(
            (queue.pop(now), queue.pop(now), queue.pop(now)),
            (Some("a"), Some("b"), None)
        );
    }

    #[test]
    fn item_pushed_while_processed_is_processed_again() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push("a");
        assert_eq!(queue.pop(now), Some("a"));
        queue.push("a");
        assert_eq!(queue.pop(now), None, "not twice at a time");
        queue.done("a");
        assert_eq!(queue.pop(now), Some("a"));
        queue.done("a");
        assert_eq!(queue.pop(now), None);
    }

    #[test]
    fn advance_brings_waiting_items_closer() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let hour = Duration::from_secs(3600);
        queue.push_at("sooner", now + hour);
        queue.push_at("later", now + 3 * hour);
        queue.push("running");
        assert_eq!(queue.pop(now), Some("running"));
        queue.push_at("running", now + hour);
        queue.advance(hour, now);
        queue.done("running");
        assert_eq!(queue.pop(now), Some("sooner"));
        assert_eq!(queue.pop(now), Some("running"));
        assert_eq!(queue.pop(now), None);
        assert_eq!(queue.next_turn(), Some(now + 2 * hour));
    }

    #[test]
    fn item_scheduled_while_processed_waits_until_due() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let second = Duration::from_secs(1);
        queue.push("a");
        assert_eq!(queue.pop(now), Some("a"));
        queue.push_at("a", now + second * 2);
        queue.push_at("a", now + second);
        queue.done("a");
        assert_eq!((queue.pop(now), queue.next_turn()), (None, Some(now + second)));
        assert_eq!(queue.pop(now + second), Some("a"));
    }

    #[test]
    fn failures_wait_longer_each_time_until_one_goes_well() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push("a");
        for delay in [FIRST_DELAY, FIRST_DELAY * 2, FIRST_DELAY * 4] {
            assert_eq!(queue.pop(now + LONGEST_DELAY), Some("a"));
            queue.failed("a", now);
            assert_eq!(queue.next_turn(), Some(now + delay));
            assert_eq!(queue.pop(now), None);
        }
        queue.push("a");
        assert_eq!(queue.pop(now), Some("a"), "a change does not wait");
        queue.done("a");
        queue.push("a");
        assert_eq!(queue.pop(now), Some("a"));
        queue.failed("a", now);
        assert_eq!(queue.next_turn(), Some(now + FIRST_DELAY));
    }

    #[test]
    fn an_item_whose_turn_came_is_not_queued_twice() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push_at("a", now);
        queue.push_at("b", now);
        assert_eq!(queue.pop(now), Some("a"));
        queue.push("b");
        assert_eq!((queue.pop(now), queue.pop(now)), (Some("b"), None));
    }

    #[test]
    fn an_item_that_waits_keeps_the_sooner_turn() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let second = Duration::from_secs(1);
        queue.push_at("a", now + second);
        queue.push_at("a", now + second * 2);
        assert_eq!(queue.next_turn(), Some(now + second));
        queue.push_at("a", now);
        assert_eq!((queue.pop(now), queue.next_turn()), (Some("a"), None));
    }
}
