//! Invariants of every tree: each of its forms reads back as the same tree, and patches change what they name.

use holdfast_value::json_patch::{Bounds, Patch};
use holdfast_value::pointer::{Pointer, escape};
use holdfast_value::{Limits, Map, SmolStr, Value, json, merge_patch, yaml};
use proptest::collection::vec;
use proptest::prelude::*;

/// Generates text that YAML is likely to read as something else.
fn text() -> impl Strategy<Value = String> {
    let odd = "yes|no|on|~|null|0x1f|1e3|1_0|\\.inf|2024-01-02|1:30|<<|- a|a: b|#|---|\\? x| x|x |x\n|\n|x\n\n| \ny|🚀|a\u{2028}b";
    prop_oneof![
        3 => "[a-z]{0,12}",
        2 => odd,
        1 => "[ -~\n\té€🚀]{0,40}",
        1 => "([a-z]{1,9} ){0,40}[a-z]",
        1 => any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e25_f64..1e25).prop_map(Value::Float),
        any::<f64>()
            .prop_filter("finite", |float| float.is_finite())
            .prop_map(Value::Float),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((text().prop_map(SmolStr::from), inner), 0..6)
                .prop_map(|entries| Value::Map(Map::from_unsorted(entries))),
        ]
    })
}

fn map() -> impl Strategy<Value = Value> {
    vec(("[a-d]", value()), 0..5).prop_map(|entries| {
        Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (SmolStr::from(key), value))
                .collect(),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_round_trips(value in value()) {
        let text = json::to_vec(&value);
        prop_assert_eq!(&json::parse(&text, &Limits::TRUSTED).unwrap(), &value);
        let mut pretty = Vec::new();
        json::write_pretty(&value, "    ", &mut pretty);
        prop_assert_eq!(&json::parse(&pretty, &Limits::TRUSTED).unwrap(), &value);
    }

    #[test]
    fn yaml_round_trips(value in value()) {
        let text = yaml::to_string(&value);
        prop_assert_eq!(&yaml::parse(text.as_bytes(), &Limits::TRUSTED).unwrap(), &value, "{}", text);
    }

    #[test]
    fn a_merge_patch_sets_what_it_names_and_leaves_the_rest(target in map(), patch in map()) {
        let patched = merge_patch::apply(&target, &patch).unwrap();
        for (key, value) in target.as_map().unwrap() {
            if patch.get(key).is_none() {
                prop_assert_eq!(patched.get(key), Some(value));
            }
        }
        for (key, value) in patch.as_map().unwrap() {
            match value {
                Value::Null => prop_assert_eq!(patched.get(key), None),
                Value::Map(_) => prop_assert!(matches!(patched.get(key), Some(Value::Map(_)))),
                Value::List(_) => prop_assert!(matches!(patched.get(key), Some(Value::List(_)))),
                scalar => prop_assert_eq!(patched.get(key), Some(scalar)),
            }
        }
    }

    #[test]
    fn json_patch_add_is_reverted_by_remove(target in map(), key in text(), value in value()) {
        prop_assume!(target.get(&key).is_none());
        let path = format!("/{}", escape(&key));
        let operation = |op: &str| {
            let mut operation = Value::empty_map();
            operation.set_at(&["op"], Value::from(op));
            operation.set_at(&["path"], Value::from(path.as_str()));
            operation.set_at(&["value"], value.clone());
            operation
        };
        let apply = |operations: Vec<Value>| {
            Patch::from_value(&Value::from(operations)).unwrap().apply(&target, &Bounds::default())
        };
        let added = apply(vec![operation("add"), operation("test")]).unwrap();
        prop_assert_eq!(Pointer::parse(&path).unwrap().get(&added), Some(&value));
        prop_assert_eq!(apply(vec![operation("add"), operation("remove")]).unwrap(), target);
    }
}
