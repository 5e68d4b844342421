use holdfast_value::{Limits, json};

use super::*;

fn migration(name: &str, second: u8, version: &str, holding: &[&str]) -> Value {
    let mut made = new_object("storagemigration.k8s.io/v1beta1", "StorageVersionMigration", "", name);
    let time = format!("2026-01-01T00:00:{second:02}Z");
    made.set_at(&["metadata", "creationTimestamp"], time.into());
    made.set_at(&["status", "resourceVersion"], version.into());
    let conditions: Vec<Value> = holding
        .iter()
        .map(|of| {
            let text = format!(r#"{{"type":"{of}","status":"True"}}"#);
            json::parse(text.as_bytes(), &Limits::REQUEST).unwrap()
        })
        .collect();
    made.set_at(&["status", "conditions"], conditions.into());
    made
}

fn next(migrations: &[Value]) -> Option<(Step, String)> {
    let (step, migration) = next_step(migrations.iter().cloned())?;
    Some((step, migration.str_at(&["metadata", "name"]).unwrap().to_owned()))
}

#[test]
fn one_migration_runs_at_a_time_and_the_oldest_comes_first() {
    let (new, old) = (migration("b", 2, "", &[]), migration("c", 1, "", &[]));
    let twin = migration("a", 2, "", &[]);
    assert_eq!(next(&[new.clone(), old, twin.clone()]), Some((Step::Begin, "c".into())));
    assert_eq!(next(&[new.clone(), twin.clone()]), Some((Step::Begin, "a".into())));
    let running = migration("z", 9, "", &[RUNNING]);
    assert_eq!(next(&[twin.clone(), running]), Some((Step::Prepare, "z".into())));
    let prepared = migration("z", 9, "7", &[RUNNING]);
    assert_eq!(
        next(&[twin.clone(), prepared.clone()]),
        Some((Step::Migrate, "z".into()))
    );
    let done = migration("y", 9, "7", &[RUNNING, FAILED]);
    assert_eq!(next(&[twin, prepared, done]), Some((Step::Finish, "y".into())));
}

#[test]
fn paths_to_other_servers_stay_within_their_resource() {
    let resource = RemoteResource {
        group_version: GroupVersion::new("a.com", "v1"),
        kind: "Widget".into(),
        plural: "widgets".into(),
        namespaced: true,
        verbs: Vec::new(),
    };
    assert_eq!(path_elsewhere(&resource, "", ""), "/apis/a.com/v1/widgets");
    assert_eq!(
        path_elsewhere(&resource, NOWHERE, "a/../b?c=d"),
        "/apis/a.com/v1/namespaces/@fake:svm_ns%21/widgets/a%2F..%2Fb%3Fc%3Dd"
    );
}

#[test]
fn versions_of_other_servers_are_numbers_without_zeros_in_front() {
    assert!(is_well_formed("1") && is_well_formed("18446744073709551616"));
    assert!(!["", "0", "01", "1a", "-1"].into_iter().any(is_well_formed));
}

#[test]
fn migrations_that_have_ended_rest() {
    assert_eq!(next(&[]), None);
    let ended = [migration("a", 1, "7", &[SUCCEEDED]), migration("b", 1, "7", &[FAILED])];
    assert_eq!(next(&ended), None);
}

#[test]
fn a_resource_that_is_not_served_is_waited_for_for_a_minute() {
    let made = migration("a", 30, "", &[]);
    let at = |text| SystemTime::from(Timestamp::parse(text, Precision::Seconds).unwrap());
    assert!(!has_passed(&made, RESOURCE_TIMEOUT, at("2026-01-01T00:01:30Z")));
    assert!(has_passed(&made, RESOURCE_TIMEOUT, at("2026-01-01T00:01:31Z")));
}
