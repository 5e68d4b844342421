//! Values that a transformer changes on disk.

use std::sync::Arc;

use holdfast_store::{
    CodecError, Config, ENCRYPTED, Key, Store, StoredForm, Transaction, Transformed, Transformer, UntransformableValue,
    Value,
};

/// A transformer that reverses the values below `/secret/`; its form changes with its number.
struct Reversing(u16);

impl Transformer for Reversing {
    fn transform_to_storage(&self, key: &[u8], plain: &[u8]) -> Result<Option<Transformed>, CodecError> {
        Ok(key.starts_with(b"/secret/").then(|| Transformed {
            bytes: [ENCRYPTED, &plain.iter().rev().copied().collect::<Vec<u8>>()].concat(),
            form: StoredForm::new(self.0),
        }))
    }

    fn transform_from_storage(&self, key: &[u8], stored: &[u8]) -> Result<Option<Transformed>, CodecError> {
        let Some(reversed) = stored.strip_prefix(ENCRYPTED) else {
            return Ok(None);
        };
        match self.0 {
            0 => Err(CodecError::untransformable(key, "no key")),
            _ => Ok(Some(Transformed {
                bytes: reversed.iter().rev().copied().collect(),
                form: StoredForm::new(1),
            })),
        }
    }

    fn form_of(&self, key: &[u8]) -> StoredForm {
        StoredForm::new(if key.starts_with(b"/secret/") { self.0 } else { 0 })
    }
}

#[tokio::test]
async fn transformed_values_are_plain_in_memory_only() {
    let directory = tempfile::tempdir().unwrap();
    let open = |transformer: Option<u16>| {
        let config = Config {
            transformer: transformer.map(|number| Arc::new(Reversing(number)) as Arc<dyn Transformer>),
            ..Config::new(directory.path())
        };
        Store::open(config, ()).unwrap()
    };
    let version = || {
        let file = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
        file.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let key = Key::from("/secret/a");
    let bytes = |store: &Store<()>| store.snapshot().get(&key).unwrap().bytes().clone();
    let store = open(Some(1));
    store
        .commit(Transaction::new().put("/plain/a", Value::plain("x")))
        .await
        .unwrap();
    store.close().await.unwrap();
    assert_eq!(version(), 2);
    let store = open(Some(1));
    let put = Transaction::new().put(key.clone(), Value::object(r#"{"secret":"","r":""}"#, 18));
    let written = store.commit(put).await.unwrap();
    let served = bytes(&store);
    assert!(served.starts_with(br#"{"secret":"","r":"#));
    assert!(!store.is_stale(written.entries[0].as_ref().unwrap()));
    store.close().await.unwrap();
    assert_eq!(version(), 3);
    let file = std::fs::read(directory.path().join("store.db")).unwrap();
    assert!(!file.windows(8).any(|window| window == b"\"secret\""));
    // Another form is stale; without the key the value is a placeholder until it can be read.
    let store = open(Some(2));
    assert_eq!(bytes(&store), served);
    assert!(store.is_stale(store.snapshot().get(&key).unwrap()));
    store.close().await.unwrap();
    for transformer in [None, Some(0)] {
        let store = open(transformer);
        let placeholder = bytes(&store);
        let value = UntransformableValue::from_placeholder(&placeholder).unwrap();
        assert_eq!(value.revision_at, Some(18));
        assert!(store.snapshot().may_be_untransformable());
        let unreadable = store.restore_untransformable(|key, _| Err(CodecError::untransformable(key, "no key")));
        assert_eq!(unreadable.await.unwrap(), 1);
        store.close().await.unwrap();
    }
    let store = open(None);
    let decode = |_: &Key, value: UntransformableValue<'_>| {
        let plain = Reversing(1).transform_from_storage(b"", value.stored)?.unwrap();
        Ok(Value::object(plain.bytes, value.revision_at.unwrap()))
    };
    assert_eq!(store.restore_untransformable(decode).await.unwrap(), 0);
    assert!(bytes(&store).starts_with(br#"{"secret":"","r":"#));
    store.close().await.unwrap();
}
