//! Reads the whole content of etcd: in pages, all at one revision.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Shared;
use super::client::CallError;
use super::proto::{KeyValue, RangeRequest};
use crate::entry::Indexer;
use crate::error::OpenError;
use crate::key::Revision;

/// Number of keys of the first page. The following pages grow or shrink to about [`PAGE_BYTES`].
const FIRST_PAGE_KEYS: i64 = 500;
const MAX_PAGE_KEYS: i64 = 10_000;
const PAGE_BYTES: usize = 8 << 20;
/// Timeout of a page, over all members.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of the log message that the start waits for etcd.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of one attempt to reach etcd at the start.
const TRY: Duration = Duration::from_secs(1);

impl<X: Indexer> Shared<X> {
    /// Loads the first state. Waits for etcd without a time limit.
    pub(super) async fn load(self: &Arc<Self>) -> Result<(), OpenError> {
        self.wait_for_etcd().await?;
        self.learn_versions(TRY).await;
        let begun = Instant::now();
        loop {
            match self.try_load().await {
                Ok(revision) => {
                    let objects = self.feed.state.snapshot().len();
                    tracing::info!(objects, revision, took = ?begun.elapsed(), "read all objects from etcd");
                    return Ok(());
                }
                Err(error) if error.is_compacted() => {
                    tracing::info!("etcd was compacted during the read; reading again");
                }
                Err(error) => {
                    return Err(OpenError::Etcd {
                        detail: error.to_string(),
                    });
                }
            }
        }
    }

    async fn try_load(self: &Arc<Self>) -> Result<Revision, CallError> {
        let mut draft = self.feed.draft();
        let mut next = self.fetch(Pages::new(self));
        loop {
            let (pages, page) = next.await.map_err(|_| CallError::overdue())?;
            let Some(page) = page? else {
                self.feed.begin_at(draft, pages.revision);
                return Ok(pages.revision);
            };
            // The next page is fetched while this one is decoded.
            next = self.fetch(pages);
            self.feed.first(page.into_iter(), &mut draft, self.client.observer());
        }
    }

    fn fetch(self: &Arc<Self>, mut pages: Pages) -> JoinHandle<Fetched> {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let page = pages.next(&shared).await;
            (pages, page)
        })
    }

    /// Reads everything again and publishes the differences.
    pub(super) async fn reread(&self) -> Result<(), CallError> {
        loop {
            match self.try_reread().await {
                Err(error) if error.is_compacted() => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_reread(&self) -> Result<(), CallError> {
        let mut entries = Vec::new();
        let mut pages = Pages::new(self);
        while let Some(page) = pages.next(self).await? {
            entries.extend(page);
        }
        self.feed.reread(&entries, pages.revision, self.client.observer());
        Ok(())
    }

    /// Returns when etcd responds.
    async fn wait_for_etcd(&self) -> Result<(), OpenError> {
        let mut reported: Option<Instant> = None;
        loop {
            let request = RangeRequest {
                key: self.feed.prefix.beside("health"),
                ..RangeRequest::default()
            };
            match self.client.range(request, TRY).await {
                Ok(_) => return Ok(()),
                Err(error) if refuses(&error) => {
                    return Err(OpenError::Etcd {
                        detail: error.to_string(),
                    });
                }
                Err(error) => {
                    if reported.is_none_or(|reported| reported.elapsed() >= REPORT_INTERVAL) {
                        tracing::warn!(servers = self.client.servers(), %error, "waiting for etcd");
                        reported = Some(Instant::now());
                    }
                    tokio::time::sleep(TRY / 4).await;
                }
            }
        }
    }
}

/// Progress of a paged read, and the page that was read last; none after the last one.
type Fetched = (Pages, Result<Option<Vec<KeyValue>>, CallError>);

/// Returns true if etcd is reachable but denies access to this server, which waiting does not change.
fn refuses(error: &CallError) -> bool {
    matches!(
        error.code,
        tonic::Code::PermissionDenied | tonic::Code::Unauthenticated | tonic::Code::InvalidArgument
    )
}

/// Pages of one read.
struct Pages {
    revision: Revision,
    from: bytes::Bytes,
    end: bytes::Bytes,
    limit: i64,
    more: bool,
}

impl Pages {
    fn new<X: Indexer>(shared: &Shared<X>) -> Self {
        let (from, end) = shared.feed.prefix.range();
        Self {
            revision: 0,
            from,
            end,
            limit: FIRST_PAGE_KEYS,
            more: true,
        }
    }

    async fn next<X: Indexer>(&mut self, shared: &Shared<X>) -> Result<Option<Vec<KeyValue>>, CallError> {
        if !self.more {
            return Ok(None);
        }
        let request = RangeRequest {
            key: self.from.clone(),
            range_end: self.end.clone(),
            limit: self.limit,
            revision: i64::try_from(self.revision).unwrap_or_default(),
            ..RangeRequest::default()
        };
        let answer = shared.client.range(request, PAGE_TIMEOUT).await?;
        if self.revision == 0 {
            self.revision = answer.header.map_or(0, |header| header.revision.unsigned_abs());
        }
        self.more = answer.more && !answer.kvs.is_empty();
        if let Some(last) = answer.kvs.last() {
            self.from = [&last.key[..], b"\0"].concat().into();
        }
        self.limit = next_limit(&answer.kvs);
        Ok(Some(answer.kvs))
    }
}

/// Returns the number of keys to request for the page after this one.
fn next_limit(page: &[KeyValue]) -> i64 {
    let bytes: usize = page.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
    let each = bytes / page.len().max(1) + 1;
    i64::try_from(PAGE_BYTES / each)
        .unwrap_or(MAX_PAGE_KEYS)
        .clamp(1, MAX_PAGE_KEYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_more_keys_of_small_objects_than_of_large_ones() {
        let page = |bytes: usize| {
            [KeyValue {
                value: vec![0; bytes].into(),
                ..KeyValue::default()
            }]
        };
        assert_eq!(next_limit(&page(100)), MAX_PAGE_KEYS);
        assert_eq!(next_limit(&page(8191)), 1024);
        assert_eq!(next_limit(&page(100 << 20)), 1);
        assert_eq!(next_limit(&[]), MAX_PAGE_KEYS);
    }
}
