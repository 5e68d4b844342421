//! CRDs that lie in etcd since a time when fewer rules applied to them. Expected answers are those of kube-apiserver
//! 1.36.3 to the same requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conformance::{Binary, Server, Target};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use test_support::etcd::Etcd;
use test_support::needs;

use super::{APPLY, CRDS, JSON, MERGE, ask, get, is_established, until};

/// Puts an object into etcd as another server stored it.
fn put(etcd: &Etcd, key: &str, object: &Value) {
    let encoded = |text: &str| STANDARD.encode(text);
    let body = json!({"key": encoded(key), "value": encoded(&object.to_string())});
    etcd.ask(0, "/v3/kv/put", &body.to_string()).unwrap();
}

/// Returns a CRD of the kind `Kind` in the form in which the first servers stored it.
fn stored_crd(plural: &str, kind: &str, spec: &Value) -> Value {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com"), "uid": format!("0000-{plural}"), "generation": 1,
            "creationTimestamp": "2019-01-01T00:00:00Z"},
        "spec": {
            "group": "example.com", "version": "v1", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true}],
            "conversion": {"strategy": "None"},
        },
        "status": {"conditions": [], "storedVersions": ["v1"], "acceptedNames": {"plural": "", "kind": ""}},
    });
    for (name, value) in spec.as_object().unwrap() {
        crd["spec"][name] = value.clone();
    }
    crd
}

fn put_crd(etcd: &Etcd, plural: &str, kind: &str, spec: &Value) {
    let key = format!("/registry/apiextensions.k8s.io/customresourcedefinitions/{plural}.example.com");
    put(etcd, &key, &stored_crd(plural, kind, spec));
}

/// Returns the condition `NonStructuralSchema` once the CRD is established and has it.
async fn violation(target: &Target, plural: &str) -> [String; 3] {
    let violation_in = |crd: &Value| {
        let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions
            .into_iter()
            .find(|condition| condition["type"] == "NonStructuralSchema");
        found.map(|found| {
            ["status", "reason", "message"].map(|part| found[part].as_str().unwrap_or_default().to_owned())
        })
    };
    let path = format!("{CRDS}/{plural}.example.com");
    let crd = until(target, &path, |_, crd| {
        is_established(crd) && violation_in(crd).is_some()
    });
    violation_in(&crd.await).unwrap()
}

fn untyped() -> Value {
    json!({"openAPIV3Schema": {"properties": {"spec": {"properties": {"n": {"type": "integer"}}}}}})
}

#[needs(etcd)]
#[tokio::test]
async fn stored_unstructured_schema_is_reported_and_not_published() {
    let etcd = Etcd::one().unwrap();
    let structural = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}});
    put_crd(&etcd, "olds", "Old", &json!({"validation": untyped()}));
    put_crd(&etcd, "opens", "Open", &json!({"validation": structural}));
    put_crd(&etcd, "bares", "Bare", &json!({}));
    let referring = json!({"openAPIV3Schema": {"properties": {"spec": {"$ref": "#/x"}}}});
    put_crd(&etcd, "refs", "Ref", &json!({"validation": referring}));
    let strict = json!({"validation": untyped(), "preserveUnknownFields": false});
    put_crd(&etcd, "stricts", "Strict", &strict);
    let servers = format!("--etcd-servers={}", etcd.endpoints());
    let server = Server::start(&Binary::debug().unwrap(), &[&servers]).unwrap();
    let target = Target::new(&server).unwrap();

    let preserves = "spec.preserveUnknownFields: Invalid value: true: must be false";
    let types = "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields, spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root";
    let referring = "failed to check validation schema for version v1: OpenAPIV3Schema '$ref' is not supported";
    for (plural, expected) in [
        ("olds", ["True", "Violations", &format!("[{preserves}, {types}]")]),
        ("opens", ["True", "Violations", preserves]),
        ("bares", ["True", "Violations", preserves]),
        ("refs", ["Unknown", "StructuralError", referring]),
        ("stricts", ["True", "Violations", &format!("[{types}]")]),
    ] {
        assert_eq!(violation(&target, plural).await, expected, "{plural}");
    }

    let (_, second) = get(&target, "/openapi/v2").await;
    let (_, third) = get(&target, "/openapi/v3/apis/example.com/v1").await;
    for kind in ["Old", "Open", "Bare", "Ref", "Strict"] {
        let bare = json!({
            "type": "object",
            "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": kind, "version": "v1"}],
        });
        let name = format!("com.example.v1.{kind}");
        assert_eq!(second["definitions"][&name], bare, "{kind}");
        let has_fields = third["components"]["schemas"][&name]["properties"].is_object();
        assert_eq!(has_fields, kind == "Open", "{kind}");
    }

    // kube-apiserver serves no objects of the schema with a reference.
    assert_eq!(get(&target, "/apis/example.com/v1/refs").await.0, StatusCode::OK);

    // An apply keeps or prunes unspecified fields, and its managers own what was sent.
    for (plural, kind, is_kept) in [
        ("olds", "Old", true),
        ("opens", "Open", true),
        ("stricts", "Strict", false),
    ] {
        let path = format!("/apis/example.com/v1/namespaces/default/{plural}/a?fieldManager=m");
        let body = json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {"n": 1, "l": [1]}, "other": 1});
        let (code, applied) = ask(&target, Method::PATCH, &path, APPLY, &body).await;
        assert_eq!(code, StatusCode::CREATED, "{applied}");
        assert_eq!(applied["other"] == 1, is_kept, "{applied}");
        assert_eq!(applied["spec"]["n"], 1);
        let owned = &applied["metadata"]["managedFields"][0]["fieldsV1"];
        assert_eq!(owned["f:other"], json!({}), "{applied}");
        assert_eq!(owned["f:spec"]["f:l"], json!({}), "{applied}");
        let other = path.replace("=m", "=o");
        let conflicting =
            json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {"n": 2}});
        let (code, conflict) = ask(&target, Method::PATCH, &other, APPLY, &conflicting).await;
        assert_eq!(code, StatusCode::CONFLICT, "{conflict}");
        let wrong =
            json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {"n": "x"}});
        let (code, invalid) = ask(&target, Method::PATCH, &path, APPLY, &wrong).await;
        assert_eq!(code == StatusCode::UNPROCESSABLE_ENTITY, plural != "opens", "{invalid}");
    }

    // The CRD may be changed without a repair, and the condition ends with one.
    let old = format!("{CRDS}/olds.example.com");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, labelled) = ask(&target, Method::PATCH, &old, MERGE, &label).await;
    assert_eq!(code, StatusCode::OK, "{labelled}");
    let strict = format!("{CRDS}/stricts.example.com");
    let (code, rejected) = ask(&target, Method::PATCH, &strict, MERGE, &label).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{rejected}");
    let mut repaired = labelled.clone();
    repaired["spec"]["preserveUnknownFields"] = json!(false);
    repaired["spec"]["versions"][0]["schema"] = structural;
    let (code, answer) = ask(&target, Method::PUT, &old, JSON, &repaired).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    until(&target, &old, |_, crd| {
        let conditions = crd["status"]["conditions"].as_array().unwrap();
        conditions
            .iter()
            .all(|condition| condition["type"] != "NonStructuralSchema")
    })
    .await;
    let mut reopened = answer;
    reopened["spec"]["preserveUnknownFields"] = json!(true);
    reopened["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let (code, answer) = ask(&target, Method::PUT, &old, JSON, &reopened).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
}

#[needs(etcd)]
#[tokio::test]
async fn stored_schema_with_forbidden_keywords_validates() {
    let etcd = Etcd::one().unwrap();
    let properties = json!({
        "text": {"type": "string", "pattern": "(["},
        "list": {"type": "array", "uniqueItems": true, "items": {"type": "string"}},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object",
            "properties": {"k": {"type": "string"}}}},
    });
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
    let crd = json!({"validation": schema, "preserveUnknownFields": false});
    put_crd(&etcd, "words", "Word", &crd);
    let servers = format!("--etcd-servers={}", etcd.endpoints());
    let server = Server::start(&Binary::debug().unwrap(), &[&servers]).unwrap();
    let target = Target::new(&server).unwrap();
    until(&target, &format!("{CRDS}/words.example.com"), |_, crd| {
        is_established(crd)
    })
    .await;

    let all = "/apis/example.com/v1/namespaces/default/words";
    let syntax = "error parsing regexp: missing closing ]: `[`";
    let pattern =
        format!("text: Invalid value: \"v\": text in body should match '([, but pattern is invalid: {syntax}'");
    let repeated = "list: Invalid value: \"\": list in body shouldn't contain duplicates";
    for (name, value, expected) in [
        ("text", json!("v"), pattern.as_str()),
        ("list", json!(["1", "1"]), repeated),
    ] {
        let mut object = json!({"apiVersion": "example.com/v1", "kind": "Word", "metadata": {"name": "a"}});
        object[name] = value;
        let (code, answer) = ask(&target, Method::POST, all, JSON, &object).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        assert_eq!(
            answer["message"],
            format!("Word.example.com \"a\" is invalid: {expected}")
        );
    }
    let distinct = json!({"apiVersion": "example.com/v1", "kind": "Word", "metadata": {"name": "a"},
        "list": ["1", "2"], "keyed": [{"k": "1"}]});
    let (code, answer) = ask(&target, Method::POST, all, JSON, &distinct).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

#[needs(etcd)]
#[tokio::test]
async fn stored_rule_that_does_not_compile_rejects_writes() {
    let etcd = Etcd::one().unwrap();
    let rules = json!([{"rule": "self.nope > 1"}]);
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": rules});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let crd = json!({"validation": schema, "preserveUnknownFields": false});
    put_crd(&etcd, "rules", "Rule", &crd);
    let object = json!({"apiVersion": "example.com/v1", "kind": "Rule", "spec": {"n": 1},
        "metadata": {"name": "a", "namespace": "default", "uid": "1", "creationTimestamp": "2019-01-01T00:00:00Z"}});
    put(&etcd, "/registry/example.com/rules/default/a", &object);
    let servers = format!("--etcd-servers={}", etcd.endpoints());
    let server = Server::start(&Binary::debug().unwrap(), &[&servers]).unwrap();
    let target = Target::new(&server).unwrap();
    let crd = format!("{CRDS}/rules.example.com");
    until(&target, &crd, |_, crd| is_established(crd)).await;

    let why = "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^";
    let one = "/apis/example.com/v1/namespaces/default/rules/a";
    // Metadata is validated, too: the rule was never evaluated for the old object.
    for change in [json!({"metadata": {"labels": {"a": "b"}}}), json!({"spec": {"n": 2}})] {
        let (code, answer) = ask(&target, Method::PATCH, one, MERGE, &change).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        let expected =
            format!("Rule.example.com \"a\" is invalid: spec: Invalid value: \"object\": rule compile error: {why}");
        assert_eq!(answer["message"], expected);
    }
    // An unchanged rule that does not compile is an error of each update of the CRD.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, answer) = ask(&target, Method::PATCH, &crd, MERGE, &label).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    let message = answer["message"].as_str().unwrap();
    let field = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: ";
    assert!(message.contains(field) && message.ends_with(why), "{message}");
}

#[tokio::test]
async fn metadata_in_defaults_of_embedded_resources_is_pruned() {
    let server = Server::start(&Binary::debug().unwrap(), &[]).unwrap();
    let target = Target::new(&server).unwrap();
    let pod = |metadata: &Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
    let (sent, kept) = (pod(&json!({"name": "a", "nope": 1})), pod(&json!({"name": "a"})));
    let embedded =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let mut with_default = embedded.clone();
    with_default["default"] = sent.clone();
    let properties = json!({
        "direct": with_default,
        "items": {"type": "array", "items": embedded, "default": [sent]},
        "nested": {"type": "object", "properties": {"p": embedded}, "default": {"p": sent}},
        "keyed": {"type": "object", "additionalProperties": embedded, "default": {"k": sent}},
        "below": {"type": "object", "additionalProperties": {"type": "object", "properties": {"p": with_default}}},
    });
    let mut crd = super::crd(&json!({"type": "object", "default": {}, "properties": properties}));
    let (code, created) = ask(&target, Method::POST, CRDS, JSON, &crd).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    let schema = &created["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert_eq!(schema["direct"]["default"], kept);
    assert_eq!(schema["items"]["default"], json!([kept]));
    assert_eq!(schema["nested"]["default"], json!({"p": kept}));
    assert_eq!(schema["keyed"]["default"], json!({"k": kept}));
    // Defaults below a map key are stored as they were sent, and pruned when they are used.
    assert_eq!(
        schema["below"]["additionalProperties"]["properties"]["p"]["default"],
        sent
    );

    until(&target, super::CRD, |_, crd| is_established(crd)).await;
    let (code, made) = ask(
        &target,
        Method::POST,
        super::WIDGETS,
        JSON,
        &super::widget("a", &json!({"below": {"k": {}}})),
    )
    .await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    let spec = json!({"direct": kept, "items": [kept], "nested": {"p": kept}, "keyed": {"k": kept}, "below": {"k": {"p": kept}}});
    assert_eq!(made["spec"], spec);

    // A replacement with the unpruned schema stores the same object and counts as a change.
    let (_, current) = get(&target, super::CRD).await;
    crd["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
    let (code, replaced) = ask(&target, Method::PUT, super::CRD, JSON, &crd).await;
    assert_eq!(code, StatusCode::OK, "{replaced}");
    assert_eq!(replaced["spec"], current["spec"]);
    assert_eq!(replaced["metadata"]["generation"], 2);
}
