//! Follows etcd: one watch, which is created again after each break, from the revision after the last published one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::client::WatchStream;
use super::feed::Change;
use super::proto::{Event, Watch, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse};
use super::{Shared, closed};
use crate::entry::Indexer;

/// Delay before a watch is created again, at first and at most.
const AGAIN: Duration = Duration::from_millis(20);
const AGAIN_MOST: Duration = Duration::from_secs(1);
/// Interval of progress requests while a reader waits: a member that lags does not respond to them.
const ASK: Duration = Duration::from_millis(100);
/// Interval of the checks for old history.
const TRIM: Duration = Duration::from_secs(1);
/// Interval of the log message that there is no watch.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// Approximate number of changes that are published in one step.
const STEP: usize = 256;

/// Reason for the end of a watch.
enum End {
    Closing,
    /// The next events have been compacted.
    Compacted,
    Broken(String),
}

impl<X: Indexer> Shared<X> {
    /// Follows etcd until the engine closes.
    pub(super) async fn follow(self: Arc<Self>) {
        let mut wait = AGAIN;
        let mut reported: Option<Instant> = None;
        loop {
            let before = self.feed.state.revision();
            let begun = Instant::now();
            match self.follow_once().await {
                End::Closing => return,
                End::Compacted => {
                    tracing::warn!(
                        after = before,
                        "etcd no longer has the next events; reading all objects again"
                    );
                    self.feed.broke();
                    if let Err(error) = self.reread().await {
                        tracing::warn!(%error, "etcd cannot be read");
                    }
                }
                End::Broken(why) => {
                    if reported.is_none_or(|reported| reported.elapsed() >= REPORT_INTERVAL) {
                        tracing::warn!(why, "the watch of etcd failed; starting a new one");
                        reported = Some(Instant::now());
                    }
                    self.client.leave_member();
                }
            }
            // A watch that ran for some time had no problem.
            wait = match begun.elapsed() > AGAIN_MOST {
                true => AGAIN,
                false => (wait * 2).min(AGAIN_MOST),
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn follow_once(&self) -> End {
        let (key, range_end) = self.feed.prefix.range();
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: i64::try_from(self.feed.state.revision() + 1).unwrap_or(i64::MAX),
            progress_notify: true,
            fragment: true,
        };
        let mut stream = match self.client.watch(create).await {
            Ok(stream) => stream,
            Err(error) => return End::Broken(error.to_string()),
        };
        let mut closing = self.closing.subscribe();
        let mut wanted = self.wanted.subscribe();
        let mut ask = interval(ASK);
        let mut trim = interval(TRIM);
        for timer in [&mut ask, &mut trim] {
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let mut events = Vec::new();
        // Until etcd has confirmed the watch, it may report progress before the events that precede it.
        let mut is_created = false;
        loop {
            let waits = is_created && wanted.borrow().is_beyond(self.feed.state.revision());
            // The timers come first, because their frequency is limited, so that no stream of events delays them.
            tokio::select! {
                biased;
                () = closed(&mut closing) => return End::Closing,
                _ = trim.tick() => self.feed.trim(),
                _ = ask.tick(), if waits => self.ask(&stream).await,
                answer = stream.responses.next() => match answer {
                    Ok(Some(answer)) => {
                        is_created |= answer.created;
                        if let Some(end) = self.take(answer, &mut events).await {
                            return end;
                        }
                    }
                    Ok(None) => return End::Broken("etcd ended it".to_owned()),
                    Err(why) => return End::Broken(why),
                },
                changed = wanted.changed() => {
                    if changed.is_err() {
                        return End::Closing;
                    }
                    if is_created {
                        self.ask(&stream).await;
                    }
                }
            }
        }
    }

    /// Requests the progress of the watch.
    async fn ask(&self, stream: &WatchStream) {
        if !self.wanted.borrow().is_beyond(self.feed.state.revision()) {
            return;
        }
        if !self.reports_progress.load(Ordering::Relaxed) {
            return self.mark().await;
        }
        let progress = WatchRequest {
            request: Some(Watch::Progress(WatchProgressRequest {})),
        };
        // A full queue holds enough requests.
        let _ = stream.requests.try_send(progress);
    }

    /// Processes one response; `events` collects the fragments of a response in several parts.
    async fn take(&self, answer: WatchResponse, events: &mut Vec<Event>) -> Option<End> {
        if answer.canceled || answer.compact_revision > 0 {
            return Some(match answer.compact_revision > 0 {
                true => End::Compacted,
                false => End::Broken(answer.cancel_reason),
            });
        }
        if answer.created {
            return None;
        }
        if answer.events.is_empty() && events.is_empty() {
            let revision = answer.header.map_or(0, |header| header.revision);
            self.feed.passed(revision.unsigned_abs());
            self.client.observer().progressed();
            return None;
        }
        events.extend(answer.events);
        if !answer.fragment {
            self.publish(std::mem::take(events)).await;
        }
        None
    }

    async fn publish(&self, events: Vec<Event>) {
        let last = events
            .last()
            .and_then(|event| event.kv.as_ref())
            .map_or(0, |kv| kv.mod_revision.unsigned_abs());
        let mut step: Vec<Change> = Vec::new();
        for event in events {
            let Some(change) = Change::from_event(event, &self.feed.prefix) else {
                continue;
            };
            self.client.observer().received(&change.key);
            let full = step.len() >= STEP && step.last().is_some_and(|one| one.mod_revision != change.mod_revision);
            if full {
                self.feed.watched(std::mem::take(&mut step), self.client.observer());
                tokio::task::yield_now().await;
            }
            step.push(change);
        }
        if !step.is_empty() {
            self.feed.watched(step, self.client.observer());
        }
        // Needed if the last changes are not objects.
        self.feed.passed(last);
    }
}
