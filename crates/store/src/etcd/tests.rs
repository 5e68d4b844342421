//! Tests of the published events, by scripts of the responses of etcd and of this server's writers.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

use std::sync::Arc;

use super::ahead::Ahead;
use super::feed::{Change, Feed};
use super::metrics::NoObserver;
use super::prefix::Prefix;
use super::proto::{Event, KeyValue};
use crate::clock::SystemClock;
use crate::codec::AsServed;
use crate::entry::Value;
use crate::error::HistoryError;
use crate::history::EventKind;
use crate::key::Key;
use crate::key::Revision;
use crate::state::{HistoryLimits, State};
use crate::transaction::Op;
use crate::watch::{Scope, Watcher};

/// A feed whose first state, at revision 10, holds `a` (as of 3) and `b` (as of 4).
struct Script {
    feed: Feed<()>,
    watcher: Watcher<()>,
}

fn kv(name: &str, created: i64, modified: i64) -> KeyValue {
    KeyValue {
        key: format!("/there/things/{name}").into(),
        create_revision: created,
        mod_revision: modified,
        value: format!("{name} at {modified}").into(),
        ..KeyValue::default()
    }
}

fn put(name: &str, created: i64, modified: i64) -> Event {
    Event {
        kind: 0,
        kv: Some(kv(name, created, modified)),
    }
}

fn delete(name: &str, modified: i64) -> Event {
    Event {
        kind: 1,
        kv: Some(kv(name, 0, modified)),
    }
}

fn key(name: &str) -> Key {
    format!("/registry/things/{name}").into()
}

impl Script {
    fn new() -> Self {
        let (state, publisher) = State::new((), HistoryLimits::default());
        let feed = Feed::new(
            publisher,
            Prefix::new("/there"),
            Arc::new(AsServed),
            Arc::new(SystemClock),
        );
        let mut draft = feed.draft();
        feed.first([kv("a", 3, 3), kv("b", 4, 4)].into_iter(), &mut draft, &NoObserver);
        feed.begin_at(draft, 10);
        let watcher = Watcher::new(&state, Scope::Prefix("/registry/".into()), 10).unwrap();
        Self { feed, watcher }
    }

    fn comes(&self, events: impl IntoIterator<Item = Event>) {
        let changes = events
            .into_iter()
            .filter_map(|event| Change::from_event(event, &self.feed.prefix));
        self.feed.watched(changes.collect(), &NoObserver);
    }

    /// Sends a put of `name`, whose bytes are those of [`kv`] at `modified`.
    fn sends(&self, name: &str, modified: i64) -> u64 {
        let value = Value::plain(format!("{name} at {modified}"));
        let encoded = vec![Some(value.bytes().clone())];
        let op = Op::Put {
            key: key(name),
            value,
            index: Some(()),
        };
        self.feed.begin(vec![op], encoded)
    }

    /// Sends deletions of both first entries.
    fn sends_deletions(&self) -> u64 {
        let delete = |name| Op::Delete {
            key: key(name),
            last: None,
        };
        self.feed.begin(vec![delete("a"), delete("b")], vec![None, None])
    }

    /// Returns the events of the watcher since the last call.
    fn seen(&mut self) -> Vec<(EventKind, String, Revision)> {
        let mut seen = Vec::new();
        while let Some(event) = self.watcher.try_next().unwrap() {
            let name = event.key().to_string().replace("/registry/things/", "");
            seen.push((event.kind(), name, event.revision()));
        }
        seen
    }
}

fn puts(events: &[(&str, Revision)]) -> Vec<(EventKind, String, Revision)> {
    let put = |(name, revision): &(&str, Revision)| (EventKind::Put, (*name).to_owned(), *revision);
    events.iter().map(put).collect()
}

#[test]
fn consecutive_own_write_is_published_and_its_echo_is_not() {
    let mut script = Script::new();
    let id = script.sends("c", 11);
    let made = script.feed.committed(id, 11).unwrap();
    assert_eq!(made[0].as_ref().unwrap().mod_revision(), 11);
    assert_eq!(script.feed.state.revision(), 11);
    script.comes([put("c", 11, 11)]);
    assert_eq!(script.seen(), puts(&[("c", 11)]));
}

#[test]
fn an_own_write_waits_for_what_lies_before_it() {
    let mut script = Script::new();
    let id = script.sends("c", 13);
    assert!(script.feed.committed(id, 13).is_none());
    assert_eq!(script.feed.state.revision(), 10);
    script.comes([put("a", 3, 11), delete("b", 12)]);
    assert_eq!(script.feed.state.revision(), 13);
    let made = script.feed.made(id, 13);
    assert_eq!(made[0].as_ref().unwrap().bytes(), "c at 13");
    script.comes([put("c", 13, 13)]);
    let seen = script.seen();
    assert_eq!(seen[0], (EventKind::Put, "a".to_owned(), 11));
    assert_eq!(seen[1], (EventKind::Delete, "b".to_owned(), 12));
    assert_eq!(seen[2..], puts(&[("c", 13)]));
}

#[test]
fn own_writes_with_reordered_answers_publish_in_revision_order() {
    let mut script = Script::new();
    let ids = [script.sends("c", 11), script.sends("d", 12), script.sends("e", 13)];
    assert!(script.feed.committed(ids[2], 13).is_none());
    assert!(script.feed.committed(ids[1], 12).is_none());
    assert!(script.feed.committed(ids[0], 11).is_some());
    assert_eq!(script.seen(), puts(&[("c", 11), ("d", 12), ("e", 13)]));
}

#[test]
fn the_echo_may_come_before_the_answer() {
    let mut script = Script::new();
    let id = script.sends("c", 11);
    script.comes([put("c", 11, 11)]);
    let made = script.feed.committed(id, 11).unwrap();
    assert_eq!(made[0].as_ref().unwrap().mod_revision(), 11);
    assert_eq!(script.seen(), puts(&[("c", 11)]));
}

#[test]
fn write_of_another_to_same_key_is_not_treated_as_own() {
    let mut script = Script::new();
    let id = script.sends("c", 12);
    script.comes([put("c", 11, 11)]);
    script.feed.forget(id);
    assert_eq!(script.feed.state.snapshot().get(&key("c")).unwrap().bytes(), "c at 11");
    assert_eq!(script.seen(), puts(&[("c", 11)]));
}

#[test]
fn deletion_by_another_is_not_a_larger_own_transaction() {
    let mut script = Script::new();
    let id = script.sends_deletions();
    script.comes([delete("a", 11)]);
    assert!(script.feed.state.snapshot().get(&key("b")).is_some());
    // The own transaction finds only `b`.
    assert!(script.feed.committed(id, 12).is_some());
    script.comes([delete("b", 12)]);
    let deleted = |name: &str, revision| (EventKind::Delete, name.to_owned(), revision);
    assert_eq!(script.seen(), [deleted("a", 11), deleted("b", 12)]);
}

#[test]
fn same_changes_by_another_do_not_hide_the_own_ones() {
    for is_answered_first in [true, false] {
        let mut script = Script::new();
        let id = script.sends("c", 11);
        // Another server puts the same bytes, and this server's transaction is executed later.
        script.comes([put("c", 11, 11)]);
        let own = Event {
            kv: Some(KeyValue {
                mod_revision: 13,
                ..kv("c", 11, 11)
            }),
            ..put("c", 11, 13)
        };
        if is_answered_first {
            assert!(script.feed.committed(id, 13).is_none());
        }
        script.comes([delete("b", 12), own]);
        let made = script.feed.made(id, 13);
        assert_eq!(made[0].as_ref().unwrap().mod_revision(), 13);
        let mut expected = puts(&[("c", 11)]);
        expected.push((EventKind::Delete, "b".to_owned(), 12));
        expected.extend(puts(&[("c", 13)]));
        assert_eq!(script.seen(), expected);
    }
}

#[test]
fn revisions_without_events_pass() {
    let mut script = Script::new();
    let id = script.sends("c", 15);
    assert!(script.feed.committed(id, 15).is_none());
    script.feed.passed(14);
    assert_eq!(script.feed.state.revision(), 15);
    script.feed.passed(12);
    assert_eq!(script.feed.state.revision(), 15);
    assert_eq!(script.seen(), puts(&[("c", 15)]));
}

#[test]
fn lost_events_publish_differences_and_restart_history() {
    let mut script = Script::new();
    script.feed.broke();
    let id = script.sends("e", 21);
    // Nothing is published while everything is read again.
    assert!(script.feed.committed(id, 21).is_none());
    assert_eq!(script.feed.state.revision(), 10);
    // `a` was deleted and created again, `b` was deleted, `c` was created.
    script.feed.reread(&[kv("a", 14, 15), kv("c", 12, 12)], 20, &NoObserver);
    let deleted = |name: &str, revision| (EventKind::Delete, name.to_owned(), revision);
    let mut expected = puts(&[("c", 12)]);
    expected.extend([deleted("a", 13)]);
    expected.extend(puts(&[("a", 15)]));
    expected.extend([deleted("b", 20)]);
    expected.extend(puts(&[("e", 21)]));
    assert_eq!(script.seen(), expected);
    assert!(matches!(
        script.feed.state.snapshot_at(15).unwrap_err(),
        HistoryError::Compacted { oldest: 20, .. }
    ));
    assert_eq!(script.feed.made(id, 21)[0].as_ref().unwrap().mod_revision(), 21);
}

#[test]
fn deletions_that_were_not_seen_have_a_revision_each() {
    let mut script = Script::new();
    script.feed.broke();
    // `a` and `b` were deleted, and the newest revisions are those of other keys.
    script.feed.reread(&[kv("c", 19, 19), kv("d", 20, 20)], 20, &NoObserver);
    let deleted = |name: &str, revision| (EventKind::Delete, name.to_owned(), revision);
    let mut expected = vec![deleted("b", 17), deleted("a", 18)];
    expected.extend(puts(&[("c", 19), ("d", 20)]));
    assert_eq!(script.seen(), expected);
    // If there are not enough free revisions, none is before those already seen.
    let mut script = Script::new();
    script.feed.broke();
    script.feed.reread(&[], 11, &NoObserver);
    assert_eq!(script.seen(), [deleted("a", 11), deleted("b", 11)]);
}

#[test]
fn an_own_write_that_was_read_again_is_not_published_twice() {
    let mut script = Script::new();
    script.feed.broke();
    let id = script.sends("c", 12);
    assert!(script.feed.committed(id, 12).is_none());
    script
        .feed
        .reread(&[kv("a", 3, 3), kv("b", 4, 4), kv("c", 12, 12)], 20, &NoObserver);
    assert_eq!(script.feed.state.revision(), 20);
    assert_eq!(script.seen(), puts(&[("c", 12)]));
    assert_eq!(script.feed.made(id, 12)[0].as_ref().unwrap().mod_revision(), 12);
}

#[test]
fn a_refused_write_is_judged_again_by_what_its_answer_bears() {
    let script = Script::new();
    let ahead = Ahead::default();
    let known = |name: &str, found, revision| script.feed.known(key(name), found, revision, &NoObserver);
    let learned = [
        known("a", Some(kv("a", 3, 12)), 14),
        known("b", None, 14),
        // An entry that the state shows already is not newer.
        known("a", Some(kv("a", 3, 3)), 14),
    ];
    assert!(ahead.learn(learned.into_iter().flatten().collect(), script.feed.state.revision()));
    let by = ahead.over(script.feed.state.snapshot());
    assert_eq!(by.get(&key("a")).unwrap().bytes(), "a at 12");
    assert!(by.get(&key("b")).is_none());
    // Readers wait for the watch.
    assert_eq!(script.feed.state.snapshot().get(&key("a")).unwrap().bytes(), "a at 3");
    script.comes([put("a", 3, 12), put("a", 3, 13), delete("b", 14)]);
    let by = ahead.over(script.feed.state.snapshot());
    assert_eq!(by.get(&key("a")).unwrap().bytes(), "a at 13");
}
