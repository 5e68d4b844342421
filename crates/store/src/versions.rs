//! Versions of one key that the event history still holds, the newest first.
//!
//! An event holds the entry that it replaced, and events are in the order of their revisions. So the event of a version
//! is found by a binary search for its revision, and leads to the version before it. Only the versions before a
//! creation, those of an earlier object at the same key, need a scan.

use std::sync::Arc;

use crate::entry::{Entry, Indexer};
use crate::error::HistoryError;
use crate::history::{Channel, Event, EventKind, Ring};
use crate::key::{Key, Revision};
use crate::state::State;

/// Number of events that one step checks. It bounds the duration of a step, during which writers wait.
const SCAN: usize = 4096;

/// One version of a key.
pub struct KeyVersion<X: Indexer> {
    entry: Arc<Entry<X>>,
    event: Option<Arc<Event<X>>>,
}

impl<X: Indexer> KeyVersion<X> {
    /// Returns the entry: of a deletion, the object at its removal, with the revision of the deletion.
    pub fn entry(&self) -> &Arc<Entry<X>> {
        &self.entry
    }

    /// Returns the event that made the version; `None` if it was made before the history begins.
    pub fn event(&self) -> Option<&Arc<Event<X>>> {
        self.event.as_ref()
    }

    /// Returns the entry that this version replaced, if the history holds it.
    pub fn previous(&self) -> Option<&Arc<Entry<X>>> {
        self.event.as_ref().and_then(|event| event.previous())
    }

    /// Returns true if the version is the removal of the key.
    pub fn is_removal(&self) -> bool {
        self.event
            .as_ref()
            .is_some_and(|event| event.kind() == EventKind::Delete)
    }
}

/// Iterator over the versions of one key, the newest first. Versions that leave the history meanwhile are left out.
///
/// [`Iterator::next`] may check the whole history before it returns. [`KeyVersions::step`] returns within a millisecond.
pub struct KeyVersions<X: Indexer> {
    channel: Arc<Channel<X>>,
    key: Key,
    position: Position<X>,
}

/// Result of [`KeyVersions::step`].
pub enum VersionStep<X: Indexer> {
    /// The next version.
    Version(KeyVersion<X>),
    /// No version was found yet. The next step continues the search.
    Searching,
    /// There is no further version.
    End,
}

/// Place of the next version.
enum Position<X: Indexer> {
    /// It has this entry.
    Known(Arc<Entry<X>>),
    /// It is among the events with lower sequence numbers, if there is one.
    Below(u64),
    /// There is none.
    End,
}

impl<X: Indexer> KeyVersions<X> {
    /// Returns the versions of `key` before its version `before`, or all of them.
    ///
    /// # Errors
    /// [`HistoryError::Compacted`] if the event of `before` is not in the history.
    pub(crate) fn new(state: &Arc<State<X>>, key: Key, before: Option<Revision>) -> Result<Self, HistoryError> {
        let channel = state.channel(&key);
        let snapshot = state.snapshot();
        let position = match (before, snapshot.get(&key)) {
            (None, Some(entry)) => Position::Known(entry.clone()),
            (None, None) => Position::Below(channel.ring.read().after(snapshot.revision())),
            (Some(before), _) => {
                let found = find(&channel.ring.read(), &key, before);
                let (sequence, event) = found.ok_or(HistoryError::Compacted {
                    requested: before,
                    oldest: state.compacted(),
                })?;
                Position::after(sequence, &event)
            }
        };
        Ok(Self { channel, key, position })
    }

    /// Makes one step towards the next version.
    pub fn step(&mut self) -> VersionStep<X> {
        let (found, known) = match std::mem::replace(&mut self.position, Position::End) {
            Position::Known(entry) => {
                let found = find(&self.channel.ring.read(), &self.key, entry.mod_revision());
                (found, Some(entry))
            }
            Position::Below(sequence) => match find_below(&self.channel.ring.read(), &self.key, sequence) {
                Ok(found) => (found, None),
                Err(rest) => {
                    self.position = Position::Below(rest);
                    return VersionStep::Searching;
                }
            },
            Position::End => return VersionStep::End,
        };
        let Some((sequence, event)) = found else {
            let oldest = known.map(|entry| KeyVersion { entry, event: None });
            return oldest.map_or(VersionStep::End, VersionStep::Version);
        };
        self.position = Position::after(sequence, &event);
        VersionStep::Version(KeyVersion {
            entry: event.current().clone(),
            event: Some(event),
        })
    }
}

impl<X: Indexer> Position<X> {
    /// Returns the position after the version of `event`.
    fn after(sequence: u64, event: &Event<X>) -> Self {
        match event.previous() {
            Some(previous) => Self::Known(previous.clone()),
            None => Self::Below(sequence),
        }
    }
}

/// An event and its sequence number.
type NumberedEvent<X> = (u64, Arc<Event<X>>);

/// Returns the event of `key` at `revision`.
fn find<X: Indexer>(ring: &Ring<X>, key: &Key, revision: Revision) -> Option<NumberedEvent<X>> {
    let mut sequence = ring.after(revision.checked_sub(1)?);
    // The events of one transaction may have one revision.
    while let Some(event) = ring.get(sequence).filter(|event| event.revision() == revision) {
        if event.key() == key {
            return Some((sequence, event.clone()));
        }
        sequence += 1;
    }
    None
}

/// Returns the newest event of `key` whose sequence number is lower than `below`. After [`SCAN`] events without it, the
/// error is the sequence number below which to continue.
fn find_below<X: Indexer>(ring: &Ring<X>, key: &Key, below: u64) -> Result<Option<NumberedEvent<X>>, u64> {
    let mut end = below;
    for _ in 0..SCAN {
        if end <= ring.first {
            return Ok(None);
        }
        end -= 1;
        match ring.get(end) {
            None => return Ok(None),
            Some(event) if event.key() == key => return Ok(Some((end, event.clone()))),
            Some(_) => {}
        }
    }
    Err(end)
}

impl<X: Indexer> Iterator for KeyVersions<X> {
    type Item = KeyVersion<X>;

    fn next(&mut self) -> Option<KeyVersion<X>> {
        loop {
            match self.step() {
                VersionStep::Version(version) => return Some(version),
                VersionStep::Searching => {}
                VersionStep::End => return None,
            }
        }
    }
}

impl<X: Indexer> std::fmt::Debug for KeyVersions<X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyVersions({})", self.key)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::entry::Value;
    use crate::state::{At, Draft, HistoryLimits, Publisher};

    const KEY: &str = "/registry/pods/a/b";

    /// State with the revisions that [`World::put`] and [`World::delete`] make, one second apart.
    struct World {
        state: Arc<State<()>>,
        publisher: Publisher<()>,
    }

    impl World {
        fn new(age: Duration) -> Self {
            let limits = HistoryLimits { age, bytes: usize::MAX };
            let (state, publisher) = State::new((), limits);
            Self { state, publisher }
        }

        fn change(&mut self, change: impl FnOnce(&mut Draft<()>, At)) {
            let revision = self.state.revision() + 1;
            let at = At {
                revision,
                position: 0,
                time: Duration::from_secs(revision),
            };
            let mut draft = self.publisher.draft();
            change(&mut draft, at);
            self.publisher.publish(draft);
        }

        fn put(&mut self, key: &str) {
            self.change(|draft, at| {
                draft.put(key.into(), (&Value::plain("x")).into(), at, None);
            });
        }

        fn delete(&mut self, key: &str) {
            self.change(|draft, at| {
                draft.delete(&key.into(), None, at).unwrap();
            });
        }

        /// Returns `REVISION<PREVIOUS` for each version; a removal ends in `!`, and a version without an event in `?`.
        fn versions(&self, before: Option<Revision>) -> Vec<String> {
            let versions = KeyVersions::new(&self.state, KEY.into(), before).unwrap();
            let text = |version: KeyVersion<()>| {
                let previous = version.previous().map_or(0, |entry| entry.mod_revision());
                let mark = match (version.event(), version.is_removal()) {
                    (None, _) => "?",
                    (_, true) => "!",
                    _ => "",
                };
                format!("{}<{previous}{mark}", version.entry().mod_revision())
            };
            versions.map(text).collect()
        }
    }

    #[test]
    fn versions_of_recreated_key_are_complete() {
        let mut world = World::new(Duration::MAX);
        assert!(world.versions(None).is_empty());
        world.put(KEY);
        world.put("/registry/pods/a/other");
        world.put(KEY);
        world.delete(KEY);
        assert_eq!(world.versions(None), ["5<4!", "4<2", "2<0"]);
        for _ in 0..SCAN + 10 {
            world.put("/registry/pods/a/other");
        }
        world.put(KEY);
        let newest = world.state.revision();
        assert_eq!(
            world.versions(None),
            [&format!("{newest}<0"), "5<4!", "4<2", "2<0"].map(ToString::to_string)
        );
        assert_eq!(world.versions(Some(newest)), ["5<4!", "4<2", "2<0"]);
        let mut versions = KeyVersions::new(&world.state, KEY.into(), Some(newest)).unwrap();
        assert!(matches!(versions.step(), VersionStep::Searching));
        assert!(matches!(versions.step(), VersionStep::Version(_)));
        assert_eq!(world.versions(Some(4)), ["2<0"]);
        assert!(world.versions(Some(2)).is_empty());
    }

    #[test]
    fn oldest_version_has_no_event_after_trimming() {
        let mut world = World::new(Duration::from_secs(2));
        for _ in 0..4 {
            world.put(KEY);
        }
        assert_eq!(world.versions(None), ["5<4", "4<3", "3<2", "2<0"]);
        world.publisher.trim(Duration::from_secs(6));
        assert_eq!(world.versions(None), ["5<4", "4<3", "3<0?"]);
        let gone = KeyVersions::new(&world.state, KEY.into(), Some(3)).unwrap_err();
        assert!(matches!(gone, HistoryError::Compacted { requested: 3, .. }), "{gone}");
    }

    #[test]
    fn version_is_found_among_events_of_its_revision() {
        let mut world = World::new(Duration::MAX);
        world.change(|draft, at| {
            for (position, key) in ["/registry/pods/a/a", KEY, "/registry/pods/a/c"]
                .into_iter()
                .enumerate()
            {
                let position = u16::try_from(position).unwrap();
                draft.put(key.into(), (&Value::plain("x")).into(), At { position, ..at }, None);
            }
        });
        world.put(KEY);
        assert_eq!(world.versions(None), ["3<2", "2<0"]);
    }
}
