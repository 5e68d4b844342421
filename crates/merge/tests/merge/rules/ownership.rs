//! Ownership after an apply or update, and conflicts.

use holdfast_merge::{ApplyError, Filter, IdentityConverter, Matcher, PathElement, UpdaterBuilder};

use crate::rules::scenario::{Scenario, fields, schema, value};

#[test]
fn an_applier_owns_the_leaves_items_and_entries_it_mentions() {
    Scenario::new()
        .apply(
            "alice",
            "{text: a, labels: {x: q}, tags: [t], items: [{name: i, value: 1}], inner: {number: 1}}",
        )
        .owns(
            "alice",
            r#"{'f:text': {}, 'f:labels': {'f:x': {}}, 'f:tags': {'v:"t"': {}}, 'f:inner': {'f:number': {}},
                'f:items': {'k:{"name":"i"}': {'.': {}, 'f:name': {}, 'f:value': {}}}}"#,
        );
}

#[test]
fn applier_owns_null_and_empty_map_but_not_empty_list() {
    Scenario::new()
        .apply("alice", "{labels: {}, inner: null, tags: [], args: []}")
        .owns("alice", "{'f:labels': {}, 'f:inner': {}, 'f:args': {}}");
}

#[test]
fn updater_owns_changed_fields_and_new_containers() {
    Scenario::new()
        .update("bob", "{inner: {labels: {a: x}}}")
        .owns("bob", "{'f:inner': {'.': {}, 'f:labels': {'.': {}, 'f:a': {}}}}")
        .update("carol", "{inner: {labels: {a: q}}}")
        .owns("carol", "{'f:inner': {'f:labels': {'f:a': {}}}}")
        .owns("bob", "{'f:inner': {'.': {}, 'f:labels': {'.': {}}}}");
}

#[test]
fn an_updater_loses_what_it_removes_and_so_does_everyone() {
    Scenario::new()
        .apply("alice", "{text: a, number: 1}")
        .update("bob", "{number: 1}")
        .owns("alice", "{'f:number': {}}")
        .owns_nothing("bob");
}

#[test]
fn the_same_value_is_shared_and_another_conflicts() {
    let shared = Scenario::new()
        .apply("alice", "{text: a}")
        .unchanged("bob", "{text: a}")
        .owns("alice", "{'f:text': {}}")
        .owns("bob", "{'f:text': {}}");
    let ApplyError::Conflicts(conflicts) = shared.rejected("carol", "{text: c}") else {
        panic!("no conflict")
    };
    assert_eq!(
        conflicts.to_string(),
        "conflicts with \"alice\":\n- .text\nconflicts with \"bob\":\n- .text"
    );
    assert_eq!(conflicts.to_set(), fields("{'f:text': {}}"));
}

#[test]
fn conflicts_name_every_field_of_every_other_manager() {
    let state = Scenario::new()
        .apply("zoe", "{number: 1, ports: [{port: 80, title: web}]}")
        .update("bob", "{number: 1, ports: [{port: 80, title: web}], text: b}");
    let error = state.rejected("alice", "{number: 2, text: c, ports: [{port: 80, title: www}]}");
    assert_eq!(
        error.to_string(),
        "conflicts with \"bob\":\n- .text\nconflicts with \"zoe\":\n- .number\n\
         - .ports[port=80,protocol=\"TCP\"].title"
    );
    let error = state.rejected("alice", "{text: c}");
    assert_eq!(error.to_string(), r#"conflict with "bob": .text"#);
}

#[test]
fn rejected_apply_changes_nothing() {
    let state = Scenario::new().apply("alice", "{text: a}");
    state.rejected("bob", "{text: b, number: 1}");
    state
        .object("{text: a}")
        .owns("alice", "{'f:text': {}}")
        .owns_nothing("bob");
}

#[test]
fn force_transfers_only_conflicting_fields() {
    Scenario::new()
        .apply("alice", "{text: a, number: 1}")
        .force("bob", "{text: b}")
        .object("{text: b, number: 1}")
        .owns("alice", "{'f:number': {}}")
        .owns("bob", "{'f:text': {}}");
}

#[test]
fn owning_a_parent_or_child_of_a_changed_path_does_not_conflict() {
    Scenario::new()
        .update("bob", "{labels: {a: x}}")
        .apply("alice", "{labels: {b: q}}")
        .object("{labels: {a: x, b: q}}")
        .owns("alice", "{'f:labels': {'f:b': {}}}");
}

#[test]
fn any_part_of_an_atomic_container_is_the_whole_of_it() {
    let state = Scenario::new().apply("alice", "{annotations: {a: x}}");
    let error = state.rejected("bob", "{annotations: {a: x, b: q}}");
    assert_eq!(error.to_string(), r#"conflict with "alice": .annotations"#);
}

#[test]
fn an_apply_that_changes_nothing_gives_no_object() {
    Scenario::new()
        .apply("alice", "{text: a}")
        .unchanged("alice", "{text: a}")
        .owns("alice", "{'f:text': {}}");
    let mut always = Scenario::with(UpdaterBuilder::new(IdentityConverter).return_input_on_noop(true));
    always = always.apply("alice", "{number: 1}");
    let config = crate::rules::scenario::thing("{number: 1}");
    let again = always
        .updater
        .apply(&always.existing, &config, "v1", always.managers, "alice", false)
        .unwrap();
    assert!(again.object.is_some());
}

#[test]
fn numbers_are_compared_by_value() {
    Scenario::new()
        .apply("alice", "{number: 1}")
        .unchanged("bob", "{number: 1.0}")
        .owns("bob", "{'f:number': {}}");
}

#[test]
fn managers_that_own_nothing_vanish() {
    Scenario::new()
        .apply("alice", "{text: a}")
        .force("bob", "{text: b}")
        .owns_nothing("alice");
    Scenario::new().apply("alice", "{}").owns_nothing("alice");
}

#[test]
fn ignored_fields_are_neither_owned_nor_in_conflict() {
    let ignored = [("v1".into(), fields("{'f:inner': {}}"))];
    Scenario::with(UpdaterBuilder::new(IdentityConverter).ignored_fields(ignored))
        .apply("alice", "{text: a, inner: {text: b}}")
        .object("{text: a, inner: {text: b}}")
        .owns("alice", "{'f:text': {}}")
        .update("bob", "{text: a, inner: {text: c}, number: 1}")
        .owns("bob", "{'f:number': {}}")
        .apply("carol", "{inner: {text: d}}")
        .owns_nothing("carol");
}

#[test]
fn a_filter_keeps_what_matches() {
    let path = ["items"].map(PathElement::field);
    let filter = Filter::include([Matcher::path(&path)]);
    Scenario::with(UpdaterBuilder::new(IdentityConverter).ignore_filter([("v1".into(), filter)]))
        .apply("alice", "{text: a, items: [{name: x}]}")
        .owns("alice", r#"{'f:items': {'k:{"name":"x"}': {'.': {}, 'f:name': {}}}}"#);
}

#[test]
fn fields_and_filter_are_not_ignored_at_once() {
    let updater = UpdaterBuilder::new(IdentityConverter)
        .ignored_fields([("v1".into(), fields("{'f:text': {}}"))])
        .ignore_filter([("v1".into(), Filter::exclude(fields("{'f:text': {}}")))]);
    assert!(matches!(
        Scenario::with(updater).rejected("alice", "{text: a}"),
        ApplyError::BothIgnored
    ));
}

#[test]
fn set_below_new_atomic_field_keeps_atomic_path() {
    let old = fields("{'f:labels': {'f:a': {}}, 'f:text': {}, 'f:unknown': {'f:x': {}}}");
    let schema = schema(
        "types: [{name: Thing, map: {fields: [{name: text, type: {scalar: string}}, {name: labels, type: {map: \
         {elementType: {scalar: string}, elementRelationship: atomic}}}]}}]",
    );
    let existing = holdfast_merge::Typed::unchecked(value("{}"), schema.clone(), schema.named("Thing").unwrap());
    let fitted = existing.reconcile_field_set_with_schema(&old).unwrap();
    assert_eq!(
        fitted,
        Some(fields("{'f:labels': {}, 'f:text': {}, 'f:unknown': {'f:x': {}}}"))
    );
    assert_eq!(
        existing
            .reconcile_field_set_with_schema(&fields("{'f:labels': {}}"))
            .unwrap(),
        None
    );
}
