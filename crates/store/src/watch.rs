//! Watches of a prefix: every event after a revision, once, in order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use crate::entry::Indexer;
use crate::error::HistoryError;
use crate::history::{Channel, Event, Group};
use crate::key::{Key, Revision};
use crate::state::State;

/// Number of non-matching events that a watcher skips before it releases the ring's lock for writers.
const SCAN: usize = 4096;

/// Scope of a watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Prefix(Key),
    Key(Key),
}

impl Scope {
    fn contains(&self, key: &[u8]) -> bool {
        match self {
            Self::Prefix(prefix) => key.starts_with(prefix),
            Self::Key(only) => key == &**only,
        }
    }

    fn key(&self) -> &Key {
        match self {
            Self::Prefix(key) | Self::Key(key) => key,
        }
    }
}

/// A position in the history of one prefix. It has no queue: a slow watcher costs nothing and delays no other, and
/// when its next event has been trimmed it gets [`HistoryError::Compacted`].
pub struct Watcher<X: Indexer> {
    state: Arc<State<X>>,
    channel: Arc<Channel<X>>,
    group: Arc<Group>,
    /// Receiver of wake-ups; present until the watcher is dropped.
    wake: Option<watch::Receiver<Revision>>,
    scope: Scope,
    /// Revision of the start of the watch; events up to it are skipped.
    after: Revision,
    /// Revision up to which all events of the scope have been delivered.
    done: Revision,
    /// Sequence number, in the channel's ring, of the next event to check.
    next: u64,
}

impl<X: Indexer> Watcher<X> {
    pub(crate) fn new(state: &Arc<State<X>>, scope: Scope, after: Revision) -> Result<Self, HistoryError> {
        let channel = state.channel(scope.key());
        let mut ring = channel.ring.write();
        let oldest = state.compacted();
        if after < oldest {
            return Err(HistoryError::Compacted {
                requested: after,
                oldest,
            });
        }
        if state.is_closed() {
            return Err(HistoryError::Closed);
        }
        let group = channel.join(&mut ring, scope.key(), matches!(scope, Scope::Key(_)));
        let wake = group.latest.subscribe();
        let next = ring.after(after);
        drop(ring);
        Ok(Self {
            state: state.clone(),
            channel,
            group,
            wake: Some(wake),
            scope,
            after,
            done: after,
            next,
        })
    }

    /// Waits for the next event and returns it. Nothing is lost if the future is dropped before it is ready.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] if the watcher was too slow, [`HistoryError::Closed`] when the store closes and all
    /// events were delivered.
    pub async fn next(&mut self) -> Result<Arc<Event<X>>, HistoryError> {
        loop {
            if let Some(wake) = &mut self.wake {
                wake.borrow_and_update();
            }
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            if self.state.is_closed() {
                return Err(HistoryError::Closed);
            }
            let Some(wake) = &mut self.wake else {
                return Err(HistoryError::Closed);
            };
            wake.changed().await.map_err(|_| HistoryError::Closed)?;
        }
    }

    /// Returns the next event if there is one.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] if the watcher was too slow.
    pub fn try_next(&mut self) -> Result<Option<Arc<Event<X>>>, HistoryError> {
        let current = self.state.revision();
        loop {
            let ring = self.channel.ring.read();
            if self.group.trimmed.load(Ordering::Acquire) > self.next {
                return Err(HistoryError::Compacted {
                    requested: self.done,
                    oldest: self.state.compacted(),
                });
            }
            self.next = self.next.max(ring.first);
            for _ in 0..SCAN {
                let event = match ring.get(self.next) {
                    Some(event) if event.revision() <= current => event,
                    _ => {
                        self.done = self.done.max(current);
                        return Ok(None);
                    }
                };
                self.next += 1;
                if event.revision() > self.after && self.scope.contains(event.key()) {
                    self.done = self.done.max(event.revision() - 1);
                    return Ok(Some(event.clone()));
                }
            }
        }
    }

    /// Returns the revision up to which this watcher has delivered all events of its prefix, for use in a bookmark.
    ///
    /// The revision dates from the last call of [`Watcher::next`] that had to wait, or of [`Watcher::try_next`] that
    /// found nothing. Call the latter first to update it to the current revision.
    pub fn progress(&self) -> Revision {
        self.done
    }
}

impl<X: Indexer> Drop for Watcher<X> {
    fn drop(&mut self) {
        self.wake = None;
        self.channel.leave(&self.group);
    }
}

impl<X: Indexer> std::fmt::Debug for Watcher<X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watcher({:?} done to {})", self.scope, self.done)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use crate::entry::Value;
    use crate::state::{At, HistoryLimits, State};

    use super::*;

    #[tokio::test]
    async fn a_watcher_that_joins_between_two_leaves_is_woken() {
        let (state, mut publisher) = State::new((), HistoryLimits::default());
        let watch = || Watcher::new(&state, Scope::Prefix("/registry/pods/".into()), 1).unwrap();
        let (mut first, mut second) = (watch(), watch());
        // Both are about to leave, and the second one runs after another one has joined.
        (first.wake, second.wake) = (None, None);
        drop(first);
        let mut joined = watch();
        drop(second);

        let woken = joined.wake.as_mut().unwrap();
        let mut draft = publisher.draft();
        let at = At {
            revision: 2,
            position: 0,
            time: Default::default(),
        };
        draft.put("/registry/pods/a/b".into(), (&Value::plain("x")).into(), at, None);
        publisher.publish(draft);
        assert!(woken.has_changed().unwrap());
        assert_eq!(joined.next().await.unwrap().revision(), 2);
    }
}
