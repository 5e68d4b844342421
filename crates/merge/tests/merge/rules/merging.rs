//! Merge, compare, extraction.

use holdfast_merge::{Duplicates, KeyFields, Relationship};

use crate::rules::scenario::{assert_value, fields, schema, thing, valid, value};

/// Live value, configuration, merged value.
#[track_caller]
fn check_merge(cases: &[(&str, &str, &str)]) {
    for (existing, config, expected) in cases {
        assert_value(&thing(existing).merge(&thing(config)).unwrap(), expected);
        // Validated values reach the same result by shortcuts.
        if let (Ok(()), Ok(())) = (
            thing(existing).validate(Duplicates::Rejected),
            thing(config).validate(Duplicates::Rejected),
        ) {
            assert_value(&valid(existing).merge(&valid(config)).unwrap(), expected);
        }
    }
}

/// Older value, newer value, added, modified, removed.
#[track_caller]
fn check_compare(cases: &[(&str, &str, &str, &str, &str)]) {
    for (older, newer, added, modified, removed) in cases {
        let got = thing(older).compare(&thing(newer)).unwrap();
        assert_eq!(got.added, fields(added), "added from {older} to {newer}: {got}");
        assert_eq!(
            got.modified,
            fields(modified),
            "modified from {older} to {newer}: {got}"
        );
        assert_eq!(got.removed, fields(removed), "removed from {older} to {newer}: {got}");
    }
}

#[test]
fn leaves_of_the_configuration_win_and_nothing_is_removed() {
    check_merge(&[
        ("{text: a, number: 1}", "{text: b}", "{text: b, number: 1}"),
        ("{labels: {a: x, b: q}}", "{labels: {a: z}}", "{labels: {a: z, b: q}}"),
        (
            "{inner: {text: a}}",
            "{inner: {number: 2}}",
            "{inner: {text: a, number: 2}}",
        ),
        ("null", "{text: a}", "{text: a}"),
        ("{number: 1}", "{number: 1.5}", "{number: 1.5}"),
    ]);
}

#[test]
fn null_config_replaces_only_atomic_content() {
    check_merge(&[
        ("{labels: {a: x}}", "{labels: {}}", "{labels: {a: x}}"),
        ("{labels: {a: x}}", "{labels: null}", "{labels: {a: x}}"),
        ("{tags: [a]}", "{tags: []}", "{tags: [a]}"),
        ("{annotations: {a: x}}", "{annotations: {}}", "{annotations: {}}"),
        ("{args: [a]}", "{args: null}", "{args: null}"),
        ("{labels: null}", "{labels: {}}", "{labels: {}}"),
        ("{tags: []}", "{tags: null}", "{tags: null}"),
    ]);
}

#[test]
fn atomic_parts_are_replaced_as_a_whole() {
    check_merge(&[
        (
            "{annotations: {a: x, b: q}}",
            "{annotations: {a: z}}",
            "{annotations: {a: z}}",
        ),
        ("{args: [a, b]}", "{args: [c]}", "{args: [c]}"),
        (
            "{block: {text: a, number: 1}}",
            "{block: {text: b}}",
            "{block: {text: b}}",
        ),
    ]);
}

#[test]
fn keyed_items_are_merged_by_their_keys_and_defaults_name_them() {
    check_merge(&[
        (
            "{ports: [{port: 80, title: a}]}",
            "{ports: [{port: 80, protocol: TCP, title: b}]}",
            "{ports: [{port: 80, protocol: TCP, title: b}]}",
        ),
        (
            "{ports: [{port: 80}]}",
            "{ports: [{port: 80, protocol: UDP}]}",
            "{ports: [{port: 80}, {port: 80, protocol: UDP}]}",
        ),
        (
            "{items: [{name: a, value: 1}, {name: b}]}",
            "{items: [{name: b, value: 2}]}",
            "{items: [{name: a, value: 1}, {name: b, value: 2}]}",
        ),
    ]);
}

#[test]
fn merged_list_items_follow_configuration_order() {
    check_merge(&[
        ("{tags: [a, b, c]}", "{tags: [c, a]}", "{tags: [b, c, a]}"),
        ("{tags: [a, b, c]}", "{tags: [a, x, c]}", "{tags: [a, b, x, c]}"),
        ("{tags: [a, b]}", "{tags: [x]}", "{tags: [a, b, x]}"),
        (
            "{tags: [x, a, p, b, z]}",
            "{tags: [b, q, a]}",
            "{tags: [x, p, b, z, q, a]}",
        ),
        ("null", "{tags: [b, a]}", "{tags: [b, a]}"),
    ]);
}

#[test]
fn live_duplicates_stay_unless_the_configuration_names_them() {
    check_merge(&[
        ("{tags: [a, b, a]}", "{tags: [c]}", "{tags: [a, b, a, c]}"),
        ("{tags: [a, b, a]}", "{tags: [a]}", "{tags: [a, b]}"),
        (
            "{items: [{name: a, value: 1}, {name: a, value: 2}]}",
            "{items: [{name: a}]}",
            "{items: [{name: a}]}",
        ),
    ]);
}

#[test]
fn duplicate_in_configuration_is_rejected() {
    let merged = thing("{}").merge(&thing("{items: [{name: a}, {name: a}]}"));
    assert_eq!(
        merged.unwrap_err().to_string(),
        r#".items: duplicate entries for key [name="a"]"#
    );
}

#[test]
fn unchanged_part_is_shared_with_live_value() {
    let existing = valid("{inner: {items: [{name: a, options: {x: q}}], text: a}, labels: {a: b}}");
    let merged = existing.merge(&valid("{inner: {text: b}, labels: {a: b}}")).unwrap();
    let map = |typed: &holdfast_merge::Typed, path: &[&str]| typed.value().at(path).unwrap().clone();
    assert!(
        map(&merged, &["labels"])
            .as_map()
            .unwrap()
            .same(map(&existing, &["labels"]).as_map().unwrap())
    );
    let items = ["inner", "items"];
    assert!(
        map(&merged, &items)
            .as_list()
            .unwrap()
            .same(map(&existing, &items).as_list().unwrap())
    );
    let nothing_new = existing.merge(&valid("{labels: {a: b}}")).unwrap();
    assert!(
        nothing_new
            .value()
            .as_map()
            .unwrap()
            .same(existing.value().as_map().unwrap())
    );
}

#[test]
fn deduced_values_of_another_kind_give_way() {
    check_merge(&[
        ("{free: {a: 1}}", "{free: [1]}", "{free: [1]}"),
        (
            "{free: {a: {b: 1}}}",
            "{free: {a: {c: 2}}}",
            "{free: {a: {b: 1, c: 2}}}",
        ),
        ("{free: [1, 2]}", "{free: [3]}", "{free: [3]}"),
        ("{free: 1}", "{free: {a: 1}}", "{free: {a: 1}}"),
    ]);
}

#[test]
fn comparison_finds_what_came_what_changed_and_what_went() {
    check_compare(&[
        (
            "{text: a}",
            "{text: b, number: 1}",
            "{'f:number': {}}",
            "{'f:text': {}}",
            "{}",
        ),
        ("{number: 1}", "{number: 1.0}", "{}", "{}", "{}"),
        ("{labels: null}", "{labels: {}}", "{}", "{'f:labels': {}}", "{}"),
        (
            "{tags: [a, b]}",
            "{tags: [b, c]}",
            r#"{'f:tags': {'v:"c"': {}}}"#,
            "{}",
            r#"{'f:tags': {'v:"a"': {}}}"#,
        ),
        ("{tags: [a, b]}", "{tags: [b, a]}", "{}", "{}", "{}"),
        ("{args: [a, b]}", "{args: [b, a]}", "{}", "{'f:args': {}}", "{}"),
        (
            "{}",
            "{inner: {labels: {a: x}}}",
            "{'f:inner': {'.': {}, 'f:labels': {'.': {}, 'f:a': {}}}}",
            "{}",
            "{}",
        ),
        (
            "{free: {a: 1}}",
            "{free: 2}",
            "{}",
            "{'f:free': {}}",
            "{'f:free': {'f:a': {}}}",
        ),
    ]);
}

#[test]
fn several_items_of_one_name_compare_as_one_leaf() {
    let bare = r#"{'f:items': {'k:{"name":"a"}': {}}}"#;
    let item = r#"{'f:items': {'k:{"name":"a"}': {'.': {}, 'f:name': {}}}}"#;
    let two = "{items: [{name: a}, {name: a, value: 1}]}";
    check_compare(&[
        (two, "{items: [{name: a, value: 1}, {name: a}]}", "{}", bare, "{}"),
        (two, two, "{}", "{}", "{}"),
        ("{items: []}", two, bare, "{}", "{}"),
        (two, "{items: []}", "{}", "{}", bare),
        ("{items: [{name: a}]}", two, bare, "{}", item),
        (two, "{items: [{name: a}]}", item, "{}", bare),
    ]);
}

#[test]
fn an_empty_container_is_what_is_left_of_nothing() {
    let whole = thing("{labels: {a: x}, tags: [a], text: t}");
    let left = whole.remove_items(&fields(r#"{'f:labels': {'f:a': {}}, 'f:tags': {'v:"a"': {}}}"#));
    assert_value(&left, "{labels: null, tags: null, text: t}");
    assert_value(
        &whole.remove_items(&fields("{}")),
        "{labels: {a: x}, tags: [a], text: t}",
    );
    assert_value(&thing("{}").remove_items(&fields("{}")), "null");
}

#[test]
fn extraction_keeps_what_is_named_with_key_fields_on_request() {
    let whole = thing("{items: [{name: a, value: 1}, {name: b, value: 2}], args: [x], text: t}");
    let set = fields(r#"{'f:args': {}, 'f:items': {'k:{"name":"b"}': {'f:value': {}}}}"#);
    assert_value(
        &whole.extract_items(&set, KeyFields::AsNamed),
        "{items: [{value: 2}], args: [x]}",
    );
    assert_value(
        &whole.extract_items(&set, KeyFields::Appended),
        "{items: [{name: b, value: 2}], args: [x]}",
    );
}

#[test]
fn values_of_different_types_do_not_mix() {
    let other_schema = schema("types: [{name: Thing, map: {}}]");
    let other =
        holdfast_merge::Typed::unchecked(value("{}"), other_schema.clone(), other_schema.named("Thing").unwrap());
    assert_eq!(
        thing("{}").merge(&other).unwrap_err().to_string(),
        "expected objects with types from the same schema"
    );
    assert!(thing("{}").compare(&other).is_err());
}

#[test]
fn a_reference_may_change_the_relationship_of_what_it_refers_to() {
    use holdfast_merge::{FieldSpec, MapSpec, Reference, Scalar, SchemaBuilder, Typed};
    let inner = Reference::named("Inner");
    let schema = SchemaBuilder::new()
        .define("Inner", MapSpec::new(Scalar::String))
        .define(
            "Outer",
            MapSpec::from_fields([
                FieldSpec::new("granular", inner.clone()),
                FieldSpec::new("atomic", inner.with_relationship(Relationship::Atomic)),
            ]),
        )
        .build();
    let outer = schema.named("Outer").unwrap();
    let typed = Typed::unchecked(value("{granular: {a: b}, atomic: {a: b}}"), schema.into(), outer);
    assert_eq!(
        typed.to_field_set().unwrap(),
        fields("{'f:granular': {'f:a': {}}, 'f:atomic': {}}")
    );
}
