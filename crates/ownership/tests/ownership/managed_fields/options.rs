//! Applies whose options ask about fields of other managers.

use holdfast_merge::PathText;
use holdfast_ownership::{ApplyError, ApplyOptions};
use holdfast_value::Value;

use super::host::{Address, Host, message};

fn fields(text: &str) -> Vec<PathText> {
    PathText::parse_list(text).unwrap()
}

fn details() -> ApplyOptions {
    ApplyOptions {
        conflict_details: true,
        ..ApplyOptions::default()
    }
}

fn unset(text: &str) -> ApplyOptions {
    ApplyOptions {
        unset: fields(text),
        ..ApplyOptions::default()
    }
}

fn with(host: &mut Host, text: &str, options: &ApplyOptions) -> Result<bool, ApplyError> {
    let config = host.identified(text);
    host.apply_with("bravo", config, options)
}

#[test]
fn conflict_values_are_in_version_of_owner() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {size: 2, ports: [{port: 1, image: a}]}")
        .unwrap();
    host.at(Address::V2);
    let conflict = with(&mut host, "spec: {amount: 3, ports: [{port: 1, image: b}]}", &details());
    let Err(ApplyError::Conflicts(conflicts)) = conflict else {
        panic!("{conflict:?}")
    };
    let shown: Vec<String> = (conflicts.iter())
        .map(|conflict| {
            let details = conflict.details.as_ref().unwrap();
            let text = |value: &Option<Value>| value.as_ref().map(ToString::to_string).unwrap_or_default();
            let (stored, requested) = (text(&details.stored), text(&details.requested));
            format!("{} {} {stored} {requested}", conflict.path, details.api_version)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ".spec.size example.com/v1 2 3",
            r#".spec.ports[port=1,protocol="TCP"].image example.com/v1 "a" "b""#,
        ]
    );
}

#[test]
fn forced_fields_are_taken_over() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {size: 2, color: red, tags: [x]}").unwrap();
    let wish = "spec: {size: 3, color: blue}";
    let force = |text: &str| ApplyOptions {
        force_fields: fields(text),
        ..ApplyOptions::default()
    };
    assert_eq!(
        message(with(&mut host, wish, &force(".spec.size"))),
        r#"Apply failed with 1 conflict: conflict with "alpha": .spec.color"#
    );
    with(&mut host, wish, &force(".spec.size,.spec.color,.spec.tags")).unwrap();
    host.has_entries(&[
        r#"alpha Apply v1 @1: .spec.tags[="x"]"#,
        "bravo Apply v1 @3: .spec.color .spec.size",
    ]);
}

#[test]
fn unset_field_leaves_managers_of_every_version() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {size: 2, color: red}").unwrap();
    host.at(Address::V2);
    assert_eq!(
        message(with(&mut host, "{}", &unset(".spec.amount"))),
        r#"Apply failed with 1 conflict: conflict with "alpha": .spec.size"#
    );
    let forced = ApplyOptions {
        force: true,
        ..unset(".spec.amount,.spec.tags")
    };
    assert!(with(&mut host, "{}", &forced).unwrap());
    host.has_entries(&["alpha Apply v1 @1: .spec.color"]);
    host.holds("spec: {color: red}");
    assert!(
        !with(&mut host, "{}", &unset(".spec.amount")).unwrap(),
        "there is nothing to remove"
    );
}

#[test]
fn unset_field_without_manager_needs_no_force() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {color: red}").unwrap();
    host.existing.as_mut().unwrap().set_at(&["spec", "size"], Value::Int(1));
    with(&mut host, "{}", &unset(".spec.size")).unwrap();
    host.holds("spec: {color: red}");
}

#[test]
fn unset_and_conflicts_are_reported_together() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {size: 2, color: red, selector: {a: b}}")
        .unwrap();
    let refused = with(&mut host, "spec: {color: blue}", &unset(".spec.size"));
    assert_eq!(
        message(refused),
        "Apply failed with 2 conflicts: conflicts with \"alpha\":\n- .spec.color\n- .spec.size"
    );
    for (field, why) in [
        (".spec.color", "the applied configuration sets it"),
        (".spec.selector.a", "it is part of a field that is replaced as a whole"),
        (".metadata", "it identifies the object or is set by the server"),
    ] {
        let refused = with(&mut host, "spec: {color: red}", &unset(field));
        assert_eq!(message(refused), format!("{field} cannot be unset: {why}"));
    }
}
