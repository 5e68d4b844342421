//! Writes: one etcd transaction each, guarded by the revisions of keys.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tonic::Code;

use super::Shared;
use super::client::CallError;
use super::metrics::Operation;
use super::proto::{Compare, DeleteRangeRequest, PutRequest, RangeRequest, Request, Response, TxnRequest, TxnResponse};
use crate::codec::TimeToLive;
use crate::entry::Indexer;
use crate::error::{CommitError, ReadError};
use crate::key::{Key, Revision};
use crate::transaction::{Committed, Guard, Op, Transaction};

/// Timeout for the outcome of a write. Without a quorum, etcd itself responds with an error after some seconds.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for the grant of the lease of one key.
const GRANT_PATIENCE: Duration = Duration::from_secs(10);

impl<X: Indexer> Shared<X> {
    pub(super) async fn commit(self: Arc<Self>, transaction: Transaction<X>) -> Result<Committed<X>, CommitError> {
        let Transaction { guards, mut ops, .. } = transaction;
        let encoded = self.encode(&guards, &mut ops)?;
        let request = self.request(&guards, &ops, &encoded).await?;
        let (operation, first) = (operation(&guards, &ops), ops.first().map(|op| op.key().clone()));
        let first = first.as_ref().map_or(&[][..], Key::as_bytes);
        let count = ops.len();
        let id = self.feed.begin(ops, encoded);
        let answer = match self.client.txn(operation, first, request, COMMIT_TIMEOUT).await {
            Ok(answer) => answer,
            Err(error) => {
                self.feed.forget(id);
                return Err(refused(error));
            }
        };
        let revision = answer
            .header
            .as_ref()
            .map_or(0, |header| header.revision.unsigned_abs());
        if !answer.succeeded {
            self.feed.forget(id);
            return Err(self.lost(guards, answer, revision).await);
        }
        if !changed(&answer) {
            self.feed.forget(id);
            self.reach(revision).await.map_err(closed)?;
            let entries = (0..count).map(|_| None).collect();
            return Ok(Committed { revision, entries });
        }
        let entries = match self.feed.committed(id, revision) {
            Some(made) => made,
            None => {
                self.reach(revision).await.map_err(closed)?;
                self.feed.made(id, revision)
            }
        };
        Ok(Committed { revision, entries })
    }

    /// Returns the encoded bytes of each put, and notes their forms in the puts.
    fn encode(&self, guards: &[Guard], ops: &mut [Op<X>]) -> Result<Vec<Option<Bytes>>, CommitError> {
        let state = self.ahead.over(self.feed.state.snapshot());
        let encode = |op: &mut Op<X>| match op {
            Op::Delete { .. } => Ok(None),
            Op::Put { key, value, .. } => {
                let is_new = |guard: &Guard| guard.key == *key && guard.expected == 0;
                let old = match guards.iter().any(is_new) {
                    true => None,
                    false => state.get(key).map(|entry| entry.bytes()),
                };
                let encoded = self.feed.codec.encode_in_form(key, value, old);
                let (bytes, form) = encoded.map_err(|error| match error.untransformable {
                    true => CommitError::Refused(error.why.into()),
                    false => CommitError::Refused(error.to_string().into()),
                })?;
                *value = value.clone().with_form(form);
                Ok(Some(bytes))
            }
        };
        ops.iter_mut().map(encode).collect()
    }

    /// Returns the lease of a new value of `key`; 0 if it does not expire.
    async fn lease(&self, key: &Key) -> Result<i64, CommitError> {
        match self.feed.codec.time_to_live(key) {
            TimeToLive::Event => self.leases.next(&self.client).await.map_err(refused),
            TimeToLive::Seconds(seconds) => {
                let granted = self.client.grant(seconds.into(), GRANT_PATIENCE).await;
                granted.map(|granted| granted.id).map_err(refused)
            }
            TimeToLive::Unlimited => Ok(0),
        }
    }

    async fn request(
        &self,
        guards: &[Guard],
        ops: &[Op<X>],
        encoded: &[Option<Bytes>],
    ) -> Result<TxnRequest, CommitError> {
        let outside = || CommitError::Invalid("a key lies outside of the store");
        let stored = |key: &Key| self.feed.prefix.stored(key).ok_or_else(outside);
        let mut request = TxnRequest::default();
        for guard in guards {
            let key = stored(&guard.key)?;
            let expected = i64::try_from(guard.expected).unwrap_or(i64::MAX);
            request.compare.push(Compare::mod_revision(key.clone(), expected));
            // Read the current value if the guard fails.
            let read = RangeRequest {
                key,
                ..RangeRequest::default()
            };
            request.failure.push(Request::Range(read).into());
        }
        for (op, bytes) in ops.iter().zip(encoded) {
            let key = stored(op.key())?;
            let op = match bytes {
                None => Request::Delete(DeleteRangeRequest { key }),
                Some(bytes) => Request::Put(PutRequest {
                    key,
                    value: bytes.clone(),
                    lease: self.lease(op.key()).await?,
                }),
            };
            request.success.push(op.into());
        }
        Ok(request)
    }

    /// Returns the error of a transaction whose guard failed. Keeps the values in the response, so that the write is
    /// evaluated again with them.
    pub(super) async fn lost(&self, guards: Vec<Guard>, answer: TxnResponse, revision: Revision) -> CommitError {
        let found = answer.responses.into_iter().map(|one| match one.response {
            Some(Response::Range(range)) => range.kvs.into_iter().next(),
            _ => None,
        });
        let mut failed = None;
        let mut learned = Vec::new();
        for (Guard { key, expected }, found) in guards.into_iter().zip(found) {
            let current = found.as_ref().map_or(0, |kv| kv.mod_revision.unsigned_abs());
            if expected == current {
                continue;
            }
            let known = self.feed.known(key.clone(), found, revision, self.client.observer());
            failed.get_or_insert((key, expected, current));
            learned.extend(known);
        }
        let Some((key, expected, current)) = failed else {
            return CommitError::Invalid("etcd refuses a transaction whose guards hold");
        };
        let until = learned.iter().map(|known| known.revision).max().unwrap_or(0);
        if !self.ahead.learn(learned, self.feed.state.revision())
            && let Err(error) = self.reach(until).await
        {
            return closed(error);
        }
        CommitError::GuardFailed { key, expected, current }
    }
}

/// Returns true if a transaction succeeded and changed anything.
fn changed(answer: &TxnResponse) -> bool {
    answer.responses.iter().any(|one| match &one.response {
        Some(Response::Put(_)) => true,
        Some(Response::Delete(deleted)) => deleted.deleted > 0,
        Some(Response::Range(_)) | None => false,
    })
}

/// Returns kube-apiserver's name of the operation.
fn operation<X: Indexer>(guards: &[Guard], ops: &[Op<X>]) -> Operation {
    match ops.first() {
        None => Operation::Get,
        Some(Op::Delete { .. }) => Operation::Delete,
        Some(Op::Put { key, .. }) => match guards.iter().find(|guard| guard.key == *key) {
            Some(guard) if guard.expected == 0 => Operation::Create,
            _ => Operation::Update,
        },
    }
}

fn closed(_: ReadError) -> CommitError {
    CommitError::Closed
}

/// Converts the error of a failed call to that of a write.
fn refused(error: CallError) -> CommitError {
    match error.code {
        Code::DeadlineExceeded => CommitError::Unanswered,
        _ => CommitError::Refused(error.message.into()),
    }
}
