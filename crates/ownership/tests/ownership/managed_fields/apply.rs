use holdfast_ownership::ApplyError;

use super::host::{Host, message, object};

#[test]
fn the_first_apply_creates_and_owns_what_it_sent() {
    let mut host = Host::config_map();
    assert!(host.apply("alpha", "data: {a: '1'}").unwrap());
    host.has_entries(&["alpha Apply v1 @1: .data.a"]);
    host.holds("data: {a: '1'}");
}

#[test]
fn omitted_field_without_other_owner_is_deleted() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1', b: '1', c: '1'}").unwrap();
    host.apply("bravo", "data: {b: '1'}").unwrap();
    host.patch("tool", "data: {d: '1'}");
    host.apply("alpha", "data: {c: '2'}").unwrap();
    host.holds("data: {b: '1', c: '2', d: '1'}");
    host.has_entries(&[
        "bravo Apply v1 @-: .data.b",
        "alpha Apply v1 @4: .data.c",
        "tool Update v1 @3: .data.d",
    ]);
}

#[test]
fn values_of_others_conflict_until_forced() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1'}").unwrap();
    host.patch("tool", "data: {b: '1'}");
    assert_eq!(
        message(host.apply("bravo", "data: {a: '2'}")),
        r#"Apply failed with 1 conflict: conflict with "alpha": .data.a"#
    );
    assert_eq!(
        message(host.apply("bravo", "data: {a: '2', b: '2'}")),
        "Apply failed with 2 conflicts: conflicts with \"alpha\":\n- .data.a\nconflicts with \"tool\" using v1:\n- .data.b"
    );
    let Err(ApplyError::Conflicts(conflicts)) = host.apply("bravo", "data: {b: '2'}") else {
        panic!("no conflict");
    };
    let causes: Vec<_> = conflicts
        .iter()
        .map(|cause| (cause.message(), cause.path.clone()))
        .collect();
    assert_eq!(
        causes,
        [(r#"conflict with "tool" using v1"#.to_owned(), ".data.b".to_owned())]
    );
    host.force("bravo", "data: {a: '2', b: '2'}");
    host.has_entries(&["bravo Apply v1 @6: .data.a .data.b"]);
}

#[test]
fn conflicts_are_grouped_by_manager_in_order_of_their_names() {
    let mut host = Host::config_map();
    host.update("creator", "{metadata: {labels: {l: '1'}}, data: {a: '1'}}");
    host.apply(
        "bravo",
        "{metadata: {annotations: {example.com/note: x}}, data: {e: '1'}}",
    )
    .unwrap();
    host.apply("alpha", "data: {c: '1', d: '1'}").unwrap();
    assert_eq!(
        message(host.apply(
            "other",
            "{metadata: {labels: {l: '2'}, annotations: {example.com/note: z}}, data: {a: '2', c: '2', d: '2', e: '2'}}"
        )),
        "Apply failed with 6 conflicts: conflicts with \"alpha\":\n- .data.c\n- .data.d\nconflicts with \"bravo\":\n\
         - .data.e\n- .metadata.annotations.example.com/note\nconflicts with \"creator\" using v1:\n- .data.a\n\
         - .metadata.labels.l"
    );
}

#[test]
fn live_values_are_shared_without_a_time() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {colour: red}").unwrap();
    assert!(host.apply("zeta", "data: {colour: red}").unwrap());
    host.has_entries(&["zeta Apply v1 @-: .data.colour", "alpha Apply v1 @1: .data.colour"]);
    assert!(!host.apply("zeta", "data: {colour: red}").unwrap());
    assert_eq!(
        message(host.apply("zeta", "data: {colour: blue}")),
        r#"Apply failed with 1 conflict: conflict with "alpha": .data.colour"#
    );
    host.apply("zeta", "data: {colour: red, shape: round}").unwrap();
    host.has_entries(&[
        "alpha Apply v1 @1: .data.colour",
        "zeta Apply v1 @5: .data.colour .data.shape",
    ]);
}

#[test]
fn the_same_again_changes_nothing() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1'}").unwrap();
    let before = host.existing.clone();
    assert!(!host.apply("alpha", "data: {a: '1'}").unwrap());
    assert_eq!(host.existing, before);
    assert!(host.apply("alpha", "data: {a: '2'}").unwrap());
    host.has_entries(&["alpha Apply v1 @3: .data.a"]);
}

#[test]
fn giving_up_a_shared_field_keeps_the_time() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1', b: '1'}").unwrap();
    host.apply("bravo", "data: {a: '1'}").unwrap();
    assert!(host.apply("alpha", "data: {b: '1'}").unwrap());
    host.has_entries(&["bravo Apply v1 @-: .data.a", "alpha Apply v1 @1: .data.b"]);
}

#[test]
fn a_manager_without_fields_has_no_entry() {
    let mut host = Host::config_map();
    host.apply("alpha", "data: {a: '1'}").unwrap();
    assert!(!host.apply("bravo", "{}").unwrap());
    host.has_entries(&["alpha Apply v1 @1: .data.a"]);
    host.apply("alpha", "{}").unwrap();
    host.has_entries(&[]);
    assert_eq!(host.existing.as_ref().unwrap().at(&["metadata", "managedFields"]), None);
}

#[test]
fn identity_and_what_the_server_sets_have_no_owner() {
    let mut host = Host::config_map();
    let config = "{metadata: {namespace: default, creationTimestamp: null, resourceVersion: null, generation: 7, uid: u, \
                  selfLink: /x, labels: {a: '1'}, generateName: x-}, data: {a: '1'}}";
    host.apply("alpha", config).unwrap();
    host.has_entries(&["alpha Apply v1 @1: .data.a .metadata.generateName .metadata.labels.a"]);
}

#[test]
fn managed_fields_in_configuration_are_rejected() {
    for list in ["[]", "[{}]", "[{manager: alpha, operation: Apply}]"] {
        let mut host = Host::config_map();
        let config = format!("{{metadata: {{managedFields: {list}}}, data: {{a: '1'}}}}");
        assert_eq!(
            message(host.apply("alpha", &config)),
            "metadata.managedFields must be nil"
        );
    }
    let mut host = Host::config_map();
    let config = "{metadata: {managedFields: [{manager: a, time: x}]}, data: {a: '1'}}";
    assert_eq!(
        message(host.apply("alpha", config)),
        "failed to convert new object (/one; /v1, Kind=ConfigMap) to proper version: unable to convert unstructured object to \
         /v1, Kind=ConfigMap: parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\""
    );
    // An item that is not an entry counts as none.
    for none in ["[null]", "null"] {
        let mut host = Host::config_map();
        let config = format!("{{metadata: {{managedFields: {none}}}, data: {{a: '1'}}}}");
        host.apply("alpha", &config).unwrap();
        host.has_entries(&["alpha Apply v1 @1: .data.a"]);
    }
}

#[test]
fn configuration_of_other_kind_is_rejected() {
    for (config, message_text) in [
        (
            "{apiVersion: v1, kind: Secret}",
            "invalid object type: /v1, Kind=Secret",
        ),
        (
            "{apiVersion: apps/v1, kind: ConfigMap}",
            "invalid object type: apps/v1, Kind=ConfigMap",
        ),
        ("{kind: ConfigMap}", "invalid object type: /, Kind=ConfigMap"),
        ("{apiVersion: v1}", "invalid object type: /v1, Kind="),
        ("{apiVersion: a/b/c, kind: ConfigMap}", "invalid object type: /, Kind="),
    ] {
        let result = Host::config_map().apply_value("alpha", object(config), false);
        assert_eq!(message(result), message_text);
    }
}

#[test]
fn an_object_that_does_not_fit_its_type_can_get_no_first_entry() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {parts: [{name: a}]}").unwrap();
    host.patch("tool", "{metadata: {managedFields: []}, spec: {parts: [{}]}}");
    assert_eq!(
        message(host.apply("alpha", "spec: {parts: [{name: a}]}")),
        "failed to create manager for existing fields: failed to convert new object (/one; example.com/v1, Kind=Widget) to smd \
         typed: .spec.parts: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and \
         doesn't have default values for any key fields)"
    );
}

#[test]
fn configuration_with_wrong_type_is_rejected() {
    let mut host = Host::widget();
    assert_eq!(
        message(host.apply("alpha", "{metadata: {namespace: here}, spec: {unknown: 1}}")),
        "failed to create typed patch object (here/one; example.com/v1, Kind=Widget): .spec.unknown: field not declared in \
         schema"
    );
    assert_eq!(
        message(host.apply("alpha", "spec: {parts: [{name: a}, {name: a}]}")),
        "failed to create typed patch object (/one; example.com/v1, Kind=Widget): .spec.parts: duplicate entries for key \
         [name=\"a\"]"
    );
}

#[test]
fn live_objects_may_hold_an_item_twice() {
    let mut host = Host::widget();
    host.update(
        "creator",
        "spec: {parts: [{name: a, image: '1'}, {name: a, image: '2'}]}",
    );
    host.apply("alpha", "spec: {color: red}").unwrap();
    host.has_entries(&[
        "alpha Apply v1 @2: .spec.color",
        "creator Update v1 @1: .spec .spec.parts .spec.parts[name=\"a\"]",
    ]);
}

#[test]
fn items_of_lists_are_owned_apart() {
    let mut host = Host::widget();
    host.apply(
        "alpha",
        "spec: {parts: [{name: a, image: '1'}], tags: [x], ports: [{port: 53}], selector: {a: b}}",
    )
    .unwrap();
    host.apply(
        "bravo",
        "spec: {parts: [{name: b}], tags: [x, z], ports: [{port: 53, protocol: UDP}]}",
    )
    .unwrap();
    host.has_entries(&[
        "alpha Apply v1 @1: .spec.selector .spec.parts[name=\"a\"] .spec.parts[name=\"a\"].image \
         .spec.parts[name=\"a\"].name .spec.ports[port=53,protocol=\"TCP\"] \
         .spec.ports[port=53,protocol=\"TCP\"].port .spec.tags[=\"x\"]",
        "bravo Apply v1 @2: .spec.parts[name=\"b\"] .spec.parts[name=\"b\"].name \
         .spec.ports[port=53,protocol=\"UDP\"] .spec.ports[port=53,protocol=\"UDP\"].port \
         .spec.ports[port=53,protocol=\"UDP\"].protocol .spec.tags[=\"x\"] .spec.tags[=\"z\"]",
    ]);
    host.apply("alpha", "{}").unwrap();
    host.holds("spec: {parts: [{name: b}], tags: [x, z], ports: [{port: 53, protocol: UDP}]}");
}

#[test]
fn a_removed_item_goes_with_what_an_updater_added_to_it() {
    let mut host = Host::widget();
    host.apply("alpha", "spec: {parts: [{name: a}, {name: b}]}").unwrap();
    host.update("tool", "spec: {parts: [{name: a, image: '1'}, {name: b}]}");
    host.apply("alpha", "spec: {parts: [{name: b}]}").unwrap();
    host.holds("spec: {parts: [{name: b}]}");
    host.has_entries(&["alpha Apply v1 @3: .spec.parts[name=\"b\"] .spec.parts[name=\"b\"].name"]);
}

#[test]
fn entries_that_cannot_be_read_fail_an_apply() {
    let mut host = Host::config_map();
    host.existing = Some(object(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: one, uid: '1', managedFields: [{manager: m, operation: Nonsense}]}}",
    ));
    assert_eq!(
        message(host.apply("alpha", "data: {a: '1'}")),
        "failed to decode managed fields: operation must be `Apply` or `Update`"
    );
}
