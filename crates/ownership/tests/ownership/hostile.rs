//! Fuzz test with arbitrary `managedFields`: an update succeeds, an apply succeeds or is rejected, nothing panics.
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use holdfast_merge::{DEDUCED, SchemaBuilder};
use holdfast_ownership::{FieldManager, OneVersion, blame, check_managed_fields, keep_times};
use holdfast_value::{Limits, SmolStr, Value, json};
use proptest::prelude::*;

fn field_manager() -> FieldManager {
    let schema = Arc::new(SchemaBuilder::new().define_deduced().build());
    let merge_type = schema.named(DEDUCED).unwrap();
    FieldManager::builder("v1", "Thing", Arc::new(OneVersion::new("v1", schema, merge_type))).build()
}

#[test]
fn an_entry_that_bears_no_time_but_another_text_is_not_kept() {
    let text = r#"{"apiVersion":"v1","kind":"Thing","metadata":{"uid":"u","managedFields":[{"manager":"m","operation":"Apply",
        "apiVersion":"v1","time":"yesterday","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}}]},"a":1}"#;
    let existing = json::parse(text.as_bytes(), &Limits::default()).unwrap();
    let updated = field_manager().update(Some(&existing), existing.clone(), "updater", SystemTime::UNIX_EPOCH);
    assert_eq!(check_managed_fields(&updated), Ok(()), "{updated}");
}

/// Generates a tree with few names, so that objects, configurations and field sets overlap.
fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-c]", inner), 0..4).prop_map(|entries| {
                let entries = entries.into_iter().map(|(key, value)| (SmolStr::from(key), value));
                Value::Map(entries.collect())
            }),
        ]
    })
}

/// Generates a field set that is mostly valid.
fn fields() -> impl Strategy<Value = Value> {
    let element = prop_oneof![
        6 => "[a-c]".prop_map(|name| format!("f:{name}")),
        1 => Just(".".to_owned()),
        1 => "[a-c]".prop_map(|name| format!("v:\"{name}\"")),
        1 => "[a-c]".prop_map(|name| format!("k:{{\"{name}\":1}}")),
        1 => (-1_i32..3).prop_map(|at| format!("i:{at}")),
        1 => "[fkvix.:{}\"]{0,4}",
    ];
    Just(Value::empty_map()).prop_recursive(4, 16, 4, move |inner| {
        prop::collection::vec((element.clone(), inner), 0..4).prop_map(|entries| {
            let entries = entries.into_iter().map(|(key, value)| (SmolStr::from(key), value));
            Value::Map(entries.collect())
        })
    })
}

/// Generates an entry that is mostly valid.
fn entry() -> impl Strategy<Value = Value> {
    let text = |texts: &'static [&'static str]| prop::sample::select(texts).prop_map(Value::from);
    let time = text(&[
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:01+02:00",
        "",
        "soon",
        "9999-12-31T23:59:59-23:59",
    ]);
    (
        text(&["a", "b", "", "\u{7}\"<"]),
        text(&["Apply", "Apply", "Update", "Update", "update"]),
        text(&["v1", "v1", "v1", "v2", ""]),
        text(&["FieldsV1", "FieldsV1", "FieldsV1", ""]),
        prop_oneof![9 => fields(), 1 => tree()],
        prop::option::of(time),
        prop::option::of(text(&["status", ""])),
    )
        .prop_map(|(manager, operation, version, kind, fields, time, subresource)| {
            let mut entry = Value::empty_map();
            let members = [
                ("manager", Some(manager)),
                ("operation", Some(operation)),
                ("apiVersion", Some(version)),
                ("fieldsType", Some(kind)),
                ("fieldsV1", Some(fields)),
                ("time", time),
                ("subresource", subresource),
            ];
            for (name, value) in members {
                if let Some(value) = value {
                    entry.set_at(&[name], value);
                }
            }
            entry
        })
}

fn entries() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        2 => Just(None),
        6 => prop::collection::vec(entry(), 0..4).prop_map(|entries| Some(Value::from(entries))),
        1 => tree().prop_map(Some),
    ]
}

fn object() -> impl Strategy<Value = Value> {
    (tree(), tree(), entries(), any::<bool>()).prop_map(|(a, b, entries, stored)| {
        let mut object = Value::empty_map();
        object.set_at(&["apiVersion"], "v1".into());
        object.set_at(&["kind"], "Thing".into());
        object.set_at(&["a"], a);
        object.set_at(&["b"], b);
        if let Some(entries) = entries {
            object.set_at(&["metadata", "managedFields"], entries);
        }
        if stored {
            object.set_at(&["metadata", "uid"], "1".into());
        }
        object
    })
}

/// True if the list can be read and is in canonical form.
fn is_sound(manager: &FieldManager, object: &Value) -> bool {
    let mut config = Value::empty_map();
    config.set_at(&["apiVersion"], "v1".into());
    config.set_at(&["kind"], "Thing".into());
    let applied = manager.apply(Some(object), &config, "nobody", false, SystemTime::UNIX_EPOCH);
    object.at(&["metadata", "managedFields"]).is_none() || applied.is_ok()
}

proptest! {
    #[test]
    fn updates_leave_entries_that_can_be_read(existing in object(), new in object(), seconds in 0_u64..4_000_000_000) {
        let manager = field_manager();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut updated = manager.update(Some(&existing), new.clone(), "tool", now);
        prop_assert!(is_sound(&manager, &updated));
        keep_times(&mut updated, &existing, |a, b| a == b);
        let created = manager.update(None, new, "tool", now);
        prop_assert!(is_sound(&manager, &created));
        prop_assert!(blame(&updated).len() < 10_000);
    }

    #[test]
    fn the_same_apply_again_changes_nothing(existing in object(), config in object(), force in any::<bool>()) {
        let manager = field_manager();
        let mut config = config;
        config.remove_at(&["metadata"]);
        let Ok(first) = manager.apply(Some(&existing), &config, "applier", force, SystemTime::UNIX_EPOCH) else {
            return Ok(());
        };
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(9);
        let again = manager.apply(Some(&first.object), &config, "applier", force, later).unwrap();
        prop_assert!(!again.changed);
        prop_assert_eq!(again.object, first.object);
    }

    #[test]
    fn text_that_is_an_object_is_blamed(text in r#"[{}\[\]":,a.0-9]{0,40}"#) {
        if let Ok(object) = json::parse(text.as_bytes(), &Limits::default()) {
            prop_assert!(!blame(&object).is_empty() || object.as_map().is_some());
        }
    }
}
