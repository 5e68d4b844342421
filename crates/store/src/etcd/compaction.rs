//! Compaction, shared by all servers on one etcd: kube-apiserver's protocol.
//!
//! The key `compact_rev_key`, which is outside of all prefixes, is the clock: the number of its writes is its time. At
//! each interval a server tries to advance the clock by one from the time that it saw last. If it succeeds, it compacts
//! to the revision that was current at its previous attempt; the other servers adopt the clock's time. So the history
//! covers one to two intervals, for any number of servers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::client::{CallError, Client};
use super::metrics::Operation;
use super::proto::{Compare, PutRequest, RangeRequest, Request, Response, TxnRequest};
use super::{Shared, closed};
use crate::entry::Indexer;

const CLOCK: Bytes = Bytes::from_static(b"compact_rev_key");
const COMPACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// A server's knowledge of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KnownClock {
    /// Number of writes of the key.
    time: i64,
    /// Revision at the time of the last attempt.
    revision: i64,
}

impl<X: Indexer> Shared<X> {
    /// Compacts at each interval; never if it is zero.
    pub(super) async fn compact(self: Arc<Self>, interval: Duration) {
        if interval.is_zero() {
            return;
        }
        let mut closing = self.closing.subscribe();
        let mut known = KnownClock::default();
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep(interval) => {}
                () = closed(&mut closing) => return,
            }
            match tick(&self.client, known).await {
                Ok(learned) => known = learned,
                Err(error) => tracing::warn!(%error, "etcd was not compacted"),
            }
        }
    }
}

async fn tick(client: &Client, known: KnownClock) -> Result<KnownClock, CallError> {
    let put = PutRequest {
        key: CLOCK,
        value: known.revision.to_string().into(),
        lease: 0,
    };
    let get = RangeRequest {
        key: CLOCK,
        ..RangeRequest::default()
    };
    let request = TxnRequest {
        compare: vec![Compare::version(CLOCK, known.time)],
        success: vec![Request::Put(put).into()],
        failure: vec![Request::Range(get).into()],
    };
    let answer = client
        .txn(Operation::Update, &CLOCK, request, COMPACTION_TIMEOUT)
        .await?;
    let revision = answer.header.map_or(0, |header| header.revision);
    if !answer.succeeded {
        let clock = answer.responses.into_iter().find_map(|one| match one.response {
            Some(Response::Range(range)) => range.kvs.into_iter().next(),
            _ => None,
        });
        let time = clock.map_or(0, |kv| kv.version);
        return Ok(KnownClock { time, revision });
    }
    let learned = KnownClock {
        time: known.time + 1,
        revision,
    };
    // No revision is known before the start.
    if known.revision > 0 {
        match client.compact(known.revision, COMPACTION_TIMEOUT).await {
            Ok(_) => tracing::debug!(revision = known.revision, "etcd is compacted"),
            Err(error) => tracing::warn!(%error, "etcd was not compacted"),
        }
    }
    Ok(learned)
}
