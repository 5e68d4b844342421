use super::host::{Host, message};

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
fn a_bucket_that_is_newer_than_an_entry_takes_it_in() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {applied: '1'}").unwrap();
    for at in 0..12 {
        host.patch(&format!("updater-{at:02}"), &format!("data: {{k{at:02}: '1'}}"));
    }
    // An entry without a time is older than all others.
    let mut live = host.live.clone().unwrap();
    let list = live
        .at_mut(&["metadata", "managedFields"])
        .unwrap()
        .as_list_mut()
        .unwrap()
        .make_mut();
    let last = list.last_mut().unwrap();
    last.remove_at(&["time"]);
    host.update_value("updater-12", {
        live.set_at(&["data", "k12"], "1".into());
        live
    });
    assert_eq!(host.entries().len(), 11);
    assert_eq!(
        host.entries()[1],
        "ancient-changes Update v1 @4: .data.k00 .data.k01 .data.k02 .data.k11"
    );
}
