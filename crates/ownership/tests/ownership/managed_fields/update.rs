use holdfast_value::Value;

use super::host::{Address, Host, field_manager, message, object};

#[test]
fn a_created_object_is_tracked_with_all_it_holds() {
    let mut host = Host::widget();
    host.update(
        "creator",
        "{metadata: {labels: {l: '1'}}, spec: {color: red, parts: [{name: a}]}}",
    );
    host.has_entries(&[
        "creator Update v1 @1: .spec .metadata.labels .metadata.labels.l .spec.color .spec.parts \
                        .spec.parts[name=\"a\"] .spec.parts[name=\"a\"].name",
    ]);
}

#[test]
fn fields_of_empty_object_have_no_owner() {
    let manager = field_manager(Address::V1);
    drop(manager);
    let scale = super::host::scale_manager();
    let new =
        object("{apiVersion: autoscaling/v1, kind: Scale, metadata: {}, spec: {replicas: 1}, status: {replicas: 0}}");
    let created = scale.update(None, new, "creator", std::time::SystemTime::UNIX_EPOCH);
    assert_eq!(
        super::host::entries_of(&created),
        ["creator Update autoscaling/v1/scale @: .spec.replicas"]
    );
}

#[test]
fn ownership_moves_with_changed_values() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1', b: '1'}").unwrap();
    host.patch("tool", "data: {a: '2', c: '1'}");
    host.has_entries(&["alpha Apply v1 @1: .data.b", "tool Update v1 @2: .data.a .data.c"]);
    assert_eq!(
        message(host.apply("alpha", "data: {a: '1', b: '1'}")),
        r#"Apply failed with 1 conflict: conflict with "tool" using v1: .data.a"#
    );
    host.apply("alpha", "data: {b: '1'}").unwrap();
    host.holds("data: {a: '2', b: '1', c: '1'}");
}

#[test]
fn field_removed_by_update_has_no_owner() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1', b: '1'}").unwrap();
    host.patch("tool", "data: {a: null}");
    host.has_entries(&["alpha Apply v1 @1: .data.b"]);
    host.patch("tool", "data: null");
    host.has_entries(&[]);
}

#[test]
fn an_update_that_changes_nothing_owns_nothing() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1'}").unwrap();
    let before = host.existing.clone();
    host.patch("tool", "data: {a: '1'}");
    assert_eq!(host.existing, before);
}

#[test]
fn updates_of_one_manager_add_up() {
    let mut host = Host::config_map();
    host.update("tool", "data: {a: '1'}");
    host.patch("tool", "data: {b: '1'}");
    host.has_entries(&["tool Update v1 @2: .data .data.a .data.b"]);
    host.apply("tool", "data: {c: '1'}").unwrap();
    host.has_entries(&["tool Apply v1 @3: .data.c", "tool Update v1 @2: .data .data.a .data.b"]);
    assert_eq!(
        message(host.apply("tool", "data: {a: '2', c: '1'}")),
        r#"Apply failed with 1 conflict: conflict with "tool" using v1: .data.a"#
    );
}

#[test]
fn a_manager_without_a_name_is_unknown() {
    let mut host = Host::config_map();
    host.update("", "data: {a: '1'}");
    host.has_entries(&["unknown Update v1 @1: .data .data.a"]);
}

#[test]
fn entries_are_reset_by_an_empty_list_and_an_empty_entry() {
    for list in ["[]", "[{}]", "[{manager: '', time: null}]"] {
        let mut host = Host::config_map();
        host.apply("alpha", "data: {a: '1'}").unwrap();
        // Changes made together with a reset have no owner, nor have later ones until the next apply.
        host.patch(
            "tool",
            &format!("{{metadata: {{managedFields: {list}}}, data: {{b: '1'}}}}"),
        );
        host.has_entries(&[]);
        host.patch("tool", "data: {c: '1'}");
        host.has_entries(&[]);
        host.apply("alpha", "data: {a: '1'}").unwrap();
        host.has_entries(&[
            "alpha Apply v1 @-: .data.a",
            "before-first-apply Update v1 @4: .data .data.a .data.b .data.c",
        ]);
        assert_eq!(
            message(host.apply("bravo", "data: {b: '2'}")),
            r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.b"#
        );
    }
}

#[test]
fn entries_stay_where_an_update_does_not_bear_any() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1'}").unwrap();
    for body in ["data: {a: '1'}", "{metadata: {managedFields: null}, data: {a: '1'}}"] {
        host.update("tool", body);
        host.has_entries(&["alpha Apply v1 @1: .data.a"]);
    }
}

#[test]
fn written_entries_count() {
    let mut host = Host::config_map();
    host.update("tool", "data: {a: '2'}");
    host.update(
        "editor",
        "{metadata: {managedFields: [{manager: handmade, operation: Update, apiVersion: v1, \
         time: '1970-01-01T01:00:30.5+01:00', fieldsType: FieldsV1, \
         fieldsV1: {'f:data': {'f:ghost': {}, 'f:a': {}}}}]}, data: {a: '2', x: '1'}}",
    );
    host.has_entries(&[
        "editor Update v1 @2: .data.x",
        "handmade Update v1 @30: .data.a .data.ghost",
    ]);
    assert_eq!(
        message(host.apply("alpha", "data: {ghost: '1'}")),
        r#"Apply failed with 1 conflict: conflict with "handmade" using v1: .data.ghost"#
    );
}

#[test]
fn entries_that_cannot_be_read_are_passed_over() {
    for list in [
        "[{manager: m, operation: Replace, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'f:data': {}}}]",
        "[{manager: m, operation: Update, fieldsType: FieldsV1, fieldsV1: {'f:data': {}}}]",
        "[{manager: m, operation: Update, apiVersion: v1, fieldsV1: {'f:data': {}}}]",
        "[{manager: m, operation: Update, apiVersion: v1, fieldsType: FieldsV2, fieldsV1: {'f:data': {}}}]",
        "[{manager: m, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {x: {}}}]",
        "[{manager: m, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: text}]",
        "[{manager: m, operation: Update, apiVersion: v1, fieldsType: FieldsV1, time: yesterday}]",
        "[{manager: 5, operation: Update, apiVersion: v1, fieldsType: FieldsV1}]",
        "[{operation: Update}]",
        "[text]",
        "text",
    ] {
        let mut host = Host::config_map();
        host.apply("alpha", "data: {a: '1'}").unwrap();
        host.patch(
            "tool",
            &format!("{{metadata: {{managedFields: {list}}}, data: {{b: '1'}}}}"),
        );
        host.has_entries(&["alpha Apply v1 @1: .data.a", "tool Update v1 @2: .data.b"]);
    }
    let mut host = Host::config_map();
    host.update(
        "creator",
        "{metadata: {managedFields: [{operation: Nonsense}]}, data: {a: '1'}}",
    );
    host.has_entries(&["creator Update v1 @1: .data .data.a"]);
}

#[test]
fn a_path_of_an_unknown_sort_is_dropped_from_its_entry() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1'}").unwrap();
    host.patch(
        "tool",
        "{metadata: {managedFields: [{manager: m, operation: Update, apiVersion: v1, fieldsType: FieldsV1, \
         fieldsV1: {'f:data': {'x:y': {}}}}]}, data: {b: '1'}}",
    );
    host.has_entries(&["m Update v1 @-: .data", "tool Update v1 @2: .data.b"]);
}

#[test]
fn an_object_that_does_not_fit_its_type_has_no_owner() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {color: red}").unwrap();
    host.update("tool", "spec: {color: 5}");
    host.has_entries(&[]);
}

#[test]
fn entries_that_did_not_change_keep_their_form() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1'}").unwrap();
    let entry = |host: &Host| -> Value {
        host.existing
            .as_ref()
            .unwrap()
            .at(&["metadata", "managedFields"])
            .unwrap()
            .as_list()
            .unwrap()[0]
            .clone()
    };
    let before = entry(&host);
    host.apply("bravo", "data: {b: '1'}").unwrap();
    let (Value::Map(before), Value::Map(after)) = (before, entry(&host)) else {
        panic!("no entries");
    };
    assert!(before.same(&after));
}
