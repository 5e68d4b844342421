use holdfast_value::Value;

use super::host::{Host, message, object};

#[test]
fn the_oldest_updaters_are_merged_beyond_ten() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {applied: '1'}").unwrap();
    for at in 0..10 {
        host.patch(&format!("updater-{at:02}"), &format!("data: {{k{at:02}: '1'}}"));
    }
    assert_eq!(host.entries().len(), 11);
    assert_eq!(host.entries()[1], "updater-00 Update v1 @2: .data.k00");

    host.patch("updater-10", "data: {k10: '1'}");
    assert_eq!(host.entries().len(), 11);
    assert_eq!(host.entries()[1], "ancient-changes Update v1 @3: .data.k00 .data.k01");

    host.patch("updater-11", "data: {k11: '1'}");
    assert_eq!(host.entries().len(), 11);
    assert_eq!(
        host.entries()[1],
        "ancient-changes Update v1 @4: .data.k00 .data.k01 .data.k02"
    );
    assert_eq!(host.entries()[2], "updater-03 Update v1 @5: .data.k03");

    assert_eq!(
        message(host.apply("bravo", "data: {k00: '2'}")),
        r#"Apply failed with 1 conflict: conflict with "ancient-changes" using v1: .data.k00"#
    );
}

#[test]
fn newer_bucket_absorbs_older_entry() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {applied: '1'}").unwrap();
    for at in 0..12 {
        host.patch(&format!("updater-{at:02}"), &format!("data: {{k{at:02}: '1'}}"));
    }
    // An entry without a time is older than all others.
    let mut existing = host.existing.clone().unwrap();
    let list = existing
        .at_mut(&["metadata", "managedFields"])
        .unwrap()
        .as_list_mut()
        .unwrap()
        .make_mut();
    let last = list.last_mut().unwrap();
    last.remove_at(&["time"]);
    host.update_value("updater-12", {
        existing.set_at(&["data", "k12"], "1".into());
        existing
    });
    assert_eq!(host.entries().len(), 11);
    assert_eq!(
        host.entries()[1],
        "ancient-changes Update v1 @4: .data.k00 .data.k01 .data.k02 .data.k11"
    );
}

#[test]
fn entries_of_each_version_are_merged_apart() {
    let entry = |at: usize| {
        let version = if at.is_multiple_of(2) {
            "example.com/v1"
        } else {
            "example.com/v2"
        };
        format!(
            "{{manager: m{at:02}, operation: Update, apiVersion: {version}, time: '1970-01-01T00:00:{at:02}Z', \
             fieldsType: FieldsV1, fieldsV1: {{'f:data': {{'f:k{at:02}': {{}}}}}}}}"
        )
    };
    let list: Vec<String> = (10..24).map(entry).collect();
    let data: Vec<String> = (10..24).map(|at| format!("k{at}: '1'")).collect();
    let mut host = Host::widget();
    host.update("creator", &format!("data: {{{}}}", data.join(", ")));
    host.patch("tool", &format!("metadata: {{managedFields: [{}]}}", list.join(", ")));
    let entries = host.entries();
    assert_eq!(entries.len(), 10);
    assert_eq!(
        entries[..3],
        [
            "ancient-changes Update v1 @14: .data.k10 .data.k12 .data.k14",
            "ancient-changes Update v2 @15: .data.k11 .data.k13 .data.k15",
            "m16 Update v1 @16: .data.k16",
        ]
    );
}

#[test]
fn thousands_of_entries_are_merged_in_no_time() {
    let count = 20_000;
    let mut existing = object("{apiVersion: v1, kind: ConfigMap, metadata: {name: one, uid: '1'}, data: {a: '1'}}");
    let list: Vec<Value> = (0..count)
        .map(|at| {
            object(&format!(
                "{{manager: m{at}, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {{'f:data': {{'f:k{at}': {{}}}}}}}}"
            ))
        })
        .collect();
    existing.set_at(&["metadata", "managedFields"], Value::from(list));
    let mut host = Host::config_map();
    host.existing = Some(existing);
    host.patch("tool", "data: {b: '1'}");
    assert_eq!(host.entries().len(), 10);
}
