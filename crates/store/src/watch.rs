//! Watches of a prefix: every event after a revision, once, in order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

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
    group: Arc<Group>,
    /// List of wake-ups of the group that this watcher belongs to.
    wake_list: usize,
    cursor: Cursor<X>,
}

/// Position of a watcher.
struct Cursor<X: Indexer> {
    state: Arc<State<X>>,
    channel: Arc<Channel<X>>,
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
        let wake_list = group.subscribe();
        let next = ring.after(after);
        drop(ring);
        Ok(Self {
            group,
            wake_list,
            cursor: Cursor {
                state: state.clone(),
                channel,
                scope,
                after,
                done: after,
                next,
            },
        })
    }

    /// Waits for the next event and returns it. Nothing is lost if the future is dropped before it is ready.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] if the watcher was too slow, [`HistoryError::Closed`] when the store closes and all
    /// events were delivered.
    pub async fn next(&mut self) -> Result<Arc<Event<X>>, HistoryError> {
        loop {
            // It is created before the check, so that no wake-up between the check and the wait is missed.
            let woken = self.group.woken(self.wake_list);
            let is_closed = self.cursor.state.is_closed();
            if let Some(event) = self.cursor.advance(&self.group)? {
                return Ok(event);
            }
            if is_closed {
                return Err(HistoryError::Closed);
            }
            woken.await;
        }
    }

    /// Returns the next event if there is one.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] if the watcher was too slow.
    pub fn try_next(&mut self) -> Result<Option<Arc<Event<X>>>, HistoryError> {
        self.cursor.advance(&self.group)
    }

    /// Returns the revision up to which this watcher has delivered all events of its prefix, for use in a bookmark.
    ///
    /// The revision dates from the last call of [`Watcher::next`] that had to wait, or of [`Watcher::try_next`] that
    /// found nothing. Call the latter first to update it to the current revision.
    pub fn progress(&self) -> Revision {
        self.cursor.done
    }
}

impl<X: Indexer> Cursor<X> {
    fn advance(&mut self, group: &Group) -> Result<Option<Arc<Event<X>>>, HistoryError> {
        let current = self.state.revision();
        loop {
            let ring = self.channel.ring.read();
            if group.trimmed.load(Ordering::Acquire) > self.next {
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
}

impl<X: Indexer> Drop for Watcher<X> {
    fn drop(&mut self) {
        self.group.unsubscribe();
        self.cursor.channel.leave(&self.group);
    }
}

impl<X: Indexer> std::fmt::Debug for Watcher<X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watcher({:?} done to {})", self.cursor.scope, self.cursor.done)
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
        let (first, second) = (watch(), watch());
        // Both are about to leave, and the second one runs after another one has joined.
        let (channel, group) = (first.cursor.channel.clone(), first.group.clone());
        first.group.unsubscribe();
        drop(second);
        channel.leave(&group);
        let mut joined = watch();
        channel.leave(&group);

        let mut next = std::pin::pin!(joined.next());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending());
        let mut draft = publisher.draft();
        let at = At {
            revision: 2,
            position: 0,
            time: Default::default(),
        };
        draft.put("/registry/pods/a/b".into(), (&Value::plain("x")).into(), at, None);
        publisher.publish(draft);
        let next = tokio::time::timeout(std::time::Duration::from_secs(60), next);
        assert_eq!(next.await.unwrap().unwrap().revision(), 2);
        std::mem::forget(first);
    }
}
