use std::time::SystemTime;

use holdfast_ownership::{ApplyError, ScaleOwnership};
use holdfast_value::Value;

use super::host::{Host, entries_of, object, scale_manager};

fn ownership() -> ScaleOwnership {
    let size = |name: &str| Some(vec!["spec".into(), name.into()]);
    ScaleOwnership::new(
        "example.com/v1",
        [
            ("example.com/v1".into(), size("size")),
            ("example.com/v2".into(), size("amount")),
            ("example.com/v3".into(), None),
        ],
    )
}

/// Returns the Scale of a Widget, with the entries that it has during a write.
fn scale_of(parent: &Value) -> Value {
    let mut scale = object(
        "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: one, uid: '1'}, spec: {}, status: {replicas: 0}}",
    );
    if let Some(size) = parent.at(&["spec", "size"]) {
        scale.set_at(&["spec", "replicas"], size.clone());
    }
    if let Some(entries) = ownership().to_scale(parent).unwrap() {
        scale.set_at(&["metadata", "managedFields"], entries);
    }
    scale
}

/// Transfers a written Scale back to its Widget.
fn store(host: &mut Host, scale: &Value) {
    let parent = host.existing.as_mut().unwrap();
    ownership().to_parent(parent, scale).unwrap();
    if let Some(replicas) = scale.at(&["spec", "replicas"]) {
        parent.set_at(&["spec", "size"], replicas.clone());
    }
}

fn scale_to(host: &mut Host, manager: &str, replicas: i64) {
    let existing = scale_of(host.existing.as_ref().unwrap());
    let mut new = existing.clone();
    new.set_at(&["spec", "replicas"], replicas.into());
    let scale = scale_manager().update(Some(&existing), new, manager, SystemTime::UNIX_EPOCH);
    store(host, &scale);
}

fn apply_scale(host: &mut Host, manager: &str, replicas: i64, force: bool) -> Result<(), ApplyError> {
    let existing = scale_of(host.existing.as_ref().unwrap());
    let mut config = object("{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: one}}");
    config.set_at(&["spec", "replicas"], replicas.into());
    let applied = scale_manager().apply(Some(&existing), &config, manager, force, SystemTime::UNIX_EPOCH)?;
    store(host, &applied.object);
    Ok(())
}

#[test]
fn a_scale_has_the_entries_that_own_the_replicas() {
    let parent = object(
        "{metadata: {managedFields: [\
         {manager: a, operation: Apply, apiVersion: example.com/v1, fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:color': {}}}}, \
         {manager: b, operation: Apply, apiVersion: example.com/v1, time: '1970-01-01T00:00:03Z', fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:size': {}, 'f:color': {}}}}, \
         {manager: c, operation: Update, apiVersion: example.com/v2, fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:amount': {}}}, subresource: scale}, \
         {manager: d, operation: Update, apiVersion: example.com/v3, fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:size': {}}}}, \
         {manager: e, operation: Update, apiVersion: example.com/v9, fieldsType: FieldsV1, fieldsV1: {'f:spec': {'f:size': {}}}}]}}",
    );
    assert_eq!(
        entries_of(&scale_of(&parent)),
        [
            "b Apply autoscaling/v1 @3: .spec.replicas",
            "c Update autoscaling/v1/scale @-: .spec.replicas",
        ]
    );
}

#[test]
fn scaling_transfers_replicas_without_time() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {size: 2, color: red}").unwrap();
    for (manager, replicas) in [("merger", 3), ("putter", 4), ("putter", 5)] {
        scale_to(&mut host, manager, replicas);
        host.has_entries(&[
            "alpha Apply v1 @1: .spec.color",
            &format!("{manager} Update v1/scale @-: .spec.size"),
        ]);
    }
    scale_to(&mut host, "idle", 5);
    assert!(host.entries()[1].starts_with("putter"));
    host.apply("alpha", "spec: {size: 2}").unwrap_err();
}

#[test]
fn replicas_without_an_owner_are_scaled_untracked() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {color: red}").unwrap();
    scale_to(&mut host, "scaler", 3);
    host.has_entries(&["alpha Apply v1 @1: .spec.color"]);
}

#[test]
fn applies_to_scale_conflict_and_share_with_the_parent() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {size: 2, color: red}").unwrap();
    let conflict = apply_scale(&mut host, "scaler", 5, false).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        r#"Apply failed with 1 conflict: conflict with "alpha": .spec.replicas"#
    );
    apply_scale(&mut host, "scaler", 5, true).unwrap();
    host.has_entries(&["scaler Apply v1/scale @-: .spec.size", "alpha Apply v1 @1: .spec.color"]);
    assert_eq!(
        host.apply("alpha", "spec: {size: 2}").unwrap_err().to_string(),
        r#"Apply failed with 1 conflict: conflict with "scaler" with subresource "scale": .spec.size"#
    );
    host.apply("alpha", "spec: {size: 5}").unwrap();
    apply_scale(&mut host, "scaler", 5, false).unwrap();
    host.has_entries(&["scaler Apply v1/scale @-: .spec.size", "alpha Apply v1 @3: .spec.size"]);
    apply_scale(&mut host, "scaler", 7, false).unwrap_err();
}

#[test]
fn entries_of_versions_that_are_gone_are_dropped_by_scaling() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {size: 2}").unwrap();
    let old = object(
        "{manager: old, operation: Update, apiVersion: example.com/v9, fieldsType: FieldsV1, fieldsV1: {'f:data': {}}}",
    );
    let kept = object(
        "{manager: kept, operation: Update, apiVersion: example.com/v3, fieldsType: FieldsV1, fieldsV1: {'f:data': {}}}",
    );
    let existing = host.existing.as_mut().unwrap();
    let list = existing
        .at_mut(&["metadata", "managedFields"])
        .unwrap()
        .as_list_mut()
        .unwrap()
        .make_mut();
    list.extend([old, kept]);
    scale_to(&mut host, "scaler", 3);
    let expected: Vec<&str> = vec!["kept Update v3 @-: .data", "scaler Update v1/scale @-: .spec.size"];
    assert_eq!(host.entries(), expected);
}
