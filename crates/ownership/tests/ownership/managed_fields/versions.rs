use holdfast_value::Value;

use super::host::{Address, Host, message, object};

#[test]
fn an_applier_that_changes_its_version_keeps_one_entry() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {size: 2, color: red}").unwrap();
    host.at(Address::V2).apply("alpha", "spec: {amount: 2}").unwrap();
    host.has_entries(&["alpha Apply v2 @2: .spec.amount"]);
    host.holds("spec: {amount: 2}");
}

#[test]
fn version_change_keeps_time() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {color: red}").unwrap();
    assert!(host.at(Address::V2).apply("alpha", "spec: {color: red}").unwrap());
    host.has_entries(&["alpha Apply v2 @1: .spec.color"]);
}

#[test]
fn conflicts_are_reported_in_the_version_of_the_owner() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {size: 2}").unwrap();
    assert_eq!(
        message(host.at(Address::V2).apply("bravo", "spec: {amount: 3}")),
        r#"Apply failed with 1 conflict: conflict with "alpha": .spec.size"#
    );
    host.apply("bravo", "spec: {amount: 2}").unwrap();
    host.has_entries(&["bravo Apply v2 @-: .spec.amount", "alpha Apply v1 @1: .spec.size"]);
}

#[test]
fn an_updater_has_an_entry_for_each_version() {
    let mut host = Host::widget();
    host.update("tool", "spec: {size: 2, color: red}");
    host.at(Address::V2).patch("tool", "spec: {amount: 3}");
    host.has_entries(&[
        "tool Update v1 @1: .spec .spec.color",
        "tool Update v2 @2: .spec.amount",
    ]);
}

#[test]
fn managers_of_versions_that_are_gone_are_forgotten() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {color: red}").unwrap();
    let old: Value = object(
        "{manager: old, operation: Apply, apiVersion: example.com/v0, fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:color': {}}}}",
    );
    let existing = host.existing.as_mut().unwrap();
    existing
        .at_mut(&["metadata", "managedFields"])
        .unwrap()
        .as_list_mut()
        .unwrap()
        .make_mut()
        .push(old);
    host.apply("alpha", "spec: {color: blue}").unwrap();
    host.has_entries(&["alpha Apply v1 @2: .spec.color"]);
}
