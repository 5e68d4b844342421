//! Removal of fields by an apply.

use crate::rules::scenario::Scenario;

#[test]
fn field_dropped_from_configuration_is_removed() {
    Scenario::new()
        .apply("alice", "{text: a, labels: {x: q, z: w}, tags: [t, u]}")
        .apply("alice", "{labels: {x: q}, tags: [u]}")
        .object("{labels: {x: q}, tags: [u]}");
}

#[test]
fn field_with_other_owner_stays() {
    Scenario::new()
        .apply("alice", "{text: a, number: 1}")
        .unchanged("bob", "{text: a}")
        .apply("alice", "{number: 1}")
        .object("{text: a, number: 1}")
        .owns("alice", "{'f:number': {}}")
        .owns("bob", "{'f:text': {}}");
}

#[test]
fn field_without_owner_stays() {
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
fn declared_container_without_owned_content_is_removed() {
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
fn apply_drops_own_updated_fields_not_in_configuration() {
    Scenario::new()
        .update("alice", "{text: a, number: 1}")
        .apply("alice", "{number: 1}")
        .object("{number: 1}")
        .owns("alice", "{'f:number': {}}");
}
