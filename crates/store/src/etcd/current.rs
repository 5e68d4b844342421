//! What the most recent revision is, and when the state has reached it.
//!
//! Whoever reads without a version asks etcd: only an answer to a question that was put after the read began is good for
//! it. One question is under way at a time; who comes meanwhile shares the next one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::client::CallError;
use super::metrics::Operation;
use super::proto::{PutRequest, RangeRequest, Request, TxnRequest};
use super::{Shared, closed};
use crate::entry::Indexer;
use crate::error::ReadError;
use crate::key::Revision;

/// One who waits for the revision.
pub(super) type Asked = oneshot::Sender<Result<Revision, ReadError>>;

/// How long a question may take, at whichever members.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for the watch before it is asked how far it is.
const HURRY: Duration = Duration::from_millis(5);
/// How long one who waits is thought to do so. Who asks for a revision that never comes gives up by then.
const WAITS: Duration = Duration::from_secs(4);
/// How long what is wrong with etcd may stay unnoticed while nobody asks anything of it.
const PROBE: Duration = Duration::from_secs(2);

/// The revision that somebody waits for, of which the watch may have nothing to bring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    revision: Revision,
    until: Instant,
}

impl Wanted {
    pub(super) fn nothing() -> Self {
        Self {
            revision: 0,
            until: Instant::now(),
        }
    }

    /// Another one waits.
    fn add(&mut self, revision: Revision, now: Instant) {
        let others = if now < self.until { self.revision } else { 0 };
        self.revision = others.max(revision);
        self.until = now + WAITS;
    }

    /// Whether anybody waits for more than `current`.
    pub(super) fn is_beyond(&self, current: Revision) -> bool {
        self.revision > current && Instant::now() < self.until
    }
}

impl<X: Indexer> Shared<X> {
    /// Answers those who ask, until nobody is left.
    pub(super) async fn answer(self: Arc<Self>, mut questions: mpsc::UnboundedReceiver<Asked>) {
        let mut closing = self.closing.subscribe();
        loop {
            let first = tokio::select! {
                first = questions.recv() => first,
                () = closed(&mut closing) => None,
            };
            let Some(first) = first else { return };
            let mut waiting = vec![first];
            while let Ok(next) = questions.try_recv() {
                waiting.push(next);
            }
            let answer = self.revision(PATIENCE).await;
            let answer = answer.map_err(|error| ReadError::Etcd(error.message.into()));
            for one in waiting {
                let _ = one.send(answer.clone());
            }
        }
    }

    /// The revision of etcd, as a quorum knows it.
    async fn revision(&self, patience: Duration) -> Result<Revision, CallError> {
        let request = RangeRequest {
            key: self.feed.prefix.beside("health"),
            limit: 1,
            keys_only: true,
            ..RangeRequest::default()
        };
        let answer = self.client.range(request, patience).await?;
        Ok(answer.header.map_or(0, |header| header.revision.unsigned_abs()))
    }

    /// Waits until the state is at `revision`.
    pub(super) async fn reach(&self, revision: Revision) -> Result<(), ReadError> {
        if self.feed.state.revision() >= revision {
            return Ok(());
        }
        let mut revisions = self.feed.state.subscribe();
        let mut closing = self.closing.subscribe();
        let mut hurried = false;
        loop {
            tokio::select! {
                _ = revisions.wait_for(|current| *current >= revision) => return Ok(()),
                () = closed(&mut closing) => return Err(ReadError::Closed),
                () = tokio::time::sleep(HURRY), if !hurried => {
                    hurried = true;
                    self.want(revision);
                }
            }
        }
    }

    /// Says that somebody waits for `revision`, which may be one of which the watch has nothing to bring.
    pub(super) fn want(&self, revision: Revision) {
        if self.feed.state.revision() < revision {
            let now = Instant::now();
            self.wanted.send_modify(|wanted| wanted.add(revision, now));
        }
    }

    /// Where etcd does not tell rightly how far a watch is: writes a key that the watch brings.
    pub(super) async fn mark(&self) {
        let mark = PutRequest {
            key: self.feed.prefix.beside("holdfast-progress"),
            value: Bytes::new(),
            lease: 0,
        };
        let request = TxnRequest {
            success: vec![Request::Put(mark).into()],
            ..TxnRequest::default()
        };
        let marked = self.client.txn(Operation::Update, b"", request, PATIENCE).await;
        if let Err(error) = marked {
            tracing::warn!(%error, "cannot ask etcd how far it is");
        }
    }

    /// Asks etcd now and then whether it is well.
    pub(super) async fn watch_health(self: Arc<Self>, timeout: Duration) {
        let mut closing = self.closing.subscribe();
        loop {
            let well = self.revision(timeout).await;
            let trouble = well.err().map(|error| format!("error getting data from etcd: {error}"));
            self.feed.set_failing(trouble.is_some());
            *self.trouble.lock() = trouble;
            tokio::select! {
                () = tokio::time::sleep(PROBE) => {}
                () = closed(&mut closing) => return,
            }
        }
    }

    /// Asks now and then how large etcd's database is; never where `interval` is zero.
    pub(super) async fn watch_size(self: Arc<Self>, interval: Duration) {
        if interval.is_zero() {
            return;
        }
        let mut closing = self.closing.subscribe();
        loop {
            if let Ok(status) = self.client.status(0, PATIENCE).await {
                self.client.observer().size(status.db_size);
            }
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = closed(&mut closing) => return,
            }
        }
    }

    /// Whether the version of every member is one that tells rightly how far a watch is.
    pub(super) async fn learn_version(&self, patience: Duration) {
        let mut rightly = true;
        for member in 0..self.client.member_count() {
            if let Ok(status) = self.client.status(member, patience).await {
                tracing::info!(server = self.client.uri(member), version = status.version, "etcd");
                rightly &= tells_progress(&status.version);
            }
        }
        self.tells_progress.store(rightly, Ordering::Relaxed);
    }
}

/// Whether an etcd of this version sends no progress before the events that come before it: those before 3.4.25 and 3.5.8
/// may.
fn tells_progress(version: &str) -> bool {
    let mut parts = version
        .split(['.', '-', '+'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    let version = (next(), next(), next());
    match version {
        (3, 4, patch) => patch >= 25,
        (3, 5, patch) => patch >= 8,
        version => version >= (3, 6, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_that_never_comes_is_not_waited_for_for_ever() {
        let mut wanted = Wanted::nothing();
        assert!(!wanted.is_beyond(0));
        let now = Instant::now();
        wanted.add(1_000_000, now);
        wanted.add(20, now);
        assert!(wanted.is_beyond(999_999));
        wanted.until = now;
        assert!(!wanted.is_beyond(10));
        wanted.add(20, now);
        assert!(wanted.is_beyond(10));
        assert!(!wanted.is_beyond(20));
    }

    #[test]
    fn versions_that_tell_progress_too_early_are_known() {
        for (version, rightly) in [
            ("3.4.24", false),
            ("3.4.25", true),
            ("3.4.100", true),
            ("3.5.7", false),
            ("3.5.8", true),
            ("3.5.21-rc.1", true),
            ("3.6.0", true),
            ("3.7.0-alpha.0", true),
            ("3.3.27", false),
            ("", false),
        ] {
            assert_eq!(tells_progress(version), rightly, "{version}");
        }
    }
}
