//! Bounded queue between requests and a backend.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::Observer;

/// Encoded event in a queue.
pub(crate) struct Entry {
    /// The event.
    pub(crate) text: Bytes,
    /// Receiver of the outcome.
    pub(crate) done: Option<oneshot::Sender<bool>>,
}

impl Entry {
    /// Reports to the waiting request if the event was accepted.
    pub(crate) fn finish(self, taken: bool) {
        if let Some(done) = self.done {
            // A cancelled request no longer waits.
            let _ = done.send(taken);
        }
    }
}

/// Maximum number of bytes in a queue, whatever its limit on events.
const MAX_QUEUE_BYTES: usize = 256 << 20;

/// Gathering of entries before they are removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathering {
    /// Maximum number of waiting entries.
    pub(crate) capacity: usize,
    /// Number of entries that are removed without further delay.
    pub(crate) enough: usize,
    /// Maximum time that fewer entries wait for more.
    pub(crate) linger: Duration,
}

impl Gathering {
    /// True if this many entries need not wait for more. A single one is never enough, so that entries that arrive
    /// together are removed together.
    fn are_enough(&self, entries: usize) -> bool {
        self.enough > 1 && entries >= self.enough
    }
}

/// Reason why an entry was not added to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Overflow {
    /// The queue is full.
    #[error("audit buffer queue blocked")]
    Full,
    /// There is no reader.
    #[error("audit backend shut down")]
    Closed,
}

/// Entries in order. One thread or task removes them.
pub(crate) struct Queue {
    state: Mutex<State>,
    gathering: Gathering,
    /// Wakes the thread that removes entries.
    ready: Condvar,
    /// Wakes the task that removes entries.
    notify: Notify,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// True if an entry must not wait for more.
    urgent: bool,
    /// True if the thread will wake up soon without a signal.
    dozing: bool,
    closed: bool,
}

impl State {
    fn take(&mut self, most: usize, gathering: &Gathering) -> VecDeque<Entry> {
        let rest = self.entries.split_off(most.min(self.entries.len()));
        let taken = std::mem::replace(&mut self.entries, rest);
        self.bytes = self.entries.iter().map(|entry| entry.text.len()).sum();
        self.urgent = gathering.are_enough(self.entries.len()) || self.entries.iter().any(|entry| entry.done.is_some());
        taken
    }
}

impl Queue {
    pub(crate) fn new(gathering: Gathering) -> Self {
        Self {
            state: Mutex::default(),
            gathering,
            ready: Condvar::new(),
            notify: Notify::new(),
        }
    }

    /// Adds an entry. An `urgent` one is removed without delay.
    ///
    /// # Errors
    /// Fails if there is no room; the entry is then finished.
    pub(crate) fn push(&self, entry: Entry, urgent: bool) -> Result<(), Overflow> {
        let mut state = self.state.lock();
        let full = state.entries.len() >= self.gathering.capacity || state.bytes + entry.text.len() > MAX_QUEUE_BYTES;
        if state.closed || full && !state.entries.is_empty() {
            let why = if state.closed { Overflow::Closed } else { Overflow::Full };
            drop(state);
            entry.finish(false);
            return Err(why);
        }
        state.bytes += entry.text.len();
        state.entries.push_back(entry);
        state.urgent |= urgent || self.gathering.are_enough(state.entries.len());
        let wakes = state.urgent || !state.dozing;
        let first = state.entries.len() == 1;
        let urgent = state.urgent;
        drop(state);
        if wakes {
            self.ready.notify_one();
        }
        if first || urgent {
            self.notify.notify_one();
        }
        Ok(())
    }

    /// Stops accepting entries; the existing ones can still be removed.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.ready.notify_one();
        self.notify.notify_one();
    }

    /// Ends the queue because there is no reader: waiting requests learn that nothing was written. Returns the number
    /// of lost entries.
    pub(crate) fn abandon(&self) -> usize {
        let mut state = self.state.lock();
        state.closed = true;
        let lost = state.take(usize::MAX, &self.gathering);
        drop(state);
        let count = lost.len();
        lost.into_iter().for_each(|entry| entry.finish(false));
        count
    }

    /// True if no more entries are accepted.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Returns all entries once one is urgent, there are enough, or they have waited long enough. `None` at the end.
    /// Blocks the thread.
    pub(crate) fn wait(&self) -> Option<VecDeque<Entry>> {
        let mut state = self.state.lock();
        // More entries are likely after some work. Until then, a push that is not urgent need not wake this thread.
        let mut doze = Some(Instant::now() + self.gathering.linger);
        loop {
            if state.urgent || state.closed && !state.entries.is_empty() {
                break;
            }
            if state.closed {
                return None;
            }
            match doze {
                Some(until) => {
                    state.dozing = true;
                    let slept = self.ready.wait_until(&mut state, until.into_std());
                    state.dozing = false;
                    if slept.timed_out() {
                        if !state.entries.is_empty() {
                            break;
                        }
                        doze = None;
                    }
                }
                None => {
                    self.ready.wait(&mut state);
                    doze = Some(Instant::now() + self.gathering.linger);
                }
            }
        }
        Some(state.take(usize::MAX, &self.gathering))
    }

    /// Returns at most `most` entries like [`Queue::wait`], without blocking.
    pub(crate) async fn collect(&self, most: usize) -> Option<VecDeque<Entry>> {
        let mut deadline = None;
        loop {
            {
                let mut state = self.state.lock();
                if state.urgent || state.closed {
                    if state.entries.is_empty() && state.closed {
                        return None;
                    }
                    if !state.entries.is_empty() {
                        return Some(state.take(most, &self.gathering));
                    }
                }
                if !state.entries.is_empty() {
                    let until = *deadline.get_or_insert_with(|| Instant::now() + self.gathering.linger);
                    if Instant::now() >= until {
                        return Some(state.take(most, &self.gathering));
                    }
                }
            }
            match deadline {
                Some(until) => {
                    let _ = tokio::time::timeout_at(until, self.notify.notified()).await;
                }
                None => self.notify.notified().await,
            }
        }
    }
}

/// Guard that ends a queue when its reader ends, even by a panic, and counts the lost entries.
pub(crate) struct QueueEnd {
    backend: &'static str,
    queue: Arc<Queue>,
    observer: Arc<dyn Observer>,
}

impl QueueEnd {
    /// Creates the guard of the queue of `backend`.
    pub(crate) fn new(backend: &'static str, queue: Arc<Queue>, observer: Arc<dyn Observer>) -> Self {
        Self {
            backend,
            queue,
            observer,
        }
    }
}

impl Drop for QueueEnd {
    fn drop(&mut self) {
        let lost = self.queue.abandon();
        if lost > 0 {
            self.observer.failed(self.backend, lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(capacity: usize, enough: usize, linger: Duration) -> Arc<Queue> {
        Arc::new(Queue::new(Gathering {
            capacity,
            enough,
            linger,
        }))
    }

    fn entry(text: &'static str) -> Entry {
        Entry {
            text: Bytes::from_static(text.as_bytes()),
            done: None,
        }
    }

    fn texts(entries: Option<VecDeque<Entry>>) -> Vec<Bytes> {
        entries.into_iter().flatten().map(|entry| entry.text).collect()
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn full_queue_rejects_entry_and_reports_to_waiter() {
        let queue = queue(1, 1, LONG);
        queue.push(entry("a"), false).unwrap();
        let (done, mut outcome) = oneshot::channel();
        let rejected = Entry {
            done: Some(done),
            ..entry("b")
        };
        assert_eq!(queue.push(rejected, true), Err(Overflow::Full));
        assert_eq!(outcome.try_recv(), Ok(false));
        queue.close();
        assert_eq!(queue.push(entry("c"), true), Err(Overflow::Closed));
        assert_eq!(texts(queue.wait()), ["a"]);
        assert!(queue.wait().is_none());
    }

    #[test]
    fn urgent_entry_flushes_earlier_entries() {
        let queue = queue(10, 1, LONG);
        let taker = Arc::clone(&queue);
        let taken = std::thread::spawn(move || texts(taker.wait()));
        queue.push(entry("a"), false).unwrap();
        queue.push(entry("b"), true).unwrap();
        assert_eq!(taken.join().unwrap(), ["a", "b"]);
    }

    #[test]
    fn waiting_entries_are_removed_after_linger() {
        let queue = queue(10, 1, Duration::from_millis(1));
        queue.push(entry("a"), false).unwrap();
        assert_eq!(texts(queue.wait()), ["a"]);
    }

    #[test]
    fn abandoned_entries_are_reported() {
        let queue = queue(10, 1, LONG);
        let (done, mut outcome) = oneshot::channel();
        let waiting = Entry {
            done: Some(done),
            ..entry("b")
        };
        queue.push(waiting, true).unwrap();
        assert_eq!(queue.abandon(), 1);
        assert_eq!(outcome.try_recv(), Ok(false));
        assert_eq!(queue.push(entry("c"), false), Err(Overflow::Closed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_full_or_has_waited() {
        let queue = queue(10, 2, Duration::from_secs(30));
        let begun = tokio::time::Instant::now();
        queue.push(entry("a"), false).unwrap();
        assert_eq!(texts(queue.collect(2).await), ["a"]);
        assert_eq!(begun.elapsed(), Duration::from_secs(30));
        for text in ["b", "c", "d"] {
            queue.push(entry(text), false).unwrap();
        }
        assert_eq!(texts(queue.collect(2).await), ["b", "c"]);
        assert_eq!(begun.elapsed(), Duration::from_secs(30));
        assert_eq!(texts(queue.collect(2).await), ["d"]);
        assert_eq!(begun.elapsed(), Duration::from_secs(60));
        queue.push(entry("e"), false).unwrap();
        queue.close();
        assert_eq!(texts(queue.collect(2).await), ["e"]);
        assert!(queue.collect(2).await.is_none());
        assert_eq!(begun.elapsed(), Duration::from_secs(60));
    }
}
