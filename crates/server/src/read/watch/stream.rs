//! The stream of one watch, from its first event to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::Stream;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream;
use holdfast_store::{Event, HistoryError, Watcher};
use tokio::time::{Instant, Sleep, sleep_until};

use super::events::WatchEncoder;
use crate::http::ApiError;
use crate::metrics::{ListedWatch, ShardedWatch};
use crate::objects::Objects;
use crate::read::items::{ListItems, TimeSlice};
use crate::runtime::faults::WatchEnd;
use crate::wire::fairness::{WatchChange, WatchHold, WatchTesting};

/// The interval of the bookmarks of a watch that requests them.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The time before the end of a watch at which it gets its last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The bookmarks that a watch requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bookmarks {
    /// True if bookmarks are sent periodically.
    pub(crate) periodic: bool,
    /// True if a bookmark follows the initial events.
    pub(crate) after_initial_events: bool,
}

/// Message of the error that ends a restricted watch, after which clients list again.
const PERMISSIONS_CHANGED: &str = "the objects that the user may read have changed";

/// The size in bytes at which a chunk of initial events is sent.
const RUN_BYTES: usize = 64 * 1024;

/// A watch that is about to begin.
pub(crate) struct WatchStream {
    /// The encoder of its events.
    pub(crate) encoder: WatchEncoder,
    /// The position of the watch in the history.
    pub(crate) watcher: Watcher<Objects>,
    /// The initial objects, if they are requested.
    pub(crate) initial: Option<ListItems>,
    /// The revision of the initial objects.
    pub(crate) initial_revision: u64,
    /// The requested bookmarks.
    pub(crate) bookmarks: Bookmarks,
    /// The time at which it ends.
    pub(crate) end: Instant,
    /// The limits and counters that it holds.
    pub(crate) hold: WatchHold,
    /// The metrics of the initial objects.
    pub(crate) listed: Option<ListedWatch>,
    /// A future that is ready when the permissions change by which the watch is restricted; `None` for most.
    pub(crate) readable_changed: Option<BoxFuture<'static, ()>>,
    /// The count of this watch among the watches of shards.
    pub(crate) _sharded: Option<ShardedWatch>,
}

impl WatchStream {
    /// Returns the frames of the watch.
    pub(crate) fn frames(mut self) -> impl Stream<Item = Bytes> + Send {
        let shutdown = self.encoder.context.shutdown.clone();
        let (crds, resource) = (
            Arc::clone(&self.encoder.context.crds),
            Arc::clone(&self.encoder.requested.resource),
        );
        let changed = resource.conventions.form_changes.then(|| {
            let changed = async move { crds.changed(&resource).await };
            Box::pin(changed) as BoxFuture<'static, ()>
        });
        let testing = self.hold.take_testing();
        // A client with a full window requests no frame for a long time, so the seats do not wait for the first one.
        match self.initial {
            Some(_) => self.hold.begin_initial_objects(),
            None => self.hold.begun(),
        }
        let mut readable_changed = self.readable_changed.take();
        let mut run = Run {
            watch: self,
            testing,
            sent: 0,
            ending: Box::pin(async move {
                tokio::select! {
                    biased;
                    () = shutdown.watch_ending() => Ending::Shutdown,
                    () = OptionFuture::from(readable_changed.as_mut()).map(drop), if readable_changed.is_some() => {
                        Ending::PermissionsChanged
                    }
                }
            }),
            changed,
            alarm: Box::pin(sleep_until(Instant::now())),
            ended: false,
        };
        run.set_alarm();
        stream::unfold(run, |mut run| async move {
            let frame = run.next().await?;
            run.sent = run.sent.saturating_add(1);
            Some((frame, run))
        })
    }
}

/// End of a watch that does not follow from its events.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The server shuts down.
    Shutdown,
    /// The objects that the user may read have changed.
    PermissionsChanged,
}

/// Occurrence that a watch waits for.
enum Occurrence {
    Event(Result<Arc<Event<Objects>>, HistoryError>),
    /// The next bookmark is due, or the watch ends.
    Alarm,
    Ending(Ending),
    /// The resource changes or is no longer served.
    ResourceChanged,
    /// A test expires the watch or moves the clock.
    Testing(WatchChange),
}

struct Run {
    watch: WatchStream,
    /// The state for tests, if the server has endpoints for them.
    testing: Option<Box<WatchTesting>>,
    /// The number of frames that were sent. If there is a fault, each frame has one event.
    sent: u32,
    /// A future that is ready when the watch ends early.
    ending: BoxFuture<'static, Ending>,
    /// A future that is ready when the resource changes or is no longer served; `None` for built-in resources.
    changed: Option<BoxFuture<'static, ()>>,
    /// A timer that fires when the next bookmark is due or the watch ends. It is rarely set: a busy watch does not read
    /// the clock for each event.
    alarm: Pin<Box<Sleep>>,
    ended: bool,
}

impl Run {
    async fn next(&mut self) -> Option<Bytes> {
        let late = self.watch.initial.is_some() && Instant::now() >= self.watch.end;
        if self.ended || late {
            return None;
        }
        if self.testing.is_some()
            && let Some(end) = Box::pin(self.end_by_test()).await
        {
            return end.expired.then(|| self.expire());
        }
        if let Some(mut items) = self.watch.initial.take() {
            self.watch.hold.begin_initial_chunk().await;
            let (run, more) = self.initial(&mut items).await;
            if more {
                self.watch.initial = Some(items);
                self.watch.hold.end_initial_chunk();
            } else {
                self.watch.hold.begun();
            }
            if !run.is_empty() {
                return Some(run);
            }
        }
        // Most events are selected, so that a watch reads the clock only after the first event that it skips.
        let mut turn: Option<TimeSlice> = None;
        loop {
            let occurrence = match self.testing {
                None => self.occurrence().await,
                Some(_) => Box::pin(self.occurrence_of_test()).await,
            };
            let encoder = &mut self.watch.encoder;
            let frame = match occurrence {
                Occurrence::Event(Ok(event)) if encoder.may_wait() => tokio::select! {
                    biased;
                    ending = &mut self.ending => return self.end(ending),
                    frame = encoder.change(&event) => frame,
                },
                Occurrence::Event(Ok(event)) => encoder.change(&event).await,
                Occurrence::Event(Err(HistoryError::Compacted { requested, oldest })) => {
                    Err(too_old(requested, oldest))
                }
                Occurrence::Event(Err(_)) | Occurrence::ResourceChanged => return None,
                Occurrence::Alarm if Instant::now() >= self.watch.end => return None,
                Occurrence::Alarm => {
                    self.set_alarm();
                    self.bookmark().await
                }
                Occurrence::Ending(ending) => return self.end(ending),
                Occurrence::Testing(WatchChange::Expired) => return Some(self.expire()),
                Occurrence::Testing(WatchChange::Advanced(by)) => {
                    self.advance(by);
                    continue;
                }
            };
            match frame {
                Ok(None) => turn.get_or_insert_default().end_if_due().await,
                Ok(Some(frame)) => return Some(frame),
                Err(error) => return Some(self.fail(&error)),
            }
        }
    }

    /// Waits for the next occurrence on a server without endpoints for tests. Each watcher of an event runs this, so it
    /// has few branches.
    async fn occurrence(&mut self) -> Occurrence {
        tokio::select! {
            biased;
            ending = &mut self.ending => Occurrence::Ending(ending),
            () = &mut self.alarm => Occurrence::Alarm,
            event = self.watch.watcher.next() => Occurrence::Event(event),
            () = OptionFuture::from(self.changed.as_mut()).map(drop), if self.changed.is_some() => {
                Occurrence::ResourceChanged
            }
        }
    }

    /// Waits for the next occurrence on a server with endpoints for tests. An event waits until it is as old as the lag
    /// of the watch, and while a checkpoint is restored.
    async fn occurrence_of_test(&mut self) -> Occurrence {
        let Some(mut testing) = self.testing.take() else {
            return self.occurrence().await;
        };
        let mut occurrence = tokio::select! {
            biased;
            change = testing.changed() => Occurrence::Testing(change),
            occurrence = self.occurrence() => occurrence,
        };
        if let Occurrence::Event(Ok(event)) = &occurrence {
            let early = tokio::select! {
                biased;
                ending = &mut self.ending => Some(Occurrence::Ending(ending)),
                is_valid = before_event(&mut testing, &self.watch.encoder, event) => {
                    (!is_valid).then_some(Occurrence::Testing(WatchChange::Expired))
                }
            };
            occurrence = early.unwrap_or(occurrence);
        }
        self.testing = Some(testing);
        occurrence
    }

    /// Waits while a checkpoint is restored. Returns the end of the watch, if a test ends it now.
    async fn end_by_test(&mut self) -> Option<WatchEnd> {
        let testing = self.testing.as_mut()?;
        if !testing.pass.is_valid().await {
            return Some(WatchEnd {
                after_events: 0,
                expired: true,
            });
        }
        testing.end_after(self.sent)
    }

    /// Ends the watch, with an error if its client must list again.
    fn end(&mut self, ending: Ending) -> Option<Bytes> {
        match ending {
            Ending::Shutdown => None,
            Ending::PermissionsChanged => Some(self.fail(&ApiError::expired(PERMISSIONS_CHANGED))),
        }
    }

    /// Returns a chunk of the initial objects, with the bookmark after the last of them, and true if there are more.
    async fn initial(&mut self, items: &mut ListItems) -> (Bytes, bool) {
        let (mut run, mut turn) = (BytesMut::new(), TimeSlice::default());
        let is_broken = self.testing.as_ref().is_some_and(|testing| testing.fault.is_some());
        let limit = if is_broken { 1 } else { RUN_BYTES };
        while run.len() < limit {
            let item = match items.next(&mut turn).await {
                Ok(item) => item,
                Err(error) => {
                    run.extend_from_slice(&self.fail(&error));
                    return (run.freeze(), false);
                }
            };
            let Some(item) = item else {
                if self.watch.bookmarks.after_initial_events {
                    match self.watch.encoder.bookmark(self.watch.initial_revision, true) {
                        Ok(frame) => run.extend_from_slice(&frame),
                        Err(error) => run.extend_from_slice(&self.fail(&error)),
                    }
                }
                if let Some(listed) = self.watch.listed.take().filter(|_| !self.ended) {
                    listed.end();
                }
                return (run.freeze(), false);
            };
            match self.watch.encoder.object_at_start(&item) {
                Ok(frame) => run.extend_from_slice(&frame),
                Err(error) => {
                    run.extend_from_slice(&self.fail(&error));
                    return (run.freeze(), false);
                }
            }
        }
        (run.freeze(), true)
    }

    /// Returns the due bookmark; an event that arrived meanwhile goes first.
    async fn bookmark(&mut self) -> Result<Option<Bytes>, ApiError> {
        let WatchStream { encoder, watcher, .. } = &mut self.watch;
        match watcher.try_next() {
            Ok(Some(event)) => encoder.change(&event).await,
            Ok(None) => encoder.bookmark(watcher.progress(), false).map(Some),
            Err(HistoryError::Compacted { requested, oldest }) => Err(too_old(requested, oldest)),
            Err(_) => Ok(None),
        }
    }

    /// Sets the alarm to the next bookmark, if there is one, or to the end.
    fn set_alarm(&mut self) {
        let (now, end) = (Instant::now(), self.watch.end);
        let last = end.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
        let next = match last {
            Some(last) if self.watch.bookmarks.periodic => last.min(now + BOOKMARK_INTERVAL),
            _ => end,
        };
        self.alarm.as_mut().reset(next);
    }

    /// Brings the end of the watch closer, because the clock was moved.
    fn advance(&mut self, by: Duration) {
        self.watch.end = self.watch.end.checked_sub(by).unwrap_or_else(Instant::now);
        self.set_alarm();
    }

    /// Ends the watch with the error 410.
    fn expire(&mut self) -> Bytes {
        let revision = self.watch.watcher.progress();
        self.fail(&too_old(revision, revision + 1))
    }

    fn fail(&mut self, error: &ApiError) -> Bytes {
        self.ended = true;
        self.watch.encoder.error(error)
    }
}

/// Waits until the event is as old as the lag of a watch, and while a checkpoint is restored. Returns false if the watch
/// has expired.
async fn before_event(testing: &mut WatchTesting, encoder: &WatchEncoder, event: &Event<Objects>) -> bool {
    if let Some(fault) = testing.fault {
        let now = encoder.context.shared.clock.now().duration_since(UNIX_EPOCH);
        let age = now.unwrap_or_default().saturating_sub(event.time());
        tokio::time::sleep(fault.lag.saturating_sub(age)).await;
    }
    testing.pass.is_valid().await
}

/// Returns error 410: the history does not reach back to the requested version.
pub(crate) fn too_old(requested: u64, oldest: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {requested} ({oldest})"))
}
