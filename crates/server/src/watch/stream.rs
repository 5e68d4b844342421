//! The stream of one watch, from its first event to its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use holdfast_store::{HistoryError, Watcher};
use tokio::time::{Instant, sleep_until};

use super::events::{self, Framing};
use crate::ApiError;
use crate::objects::{Entry, Objects};

/// How often a watch that wants bookmarks gets one.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// How long before its end a watch that wants bookmarks gets the last one.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// Which bookmarks a watch wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bookmarks {
    /// From time to time.
    pub(crate) periodic: bool,
    /// One behind the initial events.
    pub(crate) after_initial_events: bool,
}

/// A watch that is about to begin.
pub(crate) struct WatchStream {
    /// What the watcher sees.
    pub(crate) framing: Framing,
    /// Its place in the history.
    pub(crate) watcher: Watcher<Objects>,
    /// The objects that it is shown first.
    pub(crate) initial: VecDeque<Arc<Entry>>,
    /// The revision of the initial objects.
    pub(crate) initial_revision: u64,
    /// Which bookmarks it wants.
    pub(crate) bookmarks: Bookmarks,
    /// When it ends.
    pub(crate) end: Instant,
}

/// What a watch does next.
enum State {
    Initial,
    Changes,
    Ended,
}

impl WatchStream {
    /// The frames of the watch.
    pub(crate) fn frames(self) -> impl Stream<Item = Bytes> + Send {
        let next_bookmark = self.next_bookmark();
        let run = Run {
            watch: self,
            state: State::Initial,
            next_bookmark,
        };
        stream::unfold(run, |mut run| async move {
            let frame = run.next().await?;
            Some((frame, run))
        })
    }

    fn next_bookmark(&self) -> Instant {
        let (now, last) = (Instant::now(), self.end.checked_sub(LAST_BOOKMARK));
        let regular = now + BOOKMARK_INTERVAL;
        match last {
            Some(last) if last > now => regular.min(last),
            _ => regular,
        }
    }
}

struct Run {
    watch: WatchStream,
    state: State,
    next_bookmark: Instant,
}

impl Run {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.state {
                State::Initial => {
                    if let Some(frame) = self.next_initial() {
                        return Some(frame);
                    }
                }
                State::Changes => {
                    let step = self.next_change().await?;
                    if let Some(frame) = step {
                        return Some(frame);
                    }
                }
                State::Ended => return None,
            }
        }
    }

    /// The next of the objects that are shown first, then the bookmark behind them; `None` when there are no more.
    fn next_initial(&mut self) -> Option<Bytes> {
        while let Some(entry) = self.watch.initial.pop_front() {
            match self.watch.framing.initial(&entry) {
                Ok(None) => {}
                Ok(Some(frame)) => return Some(frame),
                Err(error) => return Some(self.fail(&error)),
            }
        }
        self.state = State::Changes;
        let bookmark = self.watch.bookmarks.after_initial_events;
        bookmark.then(|| self.framed_bookmark(self.watch.initial_revision, true))
    }

    /// The next frame once there is one; `Some(None)` for what this watcher is not to see, `None` at the end.
    async fn next_change(&mut self) -> Option<Option<Bytes>> {
        let bookmark_at = if self.watch.bookmarks.periodic {
            self.next_bookmark
        } else {
            self.watch.end
        };
        let event = tokio::select! {
            biased;
            event = self.watch.watcher.next() => event,
            () = self.watch.framing.context.shutdown.closing() => return None,
            () = sleep_until(self.watch.end) => return None,
            () = sleep_until(bookmark_at) => {
                self.next_bookmark = self.watch.next_bookmark();
                return Some(self.bookmark());
            }
        };
        match event {
            Ok(event) => match self.watch.framing.change(&event) {
                Ok(frame) => Some(frame),
                Err(error) => Some(Some(self.fail(&error))),
            },
            Err(HistoryError::Compacted { requested, oldest }) => Some(Some(self.fail(&too_old(requested, oldest)))),
            Err(_) => None,
        }
    }

    fn bookmark(&mut self) -> Option<Bytes> {
        // An event that came meanwhile goes first; the next turn finds it.
        match self.watch.watcher.try_next() {
            Ok(Some(event)) => match self.watch.framing.change(&event) {
                Ok(frame) => frame,
                Err(error) => Some(self.fail(&error)),
            },
            Ok(None) => Some(self.framed_bookmark(self.watch.watcher.progress(), false)),
            Err(HistoryError::Compacted { requested, oldest }) => Some(self.fail(&too_old(requested, oldest))),
            Err(_) => None,
        }
    }

    fn framed_bookmark(&mut self, revision: u64, after_initial_events: bool) -> Bytes {
        let frame = self.watch.framing.bookmark(revision, after_initial_events);
        frame.unwrap_or_else(|error| self.fail(&error))
    }

    fn fail(&mut self, error: &ApiError) -> Bytes {
        self.state = State::Ended;
        let framing = &self.watch.framing;
        events::error(framing.context.messages(), framing.format, error)
    }
}

/// 410: the history does not reach back so far.
pub(crate) fn too_old(requested: u64, oldest: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {requested} ({oldest})"))
}
