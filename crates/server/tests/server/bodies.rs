//! Decoding of request bodies of any content, through the whole server.

use crate::support;
use crate::support::{CONFIG_MAPS, MERGE, Server, config_map};
use http_body_util::BodyExt as _;
use serde_json::json;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

#[tokio::test]
async fn create_checks_format_before_options_and_update_after() {
    let server = Server::start().await;
    let bad = "?fieldValidation=bad";
    let made = server
        .send("POST", &format!("{CONFIG_MAPS}{bad}"), "text/plain", "{}")
        .await;
    assert_eq!(made.code, 415);
    let replaced = server
        .send("PUT", &format!("{CONFIG_MAPS}/a{bad}"), "text/plain", "{}")
        .await;
    assert_eq!(replaced.code, 422);
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_shown_by_how_they_begin() {
    let server = Server::start().await;
    for (content_type, body, why) in [
        (
            JSON,
            "{",
            "couldn't get version/kind; json parse error: unexpected end of JSON input ({)",
        ),
        (YAML, "{,}", "yaml: did not find expected node content ({,})"),
        (
            YAML,
            "a: b: c",
            "yaml: mapping values are not allowed in this context (613a20623a2063)",
        ),
        (
            PROTOBUF,
            "{}",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})",
        ),
    ] {
        let answer = server.send("POST", CONFIG_MAPS, content_type, body).await;
        let text = format!("the object provided is unrecognized (must be of type ConfigMap): {why}");
        assert_eq!((answer.code, answer.message()), (400, &*text));
    }
}

#[tokio::test]
async fn objects_are_refused_by_what_they_say_they_are() {
    let server = Server::start().await;
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field";
    let handled = |what: &str| format!("{what} cannot be handled as a ConfigMap:");
    for (stated, why) in [
        (json!({"kind": 5}), format!("{unrecognized} .kind of type string")),
        (
            json!({"apiVersion": 5}),
            format!("{unrecognized} .apiVersion of type string"),
        ),
        (
            json!({"apiVersion": "v1/"}),
            handled("ConfigMap in version \"\"") + " Object 'apiVersion' is missing in '{\"apiVersion\":\"v1/\"}'",
        ),
        (
            json!({"apiVersion": "extensions/v1beta1", "kind": "Deployment"}),
            handled("Deployment in version \"v1beta1\"")
                + " converting (v1beta1.Deployment) to (core.ConfigMap): unknown conversion",
        ),
        (
            json!({"kind": "Nope"}),
            handled("Nope in version \"v1\"") + " no kind \"Nope\" is registered for version \"v1\" in scheme",
        ),
    ] {
        let answer = server.post(CONFIG_MAPS, &stated.to_string()).await;
        assert_eq!(answer.code, 400);
        assert!(answer.message().starts_with(&why), "{}", answer.message());
    }
}

#[tokio::test]
async fn the_form_that_has_no_names_knows_no_field() {
    let server = Server::start().await;
    let body = r#"{"metadata":{"name":"a"},"apiVersion":"__internal","kind":"ConfigMap"}"#;
    let (warnings, message) = warned(&server, "POST", CONFIG_MAPS, JSON, body).await;
    assert_eq!(
        message,
        "the API version in the data (__internal) does not match the expected API version (v1)"
    );
    assert_eq!(warnings, [unknown("metadata")]);

    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let (path, patch) = (format!("{CONFIG_MAPS}/a"), r#"{"apiVersion":null}"#);
    let (warnings, message) = warned(&server, "PATCH", &path, MERGE, patch).await;
    assert_eq!(
        message,
        "the name of the object (a based on URL) was undeterminable: name must be provided"
    );
    assert_eq!(warnings, [unknown("data"), unknown("metadata")]);
    let strict = server.patch(&(path + "?fieldValidation=Strict"), MERGE, patch).await;
    assert_eq!(strict.code, 422);
    let why = r#"strict decoding error: unknown field "data", unknown field "metadata""#;
    assert!(strict.message().ends_with(why), "{}", strict.message());
}

fn unknown(field: &str) -> String {
    format!("299 - \"unknown field \\\"{field}\\\"\"")
}

/// Returns the warnings and the body that the client receives.
async fn warned(server: &Server, method: &str, path: &str, content_type: &str, body: &str) -> (Vec<String>, String) {
    let response = server.respond(method, path, content_type, body, JSON).await;
    let headers = response.headers().get_all("warning").iter();
    let warnings = headers.map(|warning| warning.to_str().unwrap().to_owned()).collect();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
    (warnings, status["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn invalid_patch_of_missing_object_reports_not_found() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    for (media_type, why) in [
        (STRATEGIC, "unexpected end of JSON input"),
        (MERGE, "error decoding patch: unexpected end of JSON input"),
        (JSON_PATCH, "error decoding patch: unexpected end of JSON input"),
    ] {
        let there = server.patch(&format!("{CONFIG_MAPS}/a"), media_type, "[").await;
        assert_eq!((there.code, there.message()), (400, why));
        let missing = server.patch(&format!("{CONFIG_MAPS}/b"), media_type, "[").await;
        assert_eq!((missing.code, missing.message()), (404, "configmaps \"b\" not found"));
    }
    let nothing = server.patch(&format!("{CONFIG_MAPS}/a"), STRATEGIC, "null").await;
    assert_eq!((nothing.code, nothing.at("/data/k")), (200, &json!("1")));
}

#[tokio::test]
async fn a_refused_strategic_patch_is_shown_without_what_was_obeyed() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let shown = async |patch: &str| {
        let answer = server.patch(&format!("{CONFIG_MAPS}/a"), STRATEGIC, patch).await;
        assert_eq!(answer.code, 422);
        answer.message().to_owned()
    };
    let message = shown(r#"{"data":{"k":{"b":null}},"metadata":{"labels":{"$patch":"delete"}}}"#).await;
    assert_eq!(
        message,
        " \"\" is invalid: patch: Invalid value: \"map[data:map[k:map[]] metadata:map[labels:map[$patch:delete]]]\": unrecognized type: string"
    );
    let message = shown(r#"{"data":{"k":18446744073709551615,"$retainKeys":["k"]}}"#).await;
    assert!(message.contains("map[data:map[k:1.8446744073709552e+19]]"), "{message}");
}

#[tokio::test]
async fn options_of_a_delete_are_read_as_any_object() {
    let server = Server::start().await;
    server.post(CONFIG_MAPS, &config_map("a", "1")).await;
    let path = format!("{CONFIG_MAPS}/a?dryRun=All");
    for (content_type, body, why) in [
        (
            JSON,
            r#"{"kind":5}"#,
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string",
        ),
        (
            JSON,
            r#"{"apiVersion":"a/b/c"}"#,
            "unexpected GroupVersion string: a/b/c",
        ),
        (
            JSON,
            r#"{"apiVersion":"v1","kind":"Status"}"#,
            "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
        ),
        (
            JSON,
            r#"{"preconditions":[]}"#,
            "json: cannot unmarshal array into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
        ),
        (YAML, "a: b: c", "yaml: mapping values are not allowed in this context"),
        (
            PROTOBUF,
            "k8s\0\u{12}\u{2}\u{a}\0",
            "proto: wrong wireType = 2 for field GracePeriodSeconds",
        ),
    ] {
        let answer = server.send("DELETE", &path, content_type, body).await;
        assert_eq!((answer.code, answer.message()), (400, why));
    }
    for body in [
        "null",
        "{}",
        r#"{"apiVersion":"nope/v1","kind":"DeleteOptions","gracePeriodSeconds":0}"#,
    ] {
        // The options of the body replace those of the query: the object is deleted each time.
        server.post(CONFIG_MAPS, &config_map("a", "1")).await;
        assert_eq!(server.send("DELETE", &path, JSON, body).await.code, 200, "{body}");
    }
    assert_eq!(server.get(&path).await.code, 404);
}

#[tokio::test]
async fn names_are_quoted_in_rejections() {
    let server = Server::start().await;
    let answer = server.post(CONFIG_MAPS, &config_map("a\\nb", "1")).await;
    let begin = "ConfigMap \"a\\nb\" is invalid: metadata.name: Invalid value: \"a\\nb\":";
    assert!(answer.message().starts_with(begin), "{}", answer.message());
}

#[tokio::test]
async fn a_number_beyond_floats_is_reported_where_its_field_is_read() {
    let server = Server::start().await;
    let body = |spec: &str| format!(r#"{{"kind":"Pod","metadata":{{"name":"a"}},"spec":{{{spec}}}}}"#);
    let pods = "/api/v1/namespaces/default/pods";
    let wrong = server.post(pods, &body(r#""hostNetwork":1e400"#)).await;
    assert_eq!(
        wrong.message(),
        "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field PodSpec.spec.hostNetwork of type bool"
    );
    let unread = server.post(pods, &body(r#""nobody":1e400"#)).await;
    assert!(
        unread
            .message()
            .starts_with("the object provided is unrecognized (must be of type Pod)")
    );
}

#[tokio::test]
async fn a_namespace_checks_the_preconditions_of_its_deletion_itself() {
    let server = Server::start().await;
    let namespace = r#"{"kind":"Namespace","metadata":{"name":"a"}}"#;
    let made = server.post("/api/v1/namespaces", namespace).await;
    let options = r#"{"preconditions":{"uid":"x"}}"#;
    let refused = server.send("DELETE", "/api/v1/namespaces/a", JSON, options).await;
    let uid = made.at("/metadata/uid").as_str().unwrap();
    assert_eq!(
        refused.message(),
        format!(
            "Operation cannot be fulfilled on namespaces \"a\": Precondition failed: UID in precondition: x, UID in object meta: {uid}"
        )
    );
}

#[tokio::test]
async fn warnings_come_with_refusals_too() {
    let server = Server::start().await;
    let missing = "/apis/batch/v1/namespaces/default/jobs/none";
    let (warnings, message) = warned(&server, "DELETE", missing, JSON, "{}").await;
    assert_eq!(message, "jobs.batch \"none\" not found");
    assert!(
        warnings[0].contains("child pods are preserved by default"),
        "{warnings:?}"
    );

    let endpoints = r#"{"metadata":{"name":"a"},"nope":1,"apiVersion":"v1/"}"#;
    let path = "/api/v1/namespaces/default/endpoints";
    let (warnings, _) = warned(&server, "POST", path, JSON, endpoints).await;
    assert!(warnings[0].contains("v1 Endpoints is deprecated"), "{warnings:?}");
}

#[tokio::test]
async fn refusals_of_the_form_of_an_answer_warn_too() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces/default/endpoints";
    let object = r#"{"metadata":{"name":"a"},"nope":1}"#;
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    for (method, accept, code, unknown) in [
        ("GET", "application/json;as=Table;v=v9;g=meta.k8s.io", 406, false),
        ("POST", list, 406, true),
    ] {
        let answer = server.respond(method, path, JSON, object, accept).await;
        assert_eq!(answer.status(), code, "{method}");
        let warnings: Vec<_> = answer.headers().get_all("warning").iter().collect();
        let warns = |of: &str| warnings.iter().any(|text| text.to_str().unwrap().contains(of));
        assert!(warns("v1 Endpoints is deprecated"), "{method}: {warnings:?}");
        assert_eq!(warns("unknown field"), unknown, "{method}: {warnings:?}");
    }
    // The object was created nevertheless.
    assert_eq!(server.get(&format!("{path}/a")).await.code, 200);
}

#[tokio::test]
async fn a_name_that_is_given_leaves_the_other_unread() {
    let server = Server::start().await;
    let body = |metadata: &str| format!(r#"{{"kind":"ConfigMap","metadata":{{{metadata}}}}}"#);
    let named = server
        .post(CONFIG_MAPS, &body(r#""name":"fresh","generateName":"G-""#))
        .await;
    assert_eq!(named.code, 201);
    let generated = server.post(CONFIG_MAPS, &body(r#""generateName":"a.""#)).await;
    assert_eq!(
        (generated.code, generated.at("/details/causes/0/field")),
        (422, &json!("metadata.generateName"))
    );
}

#[tokio::test]
async fn an_apply_may_write_the_core_group_with_its_empty_name() {
    let server = Server::start().await;
    let path = format!("{CONFIG_MAPS}/a?fieldManager=m");
    let body = r#"{"apiVersion":"/v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let made = server.patch(&path, support::APPLY, body).await;
    assert_eq!((made.code, made.at("/apiVersion")), (201, &json!("v1")));
}

#[tokio::test]
async fn amounts_that_are_numbers_stay_as_they_are_written() {
    let server = Server::start().await;
    let body = r#"{"kind":"ResourceQuota","metadata":{"name":"a"},"spec":{"hard":{"cpu":3e0,"m\u0065mory":18446744073709551616}}}"#;
    let made = server.post("/api/v1/namespaces/default/resourcequotas", body).await;
    assert_eq!(made.at("/spec/hard/cpu"), "3e0", "{}", made.message());
    assert_eq!(made.at("/spec/hard/memory"), "18446744073709551616");
}
