use holdfast_value::Value;

use super::host::{Host, message};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns a ConfigMap as client-side apply leaves it.
fn client_side_applied() -> Host {
    let mut host = Host::config_map();
    host.update(
        "kubectl-client-side-apply",
        &with_annotation(LAST, "data: {a: '1', b: '1'}"),
    );
    host
}

const LAST: &str =
    r#"{"apiVersion":"v1","data":{"a":"1","b":"1"},"kind":"ConfigMap","metadata":{"annotations":{},"name":"one"}}"#;

fn with_annotation(text: &str, rest: &str) -> String {
    format!("metadata:\n  annotations:\n    {ANNOTATION}: '{text}'\n{rest}")
}

fn annotation(host: &Host) -> Option<&str> {
    host.existing
        .as_ref()?
        .at(&["metadata", "annotations", ANNOTATION])?
        .as_str()
}

#[test]
fn kubectl_inherits_fields_of_annotation() {
    let mut host = client_side_applied();
    host.apply("kubectl", "data: {a: '1', b: '2'}").unwrap();
    host.has_entries(&[
        "kubectl Apply v1 @2: .data.a .data.b",
        "kubectl-client-side-apply Update v1 @1: .data .data.a .metadata.annotations \
         .metadata.annotations.kubectl.kubernetes.io/last-applied-configuration",
    ]);
    assert_eq!(
        annotation(&host),
        Some(
            "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"1\",\"b\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"one\"}}\n"
        )
    );
}

#[test]
fn field_outside_annotation_conflicts() {
    let mut host = client_side_applied();
    host.patch("scaler", "data: {b: '7', c: '1'}");
    assert_eq!(
        message(host.apply("kubectl", "data: {a: '2', b: '1', c: '2'}")),
        "Apply failed with 2 conflicts: conflicts with \"scaler\" using v1:\n- .data.b\n- .data.c"
    );
}

#[test]
fn annotation_is_ignored_for_other_managers() {
    let mut host = client_side_applied();
    assert_eq!(
        message(host.apply("my-manager", "data: {a: '1', b: '2'}")),
        r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.b"#
    );
    host.apply("my-manager", "data: {a: '1'}").unwrap();
    assert_eq!(annotation(&host), Some(LAST));
}

#[test]
fn empty_annotation_covers_nothing() {
    for text in [
        "{",
        "{}",
        r#"{"apiVersion":"v2","kind":"ConfigMap","data":{"a":"1"}}"#,
        r#"{"apiVersion":"v1","data":{"a":"1"}}"#,
        r#"{"apiVersion":"v1","kind":"Secret","data":{"a":"1","b":"1"}}"#,
        r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"0"}}"#,
        r#"{"apiVersion":"v1","kind":"ConfigMap","surplus":{"a":"1"}}"#,
    ] {
        let mut host = Host::config_map();
        host.update("tool", &with_annotation(text, "data: {a: '1'}"));
        assert_eq!(
            message(host.apply("kubectl", "data: {a: '2'}")),
            r#"Apply failed with 1 conflict: conflict with "tool" using v1: .data.a"#
        );
    }
}

#[test]
fn the_annotation_is_kept_up_to_date_where_there_is_one() {
    let mut host = Host::config_map();
    host.apply("kubectl", "data: {a: '1'}").unwrap();
    assert_eq!(annotation(&host), None);

    host.patch("kubectl-client-side-apply", &with_annotation("{}", "data: {}"));
    host.apply("kubectl", "{metadata: {annotations: {note: x}}, data: {a: <&>é}}")
        .unwrap();
    let expected = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"\\u003c\\u0026\\u003eé\"},\"kind\":\"ConfigMap\",\
                    \"metadata\":{\"annotations\":{\"note\":\"x\"},\"name\":\"one\"}}\n";
    assert_eq!(annotation(&host), Some(expected));
    assert!(
        !host
            .apply("kubectl", "{metadata: {annotations: {note: x}}, data: {a: <&>é}}")
            .unwrap()
    );

    host.apply("bravo", "data: {b: '1'}").unwrap();
    assert_eq!(annotation(&host), Some(expected));
}

#[test]
fn an_unchanged_object_gets_the_annotation_too() {
    let mut host = Host::config_map();
    host.apply("kubectl", "data: {a: '1'}").unwrap();
    host.patch("tool", &with_annotation("{}", "data: {}"));
    assert!(host.apply("kubectl", "data: {a: '1'}").unwrap());
    assert!(annotation(&host).unwrap().contains(r#""a":"1""#));
}

#[test]
fn the_configuration_is_noted_without_its_own_annotation() {
    let mut host = client_side_applied();
    host.force("kubectl", &with_annotation("{}", "data: {a: '1'}"));
    assert_eq!(
        annotation(&host),
        Some(
            "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"1\"},\"kind\":\"ConfigMap\",\"metadata\":{\"annotations\":{},\"name\":\"one\"}}\n"
        )
    );
}

#[test]
fn oversized_annotation_is_removed() {
    let mut host = client_side_applied();
    let large = "x".repeat(256 * 1024);
    host.apply("kubectl", &format!("data: {{a: '{large}'}}")).unwrap();
    assert_eq!(annotation(&host), None);
    assert!(matches!(host.existing.unwrap().at(&["metadata", "annotations"]), Some(Value::Map(map)) if map.is_empty()));
}
