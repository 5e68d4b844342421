//! Return to an earlier state by ordinary changes, for tests.
//!
//! Revisions never go back: each key that differs is written or removed at a new revision. Watchers get these changes as
//! events.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::entry::{Entry, Indexer, StoredForm, Value};
use crate::error::CommitError;
use crate::key::{Key, Revision};
use crate::state::Snapshot;
use crate::store::Store;
use crate::transaction::{Guard, MAX_OPS, Op, Transaction};

/// Maximum number of attempts while others write.
const MAX_ATTEMPTS: usize = 32;

/// Result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Revision at which the state was as before.
    pub revision: Revision,
    /// Number of keys that exist again.
    pub created: usize,
    /// Number of keys with another value.
    pub updated: usize,
    /// Number of keys that were removed.
    pub deleted: usize,
}

/// Reason why a state cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Other servers write to the same storage.
    #[error("only an embedded store can be restored")]
    Shared,
    /// The value of a key cannot be transformed, so that it cannot be written again.
    #[error("the value of {0} cannot be read")]
    Unreadable(Key),
    /// Others wrote at the same time, again and again.
    #[error("other writes interfere")]
    Busy,
    /// The store rejected a change.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Change of a key to its earlier value.
struct Difference<'s, X: Indexer> {
    before: Option<&'s Arc<Entry<X>>>,
    now: Option<&'s Arc<Entry<X>>>,
}

impl<X: Indexer> Store<X> {
    /// Writes and removes keys until the state is that of `earlier`, a snapshot of this store. Values that are equal
    /// except for their revisions stay. At the returned revision nothing differs, even if others write meanwhile.
    ///
    /// Up to [`MAX_OPS`] changes happen at one revision. More of them are written and published together, at revisions that
    /// follow each other, unless they are very large.
    ///
    /// # Errors
    /// [`RestoreError`]. If it is not the first attempt that fails, some keys may have their earlier values.
    pub async fn restore(&self, earlier: &Snapshot<X>) -> Result<Restored, RestoreError> {
        if self.is_shared() || !self.overrides().is_empty() {
            return Err(RestoreError::Shared);
        }
        let mut restored = Restored::default();
        for _ in 0..MAX_ATTEMPTS {
            let current = self.snapshot();
            let transactions = transactions(earlier, &current, &mut restored)?;
            restored.revision = current.revision();
            if transactions.is_empty() {
                return Ok(restored);
            }
            let expected = current.revision() + transactions.len() as u64;
            let commits = transactions
                .into_iter()
                .map(|transaction| self.commit_alone(transaction));
            let mut is_undisturbed = true;
            for outcome in join_all(commits).await {
                match outcome {
                    Ok(committed) => restored.revision = restored.revision.max(committed.revision),
                    Err(CommitError::GuardFailed { .. }) => is_undisturbed = false,
                    Err(error) => return Err(error.into()),
                }
            }
            // Without a write of others, the revisions follow each other.
            if is_undisturbed && restored.revision == expected {
                return Ok(restored);
            }
        }
        Err(RestoreError::Busy)
    }
}

/// Returns the transactions that change `current` to `earlier`, and counts their changes.
fn transactions<X: Indexer>(
    earlier: &Snapshot<X>,
    current: &Snapshot<X>,
    restored: &mut Restored,
) -> Result<Vec<Transaction<X>>, RestoreError> {
    let mut all = Vec::new();
    let mut transaction = Transaction::new();
    let mut count = Restored::default();
    for Difference { before, now } in differences(earlier, current) {
        let Some(key) = before.or(now).map(|entry| entry.key().clone()) else {
            continue;
        };
        let Some((op, counter)) = operation(&key, before, now, &mut count)? else {
            continue;
        };
        *counter += 1;
        transaction.guards.push(Guard {
            key,
            expected: now.map_or(0, |entry| entry.mod_revision()),
        });
        transaction.ops.push(op);
        if transaction.ops.len() == MAX_OPS {
            all.push(std::mem::take(&mut transaction));
        }
    }
    if !transaction.ops.is_empty() {
        all.push(transaction);
    }
    (restored.created, restored.updated, restored.deleted) = (
        restored.created.max(count.created),
        restored.updated.max(count.updated),
        restored.deleted.max(count.deleted),
    );
    Ok(all)
}

type Counted<'c, X> = Option<(Op<X>, &'c mut usize)>;

/// Returns the operation for a key, and the counter of its kind. `None` if the value is the same.
fn operation<'c, X: Indexer>(
    key: &Key,
    before: Option<&Arc<Entry<X>>>,
    now: Option<&Arc<Entry<X>>>,
    count: &'c mut Restored,
) -> Result<Counted<'c, X>, RestoreError> {
    let Some(before) = before else {
        let delete = Op::Delete {
            key: key.clone(),
            last: None,
        };
        return Ok(Some((delete, &mut count.deleted)));
    };
    if before.form() == StoredForm::UNREADABLE {
        return Err(RestoreError::Unreadable(key.clone()));
    }
    let value = before.value();
    let counter = match now {
        Some(now) if is_same(&now.value(), &value) => return Ok(None),
        Some(_) => &mut count.updated,
        None => &mut count.created,
    };
    let put = Op::Put {
        key: key.clone(),
        value: value.with_form(StoredForm::PLAIN),
        index: None,
    };
    Ok(Some((put, counter)))
}

fn is_same(one: &Value, other: &Value) -> bool {
    one.bytes() == other.bytes() && one.revision_at() == other.revision_at()
}

/// Returns the keys whose entries differ, in their order.
fn differences<'s, X: Indexer>(
    earlier: &'s Snapshot<X>,
    current: &'s Snapshot<X>,
) -> impl Iterator<Item = Difference<'s, X>> {
    let (mut before, mut now) = (earlier.range(b"").peekable(), current.range(b"").peekable());
    std::iter::from_fn(move || {
        loop {
            let order = match (before.peek(), now.peek()) {
                (Some(one), Some(other)) => one.key().cmp(other.key()),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return None,
            };
            let difference = Difference {
                before: if order.is_le() { before.next() } else { None },
                now: if order.is_ge() { now.next() } else { None },
            };
            let is_equal = |one: &Arc<Entry<X>>, other: &Arc<Entry<X>>| one.mod_revision() == other.mod_revision();
            if !matches!((difference.before, difference.now), (Some(one), Some(other)) if is_equal(one, other)) {
                return Some(difference);
            }
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::config::Config;
    use crate::history::EventKind;
    use crate::state::HistoryLimits;

    fn object(text: &str) -> Value {
        Value::object(format!(r#"{{"resourceVersion":"","v":"{text}"}}"#), 20)
    }

    fn in_memory() -> Store<()> {
        Store::in_memory(HistoryLimits::default(), Arc::new(SystemClock), ())
    }

    async fn put(store: &Store<()>, key: &str, text: &str) -> Revision {
        let put = Transaction::new().put(key, object(text));
        store.commit(put).await.unwrap().revision
    }

    async fn delete(store: &Store<()>, key: &str) {
        store.commit(Transaction::new().delete(key)).await.unwrap();
    }

    fn state(snapshot: &Snapshot<()>) -> Vec<(String, Value)> {
        let entries = snapshot.range(b"");
        entries.map(|entry| (entry.key().to_string(), entry.value())).collect()
    }

    #[tokio::test]
    async fn restore_returns_to_the_state_at_a_new_revision() {
        let store = in_memory();
        for key in ["/a/changed", "/a/deleted", "/a/kept", "/a/rewritten"] {
            put(&store, key, "1").await;
        }
        let checkpoint = store.snapshot();
        put(&store, "/a/changed", "2").await;
        delete(&store, "/a/deleted").await;
        put(&store, "/b/created", "1").await;
        put(&store, "/a/rewritten", "2").await;
        let last = put(&store, "/a/rewritten", "1").await;
        let mut watcher = store.watch("/", last).unwrap();
        let restored = store.restore(&checkpoint).await.unwrap();
        let expected = Restored {
            revision: last + 1,
            created: 1,
            updated: 1,
            deleted: 1,
        };
        assert_eq!(restored, expected);
        let snapshot = store.snapshot();
        assert_eq!(state(&snapshot), state(&checkpoint));
        assert_eq!(snapshot.get(b"/a/rewritten").unwrap().mod_revision(), last);
        let mut events = Vec::new();
        for _ in 0..3 {
            let event = watcher.next().await.unwrap();
            assert_eq!(event.revision(), last + 1);
            events.push((event.key().to_string(), event.kind()));
        }
        let expected = [
            ("/a/changed", EventKind::Put),
            ("/a/deleted", EventKind::Put),
            ("/b/created", EventKind::Delete),
        ];
        assert_eq!(events, expected.map(|(key, kind)| (key.to_owned(), kind)));
        // A second restore has nothing to do.
        let again = store.restore(&checkpoint).await.unwrap();
        assert_eq!((again.revision, again.updated), (last + 1, 0));
    }

    #[tokio::test]
    async fn restored_state_survives_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Store::open(Config::new(directory.path()), ()).unwrap();
        let store = open();
        put(&store, "/a/x", "1").await;
        let checkpoint = store.snapshot();
        delete(&store, "/a/x").await;
        put(&store, "/a/y", "1").await;
        let revision = store.restore(&checkpoint).await.unwrap().revision;
        store.close().await.unwrap();
        drop(store);
        let again = open();
        assert_eq!(state(&again.snapshot()), state(&checkpoint));
        assert!(again.revision() >= revision);
    }

    #[tokio::test]
    async fn restore_is_complete_though_others_write() {
        let store = Arc::new(in_memory());
        for number in 0..50 {
            put(&store, &format!("/a/{number}"), "1").await;
        }
        let checkpoint = store.snapshot();
        for number in 0..50 {
            put(&store, &format!("/a/{number}"), "2").await;
        }
        let writer = Arc::clone(&store);
        let writes = tokio::spawn(async move {
            for number in 0..40 {
                put(&writer, &format!("/a/{number}"), "3").await;
                put(&writer, &format!("/b/{number}"), "3").await;
            }
        });
        let restored = store.restore(&checkpoint).await.unwrap();
        let at = store.snapshot_at(restored.revision).unwrap();
        assert_eq!(state(&at), state(&checkpoint));
        writes.await.unwrap();
    }

    #[tokio::test]
    async fn many_keys_are_restored_together() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Config::new(directory.path()), ()).unwrap();
        let empty = store.snapshot();
        let mut last = 0;
        for start in (0..3000).step_by(1000) {
            let puts = (start..start + 1000).fold(Transaction::new(), |all, number| {
                all.put(format!("/a/{number:04}").as_str(), object("1"))
            });
            last = store.commit(puts).await.unwrap().revision;
        }
        let restored = store.restore(&empty).await.unwrap();
        assert_eq!((restored.deleted, restored.revision), (3000, last + 3));
        assert!(store.snapshot().is_empty());
    }
}
