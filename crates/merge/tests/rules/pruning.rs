//! Removal of fields by an apply.

use crate::scenario::Scenario;

#[test]
fn what_a_manager_no_longer_wants_is_removed() {
    Scenario::new()
        .apply("alice", "{text: a, labels: {x: q, z: w}, tags: [t, u]}")
        .apply("alice", "{labels: {x: q}, tags: [u]}")
        .object("{labels: {x: q}, tags: [u]}");
}

#[test]
fn what_others_own_as_well_stays() {
    Scenario::new()
        .apply("alice", "{text: a, number: 1}")
        .unchanged("bob", "{text: a}")
        .apply("alice", "{number: 1}")
        .object("{text: a, number: 1}")
        .owns("alice", "{'f:number': {}}")
        .owns("bob", "{'f:text': {}}");
}

#[test]
fn what_no_one_owns_stays() {
    Scenario::new()
        .apply("alice", "{items: [{name: a, value: 1}]}")
        .update("bob", "{items: [{name: a, value: 1}], text: b}")
        .apply("alice", "{flag: true}")
        .object("{text: b, flag: true}");
}

#[test]
fn a_list_item_goes_with_all_that_others_own_in_it() {
    Scenario::new()
        .apply("alice", "{items: [{name: a}, {name: b}]}")
        .update("bob", "{items: [{name: a, value: 1}, {name: b}]}")
        .apply("alice", "{items: [{name: b}]}")
        .object("{items: [{name: b}]}")
        .owns_nothing("bob");
}

#[test]
fn a_list_item_stays_where_another_owns_the_item() {
    Scenario::new()
        .apply("alice", "{items: [{name: a, value: 1}]}")
        .apply("bob", "{items: [{name: a, options: {x: q}}]}")
        .apply("alice", "{text: t}")
        .object("{items: [{name: a, options: {x: q}}], text: t}");
}

#[test]
fn a_declared_container_goes_whole_once_no_one_owns_anything_in_it() {
    Scenario::new()
        .apply("alice", "{inner: {text: a}, number: 1}")
        .apply("alice", "{number: 1}")
        .object("{number: 1}");
}

#[test]
fn a_map_that_loses_its_last_entry_becomes_null() {
    Scenario::new()
        .update("bob", "{labels: {}}")
        .apply("alice", "{labels: {a: x}, text: t}")
        .apply("alice", "{text: t}")
        .object("{labels: null, text: t}");
}

#[test]
fn an_updater_that_applies_loses_what_it_updated_and_does_not_want() {
    Scenario::new()
        .update("alice", "{text: a, number: 1}")
        .apply("alice", "{number: 1}")
        .object("{number: 1}")
        .owns("alice", "{'f:number': {}}");
}
