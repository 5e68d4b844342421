use holdfast_ownership::keep_times;

use super::host::{Host, object};

#[test]
fn entries_are_sorted_by_operation_time_and_manager() {
    let mut host = Host::config_map();
    host.update("beta", "data: {a: '1'}");
    host.apply("zulu", "data: {b: '1'}").unwrap();
    host.apply("alpha", "data: {c: '1'}").unwrap();
    host.has_entries(&[
        "zulu Apply v1 @2: .data.b",
        "alpha Apply v1 @3: .data.c",
        "beta Update v1 @1: .data .data.a",
    ]);
    host.apply("zulu", "data: {b: '2'}").unwrap();
    host.has_entries(&[
        "alpha Apply v1 @3: .data.c",
        "zulu Apply v1 @4: .data.b",
        "beta Update v1 @1: .data .data.a",
    ]);
}

#[test]
fn entries_within_one_second_are_sorted_by_manager() {
    let entry = |manager: &str, version: &str, subresource: &str| {
        format!(
            "{{manager: {manager}, operation: Update, apiVersion: {version}, time: '1970-01-01T00:00:05Z', \
             fieldsType: FieldsV1, fieldsV1: {{'f:data': {{'f:a': {{}}}}}}, subresource: '{subresource}'}}"
        )
    };
    let entries = [
        entry("b", "v1", ""),
        entry("a", "v2", ""),
        entry("a", "v1", "status"),
        entry("a", "v1", ""),
    ];
    let mut host = Host::config_map();
    host.update("tool", "data: {a: '1'}");
    let mut existing = host.existing.clone().unwrap();
    existing.set_at(
        &["metadata", "managedFields"],
        object(&format!("[{}]", entries.join(", "))),
    );
    host.at(super::host::Address::ConfigMap).update_value("tool", existing);
    host.has_entries(&[
        "a Update v1 @5: .data.a",
        "a Update v1/status @5: .data.a",
        "b Update v1 @5: .data.a",
    ]);
}

#[test]
fn times_are_restored_if_nothing_else_changed() {
    let old = object("{metadata: {uid: '1', managedFields: [{manager: a, time: '1'}, {manager: b}]}, data: {a: '1'}}");
    let later = |data: &str, manager: &str, metadata: &str| {
        object(&format!(
            "{{metadata: {{{metadata}, managedFields: [{{manager: {manager}, time: '2'}}, {{manager: b}}]}}, data: {data}}}"
        ))
    };
    let mut same = later("{a: '1'}", "a", "uid: '1'");
    keep_times(&mut same, &old, |a, b| a == b);
    assert_eq!(same, old);
    for changed in [
        later("{a: '2'}", "a", "uid: '1'"),
        later("{a: '1'}", "c", "uid: '1'"),
        later("{a: '1'}", "a", "uid: '1', labels: {}"),
    ] {
        let mut kept = changed.clone();
        keep_times(&mut kept, &old, |a, b| a == b);
        assert_eq!(kept, changed);
    }
}
