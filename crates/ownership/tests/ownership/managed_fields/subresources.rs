use super::host::{Address, Host, message};

#[test]
fn each_address_owns_only_what_it_may_write() {
    let mut host = Host::widget();
    host.apply("alpha", "{spec: {color: red}, status: {ready: 7}}").unwrap();
    host.at(Address::Status)
        .apply(
            "controller",
            "{metadata: {labels: {b: '1'}}, spec: {color: red}, status: {ready: 2, phase: Up}}",
        )
        .unwrap();
    host.has_entries(&[
        "alpha Apply v1 @1: .spec.color",
        "controller Apply v1/status @2: .status.phase .status.ready",
    ]);
    assert_eq!(
        message(host.apply("other", "status: {ready: 3}")),
        r#"Apply failed with 1 conflict: conflict with "controller" with subresource "status": .status.ready"#
    );
    host.force("other", "status: {ready: 3}");
    host.has_entries(&[
        "alpha Apply v1 @1: .spec.color",
        "controller Apply v1/status @2: .status.phase",
        "other Apply v1/status @4: .status.ready",
    ]);
}

#[test]
fn one_manager_has_an_entry_for_each_address() {
    let mut host = Host::widget();
    host.update("tool", "spec: {color: red}");
    host.at(Address::Status).patch("tool", "status: {ready: 1}");
    host.has_entries(&[
        "tool Update v1 @1: .spec .spec.color",
        "tool Update v1/status @2: .status .status.ready",
    ]);
    assert_eq!(
        message(host.apply("tool", "status: {ready: 3}")),
        r#"Apply failed with 1 conflict: conflict with "tool" with subresource "status" using example.com/v1: .status.ready"#
    );
}

#[test]
fn entries_cannot_be_set_through_a_subresource() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {color: red}").unwrap();
    host.at(Address::Status);
    for (at, list) in [
        "[{}]",
        "[]",
        "[{manager: m, operation: Apply, apiVersion: example.com/v1, fieldsType: FieldsV1}]",
    ]
    .iter()
    .enumerate()
    {
        host.patch(
            "tool",
            &format!("{{metadata: {{managedFields: {list}}}, status: {{ready: {at}}}}}"),
        );
        host.has_entries(&[
            "alpha Apply v1 @1: .spec.color",
            &format!("tool Update v1/status @{}: .status .status.ready", at + 2),
        ]);
    }
}
