use holdfast_value::{Limits, Value, json};
use proptest::prelude::*;

use super::*;

/// A type of a hand-written schema: its name and its fields, each with type, strategy and merge key. `*` is any field.
type Fields = &'static [(&'static str, &'static str, PatchStrategy, Option<&'static str>)];

const TYPES: &[(&str, Fields)] = &[
    (
        "Root",
        &[
            ("meta", "Meta", PatchStrategy::Usual, None),
            ("spec", "Spec", PatchStrategy::Usual, None),
            ("fixed", "Meta", PatchStrategy::Replace, None),
        ],
    ),
    (
        "Meta",
        &[
            ("labels", "Text", PatchStrategy::Usual, None),
            ("finalizers", "Text", PatchStrategy::Merge, None),
        ],
    ),
    ("Text", &[("*", "Text", PatchStrategy::Usual, None)]),
    (
        "Spec",
        &[
            ("items", "Item", PatchStrategy::Merge, Some("name")),
            ("args", "Text", PatchStrategy::Usual, None),
            ("unkeyed", "Item", PatchStrategy::Merge, None),
            ("kind", "Union", PatchStrategy::Usual, None),
            ("raw", "RawExtension", PatchStrategy::Usual, None),
        ],
    ),
    (
        "Item",
        &[
            ("env", "Env", PatchStrategy::Merge, Some("name")),
            ("args", "Text", PatchStrategy::Usual, None),
        ],
    ),
    ("Env", &[]),
    (
        "Union",
        &[
            ("a", "Text", PatchStrategy::Usual, None),
            ("b", "Text", PatchStrategy::Usual, None),
        ],
    ),
    ("RawExtension", &[]),
];

#[derive(Clone, Copy)]
struct HandMade(&'static str);

impl PatchType for HandMade {
    fn member(&self, name: &str) -> Option<PatchMember<Self>> {
        let (_, fields) = TYPES.iter().find(|(of, _)| *of == self.0)?;
        let (_, value, strategy, merge_key) = fields.iter().find(|(field, ..)| *field == name || *field == "*")?;
        Some(PatchMember {
            value: HandMade(value),
            strategy: *strategy,
            merge_key: merge_key.map(SmolStr::new),
        })
    }

    fn name(&self) -> &str {
        self.0
    }
}

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).unwrap()
}

#[track_caller]
fn merges(original: &str, patch: &str, expected: &str) {
    let merged = strategic_merge(value(original), &value(patch), &HandMade("Root")).unwrap();
    assert_eq!(merged, value(expected), "{} merged into {}", patch, original);
}

#[track_caller]
fn refuses(original: &str, patch: &str, message: &str, kind: PatchErrorKind) {
    let error = strategic_merge(value(original), &value(patch), &HandMade("Root")).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(error.kind(), kind);
}

#[test]
fn maps_are_merged_and_null_takes_out() {
    merges(
        r#"{"meta":{"labels":{"a":"1","b":"1"}},"n":1}"#,
        r#"{"meta":{"labels":{"b":null,"c":"2","d":null}},"n":2}"#,
        r#"{"meta":{"labels":{"a":"1","c":"2"}},"n":2}"#,
    );
}

#[test]
fn map_replaces_scalar_without_nulls_and_directive_maps() {
    merges(
        r#"{"meta":{"labels":"text"}}"#,
        r#"{"meta":{"labels":{"a":null,"b":{"c":null,"$retainKeys":["d"]},"e":"1"},"finalizers":{"$patch":"delete"}}}"#,
        r#"{"meta":{"labels":{"b":{"$retainKeys":["d"]},"e":"1"}}}"#,
    );
}

#[test]
fn items_that_are_new_keep_their_nulls_and_directives() {
    merges(
        r#"{"spec":{"items":[{"name":"one"}]}}"#,
        r#"{"spec":{"items":[{"name":"two","image":null,"labels":{"a":null,"$retainKeys":["a"]}}]}}"#,
        r#"{"spec":{"items":[{"name":"two","image":null,"labels":{"a":null,"$retainKeys":["a"]}},{"name":"one"}]}}"#,
    );
    merges(
        r#"{"spec":{"items":[{"name":"one"}]}}"#,
        r#"{"spec":{"items":[{"$patch":"replace"},{"name":"two","image":null}]}}"#,
        r#"{"spec":{"items":[{"name":"two","image":null}]}}"#,
    );
}

#[test]
fn lists_without_a_mark_are_replaced() {
    merges(
        r#"{"spec":{"args":["a","b"]}}"#,
        r#"{"spec":{"args":["c"]}}"#,
        r#"{"spec":{"args":["c"]}}"#,
    );
}

#[test]
fn maps_marked_replace_are_replaced() {
    merges(
        r#"{"fixed":{"labels":{"a":"1"}}}"#,
        r#"{"fixed":{"finalizers":["x"]}}"#,
        r#"{"fixed":{"finalizers":["x"]}}"#,
    );
}

#[test]
fn items_are_merged_by_their_key_and_new_ones_come_first() {
    merges(
        r#"{"spec":{"items":[{"name":"one","image":"1"},{"name":"two","image":"2"}]}}"#,
        r#"{"spec":{"items":[{"name":"three","image":"3"},{"name":"two","image":"9"}]}}"#,
        r#"{"spec":{"items":[{"name":"three","image":"3"},{"name":"one","image":"1"},{"name":"two","image":"9"}]}}"#,
    );
    merges(
        r#"{"spec":{"items":[{"name":"one"},{"name":"two"}]}}"#,
        r#"{"spec":{"items":[{"name":"new"}]}}"#,
        r#"{"spec":{"items":[{"name":"new"},{"name":"one"},{"name":"two"}]}}"#,
    );
    merges(
        r#"{"spec":{"items":[{"name":"one","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]}]}}"#,
        r#"{"spec":{"items":[{"name":"one","env":[{"name":"B","value":"9"},{"name":"C","value":"3"}]}]}}"#,
        r#"{"spec":{"items":[{"name":"one","env":[{"name":"A","value":"1"},{"name":"B","value":"9"},{"name":"C","value":"3"}]}]}}"#,
    );
}

#[test]
fn an_item_that_the_patch_holds_twice_is_merged_twice() {
    merges(
        r#"{"spec":{"items":[{"name":"one"}]}}"#,
        r#"{"spec":{"items":[{"name":"two","a":"1"},{"name":"two","b":"1"}]}}"#,
        r#"{"spec":{"items":[{"name":"two","a":"1","b":"1"},{"name":"one"}]}}"#,
    );
}

#[test]
fn scalars_are_merged_by_value_those_of_the_patch_first() {
    merges(
        r#"{"meta":{"finalizers":["a","c"]}}"#,
        r#"{"meta":{"finalizers":["d","a"]}}"#,
        r#"{"meta":{"finalizers":["d","a","c"]}}"#,
    );
    merges(
        r#"{"meta":{"finalizers":["a"]}}"#,
        r#"{"meta":{"finalizers":[]}}"#,
        r#"{"meta":{"finalizers":["a"]}}"#,
    );
}

#[test]
fn scalars_are_deleted_by_the_parallel_list() {
    merges(
        r#"{"meta":{"finalizers":["a","b","c"]}}"#,
        r#"{"meta":{"$deleteFromPrimitiveList/finalizers":["b","none"],"finalizers":["d"]}}"#,
        r#"{"meta":{"finalizers":["d","a","c"]}}"#,
    );
    merges(
        r#"{"meta":{}}"#,
        r#"{"meta":{"$deleteFromPrimitiveList/finalizers":["b"]}}"#,
        r#"{"meta":{}}"#,
    );
    refuses(
        r#"{"meta":{}}"#,
        r#"{"meta":{"$deleteFromPrimitiveListX":["b"]}}"#,
        "invalid patch format of primitive list",
        PatchErrorKind::BadRequest,
    );
}

#[test]
fn patch_delete_takes_out_items_and_maps() {
    merges(
        r#"{"spec":{"items":[{"name":"one"},{"name":"two"},{"name":"one"}]}}"#,
        r#"{"spec":{"items":[{"name":"one","$patch":"delete"},{"name":"none","$patch":"delete"}]}}"#,
        r#"{"spec":{"items":[{"name":"two"}]}}"#,
    );
    merges(
        r#"{"meta":{"labels":{"a":"1"}}}"#,
        r#"{"meta":{"labels":{"$patch":"delete"}}}"#,
        r#"{"meta":{"labels":{}}}"#,
    );
    refuses(
        r#"{"spec":{"items":[{"name":"one"}]}}"#,
        r#"{"spec":{"items":[{"$patch":"delete"}]}}"#,
        "map: map[$patch:delete] does not contain declared merge key: name",
        PatchErrorKind::Internal,
    );
}

#[test]
fn patch_replace_replaces_lists_and_maps() {
    merges(
        r#"{"spec":{"items":[{"name":"one"},{"name":"two"}]}}"#,
        r#"{"spec":{"items":[{"$patch":"replace"},{"name":"new","image":"7"}]}}"#,
        r#"{"spec":{"items":[{"name":"new","image":"7"}]}}"#,
    );
    merges(
        r#"{"meta":{"labels":{"x":"1","y":"2"}}}"#,
        r#"{"meta":{"labels":{"$patch":"replace","z":"3"}}}"#,
        r#"{"meta":{"labels":{"z":"3"}}}"#,
    );
}

#[test]
fn unknown_directive_is_rejected_if_there_is_a_value_to_merge() {
    refuses(
        r#"{"meta":{"labels":{"a":"1"}}}"#,
        r#"{"meta":{"labels":{"$patch":"explode"}}}"#,
        "unknown patch type: explode in map: map[$patch:explode]",
        PatchErrorKind::Internal,
    );
    refuses(
        r#"{"meta":{"labels":{"a":"1"}}}"#,
        r#"{"meta":{"labels":{"$patch":{"x":null}}}}"#,
        "unknown patch type: map[x:<nil>] in map: map[$patch:map[x:<nil>]]",
        PatchErrorKind::Internal,
    );
    merges(
        r#"{"meta":{}}"#,
        r#"{"meta":{"labels":{"$patch":"explode"}}}"#,
        r#"{"meta":{}}"#,
    );
    refuses(
        r#"{"spec":{"items":[{"name":"one"}]}}"#,
        r#"{"spec":{"items":[{"name":"one","$patch":"merge"}]}}"#,
        "merging lists cannot yet be specified in the patch",
        PatchErrorKind::Internal,
    );
}

#[test]
fn retain_keys_clears_all_other_keys() {
    merges(
        r#"{"spec":{"kind":{"a":{"x":"1"},"type":"A"}}}"#,
        r#"{"spec":{"kind":{"$retainKeys":["type","b"],"type":"B","b":{"y":"1"},"a":null}}}"#,
        r#"{"spec":{"kind":{"b":{"y":"1"},"type":"B"}}}"#,
    );
    refuses(
        r#"{"spec":{"kind":{}}}"#,
        r#"{"spec":{"kind":{"$retainKeys":["type"],"type":"B","b":{"y":"1"}}}}"#,
        "invalid patch format of retainKeys",
        PatchErrorKind::BadRequest,
    );
    refuses(
        r#"{"spec":{"kind":{}}}"#,
        r#"{"spec":{"kind":{"$retainKeys":"type"}}}"#,
        "invalid patch format of retainKeys",
        PatchErrorKind::BadRequest,
    );
}

#[test]
fn set_element_order_orders_items() {
    merges(
        r#"{"spec":{"items":[{"name":"one"},{"name":"two"}]}}"#,
        r#"{"spec":{"$setElementOrder/items":[{"name":"two"},{"name":"one"}]}}"#,
        r#"{"spec":{"items":[{"name":"two"},{"name":"one"}]}}"#,
    );
    merges(
        r#"{"spec":{"items":[{"name":"server"},{"name":"one"},{"name":"two"}]}}"#,
        r#"{"spec":{"$setElementOrder/items":[{"name":"two"},{"name":"new"},{"name":"one"}],"items":[{"name":"new","a":"1"},{"name":"one","$patch":"delete"}]}}"#,
        r#"{"spec":{"items":[{"name":"server"},{"name":"two"},{"name":"new","a":"1"}]}}"#,
    );
    merges(
        r#"{"meta":{"finalizers":["a","b"]}}"#,
        r#"{"meta":{"$setElementOrder/finalizers":["c","a","b"],"finalizers":["c"]}}"#,
        r#"{"meta":{"finalizers":["c","a","b"]}}"#,
    );
    merges(
        r#"{"spec":{}}"#,
        r#"{"spec":{"$setElementOrder/items":[{"name":"b"},{"name":"a"}],"items":[{"name":"b"},{"name":"a"}]}}"#,
        r#"{"spec":{"items":[{"name":"b"},{"name":"a"}]}}"#,
    );
    merges(
        r#"{"spec":{}}"#,
        r#"{"spec":{"$setElementOrder/items":[{"name":"b"}]}}"#,
        r#"{"spec":{}}"#,
    );
}

#[test]
fn items_that_the_order_lacks_are_refused() {
    refuses(
        r#"{"spec":{"items":[{"name":"one"}]}}"#,
        r#"{"spec":{"$setElementOrder/items":[{"name":"one"}],"items":[{"name":"two","image":"i:5"}]}}"#,
        "The order in patch list:\n[map[image:i:5 name:two]]\n doesn't match $setElementOrder list:\n[map[name:one]]\n",
        PatchErrorKind::Internal,
    );
    refuses(
        r#"{"spec":{"items":[{"name":"one"}]}}"#,
        r#"{"spec":{"$setElementOrder/items":[{"name":"a"},{"name":"b"}],"items":[{"name":"b"},{"name":"a"}]}}"#,
        "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n",
        PatchErrorKind::Internal,
    );
    refuses(
        r#"{"spec":{"items":[{"name":"one"}]}}"#,
        r#"{"spec":{"$setElementOrder/items":"one"}}"#,
        "expected a []interface {}, but received a string",
        PatchErrorKind::Internal,
    );
    refuses(
        r#"{"spec":{"items":[]}}"#,
        r#"{"spec":{"$setElementOrder":[]}}"#,
        "invalid patch format of setElementOrder list",
        PatchErrorKind::BadRequest,
    );
}

#[test]
fn bad_lists_are_refused_in_the_words_of_the_reference() {
    for (original, patch, message, kind) in [
        (
            r#"{"spec":{"items":[{"name":"one"}]}}"#,
            r#"{"spec":{"items":[{"image":"i:4"}]}}"#,
            "map: map[image:i:4] does not contain declared merge key: name",
            PatchErrorKind::Internal,
        ),
        (
            r#"{"spec":{"items":[{"name":"one"}]}}"#,
            r#"{"spec":{"items":[{"name":"two"},"text",1,null]}}"#,
            "list element types are not identical: [[map[name:one]] [map[name:two] text 1 <nil>]]",
            PatchErrorKind::Internal,
        ),
        (
            r#"{"spec":{"items":[["a"]]}}"#,
            r#"{"spec":{"items":[["b"]]}}"#,
            "lists of lists are not supported",
            PatchErrorKind::Unprocessable,
        ),
        (
            r#"{"spec":{"unkeyed":[{"name":"one"}]}}"#,
            r#"{"spec":{"unkeyed":[{"name":"one"}]}}"#,
            "cannot merge lists without merge key for struct",
            PatchErrorKind::Internal,
        ),
    ] {
        refuses(original, patch, message, kind);
    }
}

#[test]
fn fields_that_the_type_lacks_cannot_be_merged() {
    refuses(
        r#"{"spec":{"raw":{"a":{"b":1}}}}"#,
        r#"{"spec":{"raw":{"a":{"b":2}}}}"#,
        "unable to find api field in struct RawExtension for the json field \"a\"",
        PatchErrorKind::Internal,
    );
    merges(
        r#"{"spec":{"raw":{"a":1}}}"#,
        r#"{"spec":{"raw":{"a":2,"new":{"x":1}}}}"#,
        r#"{"spec":{"raw":{"a":2,"new":{"x":1}}}}"#,
    );
}

#[test]
fn a_patch_that_is_no_map_is_refused() {
    refuses("{}", "[]", "invalid JSON document", PatchErrorKind::BadRequest);
}

#[test]
fn untouched_parts_stay_shared() {
    let original = value(r#"{"meta":{"labels":{"a":"1"}},"spec":{"args":["a"]}}"#);
    let merged = strategic_merge(
        original.clone(),
        &value(r#"{"meta":{"labels":{"b":"1"}}}"#),
        &HandMade("Root"),
    )
    .unwrap();
    let (Some(Value::Map(before)), Some(Value::Map(after))) = (original.get("spec"), merged.get("spec")) else {
        panic!("spec went");
    };
    assert!(before.same(after));
}

/// Returns any tree whose keys are fields of the hand-written types and directives.
fn tree() -> impl Strategy<Value = Value> {
    const KEYS: &[&str] = &[
        "meta",
        "spec",
        "labels",
        "finalizers",
        "items",
        "env",
        "args",
        "kind",
        "raw",
        "name",
    ];
    const DIRECTIVES: &[&str] = &[
        "$patch",
        "$retainKeys",
        "$setElementOrder/items",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList/items",
        "$setElementOrder",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        (0_i64..2).prop_map(Value::from),
        prop::sample::select(&["a", "b", "replace", "delete", "merge", "name"][..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let key = prop_oneof![4 => prop::sample::select(KEYS), 1 => prop::sample::select(DIRECTIVES)];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5).prop_map(|entries| {
                let entries = entries.into_iter().map(|(key, value)| (SmolStr::new(key), value));
                Value::Map(entries.collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_patch_is_merged_or_refused(original in tree(), patch in tree()) {
        if let Err(error) = strategic_merge(original, &patch, &HandMade("Root")) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing(original in tree()) {
        if original.as_map().is_some() {
            let merged = strategic_merge(original.clone(), &Value::empty_map(), &HandMade("Root")).unwrap();
            prop_assert_eq!(merged, original);
        }
    }
}

/// Number of items, or members, so large that a search for each among all would not finish.
const MANY: usize = 100_000;

fn texts(range: std::ops::Range<usize>) -> Value {
    range
        .map(|at| Value::from(format!("t{at:06}")))
        .collect::<Vec<_>>()
        .into()
}

fn with(path: &[&str], value: Value) -> Value {
    let mut object = Value::empty_map();
    object.set_at(path, value);
    object
}

fn merged_at(original: Value, patch: &Value, path: &[&str]) -> Value {
    let merged = strategic_merge(original, patch, &HandMade("Root")).unwrap();
    merged.at(path).cloned().unwrap_or_default()
}

#[test]
fn directives_for_many_items_cost_no_more_than_a_walk() {
    let item = |at: usize| {
        let mut item = with(&["name"], Value::from(format!("n{at:06}")));
        item.set_at(&["args"], Value::Int(1));
        item
    };
    let items: Vec<Value> = (0..2 * MANY).map(item).collect();
    let doomed = items.iter().take(MANY).map(|item| {
        let mut doomed = item.clone();
        doomed.set_at(&["$patch"], "delete".into());
        doomed
    });
    let path = ["spec", "items"];
    let patch = with(&path, doomed.collect::<Vec<_>>().into());
    let left = merged_at(with(&path, items.clone().into()), &patch, &path);
    assert_eq!(left, Value::from(items[MANY..].to_vec()));

    let order: Vec<Value> = items.iter().rev().cloned().collect();
    let mut patch = with(&["spec", "$setElementOrder/items"], order.clone().into());
    patch.set_at(&path, order.clone().into());
    let ordered = merged_at(with(&path, items.into()), &patch, &path);
    assert_eq!(ordered, Value::from(order));
}

#[test]
fn many_values_of_lists_cost_no_more_than_a_walk() {
    let path = ["meta", "finalizers"];
    let merged = merged_at(with(&path, texts(0..MANY)), &with(&path, texts(1..MANY + 1)), &path);
    assert_eq!(merged.as_list().map(|list| list.len()), Some(MANY + 1));
    let patch = with(&["meta", "$deleteFromPrimitiveList/finalizers"], texts(1..MANY));
    assert_eq!(merged_at(with(&path, texts(0..MANY)), &patch, &path), texts(0..1));
}

#[test]
fn many_members_of_maps_cost_no_more_than_a_walk() {
    let members = |range: std::ops::Range<usize>, value: Value| -> Value {
        let keys = range.map(|at| (SmolStr::from(format!("t{at:06}")), value.clone()));
        Value::Map(keys.collect())
    };
    let path = ["meta", "labels"];
    let original = || with(&path, members(0..2 * MANY, "v".into()));
    let left = merged_at(original(), &with(&path, members(1..2 * MANY, Value::Null)), &path);
    assert_eq!(left, members(0..1, "v".into()));
    let patch = with(&["meta", "labels", "$retainKeys"], texts(0..MANY));
    assert_eq!(merged_at(original(), &patch, &path), members(0..MANY, "v".into()));
}
