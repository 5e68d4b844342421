//! Watchers that resume from their last revision, across kills and restarts, and know the objects only from events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use conformance::Target;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::watch;

use super::ledger::Contents;
use super::objects::{self, COLLECTION, MARKER};

/// Time limit in which a watcher must catch up with missed events.
const CATCH_UP: Duration = Duration::from_secs(60);

/// Reason for the end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Followed {
    /// All that was waited for came, or the stream ended.
    Complete,
    /// The server no longer has the history from that revision on.
    Expired,
}

/// A watcher and the objects that it knows.
pub(super) struct Watcher {
    /// The objects, by name.
    objects: BTreeMap<String, Contents>,
    /// The revision up to which events were seen.
    last: u64,
    /// Events since the last audit, by revision and object.
    seen: BTreeSet<(u64, String)>,
    pub(super) events: u64,
    /// True if its server loses the history when it ends, so that the watcher has to list again.
    may_expire: bool,
    /// True if it listed since the last audit, so that it did not receive some events.
    has_listed: bool,
}

impl Watcher {
    /// Creates a watcher that knows the objects of a list.
    pub(super) fn begin(list: &[u8], may_expire: bool) -> Result<Self> {
        let mut watcher = Self {
            objects: BTreeMap::new(),
            last: 0,
            seen: BTreeSet::new(),
            events: 0,
            may_expire,
            has_listed: false,
        };
        watcher.know(list)?;
        Ok(watcher)
    }

    fn know(&mut self, list: &[u8]) -> Result<()> {
        let (last, items) = objects::list(list)?;
        ensure!(last >= self.last, "a list at {last} after {}", self.last);
        self.last = last;
        let named = items
            .iter()
            .map(|object| (objects::name(object).to_owned(), objects::contents(object)));
        self.objects = named.collect();
        Ok(())
    }

    async fn list_again(&mut self, target: &Target) -> Result<()> {
        let mut connection = target.connect().await?;
        let list = connection.send(Method::GET, COLLECTION, "", Bytes::new()).await?;
        self.has_listed = true;
        self.know(&list)
    }

    /// Follows until it is to end, or the stream ends, as it does with the server.
    pub(super) async fn run(mut self, target: Target, mut stop: watch::Receiver<bool>) -> Result<Self> {
        // If the server stops before any event was seen, the next round resumes from the same revision.
        if let Ok(stream) = self.open(&target).await {
            tokio::select! {
                followed = self.follow(stream, u64::MAX) => drop(followed?),
                // A partially read event is sent again.
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        Ok(self)
    }

    /// Follows until everything up to `revision` was seen.
    pub(super) async fn catch_up(&mut self, target: &Target, revision: u64) -> Result<()> {
        let follow = async {
            while self.last < revision {
                let stream = self.open(target).await?;
                if self.follow(stream, revision).await? == Followed::Expired {
                    self.list_again(target).await?;
                }
            }
            Ok(())
        };
        match tokio::time::timeout(CATCH_UP, follow).await {
            Ok(outcome) => outcome,
            Err(_) => bail!("a watcher has not seen revision {revision}"),
        }
    }

    async fn open(&self, target: &Target) -> Result<Incoming> {
        let url = format!(
            "{COLLECTION}?watch=true&allowWatchBookmarks=true&resourceVersion={}",
            self.last
        );
        let mut connection = target.connect().await?;
        let answer = connection.open(Method::GET, &url, "", Bytes::new()).await?;
        ensure!(
            answer.status().is_success(),
            "a watch from {}: {}",
            self.last,
            answer.status()
        );
        Ok(answer.into_body())
    }

    /// Reads events until `revision` was seen or the stream ends. A truncated event is sent again on the next stream.
    async fn follow(&mut self, mut stream: Incoming, revision: u64) -> Result<Followed> {
        let mut buffer = BytesMut::new();
        while let Some(Ok(frame)) = stream.frame().await {
            buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1);
                let event: Value = serde_json::from_slice(&line).context("an event")?;
                if self.may_expire && event.pointer("/object/code").and_then(Value::as_u64) == Some(410) {
                    return Ok(Followed::Expired);
                }
                self.take(&event)?;
                if self.last >= revision {
                    return Ok(Followed::Complete);
                }
            }
        }
        Ok(Followed::Complete)
    }

    fn take(&mut self, event: &Value) -> Result<()> {
        let event_type = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let object = event.get("object").context("an event without an object")?;
        ensure!(event_type != "ERROR", "a watch from {} ended: {object}", self.last);
        let revision = objects::revision(object).context("an event without a revision")?;
        if event_type == "BOOKMARK" {
            ensure!(revision >= self.last, "a bookmark at {revision} after {}", self.last);
            self.last = revision;
            return Ok(());
        }
        ensure!(revision > self.last, "an event at {revision} after {}", self.last);
        self.last = revision;
        self.events += 1;
        let name = objects::name(object);
        if name == MARKER {
            return Ok(());
        }
        self.seen.insert((revision, name.to_owned()));
        let there = self.objects.contains_key(name);
        match event_type {
            "ADDED" => ensure!(!there, "{name} was added at {revision} a second time"),
            "MODIFIED" | "DELETED" => ensure!(there, "{name} came to be unseen before {revision}"),
            other => bail!("an event of the type {other:?}"),
        }
        if event_type == "DELETED" {
            self.objects.remove(name);
        } else {
            self.objects.insert(name.to_owned(), objects::contents(object));
        }
        Ok(())
    }

    /// Checks that it saw all acknowledged writes, and knows the current objects.
    pub(super) fn audit(&mut self, there: &Contents, written: &BTreeSet<(u64, String)>) -> Result<()> {
        let missed = written.difference(&self.seen).next();
        let has_listed = std::mem::take(&mut self.has_listed);
        ensure!(missed.is_none() || has_listed, "a watcher never got {missed:?}");
        let known: Contents = self
            .objects
            .values()
            .flatten()
            .map(|(key, value)| (key.clone(), *value))
            .collect();
        let differs = known.iter().find(|(key, value)| there.get(*key) != Some(value));
        ensure!(
            known == *there,
            "the events of a watcher lead to other objects than those there: {differs:?}, {} and {}",
            known.len(),
            there.len()
        );
        self.seen.clear();
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn watcher() -> Watcher {
        let list = json!({"metadata": {"resourceVersion": "5"}, "items": []});
        Watcher::begin(list.to_string().as_bytes(), false).unwrap()
    }

    fn event(event_type: &str, name: &str, revision: u64, value: u64) -> Value {
        let metadata = json!({"name": name, "resourceVersion": revision.to_string()});
        json!({"type": event_type, "object": {"metadata": metadata, "data": {"w-1": value.to_string()}}})
    }

    #[test]
    fn events_out_of_order_and_gaps_are_found() {
        let mut watcher = watcher();
        watcher.take(&event("ADDED", "a", 6, 1)).unwrap();
        assert!(watcher.take(&event("MODIFIED", "a", 6, 2)).is_err(), "twice");
        assert!(watcher.take(&event("MODIFIED", "b", 7, 2)).is_err(), "never added");
        assert!(watcher.take(&event("ADDED", "a", 8, 2)).is_err(), "added twice");
        let there: Contents = [("a/w-1".to_owned(), 1)].into();
        let written = |revision| BTreeSet::from([(revision, "a".to_owned())]);
        assert!(watcher.audit(&there, &written(7)).is_err(), "missed");
        watcher.audit(&there, &written(6)).unwrap();
        let other: Contents = [("a/w-1".to_owned(), 2)].into();
        assert!(watcher.audit(&other, &BTreeSet::new()).is_err());
    }
}
