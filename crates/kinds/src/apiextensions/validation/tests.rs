use holdfast_value::{Limits, Value, json};

use super::validate;

const WIDGETS: &str = r#"{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
    "names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"conversion":{"strategy":"None"},
    "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
        "spec":{"type":"object","properties":{"a":{"type":"string"},"f":{"type":"number"}}}}}}}]},
    "status":{"storedVersions":["v1"]}}"#;

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
}

/// The errors of the definition of widgets with `part` in the place of what stands at `path`. The path leads into the first
/// version where it begins with `version`.
fn told(path: &str, part: &str) -> Vec<String> {
    let mut definition = value(WIDGETS);
    let steps: Vec<&str> = path.split('.').collect();
    match steps.strip_prefix(&["version"]) {
        None => definition.set_at(&steps, value(part)),
        Some(steps) => {
            let mut version = definition.at(&["spec", "versions"]).and_then(Value::as_list).unwrap()[0].clone();
            version.set_at(steps, value(part));
            definition.set_at(&["spec", "versions"], vec![version].into());
        }
    }
    validate(&definition, None).iter().map(ToString::to_string).collect()
}

#[test]
fn a_sound_definition_has_no_errors() {
    assert!(validate(&value(WIDGETS), None).is_empty());
}

#[test]
fn each_part_is_refused_in_its_place_and_words() {
    const SCHEMA: &str = "version.schema.openAPIV3Schema.properties.spec";
    for (path, part, error) in [
        (
            "metadata.name",
            r#""others.example.com""#,
            r#"metadata.name: Invalid value: "others.example.com": must be spec.names.plural+"."+spec.group"#,
        ),
        (
            "spec.scope",
            r#""Global""#,
            r#"spec.scope: Unsupported value: "Global": supported values: "Cluster", "Namespaced""#,
        ),
        ("spec.names.kind", r#""""#, "spec.names.kind: Required value"),
        (
            "spec.names.listKind",
            r#""Widget""#,
            r#"spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same"#,
        ),
        ("version.storage", "false", "spec.versions: Invalid value"),
        (
            "version.schema",
            "null",
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            "version.deprecationWarning",
            r#""old""#,
            r#"spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions"#,
        ),
        (
            "status.storedVersions",
            r#"["v1","v0"]"#,
            r#"status.storedVersions[1]: Invalid value: "v0": missing from spec.versions"#,
        ),
        (
            "spec.preserveUnknownFields",
            "true",
            "spec.preserveUnknownFields: Invalid value: true: must be false",
        ),
        (
            "spec.conversion.strategy",
            r#""Magic""#,
            r#"spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook""#,
        ),
        (
            "spec.conversion",
            r#"{"strategy":"Webhook","webhook":{"clientConfig":{"url":"http://a/c"},"conversionReviewVersions":["v1"]}}"#,
            r#"spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
        ),
        (
            "version.additionalPrinterColumns",
            r#"[{"name":"A","type":"float","jsonPath":".spec.a"}]"#,
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "float": must be one of boolean,date,integer,number,string"#,
        ),
        (
            "version.additionalPrinterColumns",
            r#"[{"name":"A","type":"string","jsonPath":"spec.a"}]"#,
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.a": must be a simple json path starting with ."#,
        ),
        (
            "version.subresources",
            r#"{"scale":{"specReplicasPath":".status.n","statusReplicasPath":".status.n"}}"#,
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": should be a json path under .spec"#,
        ),
        (
            "version.selectableFields",
            r#"[{"jsonPath":".spec.f"}]"#,
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.f": must point to a field"#,
        ),
        (
            "version.selectableFields",
            r#"[{"jsonPath":".spec.b"}]"#,
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.b": is an invalid path: does not refer to a valid field"#,
        ),
        (
            SCHEMA,
            r#"{"type":"array","items":{"type":"string"},"uniqueItems":true}"#,
            "spec.validation.openAPIV3Schema.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true",
        ),
        (
            SCHEMA,
            r##"{"type":"object","$ref":"#/x"}"##,
            "spec.validation.openAPIV3Schema.properties[spec].$ref: Forbidden: $ref is not supported",
        ),
        (
            SCHEMA,
            r#"{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":{"type":"string"}}"#,
            "spec.validation.openAPIV3Schema.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            SCHEMA,
            r#"{"type":"string","x-kubernetes-list-type":"set"}"#,
            r#"spec.validation.openAPIV3Schema.properties[spec].type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#,
        ),
        (
            SCHEMA,
            r#"{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]}"#,
            "spec.validation.openAPIV3Schema.properties[spec].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys",
        ),
        (
            SCHEMA,
            r#"{"type":"integer","default":"x"}"#,
            "spec.validation.openAPIV3Schema.properties[spec].default: Invalid value",
        ),
        (
            "version.schema.openAPIV3Schema.properties.kind",
            r#"{"type":"string","default":"Widget"}"#,
            "spec.validation.openAPIV3Schema.properties[kind].default: Forbidden: must not be set in top-level kind",
        ),
    ] {
        let errors = told(path, part);
        assert!(
            errors.iter().any(|found| found.starts_with(error)),
            "{path} {part}: {errors:?}"
        );
        let others = errors.iter().filter(|found| !found.starts_with(error));
        // Without a storage version there is none that is stored, either.
        assert!(
            others.count() <= usize::from(path == "version.storage"),
            "{path} {part}: {errors:?}"
        );
    }
}

#[test]
fn what_versions_do_not_share_is_told_in_each() {
    let mut definition = value(WIDGETS);
    let first = definition.at(&["spec", "versions"]).and_then(Value::as_list).unwrap()[0].clone();
    let mut second = first.clone();
    second.set_at(&["name"], "v2".into());
    second.set_at(&["storage"], false.into());
    second.set_at(
        &["schema", "openAPIV3Schema"],
        value(r#"{"type":"array","items":{"type":"string"}}"#),
    );
    definition.set_at(&["spec", "versions"], vec![first, second].into());
    let errors = validate(&definition, None);
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [r#"spec.versions[1].schema.openAPIV3Schema.type: Invalid value: "array": must be object at the root"#]
    );
}

#[test]
fn a_protected_group_says_whether_it_was_reviewed() {
    let mut definition = value(&WIDGETS.replace("example.com", "x.k8s.io"));
    let errors = validate(&definition, None);
    assert_eq!(
        errors[0].field.as_str(),
        "metadata.annotations[api-approved.kubernetes.io]"
    );
    definition.set_at(
        &["metadata", "annotations", super::APPROVAL],
        "unapproved, a test".into(),
    );
    assert!(validate(&definition, None).is_empty());
}
