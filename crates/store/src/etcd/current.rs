//! Determines the most recent revision and when the state has reached it.
//!
//! A read without a version asks etcd: only the response to a query that was sent after the read began is valid for it.
//! The progress that a watch reports is that of one member, which may lag, so a quorum must respond.
//! `revision_queries.rs` selects the reader that sends the query, and `line.rs` sends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use super::client::CallError;
use super::line::Line;
use super::metrics::Operation;
use super::prefix::Prefix;
use super::proto::{PutRequest, RangeRequest, Request, TxnRequest};
use super::revision_queries::{Answer, Querier};
use super::{Shared, closed};
use crate::entry::Indexer;
use crate::error::ReadError;
use crate::key::Revision;

/// Timeout of a query over all members.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a query on its own connection.
const ON_LINE: Duration = Duration::from_secs(2);
/// Time to wait for the watch before a progress request is sent.
const HURRY: Duration = Duration::from_millis(5);
/// Time for which a waiter counts. A request for a revision that never arrives ends before that.
const WAITS: Duration = Duration::from_secs(4);
/// Maximum time that a failure of etcd stays undetected while no request reaches it.
const PROBE: Duration = Duration::from_secs(2);

/// Revisions that callers wait for, even if the watch has nothing to deliver at them.
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

    /// Adds a waiter.
    fn add(&mut self, revision: Revision, now: Instant) {
        let others = if now < self.until { self.revision } else { 0 };
        self.revision = others.max(revision);
        self.until = now + WAITS;
    }

    /// Returns true if a waiter needs a revision beyond `current`.
    pub(super) fn is_beyond(&self, current: Revision) -> bool {
        self.revision > current && Instant::now() < self.until
    }
}

/// Health checks of etcd, each with its own timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Liveness: fails if this server should be restarted.
    Health,
    /// Readiness: fails if clients should not be sent to this server.
    Readiness,
}

/// Problems of etcd, by the check that found them.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    health: Option<String>,
    readiness: Option<String>,
}

impl Trouble {
    fn found(&mut self, check: Check, trouble: Option<String>) {
        match check {
            Check::Health => self.health = trouble,
            Check::Readiness => self.readiness = trouble,
        }
    }

    pub(super) fn report(&self, check: Check) -> Result<(), String> {
        let trouble = match check {
            Check::Health => &self.health,
            Check::Readiness => &self.readiness,
        };
        trouble.clone().map_or(Ok(()), Err)
    }
}

/// Returns the cheapest request whose response has the revision that a quorum confirms: whether one key exists.
pub(super) fn revision_request(prefix: &Prefix) -> RangeRequest {
    RangeRequest {
        key: prefix.beside("health"),
        count_only: true,
        ..RangeRequest::default()
    }
}

impl<X: Indexer> Shared<X> {
    /// Queries the revision for all current waiters, and sends them the answer.
    pub(super) async fn ask_revision(&self, mut asking: Querier) -> Answer {
        asking.begin();
        let answer = match self.ask_by_line(&mut asking.line).await {
            Some(revision) => Ok(revision),
            None => {
                let answer = self.revision(QUERY_TIMEOUT).await;
                answer.map_err(|error| ReadError::Etcd(error.message.into()))
            }
        };
        asking.answered(&answer);
        answer
    }

    /// Queries the revision on a separate connection, which is opened if necessary. `None` if that fails.
    async fn ask_by_line(&self, line: &mut Option<Box<Line>>) -> Option<Revision> {
        let begun = Instant::now();
        let call = async {
            if line.is_none() {
                *line = Some(Box::new(self.client.line().await?));
            }
            match line {
                Some(line) => line.ask(&self.question).await,
                None => Err(std::io::ErrorKind::NotConnected.into()),
            }
        };
        match timeout(ON_LINE, call).await {
            Ok(Ok(revision)) => {
                let observer = self.client.observer();
                observer.called(Operation::Get, b"", begun.elapsed(), true);
                return Some(revision);
            }
            Ok(Err(error)) => tracing::debug!(%error, "the connection for revision queries has failed"),
            Err(_) => tracing::debug!("etcd does not answer on the connection for revision queries"),
        }
        *line = None;
        None
    }

    /// Returns the revision of etcd, confirmed by a quorum.
    async fn revision(&self, patience: Duration) -> Result<Revision, CallError> {
        let answer = self.client.range(revision_request(&self.feed.prefix), patience).await?;
        Ok(answer.header.map_or(0, |header| header.revision.unsigned_abs()))
    }

    /// Waits until the state is at `revision`.
    pub(super) async fn reach(&self, revision: Revision) -> Result<(), ReadError> {
        if self.feed.state.revision() >= revision {
            return Ok(());
        }
        let mut closing = self.closing.subscribe();
        let mut hurried = false;
        loop {
            tokio::select! {
                biased;
                () = self.feed.state.reached(revision) => return Ok(()),
                () = closed(&mut closing) => return Err(ReadError::Closed),
                () = tokio::time::sleep(HURRY), if !hurried => {
                    hurried = true;
                    self.want(revision);
                }
            }
        }
    }

    /// Notes that a caller waits for `revision`, even if the watch has nothing to deliver at this revision.
    pub(super) fn want(&self, revision: Revision) {
        if self.feed.state.revision() < revision {
            let now = Instant::now();
            self.wanted.send_modify(|wanted| wanted.add(revision, now));
        }
    }

    /// Writes a key that the watch delivers. Used if etcd reports the progress of watches incorrectly.
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
        let marked = self.client.txn(Operation::Update, b"", request, QUERY_TIMEOUT).await;
        if let Err(error) = marked {
            tracing::warn!(%error, "cannot read the current revision of etcd");
        }
    }

    /// Checks periodically whether etcd responds within `timeout`, for one of the checks.
    pub(super) async fn watch_health(self: Arc<Self>, check: Check, timeout: Duration) {
        let mut closing = self.closing.subscribe();
        loop {
            let well = self.revision(timeout).await;
            let trouble = well.err().map(|error| format!("error getting data from etcd: {error}"));
            if check == Check::Health {
                self.feed.set_failing(trouble.is_some());
            }
            self.trouble.lock().found(check, trouble);
            if check == Check::Readiness {
                // Members that could not be reached at the start.
                self.learn_versions(PROBE).await;
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep(PROBE) => {}
                () = closed(&mut closing) => return,
            }
        }
    }

    /// Reads the size of etcd's database periodically; never if `interval` is zero.
    pub(super) async fn watch_size(self: Arc<Self>, interval: Duration) {
        if interval.is_zero() {
            return;
        }
        let mut closing = self.closing.subscribe();
        loop {
            if let Ok(status) = self.client.status(0, QUERY_TIMEOUT).await {
                self.client.observer().size(status.db_size);
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep(interval) => {}
                () = closed(&mut closing) => return,
            }
        }
    }

    /// Reads the versions of the members that are not known yet, and determines whether all members report the progress
    /// of watches correctly.
    pub(super) async fn learn_versions(&self, patience: Duration) {
        for member in 0..self.client.member_count() {
            let is_known = self.progress_by_member.lock().get(member).is_some_and(Option::is_some);
            if is_known {
                continue;
            }
            if let Ok(status) = self.client.status(member, patience).await {
                tracing::info!(server = self.client.uri(member), version = status.version, "etcd");
                if let Some(known) = self.progress_by_member.lock().get_mut(member) {
                    *known = Some(reports_progress(&status.version));
                }
            }
        }
        let all = self.progress_by_member.lock().iter().all(|known| *known == Some(true));
        self.reports_progress.store(all, Ordering::Relaxed);
    }
}

/// Returns true if an etcd of this version never reports progress ahead of earlier events. Versions before 3.4.25 and
/// 3.5.8 may do so.
fn reports_progress(version: &str) -> bool {
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
    fn each_check_finds_what_is_wrong_for_itself() {
        let mut trouble = Trouble::default();
        trouble.found(Check::Readiness, Some("late".to_owned()));
        assert_eq!(trouble.report(Check::Health), Ok(()));
        assert_eq!(trouble.report(Check::Readiness), Err("late".to_owned()));
        trouble.found(Check::Readiness, None);
        assert_eq!(trouble.report(Check::Readiness), Ok(()));
    }

    #[test]
    fn versions_that_report_progress_too_early_are_known() {
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
            assert_eq!(reports_progress(version), rightly, "{version}");
        }
    }
}
