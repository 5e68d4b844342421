use super::*;
use crate::metadata::RepeatedChecks;

fn metadata(json: &str) -> Value {
    holdfast_value::json::parse(json.as_bytes(), &holdfast_value::Limits::TRUSTED).unwrap()
}

fn texts_of(check: impl Fn(&FieldPath, &Value, &mut Vec<FieldError>), json: &str) -> Vec<String> {
    let mut errors = Vec::new();
    check(&FieldPath::new("metadata"), &metadata(json), &mut errors);
    errors.iter().map(FieldError::to_string).collect()
}

#[test]
fn very_many_controllers_are_not_shown_over_and_over() {
    let owner = |at: usize| format!(r#"{{"apiVersion":"v1","controller":true,"kind":"A","name":"n{at}","uid":"u"}}"#);
    let owners: Vec<String> = (0..20_000).map(owner).collect();
    let metadata = metadata(&format!(r#"{{"ownerReferences":[{}]}}"#, owners.join(",")));
    let mut errors = Vec::new();
    owner_references(&FieldPath::new("metadata"), &metadata, &mut errors);
    let shown: usize = errors.iter().map(|error| error.detail.len()).sum();
    assert!(!errors.is_empty() && shown < 4 * SHOWN_OWNERS, "{shown}");
}

#[test]
fn owner_references_need_a_uid_and_one_controller() {
    let missing = texts_of(
        owner_references,
        r#"{"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"x"}]}"#,
    );
    assert_eq!(
        missing,
        ["metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"]
    );
    let two = texts_of(
        owner_references,
        r#"{"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"x","uid":"1","controller":true},
            {"apiVersion":"v1","kind":"B","name":"y","uid":"2","controller":true}]}"#,
    );
    assert_eq!(two.len(), 1);
    assert!(
        two[0].ends_with("Found \"true\" in references for A/x and B/y"),
        "{}",
        two[0]
    );
}

#[test]
fn managers_and_subresources_have_a_length() {
    let long = "x".repeat(257);
    let json = format!(r#"{{"managedFields":[{{"operation":"Apply","manager":"{long}","subresource":"{long}"}}]}}"#);
    assert_eq!(
        texts_of(managed_fields, &json),
        [
            "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
            "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
        ]
    );
}

#[test]
fn field_manager_with_hidden_character_is_invalid() {
    let errors = |manager: &str| {
        let mut errors = Vec::new();
        validate_field_manager(|| FieldPath::new("fieldManager"), manager, &mut errors);
        errors.iter().map(FieldError::message).collect::<Vec<_>>()
    };
    for valid in ["", "Müller & Söhne/ops v2", "e\u{301}", "語🚀", &"m".repeat(128)] {
        assert_eq!(errors(valid), Vec::<String>::new(), "{valid}");
    }
    assert_eq!(errors(&"m".repeat(129)), ["Too long: may not be more than 128 bytes"]);
    assert_eq!(
        errors("é\u{200b}b\t"),
        [
            r#"Invalid value: "é\u200bb\t": invalid character U+200B (at position 2)"#,
            r#"Invalid value: "é\u200bb\t": invalid character U+0009 (at position 6)"#,
        ]
    );
}

#[test]
fn a_finalizer_without_a_domain_must_be_a_standard_one() {
    let json = r#"{"finalizers":["kubernetes","example.com/a","plain"]}"#;
    assert_eq!(
        texts_of(finalizer_names, json),
        [
            "metadata.finalizers[2]: Invalid value: \"plain\": name is neither a standard finalizer name nor is it fully qualified"
        ]
    );
}

#[test]
fn an_object_that_goes_takes_no_new_finalizer() {
    let old = metadata(r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b"]}}"#);
    let new = metadata(r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b","c/d"]}}"#);
    let errors = repeated_errors(&COMMON_CHECKS, "", Vec::new(), Vec::new(), &new, &old);
    assert_eq!(
        errors.first[0].to_string(),
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}"
    );
}

#[test]
fn a_change_of_the_uid_is_reported_twice() {
    let errors = repeated_errors(
        &COMMON_CHECKS,
        "",
        Vec::new(),
        Vec::new(),
        &metadata(r#"{"metadata":{"uid":"2"}}"#),
        &metadata(r#"{"metadata":{"uid":"1"}}"#),
    );
    let texts: Vec<String> = errors.first.iter().map(FieldError::to_string).collect();
    assert_eq!(texts, ["metadata.uid: Invalid value: \"2\": field is immutable"; 2]);
}

const COMMON_CHECKS: MetadataChecks = MetadataChecks {
    object: RepeatedChecks { whole: 1, update: 1 },
    subresource: RepeatedChecks { whole: 0, update: 1 },
    finalizer_names: true,
    at_creation: crate::metadata::CreationChecks::First,
    generated_names: true,
    update_order: UpdateOrder::ChangeFirst,
};

#[test]
fn errors_are_reported_as_often_as_a_kind_looks() {
    let new = metadata(r#"{"metadata":{"labels":{"a":"-"},"finalizers":["plain"]}}"#);
    let old = metadata(r#"{"metadata":{}}"#);
    let fields = |checks: &MetadataChecks, subresource: &str| {
        let errors = repeated_errors(checks, subresource, Vec::new(), Vec::new(), &new, &old).first;
        let fields: Vec<String> = errors.iter().map(|error| error.field.to_string()).collect();
        fields.join(" ")
    };
    let (label, finalizer) = ("metadata.labels", "metadata.finalizers[0]");
    assert_eq!(
        fields(&COMMON_CHECKS, ""),
        format!("{label} {label} {label} {finalizer} {label} {finalizer}")
    );
    assert_eq!(
        fields(&COMMON_CHECKS, "status"),
        format!("{label} {label} {label} {finalizer}")
    );
    assert_eq!(fields(&MetadataChecks::CUSTOM, ""), [label; 3].join(" "));
}

#[test]
fn each_kind_reports_the_errors_of_an_update_in_its_order() {
    let new = metadata(r#"{"metadata":{"uid":"2","labels":{"a":"-"}}}"#);
    let old = metadata(r#"{"metadata":{"uid":"1"}}"#);
    let order = |subresource: &str, update_order: UpdateOrder| {
        let checks = MetadataChecks {
            update_order,
            ..COMMON_CHECKS
        };
        let details = repeated_errors(&checks, subresource, Vec::new(), Vec::new(), &new, &old);
        [details.first, details.rest].map(|errors| {
            let fields = errors
                .iter()
                .map(|error| error.field.as_str())
                .filter_map(|field| field.rsplit('.').next().map(str::to_owned));
            fields.collect::<Vec<_>>().join(" ")
        })
    };
    let (all, change, whole) = ("labels uid labels", "uid labels", "labels");
    for (update_order, first, rest) in [
        (UpdateOrder::ChangeFirst, format!("{all} {change} {whole}"), ""),
        (UpdateOrder::WholeFirst, format!("{all} {whole} {change}"), ""),
        (UpdateOrder::ObjectFirst, format!("{all} {whole}"), change),
        (UpdateOrder::ChangesFirst, format!("{all} {change}"), whole),
    ] {
        assert_eq!(order("", update_order), [first, rest.to_owned()], "{update_order:?}");
        assert_eq!(
            order("status", update_order),
            [format!("{all} {change}"), String::new()]
        );
    }
}

#[test]
fn annotations_have_a_size_in_total() {
    let json = format!(
        r#"{{"annotations":{{"a":"{}","B/c d":""}}}}"#,
        "x".repeat(ANNOTATIONS_MAX)
    );
    let texts = texts_of(annotations, &json);
    assert_eq!(texts.len(), 2);
    assert_eq!(
        texts[1],
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    );
}

#[test]
fn the_beginning_of_a_name_is_checked_in_updates_too() {
    let wrong = |why: &str| FieldError::invalid(&FieldPath::new("metadata.generateName"), "a/", why.to_owned());
    let object = metadata(r#"{"metadata":{}}"#);
    let errors = repeated_errors(
        &COMMON_CHECKS,
        "",
        vec![wrong("path")],
        vec![wrong("kind")],
        &object,
        &object,
    )
    .first;
    let texts: Vec<&str> = errors.iter().map(|error| error.detail.as_str()).collect();
    assert_eq!(texts, ["path", "kind"]);
}
