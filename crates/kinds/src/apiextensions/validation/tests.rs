use std::slice;
use std::sync::LazyLock;

use holdfast_schema::types::TypeTable;
use holdfast_structural::RuleTimings;
use holdfast_value::{Limits, Value, json};

use super::{Errors, name_errors};

const WIDGETS: &str = r#"{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
    "names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"conversion":{"strategy":"None"},
    "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
        "spec":{"type":"object","properties":{"a":{"type":"string"},"f":{"type":"number"}}}}}}}]},
    "status":{"storedVersions":["v1"]}}"#;

fn validate(crd: &Value, old: Option<&Value>) -> Errors {
    static TYPES: LazyLock<TypeTable> = LazyLock::new(|| holdfast_kind_tables::types().unwrap());
    super::validate(&TYPES, &RuleTimings::default(), crd, old)
}

fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::TRUSTED).unwrap()
}

/// Returns the errors of the CRD of widgets with `part` at `path`. A path that begins with `version` is in the first
/// version.
fn messages(path: &str, part: &str) -> Vec<String> {
    texts(&validate(&widgets_with(path, part), None))
}

fn texts(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Returns the CRD of widgets with `part` at `path`, as in [`messages`].
fn widgets_with(path: &str, part: &str) -> Value {
    let mut crd = value(WIDGETS);
    let steps: Vec<&str> = path.split('.').collect();
    match steps.strip_prefix(&["version"]) {
        None => crd.set_at(&steps, value(part)),
        Some(steps) => {
            let mut version = crd.at(&["spec", "versions"]).and_then(Value::as_list).unwrap()[0].clone();
            version.set_at(steps, value(part));
            crd.set_at(&["spec", "versions"], vec![version].into());
        }
    }
    crd
}

#[test]
fn the_name_says_what_is_defined() {
    let widgets = value(WIDGETS);
    assert!(name_errors(&widgets, "widgets.example.com").is_empty());
    assert_eq!(
        name_errors(&widgets, "others.example.com"),
        [r#"must be spec.names.plural+"."+spec.group"#]
    );
    assert_eq!(name_errors(&widgets, "Widgets").len(), 2);
}

#[test]
fn objects_are_selected_by_fields_of_the_schema_above() {
    const SELECTABLE: &str = r#"[{"jsonPath":".spec.a"}]"#;
    assert_eq!(messages("version.selectableFields", SELECTABLE), Vec::<String>::new());
    assert_eq!(
        messages("version.selectableFields", r#"[{"jsonPath":"."}]"#),
        [r#"spec.selectableFields[0].jsonPath: Invalid value: ".": is an invalid path: unexpected end of JSON path"#]
    );
    let mut version = value(WIDGETS)
        .at(&["spec", "versions"])
        .and_then(Value::as_list)
        .unwrap()[0]
        .clone();
    version.set_at(&["selectableFields"], value(SELECTABLE));
    let mut other = version.clone();
    other.set_at(&["name"], "v2".into());
    other.set_at(&["storage"], false.into());
    other.set_at(&["schema", "openAPIV3Schema", "description"], "other".into());
    let versions = json::to_string(&Value::from(vec![version, other]));
    assert_eq!(
        messages("spec.versions", &versions),
        [r#"spec.selectableFields: Invalid value: "": may only be set when validations.schema is included"#]
    );
}

#[test]
fn a_sound_crd_has_no_errors() {
    assert!(validate(&value(WIDGETS), None).is_empty());
}

#[test]
fn each_part_is_refused_in_its_place_and_words() {
    const SCHEMA: &str = "version.schema.openAPIV3Schema.properties.spec";
    for (path, part, error) in [
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
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true",
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
        let errors = messages(path, part);
        assert!(
            errors.iter().any(|found| found.starts_with(error)),
            "{path} {part}: {errors:?}"
        );
        let others = errors.iter().filter(|found| !found.starts_with(error));
        // Without a storage version, no version is listed as stored either.
        assert!(
            others.count() <= usize::from(path == "version.storage"),
            "{path} {part}: {errors:?}"
        );
    }
}

#[test]
fn errors_in_unshared_schemas_name_the_version() {
    let mut crd = value(WIDGETS);
    let first = crd.at(&["spec", "versions"]).and_then(Value::as_list).unwrap()[0].clone();
    let mut second = first.clone();
    second.set_at(&["name"], "v2".into());
    second.set_at(&["storage"], false.into());
    second.set_at(
        &["schema", "openAPIV3Schema"],
        value(r#"{"type":"array","items":{"type":"string"}}"#),
    );
    crd.set_at(&["spec", "versions"], vec![first, second].into());
    let errors = validate(&crd, None);
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [r#"spec.versions[1].schema.openAPIV3Schema.type: Invalid value: "array": must be object at the root"#]
    );
}

#[test]
fn a_protected_group_says_whether_it_was_reviewed() {
    let mut crd = value(&WIDGETS.replace("example.com", "x.k8s.io"));
    let errors = validate(&crd, None);
    assert_eq!(
        errors[0].field.as_str(),
        "metadata.annotations[api-approved.kubernetes.io]"
    );
    crd.set_at(
        &["metadata", "annotations", super::APPROVAL],
        "unapproved, a test".into(),
    );
    assert!(validate(&crd, None).is_empty());
}

/// Returns the errors in the rules of the spec of widgets with the given `schema`.
fn errors_of_rules(schema: &str) -> Vec<String> {
    let found = messages("version.schema.openAPIV3Schema.properties.spec", schema);
    let place = "spec.validation.openAPIV3Schema.properties[spec]";
    found.into_iter().map(|error| error.replace(place, "SPEC")).collect()
}

/// Returns the schema of a spec with one rule.
fn with_rule(rule: &str) -> String {
    format!(
        r#"{{"type":"object","properties":{{"a":{{"type":"string"}},"n":{{"type":"integer"}}}},"x-kubernetes-validations":[{rule}]}}"#
    )
}

#[test]
fn the_words_of_a_rule_are_checked() {
    for (rule, errors) in [
        (
            r#"{"rule":"self.n > 0","message":"odd","reason":"FieldValueInvalid","fieldPath":".n"}"#,
            vec![],
        ),
        (r#"{"rule":"  "}"#, vec!["rule: Required value: rule is not specified"]),
        (
            r#"{"rule":"true","message":" "}"#,
            vec![r#"message: Invalid value: " ": must be non-empty if specified"#],
        ),
        (
            r#"{"rule":"true","message":"a\nb"}"#,
            vec![r#"message: Invalid value: "a\nb": must not contain line breaks"#],
        ),
        (
            r#"{"rule":"true ||\nfalse"}"#,
            vec!["message: Required value: message must be specified if rule contains line breaks"],
        ),
        (
            r#"{"rule":"true","messageExpression":" "}"#,
            vec!["messageExpression: Required value: messageExpression must be non-empty if specified"],
        ),
        (
            r#"{"rule":"true","reason":"Odd"}"#,
            vec![
                r#"reason: Unsupported value: "Odd": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
            ],
        ),
        (
            r#"{"rule":"true","fieldPath":".b"}"#,
            vec![r#"fieldPath: Invalid value: ".b": must be a valid path"#],
        ),
    ] {
        let errors: Vec<String> = errors
            .iter()
            .map(|error| format!("SPEC.x-kubernetes-validations[0].{error}"))
            .collect();
        assert_eq!(errors_of_rules(&with_rule(rule)), errors, "{rule}");
    }
}

#[test]
fn expressions_are_compiled_where_a_crd_is_written() {
    let shown = |rule: &str, message: &str| {
        format!(
            r#"Invalid value: {{"Rule":"{rule}","Message":"","MessageExpression":"{message}","Reason":null,"FieldPath":"","OptionalOldSelf":null}}"#
        )
    };
    for (rule, field, error) in [
        (
            r#"{"rule":"self.b == 'x'"}"#,
            "rule",
            format!(
                "{}: compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | self.b == 'x'\n | ....^",
                shown("self.b == 'x'", "")
            ),
        ),
        (
            r#"{"rule":"self.a"}"#,
            "rule",
            format!("{}: cel expression must evaluate to a bool", shown("self.a", "")),
        ),
        (
            r#"{"rule":"self.n > 0","messageExpression":"self.n"}"#,
            "messageExpression",
            format!(
                "{}: messageExpression must evaluate to a string",
                shown(r"self.n \u003e 0", "self.n")
            ),
        ),
        (
            r#"{"rule":"true","messageExpression":"nothing"}"#,
            "messageExpression",
            format!(
                "{}: messageExpression compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing\n | ^",
                shown("true", "nothing")
            ),
        ),
        (
            r#"{"rule":"self.n > 0","optionalOldSelf":true}"#,
            "optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule".to_owned(),
        ),
    ] {
        assert_eq!(
            errors_of_rules(&with_rule(rule)),
            [format!("SPEC.x-kubernetes-validations[0].{field}: {error}")]
        );
    }
    let optional = r#"{"rule":"!oldSelf.hasValue() || self.n == oldSelf.value().n","optionalOldSelf":true}"#;
    assert!(errors_of_rules(&with_rule(optional)).is_empty());
}

#[test]
fn a_rule_about_changes_needs_to_know_what_was_there() {
    let list = |marks: &str| {
        format!(
            r#"{{"type":"object","properties":{{"l":{{"type":"array","maxItems":5{marks},"items":{{"type":"object","required":["k"],
            "properties":{{"k":{{"type":"string"}},"n":{{"type":"integer","x-kubernetes-validations":[{{"rule":"self >= oldSelf"}}]}}}}}}}}}}}}"#
        )
    };
    let by_key = r#","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]"#;
    assert!(errors_of_rules(&list(by_key)).is_empty());
    assert_eq!(
        errors_of_rules(&list("")),
        [
            r#"SPEC.properties[l].items.properties[n].x-kubernetes-validations[0].rule: Invalid value: "self >= oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within SPEC.properties[l]"#
        ]
    );
}

#[test]
fn parts_of_a_map_are_distinguished_unless_its_type_is_unknown() {
    let map = |kind: &str| {
        format!(
            r#"{{"type":"object","properties":{{"m":{{"type":"object","x-kubernetes-map-type":"{kind}","properties":{{"n":{{
            "type":"integer","x-kubernetes-validations":[{{"rule":"self >= oldSelf"}}]}}}}}}}}}}"#
        )
    };
    for known in ["atomic", "granular"] {
        assert!(errors_of_rules(&map(known)).is_empty(), "{known}");
    }
    let unknown = errors_of_rules(&map("future"));
    assert!(
        unknown.last().is_some_and(|message| message.contains("uncorrelatable")),
        "{unknown:?}"
    );
}

/// Returns the schema of a spec with a bounded list and a rule that compares all items with all.
fn quadratic(bounds: [&str; 2]) -> String {
    let [length, items] = bounds;
    format!(
        r#"{{"type":"object","properties":{{"l":{{"type":"array"{items},"items":{{"type":"string"{length}}}}}}},
        "x-kubernetes-validations":[{{"rule":"self.l.all(x, self.l.all(y, x == y))"}}]}}"#
    )
}

#[test]
fn rules_that_may_cost_too_much_are_refused() {
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    let dear = |rule: &str, all: &str| {
        vec![
            format!("SPEC.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of {rule} {advice}"),
            "SPEC.x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema".to_owned(),
            format!(
                "spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of {all} {advice}"
            ),
        ]
    };
    let bounded = [r#","maxLength":1000"#, r#","maxItems":1000"#];
    assert_eq!(errors_of_rules(&quadratic(bounded)), dear("40.5x", "4.1x"));
    assert_eq!(
        errors_of_rules(&quadratic(["", ""])),
        dear("more than 100x", "more than 100x")
    );
    assert!(errors_of_rules(&quadratic([r#","maxLength":10"#, r#","maxItems":10"#])).is_empty());
    // The cost of a rule below a list is multiplied by the list's bound, or by the number of items that fit a request.
    let below = |bound: &str| {
        errors_of_rules(&format!(
            r#"{{"type":"object","properties":{{"l":{{"type":"array"{bound},"items":{{"type":"string","maxLength":1000,
            "x-kubernetes-validations":[{{"rule":"self.contains('x')"}}]}}}}}}}}"#
        ))
    };
    assert!(below(r#","maxItems":100"#).is_empty());
    assert_eq!(below("").len(), 3);
}

#[test]
fn an_unchanged_schema_may_cost_what_it_costs() {
    let mut old = value(WIDGETS);
    let mut version = old.at(&["spec", "versions"]).and_then(Value::as_list).unwrap()[0].clone();
    // The cost exceeds the limit of one rule but not the limit of all.
    let dear = quadratic([r#","maxLength":1000"#, r#","maxItems":300"#]);
    version.set_at(&["schema", "openAPIV3Schema", "properties", "spec"], value(&dear));
    old.set_at(&["spec", "versions"], vec![version.clone()].into());
    assert_eq!(validate(&old, None).len(), 1);
    let mut labelled = old.clone();
    labelled.set_at(&["metadata", "labels", "a"], "b".into());
    assert!(validate(&labelled, Some(&old)).is_empty());
    let mut changed = old.clone();
    version.set_at(&["schema", "openAPIV3Schema", "description"], "new".into());
    changed.set_at(&["spec", "versions"], vec![version].into());
    assert_eq!(validate(&changed, Some(&old)).len(), 1);
}

#[test]
fn rules_above_what_is_wrong_otherwise_wait() {
    let errors = errors_of_rules(
        r#"{"type":"object","properties":{"a":{"type":"string","uniqueItems":true},"b":{"type":"string",
        "x-kubernetes-validations":[{"rule":"nothing"}]}},"x-kubernetes-validations":[{"rule":"nothing"}]}"#,
    );
    let fields: Vec<&str> = errors.iter().filter_map(|error| error.split(": ").next()).collect();
    assert_eq!(
        fields,
        [
            "SPEC.properties[a].uniqueItems",
            "SPEC.properties[b].x-kubernetes-validations[0].rule"
        ]
    );
}

#[test]
fn a_default_satisfies_the_rules_of_its_schema() {
    assert_eq!(
        errors_of_rules(r#"{"type":"string","default":"b","x-kubernetes-validations":[{"rule":"self == 'a'"}]}"#),
        [r#"SPEC.default: Invalid value: "b": failed rule: self == 'a'"#]
    );
}

#[test]
fn authorities_must_be_fit_once_a_crd_is_established() {
    let with_bundle = |bundle: &str, established: bool| {
        let mut crd = value(WIDGETS);
        let conversion = format!(
            r#"{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":["v1"],"clientConfig":{{"url":"https://a/c","caBundle":"{bundle}"}}}}}}"#
        );
        crd.set_at(&["spec", "conversion"], value(&conversion));
        if established {
            let conditions = value(r#"[{"type":"Established","status":"True"}]"#);
            crd.set_at(&["status", "conditions"], conditions);
        }
        crd
    };
    let unfit = with_bundle("bm90IGEgY2VydA==", true);
    assert!(
        validate(&unfit, None).is_empty(),
        "it is not established before it is fit"
    );
    assert!(validate(&unfit, Some(&with_bundle("", false))).is_empty());
    assert!(validate(&unfit, Some(&unfit)).is_empty(), "what was unfit may stay so");
    let errors = validate(&unfit, Some(&with_bundle("", true)));
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            r#"spec.conversion.webhookClientConfig.caBundle: Invalid value: "bm90IGEgY2VydA==": unable to load root certificates: unable to parse bytes as PEM block"#
        ]
    );
}

#[test]
fn a_second_version_of_a_name_is_not_the_stored_one() {
    let version = |storage: bool| {
        value(&format!(
            r#"{{"name":"v1","served":true,"storage":{storage},"schema":{{"openAPIV3Schema":{{"type":"object"}}}}}}"#
        ))
    };
    let mut crd = value(WIDGETS);
    crd.set_at(&["spec", "versions"], vec![version(false), version(true)].into());
    let fields: Vec<String> = validate(&crd, None)
        .iter()
        .map(|error| error.field.to_string())
        .collect();
    assert_eq!(fields, ["spec.versions", "status.storedVersions"]);
    crd.set_at(&["status", "storedVersions"], Value::from(Vec::<Value>::new()));
    crd.set_at(&["spec", "versions"], vec![version(true)].into());
    assert_eq!(
        validate(&crd, None).iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["status.storedVersions: Invalid value: null: must have at least one stored version"]
    );
}

#[test]
fn items_of_sets_are_looked_at_before_keys() {
    let schema = r#"{"type":"object","properties":{"l":{"type":"array","x-kubernetes-list-type":"set","x-kubernetes-list-map-keys":["a"],
        "items":{"type":"object","properties":{"a":{"type":"string"}}}}}}"#;
    let fields: Vec<String> = messages("version.schema.openAPIV3Schema", schema);
    let ends: Vec<&str> = fields.iter().filter_map(|text| text.rsplit(": ").next()).collect();
    assert_eq!(
        ends,
        [
            "must be atomic as item of a list with x-kubernetes-list-type=set",
            "must be map if x-kubernetes-list-map-keys is non-empty"
        ]
    );
}

/// Returns the errors of an update of the CRD of widgets, whose `old` part at `path` is replaced by `new`.
fn messages_of_update(path: &str, old: &str, new: &str) -> Vec<String> {
    texts(&validate(&widgets_with(path, new), Some(&widgets_with(path, old))))
}

#[test]
fn unknown_review_versions_may_remain_unknown() {
    let conversion = |versions: &str| {
        format!(
            r#"{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":{versions},"clientConfig":{{"url":"https://a/c"}}}}}}"#
        )
    };
    let update = |old: &str, new: &str| messages_of_update("spec.conversion", &conversion(old), &conversion(new));
    assert_eq!(update(r#"["v9"]"#, r#"["v8","v7"]"#), Vec::<String>::new());
    let unknown = [
        r#"spec.conversion.conversionReviewVersions: Invalid value: ["v8"]: must include at least one of v1, v1beta1"#,
    ];
    assert_eq!(update(r#"["v1"]"#, r#"["v8"]"#), unknown);
    assert_eq!(update(r#"["v9","v1beta1"]"#, r#"["v8"]"#), unknown);
    assert_eq!(update("[]", r#"["v8"]"#), unknown);
    let without = messages_of_update("spec.conversion", r#"{"strategy":"None"}"#, &conversion(r#"["v8"]"#));
    assert_eq!(without, unknown);
    assert_eq!(messages("spec.conversion", &conversion(r#"["v8"]"#)), unknown);
}

/// Returns a version with a selectable field for each of the first properties.
fn selectable(name: &str, is_stored: bool, count: usize) -> String {
    let field = |at: usize| format!(r#"{{"jsonPath":".spec.p{at}"}}"#);
    let fields: Vec<String> = (0..count).map(field).collect();
    let property = |at: usize| format!(r#""p{at}":{{"type":"string"}}"#);
    let properties: Vec<String> = (0..10).map(property).collect();
    format!(
        r#"{{"name":"{name}","served":true,"storage":{is_stored},"selectableFields":[{}],"schema":{{"openAPIV3Schema":
        {{"type":"object","description":"{name}","properties":{{"spec":{{"type":"object","properties":{{{}}}}}}}}}}}}}"#,
        fields.join(","),
        properties.join(",")
    )
}

#[test]
fn too_many_selectable_fields_may_remain_unchanged() {
    let update = |old: &[String], new: &[String]| {
        let versions = |versions: &[String]| format!("[{}]", versions.join(","));
        messages_of_update("spec.versions", &versions(old), &versions(new))
    };
    let (eight, nine, ten) = (
        selectable("v1", true, 8),
        selectable("v1", true, 9),
        selectable("v1", true, 10),
    );
    let none = Vec::<String>::new();
    assert_eq!(update(slice::from_ref(&nine), slice::from_ref(&nine)), none);
    let too_many = |field: &str, count: usize| format!("{field}: Too many: {count}: must have at most 8 items");
    assert_eq!(
        update(slice::from_ref(&eight), slice::from_ref(&nine)),
        [too_many("spec.selectableFields", 9)]
    );
    assert_eq!(
        update(slice::from_ref(&nine), &[ten]),
        [too_many("spec.selectableFields", 10)]
    );
    let second = |count| selectable("v2", false, count);
    let (own, other) = ([nine.clone(), second(1)], [nine.clone(), second(2)]);
    assert_eq!(update(&own, &other), none);
    let of_version = [too_many("spec.versions[0].selectableFields", 9)];
    assert_eq!(update(&[eight, second(1)], &own), of_version);
    // Fields of all versions are those of the spec, and no longer those of one version.
    assert_eq!(update(&[nine], &own), of_version);
}

#[test]
fn selectable_field_of_metadata_is_rejected() {
    let schema =
        r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string"}}}}}"#;
    let mut crd = widgets_with("version.selectableFields", r#"[{"jsonPath":".metadata.name"}]"#);
    let mut version = crd.at(&["spec", "versions"]).and_then(Value::as_list).unwrap()[0].clone();
    version.set_at(&["schema", "openAPIV3Schema"], value(schema));
    crd.set_at(&["spec", "versions"], vec![version].into());
    assert_eq!(
        texts(&validate(&crd, None)),
        [r#"spec.selectableFields[0].jsonPath: Invalid value: ".metadata.name": must not point to fields in metadata"#]
    );
}

/// Returns the errors of an update of the schema of a list, and of the creation of the new one.
fn errors_of_list(old: &str, new: &str) -> (Vec<String>, Vec<String>) {
    const PATH: &str = "version.schema.openAPIV3Schema";
    let schema = |list: &str| format!(r#"{{"type":"object","properties":{{"l":{list}}}}}"#);
    (
        messages_of_update(PATH, &schema(old), &schema(new)),
        messages(PATH, &schema(new)),
    )
}

const L: &str = "spec.validation.openAPIV3Schema.properties[l]";

#[test]
fn set_items_that_are_not_atomic_may_remain() {
    let set = |items: &str| format!(r#"{{"type":"array","x-kubernetes-list-type":"set","items":{items}}}"#);
    let (granular, lists) = (
        set(r#"{"type":"object"}"#),
        set(r#"{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}"#),
    );
    let (after_violation, created) = errors_of_list(&granular, &lists);
    assert_eq!(after_violation, Vec::<String>::new());
    let error = format!(
        r#"{L}.items.x-kubernetes-list-type: Invalid value: "set": must be atomic as item of a list with x-kubernetes-list-type=set"#
    );
    assert_eq!(created, slice::from_ref(&error));
    let (after_atomic, _) = errors_of_list(&set(r#"{"type":"object","x-kubernetes-map-type":"atomic"}"#), &lists);
    assert_eq!(after_atomic, [error]);
}

#[test]
fn list_keys_without_value_may_remain() {
    let list = |rest: &str| {
        format!(
            r#"{{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
            "items":{{"type":"object","properties":{{"k":{{"type":"string"}}}}{rest}}}}}"#
        )
    };
    let set = r#"{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string","nullable":true}}"#;
    let (optional, required) = (list(""), list(r#","required":["k"]"#));
    // Any violation of the rule allows all others.
    let (after_violation, created) = errors_of_list(set, &optional);
    assert_eq!(after_violation, Vec::<String>::new());
    let error = format!(
        "{L}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must \
         have a default or be a required property"
    );
    assert_eq!(created, slice::from_ref(&error));
    assert_eq!(errors_of_list(&required, &optional).0, [error]);
    let nullable = format!("{L}.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set");
    assert_eq!(errors_of_list(&required, set).0, [nullable]);
    assert_eq!(errors_of_list(&optional, set).0, Vec::<String>::new());
}

#[test]
fn unknown_types_may_remain() {
    let (text, other) = (r#"{"type":"text"}"#, r#"{"type":"other"}"#);
    let (after_violation, created) = errors_of_list(text, other);
    assert_eq!(after_violation, Vec::<String>::new());
    assert!(
        created[0].starts_with(&format!("{L}.type: Unsupported value: \"other\"")),
        "{created:?}"
    );
}
