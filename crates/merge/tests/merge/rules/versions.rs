//! Managers that use other versions.

use holdfast_merge::{ConvertError, Converter, Typed, UpdaterBuilder};
use holdfast_value::Value;

use crate::rules::scenario::{Scenario, thing};

/// Version `v2` calls the field `text` of `v1` by the name `any`; other versions are gone.
#[derive(Clone, Debug)]
struct Renaming;

impl Converter for Renaming {
    fn convert(&self, object: &Typed, version: &str) -> Result<Typed, ConvertError> {
        let (from, to) = match version {
            "v1" => ("any", "text"),
            "v2" => ("text", "any"),
            "broken" => return Err(ConvertError::Failed("cannot convert".into())),
            gone => return Err(ConvertError::MissingVersion(gone.into())),
        };
        let mut value = object.value().clone();
        if let Some(moved) = value.remove_at(&[from]) {
            value.set_at(&[to], moved);
        }
        Ok(Typed::trusted(value, object.schema().clone(), object.type_ref()))
    }
}

#[test]
fn a_conflict_is_found_and_named_in_the_other_managers_version() {
    let state = Scenario::with(UpdaterBuilder::new(Renaming)).apply("alice", "{text: a}");
    let mut second = state.at("v2");
    second.existing = Renaming.convert(&second.existing, "v2").unwrap();
    let error = second.rejected("bob", "{any: b}");
    assert_eq!(error.to_string(), r#"conflict with "alice": .text"#);
    second
        .force("bob", "{any: b}")
        .object("{any: b}")
        .owns("bob", "{'f:any': {}}")
        .owns_nothing("alice");
}

#[test]
fn field_applied_in_other_version_is_removed() {
    let mut state = Scenario::with(UpdaterBuilder::new(Renaming))
        .apply("alice", "{text: a, number: 1}")
        .at("v2");
    state.existing = Renaming.convert(&state.existing, "v2").unwrap();
    state
        .apply("alice", "{number: 1}")
        .object("{number: 1}")
        .owns("alice", "{'f:number': {}}");
}

#[test]
fn managers_of_a_version_that_is_gone_are_dropped() {
    let mut state = Scenario::with(UpdaterBuilder::new(Renaming));
    state.existing = thing("{text: a}");
    let gone = holdfast_merge::VersionedSet {
        set: crate::rules::scenario::fields("{'f:text': {}}"),
        api_version: "v0".into(),
        applied: true,
    };
    state.managers.insert("old", gone.clone());
    state.managers.insert("bob", gone);
    let state = state.apply("bob", "{number: 1}");
    state
        .object("{text: a, number: 1}")
        .owns("bob", "{'f:number': {}}")
        .owns_nothing("old");
}

#[test]
fn a_conversion_that_fails_fails_the_write() {
    let mut state = Scenario::with(UpdaterBuilder::new(Renaming)).apply("alice", "{text: a}");
    let owned = state.managers.get("alice").unwrap().clone();
    state.managers.insert(
        "bob",
        holdfast_merge::VersionedSet {
            api_version: "broken".into(),
            ..owned
        },
    );
    let error = state.rejected("alice", "{text: b}");
    assert_eq!(error.to_string(), "cannot convert");
}

#[test]
fn one_value_for_all_versions_needs_no_second_comparison() {
    let state = Scenario::new()
        .apply("alice", "{text: a}")
        .at("v2")
        .apply("bob", "{number: 1}");
    assert_eq!(state.managers.get("bob").unwrap().api_version, "v2");
    let error = state.rejected("carol", "{text: c, number: 2}");
    assert_eq!(
        error.to_string(),
        "conflicts with \"alice\":\n- .text\nconflicts with \"bob\":\n- .number"
    );
    assert_eq!(state.existing.value().get("text"), Some(&Value::from("a")));
}
