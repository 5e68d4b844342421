//! Return to an earlier state in one durable step, for tests of clients.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::entry::{Entry, Indexer, StoredForm, Value};
use crate::error::{CommitError, StorageError};
use crate::restore::{RestoreError, Restored};
use crate::state::{Draft, Snapshot};
use crate::transform::{self, Transformer};

/// Request to return to an earlier state.
pub(crate) struct RestoreRequest<X: Indexer> {
    pub(crate) earlier: Snapshot<X>,
    pub(crate) transformer: Option<Arc<dyn Transformer>>,
    pub(crate) reply: oneshot::Sender<Result<Restored, RestoreError>>,
}

/// A restore that was applied to a draft and is not durable yet.
pub(crate) struct StagedRestore {
    outcome: Result<Restored, RestoreError>,
    reply: oneshot::Sender<Result<Restored, RestoreError>>,
}

impl<X: Indexer> RestoreRequest<X> {
    /// Applies the restore to a draft. `values` gets the values to store, one for each new event; `None` if values are not
    /// stored.
    pub(crate) fn stage(
        self,
        draft: &mut Draft<X>,
        time: Duration,
        values: Option<&mut Vec<Option<Value>>>,
    ) -> StagedRestore {
        let mut stored = Vec::new();
        let is_stored = values.is_some();
        let transformer = self.transformer.as_deref();
        let outcome = draft.restore(&self.earlier, time, &mut |entry| {
            if !is_stored {
                return Ok(StoredForm::PLAIN);
            }
            let Some(entry) = entry else {
                stored.push(None);
                return Ok(StoredForm::PLAIN);
            };
            let value = to_store(transformer, entry)?;
            let form = value.form();
            stored.push(Some(value));
            Ok(form)
        });
        if let (Some(values), Ok(_)) = (values, &outcome) {
            values.append(&mut stored);
        }
        StagedRestore {
            outcome,
            reply: self.reply,
        }
    }
}

impl StagedRestore {
    /// Answers the request after the step was written, or failed.
    pub(crate) fn answer(self, written: Result<(), StorageError>) {
        let storage = |error| RestoreError::Commit(CommitError::Storage(error));
        let answer = self
            .outcome
            .and_then(|restored| written.map(|()| restored).map_err(storage));
        let _ = self.reply.send(answer);
    }
}

/// Returns the value to store for an earlier entry.
fn to_store<X: Indexer>(transformer: Option<&dyn Transformer>, entry: &Entry<X>) -> Result<Value, CommitError> {
    let value = entry.value().with_form(StoredForm::PLAIN);
    let Some(transformer) = transformer else {
        return Ok(value);
    };
    let transformed = transform::to_store(transformer, entry.key(), value.bytes());
    Ok(
        match transformed.map_err(|error| CommitError::Refused(error.why.into()))? {
            Some((bytes, form)) => value.with_form(form).as_stored(bytes),
            None => value,
        },
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here is the test")]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::codec::CodecError;
    use crate::config::Config;
    use crate::history::EventKind;
    use crate::key::Revision;
    use crate::state::HistoryLimits;
    use crate::store::Store;
    use crate::transaction::Transaction;
    use crate::transform::{ENCRYPTED, Transformed};

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
            revision: last + 3,
            created: 1,
            updated: 1,
            deleted: 1,
        };
        assert_eq!(restored, expected);
        let snapshot = store.snapshot();
        assert_eq!(state(&snapshot), state(&checkpoint));
        assert_eq!(snapshot.get(b"/a/rewritten").unwrap().mod_revision(), last);
        let mut events = Vec::new();
        for number in 1..=3 {
            let event = watcher.next().await.unwrap();
            assert_eq!(event.revision(), last + number);
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
        assert_eq!((again.revision, again.updated), (last + 3, 0));
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
        assert_eq!((restored.deleted, restored.revision), (3000, last + 3000));
        assert!(store.snapshot().is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reader_sees_no_state_between_two() {
        let store = Arc::new(in_memory());
        let keys: Vec<String> = (0..600).map(|number| format!("/a/{number:03}")).collect();
        let all = |text: &str| {
            let puts = keys.iter();
            puts.fold(Transaction::new(), |all, key| all.put(key.as_str(), object(text)))
        };
        store.commit(all("1")).await.unwrap();
        let one = store.snapshot();
        store.commit(all("2")).await.unwrap();
        let other = store.snapshot();
        let reader = Arc::clone(&store);
        let reads = tokio::task::spawn_blocking(move || {
            let mut seen = 0;
            while !reader.snapshot().is_empty() {
                let snapshot = reader.snapshot();
                let mut values = snapshot.range(b"/a/").map(|entry| entry.value());
                let first = values.next();
                assert!(values.all(|value| Some(&value) == first.as_ref()), "{snapshot:?}");
                seen += 1;
            }
            seen
        });
        for _ in 0..20 {
            store.restore(&one).await.unwrap();
            store.restore(&other).await.unwrap();
        }
        let empty = in_memory().snapshot();
        store.restore(&empty).await.unwrap();
        assert!(reads.await.unwrap() > 0);
    }

    #[tokio::test]
    async fn counts_and_watches_are_right_after_many_changes() {
        let store = in_memory();
        let empty = store.snapshot();
        let puts = |start: usize| {
            let numbers = start..start + 400;
            numbers.fold(Transaction::new(), |all, number| {
                all.put(format!("/r/pods/n{}/{number}", number % 2).as_str(), object("1"))
            })
        };
        store.commit(puts(0)).await.unwrap();
        let full = store.snapshot();
        let mut watcher = store.watch("/r/pods/n1/", store.revision()).unwrap();
        let waiting = tokio::spawn(async move {
            let mut seen = Vec::new();
            for _ in 0..400 {
                let event = watcher.next().await.unwrap();
                seen.push((event.revision(), event.kind()));
            }
            seen
        });
        tokio::task::yield_now().await;
        store.restore(&empty).await.unwrap();
        let between = store.snapshot();
        assert_eq!((between.len(), between.count(b"/r/pods/n1/")), (0, 0));
        let created = store.restore(&full).await.unwrap().created;
        let again = store.snapshot();
        assert_eq!((created, again.len(), again.count(b"/r/pods/n1/")), (400, 400, 200));
        let seen = waiting.await.unwrap();
        assert!(
            seen.is_sorted_by(|one, other| one.0 < other.0),
            "each event has its own revision"
        );
        let deletions = seen.iter().filter(|(_, kind)| *kind == EventKind::Delete).count();
        assert_eq!(deletions, 200);
        // The history has the exact state of each revision.
        let at = store.snapshot_at(full.revision()).unwrap();
        assert_eq!(state(&at), state(&full));
    }

    /// Encrypts values by a change of their bytes, or cannot.
    struct Reversing {
        works: bool,
    }

    impl Transformer for Reversing {
        fn transform_to_storage(&self, key: &[u8], plain: &[u8]) -> Result<Option<Transformed>, CodecError> {
            if !self.works {
                return Err(CodecError::untransformable(key, "no key"));
            }
            let bytes = [ENCRYPTED, plain].concat();
            let form = self.form_of(key);
            Ok(Some(Transformed { bytes, form }))
        }

        fn transform_from_storage(&self, _key: &[u8], stored: &[u8]) -> Result<Option<Transformed>, CodecError> {
            let form = StoredForm::new(1);
            let plain = stored.strip_prefix(ENCRYPTED);
            Ok(plain.map(|bytes| Transformed {
                bytes: bytes.to_vec(),
                form,
            }))
        }

        fn form_of(&self, _key: &[u8]) -> StoredForm {
            StoredForm::new(1)
        }
    }

    #[tokio::test]
    async fn restored_values_are_encrypted_again() {
        let directory = tempfile::tempdir().unwrap();
        let open = |works| {
            let config = Config {
                transformer: Some(Arc::new(Reversing { works })),
                ..Config::new(directory.path())
            };
            Store::open(config, ()).unwrap()
        };
        let store = open(true);
        put(&store, "/a/secret", "1").await;
        let checkpoint = store.snapshot();
        delete(&store, "/a/secret").await;
        store.restore(&checkpoint).await.unwrap();
        let restored = store.snapshot();
        assert_eq!(restored.get(b"/a/secret").unwrap().form(), StoredForm::new(1));
        store.close().await.unwrap();
        drop(store);
        let again = open(false);
        assert_eq!(state(&again.snapshot()), state(&checkpoint));
        let checkpoint = again.snapshot();
        delete(&again, "/a/secret").await;
        let before = again.revision();
        let failed = again.restore(&checkpoint).await;
        assert!(
            matches!(failed, Err(RestoreError::Commit(CommitError::Refused(_)))),
            "{failed:?}"
        );
        assert_eq!(again.revision(), before, "nothing was changed");
    }
}
